"""Scores of tags: entities, characters, tokens, and the field's older chunks."""

from __future__ import annotations

import bisect
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from lingraft.tasks import weighted
from lingraft.tasks.weighted import Tally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.tasks.examples import TaggedExample, TagPrediction
    from lingraft.tasks.weighted import Score

    Span = tuple[str, int, int]


def shown_tags(example: TaggedExample, prediction: TagPrediction) -> tuple[list[str], list[str]]:
    """Return gold and predicted tags of the units but spaces, which a model never sees alone."""
    assert example.tags is not None
    indices = [index for index, unit in enumerate(example.units) if not unit.isspace()]
    return [example.tags[index] for index in indices], [prediction.tags[index] for index in indices]


def _reference_tags(
    example: TaggedExample, prediction: TagPrediction
) -> tuple[list[str], list[str]]:
    """Return what KLUE's code scores of a sentence: two special positions too, and nothing cut off.

    Gold is cut where the input was; before and after each sentence stand the predictions at [CLS]
    and at the last position, which is padding in all but the longest sentences and never trained.
    """
    end = len(example.units) if prediction.covered is None else prediction.covered
    cut = replace(example, units=example.units[:end])
    gold, tags = shown_tags(cut, prediction)
    first, last = prediction.edges
    return ["O", *gold, "O"], [first, *tags, last]


def entity_spans(tags: Sequence[str]) -> set[Span]:
    """Return type, first and last place of the entities of strict IOB2: B-X, then I-X as they come.

    An I-X that follows neither B-X nor I-X begins nothing. The same entities as seqeval's strict
    mode, fifty times as fast, which matters for characters scored four times an epoch.
    """
    spans = set()
    kind, begin = "", 0
    for index, tag in enumerate([*tags, "O"]):
        if kind and tag != f"I-{kind}":
            spans.add((kind, begin, index - 1))
            kind = ""
        if tag.startswith("B-"):
            kind, begin = tag[2:], index
    return spans


def span_units(gold: set[Span], predictions: set[Span]) -> list[tuple[str | None, str | None]]:
    """Return spans as units of their type; one that only one side has stands alone."""
    return [
        *((span[0], span[0]) for span in gold & predictions),
        *((span[0], None) for span in gold - predictions),
        *((None, span[0]) for span in predictions - gold),
    ]


def entities(
    examples: Sequence[TaggedExample], predictions: Sequence[TagPrediction], labels: Sequence[str]
) -> dict[str, Score]:
    """Score F1 of entities: type and both ends right, sentence by sentence (seqeval's strict IOB2).

    `entity_f1` counts all entities alike, `entity_macro_f1` is the mean over the types. KLUE's
    code joins all sentences to one sequence and scores two special positions of each; an entity
    that runs over a border belongs to the sentence where it begins.
    """
    pairs = list(zip(examples, predictions, strict=True))
    tally = Tally(span_units(*map(entity_spans, shown_tags(*pair))) for pair in pairs)
    sides = list(zip(*(_reference_tags(*pair) for pair in pairs), strict=True))
    joined = [_joined_spans(side) for side in sides]
    return {
        "entity_f1": tally.f1("micro"),
        "entity_macro_f1": tally.f1("macro"),
        "reference/entity_macro_f1": Tally(map(span_units, *joined)).f1("macro"),
    }


def _joined_spans(sentences: Sequence[list[str]]) -> list[set[Span]]:
    """Return the entities of all sentences in a row, each with the sentence where it begins."""
    starts = list(itertools.accumulate(map(len, sentences), initial=0))
    spans: list[set[Span]] = [set() for _ in sentences]
    for span in entity_spans(list(itertools.chain.from_iterable(sentences))):
        spans[bisect.bisect_right(starts, span[1]) - 1].add(span)
    return spans


def characters(
    examples: Sequence[TaggedExample], predictions: Sequence[TagPrediction], labels: Sequence[str]
) -> dict[str, Score]:
    """Score macro-F1 over characters that are not spaces.

    `character_macro_f1` is over the tags that occur in gold, O among them, to stay comparable;
    `character_macro_f1_no_o` is without O. KLUE's code takes all 13 tags, gives a tag that occurs
    nowhere an F1 of 1, and scores two special positions a sentence; it says that it leaves out O
    and does not.
    """
    pairs = list(zip(examples, predictions, strict=True))
    tally = Tally(zip(*shown_tags(*pair), strict=True) for pair in pairs)
    reference = Tally((zip(*_reference_tags(*pair), strict=True) for pair in pairs), labels)
    return {
        "character_macro_f1": tally.f1("macro", by_gold=True),
        "character_macro_f1_no_o": tally.f1("macro", without=("O",), by_gold=True),
        "reference/character_macro_f1": reference.f1("macro", only=labels, absent=1.0),
    }


def tokens(
    examples: Sequence[TaggedExample], predictions: Sequence[TagPrediction], labels: Sequence[str]
) -> dict[str, Score]:
    """Score the share of units (without spaces) with the right tag."""
    pairs = list(map(shown_tags, examples, predictions))
    return {"token_accuracy": weighted.share([list(map(str.__eq__, *pair)) for pair in pairs])}


def chunks(
    examples: Sequence[TaggedExample], predictions: Sequence[TagPrediction], labels: Sequence[str]
) -> dict[str, Score]:
    """Score F1 of chunks by the rule of seqeval before 1.0, which XTREME's numbers have.

    The first letter of a tag is its prefix and what follows the last hyphen its type, so a run of
    equal part-of-speech tags is one chunk. seqeval 1.0 changed what the type is.
    """
    pairs = map(shown_tags, examples, predictions)
    spans = ((set(chunk_spans(gold)), set(chunk_spans(tags))) for gold, tags in pairs)
    return {"chunk_f1": Tally(itertools.starmap(span_units, spans)).f1("micro")}


def chunk_spans(tags: Sequence[str]) -> list[Span]:
    """Return type, first and last position of a sentence's chunks, by the rule of `chunks`."""
    spans = []
    before, kind_before, begin = "O", "", 0
    for index, chunk in enumerate([*tags, "O"]):
        tag, kind = chunk[0], chunk.split("-")[-1]
        ends = before in "ES" or (before in "BI" and tag in "BSO")
        if ends or (before not in "O." and kind != kind_before):
            spans.append((kind_before, begin, index - 1))
        starts = tag in "BS" or (before in "ESO" and tag in "EI")
        if starts or (tag not in "O." and kind != kind_before):
            begin = index
        before, kind_before = tag, kind
    return spans
