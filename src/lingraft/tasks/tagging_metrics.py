"""Scores of tags: entities, characters, tokens, and the field's older chunks (SPEC B.5, C.3)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError
from lingraft.tasks.examples import TaggedExample
from lingraft.tasks.extras import sklearn_metrics
from lingraft.tasks.predictions import TagPrediction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.tasks.examples import Example
    from lingraft.tasks.predictions import Prediction

    Tags = list[list[str]]


def _pairs(
    examples: Sequence[Example], predictions: Sequence[Prediction]
) -> list[tuple[TaggedExample, TagPrediction]]:
    pairs = []
    for example, prediction in zip(examples, predictions, strict=True):
        assert isinstance(example, TaggedExample)
        if not isinstance(prediction, TagPrediction) or len(prediction.tags) != len(example.units):
            raise DataError(
                f"prediction {prediction.id}: must have {len(example.units)} tags, "
                "one a unit of the example"
            )
        pairs.append((example, prediction))
    return pairs


def _without_spaces(
    examples: Sequence[Example], predictions: Sequence[Prediction]
) -> tuple[Tags, Tags]:
    """Tags of the units that are not spaces; a model never sees a space by itself."""
    gold: Tags = []
    said: Tags = []
    for example, prediction in _pairs(examples, predictions):
        assert example.tags is not None
        shown = [index for index, unit in enumerate(example.units) if not unit.isspace()]
        gold.append([example.tags[index] for index in shown])
        said.append([prediction.tags[index] for index in shown])
    return gold, said


def _reference_sequences(
    examples: Sequence[Example], predictions: Sequence[Prediction]
) -> tuple[list[str], list[str]]:
    """What KLUE's code scores: one sequence of everything, with two special positions a sentence.

    Gold is cut where the input was; before and after each sentence stand the predictions at [CLS]
    and at the last position, which is padding in all but the longest sentences and never trained.
    """
    gold: list[str] = []
    said: list[str] = []
    for example, prediction in _pairs(examples, predictions):
        assert example.tags is not None
        end = len(example.units) if prediction.covered is None else prediction.covered
        shown = [index for index in range(end) if not example.units[index].isspace()]
        gold += ["O", *(example.tags[index] for index in shown), "O"]
        first, last = prediction.edges
        said += [first, *(prediction.tags[index] for index in shown), last]
    return gold, said


def entity_spans(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """Type, first and last position of the entities of strict IOB2: B-X, then I-X as they come.

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


def entity_counts(gold: Tags, said: Tags) -> dict[str, tuple[int, int, int]]:
    """By type that occurs on either side: entities found, in gold, and predicted."""
    right: Counter[str] = Counter()
    in_gold: Counter[str] = Counter()
    in_said: Counter[str] = Counter()
    for one, other in zip(gold, said, strict=True):
        true, guess = entity_spans(one), entity_spans(other)
        right.update(kind for kind, _, _ in true & guess)
        in_gold.update(kind for kind, _, _ in true)
        in_said.update(kind for kind, _, _ in guess)
    return {
        kind: (right[kind], in_gold[kind], in_said[kind]) for kind in sorted({*in_gold, *in_said})
    }


def _micro_f1(counts: dict[str, tuple[int, int, int]]) -> float:
    right, n_gold, n_said = (sum(row[i] for row in counts.values()) for i in range(3))
    return 100 * 2 * right / (n_gold + n_said) if n_gold + n_said else 0.0


def _macro_f1(counts: dict[str, tuple[int, int, int]]) -> float:
    values = [2 * right / (n_gold + n_said) for right, n_gold, n_said in counts.values()]
    return 100 * sum(values) / len(values) if values else 0.0


