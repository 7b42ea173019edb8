"""One study on disk: `OUT/{study.toml, results.jsonl, report.html, shared/, cells/}`.

What cells have in common is made once, in `shared/`: text under `corpus-HASH`, a vocabulary under
`tokenizer-HASH`. A cell is an ordinary run's folder whose `corpus` and `tokenizer` are relative
links into it, so that the whole study can be moved.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lingraft.errors import RecipeError
from lingraft.pages import check_target
from lingraft.recipe.decoding import load, to_toml
from lingraft.rundir import SHARED_STAGES, Run, clear_temporary, read_json, write_json, write_text
from lingraft.study import recipe as studies

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from lingraft.recipe import Recipe
    from lingraft.study.grid import Cell
    from lingraft.study.recipe import Study

logger = logging.getLogger(__name__)

TOKENIZER_FILES = ("tokenizer*.json", "vocab.*", "merges.txt", "special_tokens_map.json", "*.model")
TASKS = "tasks"
"""Of a cell: what its fine-tunings leave."""
LABEL = "cell"
"""What the model is called there."""
WEIGHTS = "weights"
"""Of a cell, while it is fine-tuned: links to its last weights and its tokenizer."""
JOB = "job.json"
"""In a folder: the job of a cluster that works on it, or did when the study ended."""
EXIT = "exit.json"
"""There, written last: the job's exit status."""
MARK = "cell.json"
"""In a cell: the fingerprint of what it is made from."""
OURS = ("cells", "shared")
FILES = ("results.jsonl", "report.html", "study.toml")
COPIED = {"results.jsonl", "report.html"}
"""All that lies in a folder into which results of another machine were copied, and their page."""


