"""Scores of answers: KLUE's exact match and ROUGE-W, SQuAD's and MLQA's exact match and F1.

Scores of tags: entities, characters, tokens, and the field's older chunks.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import re
import string
import sys
import unicodedata
from collections import Counter
from dataclasses import replace
from difflib import SequenceMatcher
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.tasks import weighted
from lingraft.tasks.weighted import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lingraft.tasks.examples import SpanExample, SpanPrediction, TaggedExample, TagPrediction
    from lingraft.tasks.weighted import Scores

    Span = tuple[str, int, int]
    Tagged = Sequence[TaggedExample]
    Tags = Sequence[TagPrediction]
    Asked = Sequence[SpanExample]
    Answers = Sequence[SpanPrediction]


MLQA_ARTICLES = {
    "en": r"\b(?:a|an|the)\b",
    "es": r"\b(?:un|una|unos|unas|el|la|los|las)\b",
    "vi": r"\b(?:của|là|cái|chiếc|những)\b",
    "de": r"\b(?:ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    # the first branch never matches: ^ stands after a letter; so ال goes wherever it is
    "ar": r"\sال^|ال",
    "hi": None,
    "zh": None,
}
"""Language → its articles (Lewis et al. 2020); None: none are taken away."""
MLQA_LANGUAGES = tuple(MLQA_ARTICLES)
CHARACTERS = ("zh",)
"""Languages in which a Han character counts as a word."""
HAN = re.compile("([\u4e00-\u9fa5])")


@functools.cache
def punctuation() -> dict[int, None]:
    """Return every character of the Unicode classes P*, and ASCII's, for `str.translate`."""
    characters = (chr(code) for code in range(sys.maxunicode))
    marks = {character for character in characters if unicodedata.category(character)[0] == "P"}
    return dict.fromkeys(map(ord, marks | set(string.punctuation)))


def normalise_mlqa(answer: str, language: str) -> str:
    """Clean by MLQA's rules: lower case, without punctuation, articles and repeated spaces."""
    text = answer.lower().translate(punctuation())
    articles = MLQA_ARTICLES[language]
    if articles is not None:
        text = re.sub(articles, " ", text)
    if language in CHARACTERS:
        text = HAN.sub(r" \1 ", text)
    return " ".join(text.split())


QUOTES = re.compile("['\"《》<>〈〉()‘’]")
"""Characters that KLUE's normaliser is meant to turn into spaces."""
QUOTES_REFERENCE = re.compile(r"['\"《》<>〈〉]\(\)‘’")
"""Pattern that it has instead: only one of these followed by `()‘’` matches, which is never."""
PUNCTUATION = str.maketrans("", "", string.punctuation)
ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalise(answer: str, *, reference: bool = False) -> str:
    """Clean: lower case, without quotation marks, ASCII punctuation and repeated spaces.

    With `reference`, as KLUE's code does: brackets and quotation marks that are not ASCII stay.
    """
    pattern = QUOTES_REFERENCE if reference else QUOTES
    return " ".join(pattern.sub(" ", answer.lower()).translate(PUNCTUATION).split())


def rouge_w(prediction: str, gold: str, *, reference: bool = False) -> float:
    """Return F1 of the longest common run of characters, spaces among them; 0 to 1.

    An empty gold answer scores 1 for an empty prediction and 0 otherwise. With `reference`,
    characters that make up over 1 % of a gold answer of 200 or more characters start no run
    (difflib's `autojunk`), as in KLUE's code.
    """
    if not gold or not prediction:
        return float(prediction == gold)
    matcher = SequenceMatcher(None, prediction, gold, autojunk=reference)
    length = matcher.find_longest_match(0, len(prediction), 0, len(gold)).size
    return 2 * length / (len(prediction) + len(gold))


def normalise_squad(answer: str) -> str:
    """Clean as SQuAD 1.1: lower case, no ASCII punctuation, English articles, repeated spaces."""
    return " ".join(ARTICLES.sub(" ", answer.lower().translate(PUNCTUATION)).split())


