"""Masked sentences with what each model guesses, for the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from lingraft.report import numbers
from lingraft.report.page import Text, section
from lingraft.report.table import Cell, Column, row, table
from lingraft.report.variants import results_of
from lingraft.report.vocabulary import running

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lingraft.report.page import Part
    from lingraft.report.variants import TrainedModel

GUESS = Markup('<span class="guess{}"><bdi>{}</bdi> <small>{}</small></span> ')
BLANK = Markup("{}<mark>{}<sup>{}</sup></mark>")
GOLD = Markup("<bdi>{}</bdi><sup>{}</sup>")


def samples(models: Sequence[TrainedModel], kind: str, specials: Sequence[str]) -> list[Part]:
    """Show the main model's masked sentences, with the guesses of all that saw the same masks.

    Args:
        models: the first is the main one.
        kind: of its tokenizer.
        specials: tokens that are not shown.
    """
    (_, main), *_ = evaluated = results_of(models, "evaluation")
    same = {
        model.label: {sample["text"]: sample["predictions"] for sample in evaluation["samples"]}
        for model, evaluation in evaluated
        if evaluation["masks"]["fingerprint"] == main["masks"]["fingerprint"]
    }
    lang = models[0].recipe.languages[0]
    parts: list[Part] = []
    for number, sample in enumerate(main["samples"], start=1):
        gold = {int(one["index"]): str(one["gold"]) for one in sample["predictions"]}
        places = {index: place for place, index in enumerate(sorted(gold), start=1)}
        text = Markup().join(
            _token(running(gold.get(index, piece), kind), places.get(index))
            for index, (piece, _) in enumerate(sample["tokens"])
            if index in gold or piece not in specials
        )
        guesses = [_by_index(texts.get(sample["text"], ())) for texts in same.values()]
        rows = [
            row(
                GOLD.format(gold[index], place),
                *(_guesses(of_model.get(index, ()), gold[index]) for of_model in guesses),
            )
            for index, place in places.items()
        ]
        head = (Column("hidden", "text", lang=lang), *(Column(m, "long", lang=lang) for m in same))
        guessed = table(f"Predictions for sentence {number}", head, rows)
        parts += section(f"Sentence {number}", Text(text, "sentence", lang), guessed, level=3)
    return parts


def _by_index(predictions: Sequence[Mapping[str, Any]]) -> dict[int, Sequence[Any]]:
    return {int(prediction["index"]): prediction["top"] for prediction in predictions}


def _token(text: str, blank: int | None) -> Markup:
    space = " " if text.startswith(" ") else ""
    return escape(text) if blank is None else BLANK.format(space, text.strip(), blank)


def _guesses(top: Sequence[Sequence[Any]], gold: str) -> Cell:
    """Show guesses in order, the right one marked."""
    shown = (
        GUESS.format(" right" if piece == gold else "", piece, numbers.percent(float(share), 0))
        for piece, share in top
    )
    return Cell(Markup().join(shown) or numbers.ABSENT)
