"""Scores of answers: KLUE's exact match and ROUGE-W, SQuAD's and MLQA's exact match and F1."""

from __future__ import annotations

import functools
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lingraft.tasks.examples import SpanExample, SpanPrediction
    from lingraft.tasks.weighted import Score

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


def _answers(
    examples: Sequence[SpanExample], predictions: Sequence[SpanPrediction]
) -> list[tuple[str | None, list[str]]]:
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


def klue_answers(
    examples: Sequence[Any], predictions: Sequence[SpanPrediction], labels: Sequence[str]
) -> dict[str, Score]:
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
    scores: dict[str, Score] = {}
    for name, of_examples in values.items():
        scores[name] = weighted.mean(of_examples)
        for kind in sorted({example.question_type for example in examples} - {None}):
            inside = types == kind
            scores[f"{name}/type{kind}"] = weighted.mean(inside * of_examples, inside)
    return scores


def squad1_answers(
    examples: Sequence[SpanExample],
    predictions: Sequence[SpanPrediction],
    labels: Sequence[str],
    *,
    clean: Callable[[str], str] = normalise_squad,
    f1: Callable[[str, str], float] = token_f1_of_words,
) -> dict[str, Score]:
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


def squad_answers(
    examples: Sequence[SpanExample], predictions: Sequence[SpanPrediction], labels: Sequence[str]
) -> dict[str, Score]:
    """Score the same where a passage need not have an answer (SQuAD 2.0's script).

    A gold answer of which cleaning leaves nothing, such as "a", does not count beside others.
    """
    cleaned = [
        replace(one, answers=tuple(a for a in one.answers or () if normalise_squad(a.text)))
        for one in examples
    ]
    return squad1_answers(cleaned, predictions, labels, f1=token_f1)


def mlqa_answers(language: str) -> Callable[..., dict[str, Score]]:
    """Return the same by MLQA's script, which knows the language of the answers."""
    return partial(squad1_answers, clean=partial(normalise_mlqa, language=language))
