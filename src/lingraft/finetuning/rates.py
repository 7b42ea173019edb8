"""A learning rate for each model and task: one training with each, and the best on validation text.

The trainings have a seed of their own, so that no result is of the run that chose its rate. What
the test set says plays no part.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lingraft.rundir import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lingraft.finetuning.cells import Cell

SEED = 10_000
"""Of the trainings that choose."""
FOLDER = "learning-rates"
"""Beside the seeds of a model and task: a folder for each rate."""


def with_rate(cell: Cell, rate: float) -> Cell:
    """The cell with another learning rate."""
    settings = replace(cell.task.settings, learning_rate=rate)
    return replace(cell, task=replace(cell.task, settings=settings), rates=())


def best(scores: Mapping[float, Path]) -> tuple[float, dict[str, float]]:
    """The rate whose best weights score highest on the selection split; of equals the lowest rate.

    Args:
        scores: by rate, the scores.json of its training.

    Returns:
        The rate, and the score of every rate, written `0.0003`.
    """
    reached = {rate: float(read_json(path)["best"]["score"]) for rate, path in scores.items()}
    chosen = max(sorted(reached), key=lambda rate: reached[rate])
    return chosen, {f"{rate:g}": score for rate, score in reached.items()}