def token_f1(prediction: str, gold: str) -> float:
    """Return F1 of two normalised answers as bags of words; 0 to 1 (empty ones as SQuAD 2.0)."""
    words, gold_words = prediction.split(), gold.split()
    if not words or not gold_words:
        return float(words == gold_words)
    common = sum((Counter(words) & Counter(gold_words)).values())
    return 2 * common / (len(words) + len(gold_words))


def token_f1_of_words(prediction: str, gold: str) -> float:
    """Return the same, but 0 where nothing is left of either answer (SQuAD 1.1, MLQA)."""
    return token_f1(prediction, gold) if prediction and gold else 0.0


def _answers(examples: Asked, predictions: Answers) -> list[tuple[str | None, list[str]]]:
    """Return what was said, and the gold answers: [""] where the passage does not say."""
    return [
        (prediction.text, [answer.text for answer in example.answers or ()] or [""])
        for example, prediction in zip(examples, predictions, strict=True)
    ]


def _best(
    answers: Iterable[tuple[str | None, list[str]]],
    clean: Callable[[str], str],
    measure: Callable[[str, str], float],
) -> list[float]:
    """Return of every answer the best over the gold ones; 0 where there is none."""
    return [
        0.0 if text is None else max(measure(clean(text), clean(answer)) for answer in gold)
        for text, gold in answers
    ]


def klue_answers(examples: Sequence[Any], predictions: Answers, labels: Sequence[str]) -> Scores:
    """Score exact match and ROUGE-W, the best over the gold answers, also by type of question."""
    answers = _answers(examples, predictions)
    clean, rouge = partial(normalise, reference=True), partial(rouge_w, reference=True)
    values = {
        "exact_match": _best(answers, normalise, str.__eq__),
        "reference/exact_match": _best(answers, clean, str.__eq__),
        "reference/rouge_w": _best(answers, clean, rouge),
        "rouge_w": _best(answers, normalise, rouge_w),
    }
    types = np.array([example.question_type or 0 for example in examples])
    scores: Scores = {}
    for name, of_examples in values.items():
        scores[name] = weighted.mean(of_examples)
        for kind in sorted({example.question_type for example in examples} - {None}):
            inside = types == kind
            scores[f"{name}/type{kind}"] = weighted.mean(inside * of_examples, inside)
    return scores


def squad1_answers(
    examples: Asked,
    predictions: Answers,
    labels: Sequence[str],
    *,
    clean: Callable[[str], str] = normalise_squad,
    f1: Callable[[str, str], float] = token_f1_of_words,
) -> Scores:
    """Score exact match and F1 of words, the best over the gold answers (SQuAD 1.1's script).

    Args:
        examples: of questions.
        predictions: one for each.
        labels: none.
        clean: what is done with an answer first (MLQA's script knows its language).
        f1: of the words of two answers.
    """
    answers = _answers(examples, predictions)
    return {
        "exact_match": weighted.mean(_best(answers, clean, str.__eq__)),
        "f1": weighted.mean(_best(answers, clean, f1)),
    }


def squad_answers(examples: Asked, predictions: Answers, labels: Sequence[str]) -> Scores:
    """Score the same where a passage need not have an answer (SQuAD 2.0's script).

    A gold answer of which cleaning leaves nothing, such as "a", does not count beside others.
    """
    cleaned = [
        replace(one, answers=tuple(a for a in one.answers or () if normalise_squad(a.text)))
        for one in examples
    ]
    return squad1_answers(cleaned, predictions, labels, f1=token_f1)


def mlqa_answers(language: str) -> Callable[..., Scores]:
    """Return the same by MLQA's script, which knows the language of the answers."""
    return partial(squad1_answers, clean=partial(normalise_mlqa, language=language))


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


def entities(examples: Tagged, predictions: Tags, labels: Sequence[str]) -> Scores:
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


def characters(examples: Tagged, predictions: Tags, labels: Sequence[str]) -> Scores:
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


def tokens(examples: Tagged, predictions: Tags, labels: Sequence[str]) -> Scores:
    """Score the share of units (without spaces) with the right tag."""
    pairs = list(map(shown_tags, examples, predictions))
    return {"token_accuracy": weighted.share([list(map(str.__eq__, *pair)) for pair in pairs])}


def chunks(examples: Tagged, predictions: Tags, labels: Sequence[str]) -> Scores:
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
