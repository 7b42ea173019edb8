"""The report of a study: its page, its verdict and its tables, from results.jsonl."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lingraft.errors import RecipeError
from lingraft.pages import check_target
from lingraft.recipe.decoding import load
from lingraft.rundir import write_text
from lingraft.stats import Resampling
from lingraft.study import page, recipe, runner
from lingraft.study.results import collect

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lingraft.report.table import Table
    from lingraft.study.recipe import Study
    from lingraft.study.runner import Options


@dataclass(frozen=True)
class Report:
    """Findings of a study's results."""

    name: str
    path: Path
    """The page."""
    verdict: str
    tables: list[Table]
    """Every metric of every method, a table a size."""
    failures: Mapping[str, str]
    """Why cells failed, by cell."""
    ended: str
    """Number of cells that ended, of how many."""


def run(study: Study, out: Path, options: Options) -> Report:
    """Run the cells that are missing, and write the page.

    Raises:
        RecipeError: a cell failed; the page has the others.
        LingraftError: as `runner.run`.
    """
    tally = runner.run(study, out, options)
    report = write(out) if tally.kept + tally.done else None
    if tally.failed or report is None:
        same = "the same command" + " without --force" * options.force
        raise RecipeError(f"failed: {', '.join(tally.failed)}; {same} tries again")
    return report


def write(folder: Path) -> Report:
    """Write the page of a study again.

    Raises:
        LingraftError: there are no results, or they are broken.
    """
    path, study = folder / runner.STUDY, None
    if path.is_file():
        study = recipe.decode(load(path), str(path))
    name, settings = study.name if study else folder.name, recipe.to_toml(study) if study else ""
    known = runner.current(folder)
    results = collect(known.rows, study.select if study else (), known.failures)
    target = folder / runner.PAGE
    check_target(target)
    write_text(target, page.render(name, results, known.planned, settings))
    return Report(
        name,
        target,
        page.verdict(results, Resampling()),
        [page.quality(results, size) for size in results.sizes],
        results.failures,
        f"{len(results.cells)} of {max(len(known.planned), len(results.cells))} cells",
    )
