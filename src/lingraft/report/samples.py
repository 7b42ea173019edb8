"""Masked sentences with what each model says, for the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lingraft.report import numbers
from lingraft.report.pieces import running
from lingraft.report.variants import results_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.report.variants import Variant


@dataclass(frozen=True)
class Guess:
    """One of a model's predictions for a masked token."""

    piece: str
    probability: str
    right: bool


@dataclass(frozen=True)
class Blank:
    """One masked token of a sample: what stood there, and each model's predictions in order."""

    number: int
    gold: str
    guesses: tuple[tuple[Guess, ...], ...]


@dataclass(frozen=True)
class Sample:
    """A masked sentence. `tokens` are (text, number of the blank or None)."""

    text: str
    tokens: tuple[tuple[str, int | None], ...]
    blanks: tuple[Blank, ...]


def samples(
    variants: Sequence[Variant], kind: str, specials: Sequence[str]
) -> tuple[tuple[str, ...], tuple[Sample, ...]]:
    """The main model's masked sentences with the predictions of all models that saw the same masks.

    Returns:
        The models' labels, and the samples, whose predictions are in that order.
    """
    main = variants[0].result("evaluation")
    if main is None:
        return (), ()
    same = [
        (variant.label, evaluation)
        for variant, evaluation in results_of(variants, "evaluation")
        if evaluation["masks"]["fingerprint"] == main["masks"]["fingerprint"]
    ]
    by_text = [
        {sample["text"]: sample for sample in evaluation["samples"]} for _, evaluation in same
    ]
    sentences = tuple(_sample(sample, by_text, kind, specials) for sample in main["samples"])
    return tuple(label for label, _ in same), sentences


def _sample(
    sample: dict[str, Any], by_text: Sequence[dict[str, Any]], kind: str, specials: Sequence[str]
) -> Sample:
    gold = {
        int(prediction["index"]): str(prediction["gold"]) for prediction in sample["predictions"]
    }
    numbered = {index: number for number, index in enumerate(sorted(gold), start=1)}
    tokens: list[tuple[str, int | None]] = []
    for index, (piece, _) in enumerate(sample["tokens"]):
        if index in gold:
            tokens.append((running(gold[index], kind), numbered[index]))
        elif piece not in specials:
            tokens.append((running(piece, kind), None))
    by_model = [texts.get(sample["text"], {"predictions": []})["predictions"] for texts in by_text]
    tops = [
        {int(prediction["index"]): prediction["top"] for prediction in predictions}
        for predictions in by_model
    ]
    blanks = tuple(
        Blank(
            numbered[index],
            gold[index],
            tuple(_guesses(top.get(index, []), gold[index]) for top in tops),
        )
        for index in sorted(gold)
    )
    return Sample(str(sample["text"]), tuple(tokens), blanks)


def _guesses(top: Sequence[Sequence[Any]], gold: str) -> tuple[Guess, ...]:
    return tuple(
        Guess(str(piece), numbers.percent(float(probability), 0), piece == gold)
        for piece, probability in top
    )
