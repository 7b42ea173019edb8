"""A learning rate for each model and task: one training with each, and the best on validation text.

The trainings have a seed of their own, so that no result is of the run that chose its rate. What
the test set says plays no part.
"""

from __future__ import annotations

import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lingraft.errors import TrainingError
from lingraft.finetuning.outcomes import SCORES
from lingraft.finetuning.recipe import MAX_SEEDS, with_source
from lingraft.pretrained.load import load_config
from lingraft.report.row import RESULTS
from lingraft.rundir import read_json, write_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lingraft.finetuning.cells import Cell

logger = logging.getLogger(__name__)

SEED = MAX_SEEDS
"""Of the trainings that choose."""
FOLDER = "learning-rates"
"""Beside the seeds of a model and task: a folder for each rate."""
NARROW, PAPERS = 512, 1e-4
"""Width below which no rate of the papers fits, and what those rates stay below: they are for base
models. A model 384 wide took 3e-4 or 1e-3 for names (study-transfer-rates)."""
DIVERGED = "diverged"
"""In the folder of a rate, why its training has no scores."""


def with_rate(cell: Cell, rate: float) -> Cell:
    """The cell with another learning rate."""
    settings = cell.task.settings.model_copy(update={"learning_rate": rate})
    settings = with_source(settings, cell.task.settings)
    return replace(cell, task=replace(cell.task, settings=settings), rates=())


def advise(cells: Iterable[Cell]) -> None:
    """Say which models are too narrow for a paper's learning rate."""
    narrow: dict[int, dict[str, None]] = {}
    for cell in cells:
        if not cell.rates and cell.task.settings.learning_rate < PAPERS:
            width = int(getattr(load_config(str(cell.folder)), "hidden_size", NARROW))
            narrow.setdefault(width, {})[cell.label] = None
    for width, labels in narrow.items():
        if width < NARROW:
            logger.info(
                "%s: %d wide, and the papers' learning rates are for 768: "
                "learning_rates=[1e-4,3e-4,1e-3] finds one for each task",
                ", ".join(labels),
                width,
            )


def all_that_diverged(errors: Mapping[str, TrainingError], out: Path) -> TrainingError:
    """The error of a call in which some seeds diverged, by name: the first one, and who else."""
    first, *_ = errors.values()
    names = "; ".join(errors)
    others = f" What others reached is in {out}." if (out / RESULTS).is_file() else ""
    return TrainingError(f"{first}.{others} Diverged: {names}")


def lose(folder: Path, error: TrainingError) -> None:
    """Note in a training's folder that it diverged, so that nobody repeats it; weights go."""
    write_text(folder / DIVERGED, f"{error}\n")
    for left in filter(Path.is_dir, folder.iterdir()):
        shutil.rmtree(left)


def best(trainings: Mapping[float, Path]) -> tuple[float, dict[str, float | None]]:
    """The rate whose best weights score highest on the selection split; of equals the lowest rate.

    Args:
        trainings: by rate, the folder of its training.

    Returns:
        The rate, and the score of every rate, written `0.0003`; None where the training diverged.

    Raises:
        TrainingError: all did.
    """
    reached = {
        rate: float(read_json(folder / SCORES)["best"]["score"])
        for rate, folder in trainings.items()
        if not (folder / DIVERGED).is_file()
    }
    if not reached:
        tried = ", ".join(f"{rate:g}" for rate in trainings)
        raise TrainingError(
            f"training diverged with every one of the learning rates {tried}; name lower ones "
            "(learning_rates=[…])"
        )
    best_rate = max(sorted(reached), key=lambda rate: reached[rate])
    return best_rate, {f"{rate:g}": reached.get(rate) for rate in trainings}


def said(tried: Mapping[str, float | None]) -> str:
    """What the rates reached, for the log."""
    return ", ".join(
        f"{rate} {'diverged' if score is None else f'{score:.1f}'}" for rate, score in tried.items()
    )