@dataclass(frozen=True)
class StudyDir:
    """A study's folder."""

    path: Path

    @property
    def study_path(self) -> Path:
        return self.path / "study.toml"

    @property
    def results_path(self) -> Path:
        return self.path / "results.jsonl"

    @property
    def page_path(self) -> Path:
        return self.path / "report.html"

    def cell(self, name: str) -> Run:
        """The folder of a cell."""
        return Run(self.path / "cells" / name)

    def prepare(
        self, study: Study, results: Path | None = None, *, resume: bool, overwrite: bool
    ) -> None:
        """Make the folder ready; a changed study of the same name just has other cells.

        Args:
            study: whose folder it is now.
            results: the results file that the call names, which stays where it is.
            resume: keep what this study shares with the one that is there.
            overwrite: delete the one that is there.

        Raises:
            RecipeError: the folder holds something else, and neither `resume` nor `overwrite` says
                what to do with it.
        """
        for folder in (self.path, *self.path.glob("cells/*/"), *self.path.glob("shared/*/")):
            if not (folder / JOB).is_file():  # a job on another machine may be writing there
                clear_temporary(folder)
        present = [path.name for path in self.path.iterdir() if path.name != ".lock"]
        is_study = self.study_path.is_file()
        copied = self.results_path.is_file() and COPIED.issuperset(present) and not overwrite
        if copied:
            check_target(self.page_path)
        if present and not is_study and not copied:
            raise RecipeError(
                f"{self.path}: holds files but no study of lingraft ({present[0]} …); "
                "choose another --out"
            )
        if overwrite:
            self.check_no_jobs(path for name in OURS for path in self.path.glob(f"{name}/*"))
            self.empty(results)
        elif is_study and not resume:
            name = load(self.study_path).get("name")
            if name != study.name:
                raise RecipeError(
                    f"{self.path}: holds the study '{name}', not '{study.name}'; --resume keeps "
                    "what both have in common, --overwrite starts afresh"
                )
        write_text(self.study_path, studies.to_toml(study))

    def check_no_jobs(self, folders: Iterable[Path]) -> None:
        """Refuse to delete folders in which jobs of a cluster may be writing.

        Raises:
            RecipeError: there is a job whose end the study has not seen.
        """
        open_jobs = (path / JOB for path in sorted(folders) if not (path / EXIT).is_file())
        if jobs := [path for path in open_jobs if path.is_file()]:
            numbers = " ".join(str(read_json(path)["job"]) for path in jobs)
            raise RecipeError(
                f"{self.path}: jobs of Slurm may still work there ({numbers}); scancel them and "
                f"delete {jobs[0]}{' and its like' if len(jobs) > 1 else ''}, or give another --out"
            )

    def empty(self, results: Path | None = None) -> None:
        """Delete what lingraft made here, but for these results; study.toml goes last.

        First goes what says that something is whole, so that nothing half deleted is ever taken.
        """
        whole = (f"cells/*/{MARK}", "shared/*/*/done.json")
        for path in [path for pattern in whole for path in self.path.glob(pattern)]:
            path.unlink(missing_ok=True)  # a vocabulary has a link to its text
        for name in OURS:
            if (self.path / name).exists():
                shutil.rmtree(self.path / name)
        for path in (self.path / name for name in FILES):
            if results is None or path.resolve() != results.resolve():
                path.unlink(missing_ok=True)

    def share(self, corpus: str, tokenizer: str) -> Run:
        """The shared folder of a vocabulary, with a link to that of its text; both may be empty."""
        shared = self.path / "shared"
        run = Run(shared / f"tokenizer-{tokenizer}")
        run.path.mkdir(parents=True, exist_ok=True)
        (shared / f"corpus-{corpus}").mkdir(exist_ok=True)
        _link(run.path / "corpus", shared / f"corpus-{corpus}" / "corpus")
        return run

    def open_cell(self, cell: Cell, fingerprint: str, shared: Run) -> Run:
        """Make a cell's folder ready; one that was made from something else is emptied.

        Raises:
            DataError: another process works there.
        """
        run = self.cell(cell.id)
        if self.replaces(cell, fingerprint):
            with run.locked():  # a process that a study left behind may still be writing
                (run.path / MARK).unlink(missing_ok=True)  # first, as in `empty`
                shutil.rmtree(run.path)
        run.path.mkdir(parents=True, exist_ok=True)
        write_json(run.path / MARK, {"fingerprint": fingerprint, "axes": cell.axes})
        write_recipe(run, cell.recipe)
        for name in SHARED_STAGES:
            _link(run.path / name, shared.path / name)
        return run

    def former(self, cell: Cell, fingerprint: str) -> Run | None:
        """The folder of a cell that has another id since the study has another axis.

        None where the cell has a folder under its own, and where a cluster's job may write.
        """
        if self.cell(cell.id).path.exists():
            return None
        run = self._found.get(fingerprint)
        if run is None or not _made_from(run, fingerprint):  # which has its new name by now
            return None
        is_free = (run.path / EXIT).is_file() or not (run.path / JOB).is_file()
        return run if is_free else None

    @functools.cached_property
    def _found(self) -> dict[str, Run]:
        """The cells' folders as they were found, by what they are made from: read once for all."""
        marks = sorted(self.path.glob(f"cells/*/{MARK}"), reverse=True)
        return {str(read_json(mark).get("fingerprint")): Run(mark.parent) for mark in marks}

    def adopt(self, cell: Cell, fingerprint: str, patience: float) -> None:
        """Name the former folder of a cell as the cell is called now.

        For so many seconds a process that a study left behind there may still end.

        Raises:
            DataError: another process works there.
        """
        if (former := self.former(cell, fingerprint)) is not None:
            logger.info("%s: was called %s, and goes on from there", cell.id, former.path.name)
            with former.locked(patience):
                former.path.rename(self.cell(cell.id).path)

    def owns(self, cell: Cell, fingerprint: str) -> bool:
        """Whether a cell's folder was made from this very recipe."""
        return _made_from(self.cell(cell.id), fingerprint)

    def replaces(self, cell: Cell, fingerprint: str) -> bool:
        """Whether `open_cell` empties a folder that was made from something else."""
        return self.cell(cell.id).path.exists() and not self.owns(cell, fingerprint)

    def holds(self, cell: Cell, fingerprint: str) -> bool:
        """Whether a cell was trained and evaluated here, from this very recipe."""
        done = self.cell(cell.id).stage("evaluation").done_path
        return self.owns(cell, fingerprint) and done.is_file()

    def holds_weights(self, cell: Cell, fingerprint: str) -> bool:
        """Whether the last weights of such a cell are still there."""
        run = self.former(cell, fingerprint) or self.cell(cell.id)
        is_done = _made_from(run, fingerprint) and run.stage("evaluation").done_path.is_file()
        return is_done and weights_of(run, cell.recipe)[-1].is_dir()

    def empty_cell(self, cell: Cell) -> None:
        """Delete the stages in a cell's folder, and keep its fine-tunings; done.json goes first.

        So a kill half-way leaves a cell that is trained again.
        """
        run = self.cell(cell.id)
        for done in run.path.glob("*/done.json"):
            if not done.parent.is_symlink():
                done.unlink()
        for path in run.path.iterdir():
            if path.is_dir() and not path.is_symlink() and path.name != TASKS:
                shutil.rmtree(path)


