"""`lingraft report`: it parses, calls and prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lingraft.cli import options as ask, parsing
from lingraft.errors import RecipeError
from lingraft.files import check_target
from lingraft.recipe.base import Keys
from lingraft.rundir import Run

if TYPE_CHECKING:
    from collections.abc import Sequence


class TestedTasks(Keys):
    """Settings of a comparison of fine-tuned models."""

    reference: str | None = None
    """The label of the model that the others are tested against; 'scratch' or the first one."""
    resamples: ask.Resamples = 1_000
    """Draws of the paired bootstrap."""


@parsing.takes(lambda: (TestedTasks,))
def command(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER")],
    settings: ask.OwnKeys = None,
    out_file: Annotated[Path | None, typer.Option("--out")] = None,
) -> object:
    """Write the page of a run, or one that compares several runs or fine-tuned models.

    A run:        lingraft report runs/ko

    Several:      lingraft report runs/ko runs/ko-scratch --out both.html

    After finetune: lingraft report runs/tasks runs/other-tasks reference=base

    Of fine-tuned models: scores, and what is more than luck.

    Options:
        folders: Runs of adapt, the main one first; or folders of finetune, beside which those of
            analyze retrieval may stand.
        out_file: The page. Default: report.html in a run, here of several; comparison.html in the
            first folder of finetune.
    """
    given = parsing.read(TestedTasks, settings)
    are_runs = {Run(folder).recipe_path.is_file() for folder in folders}
    if are_runs == {True}:
        if settings:
            raise RecipeError(f"{settings[0]}: is for results of finetune; leave it out")
        return _of_runs(folders, out_file)
    if len(are_runs) > 1:
        raise RecipeError("report: some folders are runs and some are not; give them in two calls")
    from lingraft.finetuning.compare import compare

    target = out_file or folders[0] / "comparison.html"
    tables = compare(folders, target, reference=given.reference, resamples=given.resamples)
    scores = parsing.show(*tables, best="")
    parsing.line(f"page: {target}")
    return {"page": target, "scores": scores}


def _of_runs(folders: Sequence[Path], out_file: Path | None) -> object:
    """Write the page of runs, and return where it is and what it says."""
    from lingraft.report import tables
    from lingraft.report.pages import run as run_page
    from lingraft.report.variants import labelled
    from lingraft.report.verdict import verdict

    runs = [Run.existing(path) for path in folders]
    target = out_file or (folders[0] / "report.html" if len(runs) == 1 else Path("report.html"))
    check_target(target)
    models = labelled(runs)
    compared = tables.compare(models)
    scores = parsing.show(tables.for_terminal(compared))
    summary = verdict(compared)
    parsing.line(summary)
    written = run_page.write(models, target, compared)
    parsing.line(f"report: {written}")
    return {"page": written, "scores": scores, "summary": summary}