def entities(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, float]:
    """F1 of entities: type and both ends right, sentence by sentence (seqeval's strict IOB2).

    `entity_f1` counts all entities alike, `entity_macro_f1` is the mean over the types. KLUE's
    code joins all sentences to one sequence and scores two special positions of each.
    """
    gold, said = _without_spaces(examples, predictions)
    counts = entity_counts(gold, said)
    gold_one, said_one = _reference_sequences(examples, predictions)
    return {
        "entity_f1": _micro_f1(counts),
        "entity_macro_f1": _macro_f1(counts),
        "reference/entity_macro_f1": _macro_f1(entity_counts([gold_one], [said_one])),
    }


def characters(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, float]:
    """Macro-F1 over characters that are not spaces (SPEC B.5).

    `character_macro_f1` is over the tags that occur in gold, O among them, to stay comparable;
    `character_macro_f1_no_o` is without O. KLUE's code takes all 13 tags, gives a tag that occurs
    nowhere an F1 of 1, and scores two special positions a sentence; it says that it leaves out O
    and does not.
    """
    gold, said = _without_spaces(examples, predictions)
    flat_gold = [tag for tags in gold for tag in tags]
    flat_said = [tag for tags in said for tag in tags]
    there = sorted(set(flat_gold))
    one_gold, one_said = _reference_sequences(examples, predictions)
    return {
        "character_macro_f1": _macro(flat_gold, flat_said, there, 0),
        "character_macro_f1_no_o": _macro(
            flat_gold, flat_said, [tag for tag in there if tag != "O"], 0
        ),
        "reference/character_macro_f1": _macro(one_gold, one_said, list(labels), 1),
    }


def _macro(gold: list[str], said: list[str], labels: list[str], absent: int) -> float:
    if not labels:  # no entity in gold: F1 over entity tags says nothing
        return 0.0
    number = {tag: index for index, tag in enumerate(dict.fromkeys([*labels, *gold, *said]))}
    value: Any = sklearn_metrics().f1_score(  # on numbers: strings take ten times as long
        [number[tag] for tag in gold],
        [number[tag] for tag in said],
        labels=[number[tag] for tag in labels],
        average="macro",
        zero_division=absent,
    )
    return 100 * float(value)


def tokens(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, float]:
    """Share of units (without spaces) with the right tag."""
    gold, said = _without_spaces(examples, predictions)
    right = sum(
        a == b
        for one, other in zip(gold, said, strict=True)
        for a, b in zip(one, other, strict=True)
    )
    return {"token_accuracy": 100 * right / max(1, sum(map(len, gold)))}


def chunks(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, float]:
    """F1 of chunks by the rule of seqeval before 1.0, which XTREME's numbers have (SPEC C.3).

    The first letter of a tag is its prefix and what follows the last hyphen its type, so a run of
    equal part-of-speech tags is one chunk. seqeval 1.0 changed what the type is.
    """
    gold, said = _without_spaces(examples, predictions)
    right = n_gold = n_said = 0
    for one, other in zip(gold, said, strict=True):
        true, guess = set(chunk_spans(one)), set(chunk_spans(other))
        right += len(true & guess)
        n_gold += len(true)
        n_said += len(guess)
    return {"chunk_f1": 100 * 2 * right / (n_gold + n_said) if n_gold + n_said else 0.0}


def chunk_spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Type, first and last position of the chunks of one sentence, by the rule of `chunks`."""
    spans = []
    before, before_type, begin = "O", "", 0
    for index, chunk in enumerate([*tags, "O"]):
        tag, kind = chunk[0], chunk.split("-")[-1]
        if _ends(before, tag, before_type != kind):
            spans.append((before_type, begin, index - 1))
        if _starts(before, tag, before_type != kind):
            begin = index
        before, before_type = tag, kind
    return spans


def _ends(before: str, tag: str, other_type: bool) -> bool:
    if before in "ES":
        return True
    if before in "BI" and tag in "BSO":
        return True
    return before not in "O." and other_type


def _starts(before: str, tag: str, other_type: bool) -> bool:
    if tag in "BS":
        return True
    if before in "ESO" and tag in "EI":
        return True
    return tag not in "O." and other_type
