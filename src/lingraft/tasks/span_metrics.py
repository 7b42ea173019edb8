"""Scores of answers: KLUE's exact match and ROUGE-W, and SQuAD's exact match and F1 (SPEC B.8)."""

from __future__ import annotations

import re
import string
from collections import Counter, defaultdict
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from lingraft.errors import DataError
from lingraft.tasks.examples import SpanExample
from lingraft.tasks.predictions import SpanPrediction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lingraft.tasks.examples import Example
    from lingraft.tasks.predictions import Prediction

QUOTES = re.compile("['\"《》<>〈〉()‘’]")
"""What KLUE's normaliser is meant to turn into spaces."""
QUOTES_REFERENCE = re.compile(r"['\"《》<>〈〉]\(\)‘’")
"""What it does instead: only one of these characters followed by `()‘’` matches, which is never."""
PUNCTUATION = str.maketrans("", "", string.punctuation)
ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalise(answer: str, *, reference: bool = False) -> str:
    """Lower case, without quotation marks, ASCII punctuation and repeated spaces.

    With `reference`, as KLUE's code does: brackets and quotation marks that are not ASCII stay.
    """
    pattern = QUOTES_REFERENCE if reference else QUOTES
    return " ".join(pattern.sub(" ", answer.lower()).translate(PUNCTUATION).split())


def rouge_w(said: str, gold: str, *, reference: bool = False) -> float:
    """F1 of the longest common run of characters, spaces among them; 0 to 1.

    An empty gold answer scores 1 for an empty prediction and 0 otherwise. With `reference`,
    characters that make up over 1 % of a gold answer of 200 or more characters start no run
    (difflib's `autojunk`), as in KLUE's code.
    """
    if not gold or not said:
        return float(said == gold)
    matcher = SequenceMatcher(None, said, gold, autojunk=reference)
    length = matcher.find_longest_match(0, len(said), 0, len(gold)).size
    return 2 * length / (len(said) + len(gold))


def normalise_squad(answer: str) -> str:
    """Lower case, without ASCII punctuation, English articles and repeated spaces (SQuAD 1.1)."""
    return " ".join(ARTICLES.sub(" ", answer.lower().translate(PUNCTUATION)).split())


def token_f1(said: str, gold: str) -> float:
    """F1 of the bags of words of two normalised answers; 0 to 1 (SQuAD 2.0 for empty ones)."""
    words, gold_words = said.split(), gold.split()
    if not words or not gold_words:
        return float(words == gold_words)
    common = sum((Counter(words) & Counter(gold_words)).values())
    return 2 * common / (len(words) + len(gold_words))


def _answers(
    examples: Sequence[Example], predictions: Sequence[Prediction]
) -> Iterator[tuple[SpanExample, str | None, list[str]]]:
    """Example, what was said, and the gold answers: [""] where the passage does not say."""
    for example, prediction in zip(examples, predictions, strict=True):
        assert isinstance(example, SpanExample)
        assert example.answers is not None
        if not isinstance(prediction, SpanPrediction):
            raise DataError(f"prediction {prediction.id}: has no answer text; this task needs one")
        yield example, prediction.text, [answer.text for answer in example.answers] or [""]


def _best(
    said: str | None,
    gold: list[str],
    clean: Callable[[str], str],
    measure: Callable[[str, str], float],
) -> float:
    if said is None:
        return 0.0
    return max(measure(clean(said), clean(answer)) for answer in gold)


def _same(one: str, other: str) -> float:
    return float(one == other)


def klue_answers(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, float]:
    """Exact match and ROUGE-W, the best over the gold answers, also by type of question."""
    sums: defaultdict[str, list[float]] = defaultdict(list)

    def reference_clean(answer: str) -> str:
        return normalise(answer, reference=True)

    def reference_rouge(said: str, gold: str) -> float:
        return rouge_w(said, gold, reference=True)

    for example, said, gold in _answers(examples, predictions):
        scores = {
            "exact_match": _best(said, gold, normalise, _same),
            "rouge_w": _best(said, gold, normalise, rouge_w),
            "reference/exact_match": _best(said, gold, reference_clean, _same),
            "reference/rouge_w": _best(said, gold, reference_clean, reference_rouge),
        }
        for name, value in scores.items():
            sums[name].append(value)
            if example.question_type is not None:
                sums[f"{name}/type{example.question_type}"].append(value)
    return {name: 100 * sum(values) / len(values) for name, values in sorted(sums.items())}


def squad_answers(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, float]:
    """Exact match and F1 of words, the best over the gold answers (SQuAD's script)."""
    exact: list[float] = []
    f1: list[float] = []
    for _, said, gold in _answers(examples, predictions):
        exact.append(_best(said, gold, normalise_squad, _same))
        f1.append(_best(said, gold, normalise_squad, token_f1))
    return {
        "exact_match": 100 * sum(exact) / len(exact),
        "f1": 100 * sum(f1) / len(f1),
    }
