"""Scores of multiple choice: accuracies by what a log-likelihood is divided by, and differences.

Shape letters: Q questions, C choices of a question, G questions of one context, r some resamples.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.errors import reading
from lingraft.rundir import fingerprint, write_rows
from lingraft.stats import FEWEST_BLOCKS, Resampling
from lingraft.tasks.examples import with_tuples

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from lingraft.stats import Difference, Key
    from lingraft.tasks.choices import Question

Array = np.ndarray[Any, Any]

UNTOUCHED = "untouched-"
"""What the names of files with the source's answers begin with."""
METRICS = ("acc", "acc_norm", "acc_bytes", "acc_tokens")
"""The largest log-likelihood wins: as it is, or for each character, byte or token of the choice.
The first three are those of lm-evaluation-harness, whose acc_norm divides by characters."""


@dataclass(frozen=True)
class Answered:
    """What a model makes of the choices of a question."""

    id: str
    context: str
    """Fingerprint of the question's context: questions that share one are no independent draws.
    Of a question without a context that of its id."""
    label: int
    """The right choice."""
    nats_C: tuple[float, ...]
    """Log-likelihood of each choice after the context."""
    characters_C: tuple[int, ...]
    bytes_C: tuple[int, ...]
    tokens_C: tuple[int, ...]

    @classmethod
    def of(cls, question: Question, nats: Sequence[float], tokens: Sequence[int]) -> Answered:
        """With the sizes of the choices, the delimiter left out."""
        return cls(
            question.id,
            fingerprint(question.context or question.id),
            question.label,
            tuple(nats),
            tuple(map(len, question.choices)),
            tuple(len(text.encode("utf-8", "surrogatepass")) for text in question.choices),
            tuple(tokens),
        )

    def chosen(self, metric: str) -> int:
        """The choice that a metric takes, the first of equal ones."""
        sizes = {
            "acc": (1,) * len(self.nats_C),
            "acc_norm": self.characters_C,
            "acc_bytes": self.bytes_C,
            "acc_tokens": self.tokens_C,
        }[metric]
        return int(np.argmax(np.array(self.nats_C) / np.array(sizes, np.float64)))


def asked(questions: Iterable[Question]) -> str:
    """Fingerprint of questions: scores compare only where it is equal."""
    return fingerprint(
        [[item.context, item.delimiter, list(item.choices), item.label] for item in questions]
    )


def right(answers: Iterable[Answered], metric: str) -> Array:
    """[Q] 1.0 where the right choice was taken."""
    return np.array([float(answer.chosen(metric) == answer.label) for answer in answers])


def metrics(answers: Sequence[Answered]) -> dict[str, float]:
    """All scores of a model.

    Returns:
        acc, acc_norm, acc_bytes, acc_tokens in per cent, each with its standard error of the mean
        (`acc_stderr`, …, with n - 1, as lm-evaluation-harness); `chance` (per cent, of guessing)
        and n.
    """
    scores: dict[str, float] = {}
    number = len(answers)
    for metric in METRICS:
        right_Q = right(answers, metric)
        scores[metric] = 100 * float(right_Q.mean())
        spread = float(right_Q.std(ddof=1)) / number**0.5 if number > 1 else 0.0
        scores[f"{metric}_stderr"] = 100 * spread
    chance = 100 * sum(1 / len(answer.nats_C) for answer in answers) / number
    return scores | {"chance": chance, "n": number}


def difference(
    first: Sequence[Answered],
    second: Sequence[Answered],
    metric: str,
    resampling: Resampling | None = None,
) -> Difference:
    """By how many points one model is more accurate than another on the same questions.

    A paired bootstrap over contexts: questions that share one are drawn together. With fewer than
    `FEWEST_BLOCKS` contexts there is neither interval nor p.

    Args:
        first: of one model.
        second: of the other, in the same order.
        metric: one of `METRICS`.
        resampling: of the contexts.
    """
    drawing = resampling or Resampling()
    gains_Q = 100 * (right(first, metric) - right(second, metric))
    places: dict[str, int] = {}
    where_Q = np.array([places.setdefault(answer.context, len(places)) for answer in first])
    gains_G = np.bincount(where_Q, weights=gains_Q, minlength=len(places))
    sizes_G = np.bincount(where_Q, minlength=len(places)).astype(np.float64)
    gains: dict[Key, float] = {(0,): float(gains_Q.mean())}
    if len(places) < FEWEST_BLOCKS:
        return drawing.difference(gains, None)
    parts = [
        (draws_rG @ gains_G) / (draws_rG @ sizes_G)
        for draws_rG in drawing.parts(len(places), "contexts")
    ]
    return drawing.difference(gains, np.concatenate(parts)[:, None])


def file_name(title: str, prefix: str = "") -> str:
    """Where the answers to a file of questions lie in a folder."""
    return f"{prefix}choices-{fingerprint(title)}.jsonl"


def write(path: Path, answers: Iterable[Answered]) -> None:
    """The answers as JSON lines, one a question."""
    write_rows(path, map(asdict, answers))


def read(path: Path) -> list[Answered]:
    """The answers that `write` wrote.

    Raises:
        DataError: the file is missing or broken.
    """
    with reading(path, "run the evaluation stage again"):
        lines = path.read_text(encoding="utf-8").split("\n")
        return [Answered(**with_tuples(json.loads(line))) for line in lines if line]