def write_recipe(run: Run, recipe: Recipe) -> None:
    """Write a complete recipe into a run, as it suits its source's kind of model.

    Cells may share a GPU, so none goes by what its memory holds.
    """
    from lingraft.pipeline.completing import fitted

    hardware = recipe.hardware.model_copy(update={"micro_batch_tokens": recipe.hardware.at_once})
    recipe = recipe.model_copy(update={"hardware": hardware})
    write_text(run.recipe_path, to_toml(fitted(recipe)))


def weights_of(run: Run, recipe: Recipe) -> list[Path]:
    """Where a cell's weights are: grafted, then behind each phase of its complete recipe."""
    phases = [phase.name for phase in recipe.phases]
    return [run.weights(phases[:number]) for number in range(len(phases) + 1)]


def is_shared(run: Run) -> bool:
    """Whether text and vocabulary of a shared folder are both made."""
    return all(run.stage(name).done_path.is_file() for name in SHARED_STAGES)


def with_tokenizer(run: Run, recipe: Recipe) -> Path:
    """A folder of links to a cell's last weights and its tokenizer, as a checkpoint has them."""
    folder = run.path / WEIGHTS
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    files = list(weights_of(run, recipe)[-1].iterdir())
    for pattern in TOKENIZER_FILES:
        files += run.stage("tokenizer").path.glob(pattern)
    for file in files:
        (folder / file.name).symlink_to(file.resolve())
    return folder


def prune(run: Run, recipe: Recipe, keep: str) -> None:
    """Delete the weights of a finished cell that the study does not keep.

    Counts, curves and what the report reads stay.
    """
    folders = weights_of(run, recipe)
    to_keep = {"all": folders, "final": folders[-1:], "none": []}[keep]
    for folder in [*folders, run.path / WEIGHTS]:
        if folder not in to_keep and folder.exists():
            shutil.rmtree(folder)


def seen_tokens(run: Run, budgets: dict[str, float]) -> float:
    """Roughly how many tokens a cell that runs has trained on, from the end of metrics.jsonl.

    Args:
        run: the cell's.
        budgets: tokens of each phase, in order.
    """
    row = _last_row(run.metrics_path)
    tokens = 0.0
    for name, budget in budgets.items():
        if name == row.get("phase"):
            return tokens + float(row.get("tokens", 0))
        tokens += budget
    return 0.0


def _last_row(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4_096))
        lines = file.read().split(b"\n")
    for line in reversed(lines):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            return row
    return {}


def _made_from(run: Run, fingerprint: str) -> bool:
    """Whether a cell's folder was made from the recipe of this fingerprint."""
    mark = run.path / MARK
    return mark.is_file() and str(read_json(mark).get("fingerprint")) == fingerprint


def _link(path: Path, target: Path) -> None:
    """A relative symbolic link."""
    text = os.path.relpath(target.parent.resolve() / target.name, path.parent.resolve())
    if path.is_symlink() and os.readlink(path) == text:  # noqa: PTH115 - the text of the link
        return
    if path.is_symlink():
        path.unlink()
    path.symlink_to(text, target_is_directory=True)
