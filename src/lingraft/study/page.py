"""The report of a study: one HTML file that needs nothing else, made from results.jsonl alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.report import numbers
from lingraft.report import page as skeleton
from lingraft.rundir import write_text
from lingraft.stats import Resampling
from lingraft.study import (
    causal_tables,
    grid,
    plots,
    recipe,
    stream_tables,
    tables,
    task_tables,
)
from lingraft.study.metrics import BITS, BYTES, LOSS, PERPLEXITY, metric_named
from lingraft.study.notes import asked
from lingraft.study.results import collect, size_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from lingraft.report.figure import Figure
    from lingraft.report.table import Table
    from lingraft.study.results import Results
    from lingraft.study.rows import AnyRow

TITLES = {PERPLEXITY: "perplexity", BITS: "bits per character", BYTES: "bits per byte"}
"""What a verdict is by, the first that two labels have."""


def write(study: recipe.Study, rows: Sequence[AnyRow], out_html: Path) -> Path:
    """Write the report of a study, whole or under way.

    Args:
        study: its cells are those that the page expects.
        rows: of its results file.
        out_html: the page.

    Returns:
        `out_html`.

    Raises:
        RecipeError: the study's base recipe cannot be read.
        DataError: cells that should compare were tested on different texts.
    """
    planned = [cell.id for cell in grid.cells(study)]
    out_html.parent.mkdir(parents=True, exist_ok=True)
    write_text(out_html, render(study.name, rows, planned, recipe.to_toml(study)))
    return out_html


def render(
    name: str,
    rows: Iterable[AnyRow],
    planned: Sequence[str] = (),
    settings: str = "",
) -> str:
    """The page.

    Args:
        name: of the study.
        rows: of its results file.
        planned: ids of all cells of the study.
        settings: the study file.
    """
    results = collect(rows)
    resampling = Resampling()
    done = {cell.name for cell in results.cells}
    failed = {failure.cell for failure in results.failures}
    compared = [causal_tables.differences_of(results, n, resampling) for n in results.sizes]
    tasks = [task_tables.scores(results, size) for size in reversed(results.sizes)]
    metrics = results.task_metrics
    gained = [
        tables.differences(results, size, resampling, metrics) for size in reversed(results.sizes)
    ]
    return skeleton.render(
        "study",
        title=f"Study {name}",
        verdict=verdict(results),
        facts=_facts(results, planned),
        made_from="results.jsonl",
        failures=results.failures,
        missing=[cell for cell in planned if cell not in done | failed],
        quality=[quality(results, size) for size in reversed(results.sizes)],
        differences=[table for table in reversed(compared) if table is not None],
        streams=[
            table
            for size in reversed(results.sizes)
            for table in stream_tables.of(results, size, resampling)
        ],
        reference=results.reference(),
        resamples=f"{resampling.resamples:,}",
        factors=tables.factors(results, resampling),
        tasks=[table for table in tasks if table is not None],
        task_differences=[table for table in gained if table is not None],
        task_factors=tables.factors(results, resampling, metrics),
        task_notes=task_tables.about(results),
        initialisers=causal_tables.initialisers(results, resampling),
        machines=tables.machines(results),
        cells=causal_tables.cells(results),
        causal=bool(causal_tables.shown(results)),
        settings=settings,
        **figures(results, resampling),
    )


def quality(results: Results, size: int | None) -> Table:
    """Every metric of every label at one size, those of the study's kind of model."""
    return causal_tables.quality(results, size) or tables.quality(results, size)


def figures(results: Results, resampling: Resampling) -> dict[str, list[Figure]]:
    """All figures that the results allow, by section of the page."""
    drawn = {
        "data_figures": [plots.against_data(results, metric) for metric in plots.AGAINST_DATA],
        "factor_figures": [plots.factors(results, metric, resampling) for metric in (LOSS, BITS)],
        "task_figures": [plots.against_data(results, metric) for metric in results.task_metrics],
        "task_factor_figures": [
            plots.factors(results, metric, resampling) for metric in results.task_metrics
        ],
        "loss_figures": [_learning(results, size) for size in results.sizes],
        "initialiser_figures": [
            _learning(results, size, initialisers=True) for size in results.sizes
        ],
    }
    return {
        section: [drawing for drawing in drawings if drawing is not None]
        for section, drawings in drawn.items()
    }


def _learning(results: Results, size: int | None, *, initialisers: bool = False) -> Figure | None:
    """How models learn: of causal ones in bits over characters, which compare, else the loss."""
    return plots.bits(results, size, initialisers=initialisers) or plots.losses(
        results, size, initialisers=initialisers
    )


def _facts(results: Results, planned: Sequence[str]) -> list[tuple[str, str]]:
    done = len(results.cells)
    seconds = sum(cell.end.seconds for cell in results.cells)
    seeds = {cell.seed for cell in results.cells}
    total = max(len(planned), done)
    return [
        ("cells", f"{done} of {total}" if total > done else str(done)),
        ("methods", str(len({group.method for group in results.groups}))),
        ("sizes", str(len(results.sizes))),
        ("seeds", str(len(seeds))),
        ("time of all cells", numbers.duration(seconds)),
    ]


def verdict(results: Results) -> str:
    """What the largest size says, in a sentence, by the first of `TITLES` that there is."""
    if not results.groups:
        return "No verdict yet: no cell has ended."
    size = results.sizes[-1]
    groups = results.at(size)
    reference = next((g for g in groups if g.label == results.reference()), None)
    for metric in TITLES:
        rivals = [
            (mean, group)
            for group in groups
            if (mean := group.sound(metric)) is not None
            and asked(group, metric) == asked(reference or groups[0], metric)
        ]
        if len(rivals) > 1:
            best, first = min(rivals, key=lambda pair: pair[0])
            title = TITLES[metric]
            show = metric_named(metric).show
            text = f"With {size_text(size)}, {first.label} is best of {len(rivals)}: {title}"
            base = None if reference is None else reference.mean(metric)
            if base is None or reference is first:
                return f"{text} {show(best)}."
            return f"{text} {show(best)}, {results.reference()} {show(base)}."
    return (
        f"{len(results.cells)} cells have ended; at the largest size there is nothing to compare."
    )
