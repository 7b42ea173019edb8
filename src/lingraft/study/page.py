"""The report of a study: one HTML file that needs nothing else, made from results.jsonl alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.pages import check_target
from lingraft.recipe.record import AUTO
from lingraft.report import numbers
from lingraft.report import page as skeleton
from lingraft.report.next_step import NextStep, command
from lingraft.rundir import write_text
from lingraft.stats import Resampling
from lingraft.study import causal_tables, factor, plots, recipe, tables, task_tables
from lingraft.study.analysis import difference
from lingraft.study.metrics import BITS, BYTES, LOSS, PERPLEXITY, UNIGRAMS, metric_named
from lingraft.study.notes import alike
from lingraft.study.results import collect, size_text
from lingraft.study.studydir import StudyDir

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingraft.report.figure import Figure
    from lingraft.study.results import Group, Results
    from lingraft.study.rows import AnyRow

TITLES = {PERPLEXITY: "perplexity", BITS: "bits per character", BYTES: "bits per byte"}
"""What a verdict is by: what compares most of the models, the first of equals."""
ALPHA = 0.05
"""A larger p separates nothing."""
LONG_NAME = 30
"""Characters; a longer label is not said twice."""
SEEDS = 3
"""Fewer say little of luck."""


@dataclass(frozen=True)
class About:
    """What the page of a study says beside its results."""

    planned: Sequence[str] = ()
    """Ids of all cells."""
    study: recipe.Study | None = None
    folder: Path | None = None
    """Where it lies."""
    waiting: Sequence[str] = ()
    """Ids of the cells that are trained and lack fine-tunings."""
    again: Sequence[str] = ("STUDY",)
    """The study's file, and options that the next call of the command needs too."""


def write(name: str, rows: Iterable[AnyRow], folder: StudyDir, about: About) -> Path:
    """Write the report of a study, whole or under way, into its folder.

    Args:
        name: of the study.
        rows: of its results file.
        folder: the study's.
        about: what else the page says.

    Returns:
        The page.

    Raises:
        DataError: cells that should compare were tested on different texts, or a file that is no
            page of ours is in the place.
    """
    if not folder.study_path.is_file():  # else all in the folder is ours
        check_target(folder.page_path)
    folder.path.mkdir(parents=True, exist_ok=True)
    write_text(folder.page_path, render(name, rows, about))
    return folder.page_path


def render(name: str, rows: Iterable[AnyRow], about: About = About()) -> str:
    """The page.

    Args:
        name: of the study.
        rows: of its results file.
        about: what else it says.
    """
    results = collect(rows)
    resampling = Resampling()
    done = {cell.name for cell in results.cells}
    failed = {failure.cell for failure in results.failures}
    return skeleton.render(
        "study",
        title=f"Study {name}",
        verdict=verdict(results, resampling),
        next_step=next_step(results, about),
        facts=_facts(results, about.planned),
        made_from="results.jsonl",
        failures=results.failures,
        missing=[cell for cell in about.planned if cell not in done | failed],
        waiting=[cell for cell in about.waiting if cell not in failed],
        reference=results.reference(),
        resamples=f"{resampling.resamples:,}",
        causal=bool(causal_tables.shown(results)),
        written=", ".join(sorted({cell.written for cell in results.cells} - {""})),
        settings=recipe.to_toml(about.study) if about.study else "",
        **_tables(results, resampling),
        **figures(results, resampling),
    )


def _tables(results: Results, resampling: Resampling) -> dict[str, Any]:
    """All tables that the results allow, by section of the page; the largest size first."""
    sizes, metrics, curve = (
        results.sizes[::-1],
        results.task_metrics,
        factor.by_training_set(results),
    )
    compared = [causal_tables.differences_of(results, size, resampling) for size in sizes]
    tasks = [task_tables.scores(results, size) for size in sizes]
    gained = [tables.differences(results, size, resampling, metrics) for size in sizes]
    factors = tables.factors(results, resampling)
    return {
        "quality": [causal_tables.quality(results, size).filled() for size in sizes],
        "differences": [table.filled() for table in compared if table is not None],
        "streams": [
            table for size in sizes for table in task_tables.by_stream(results, size, resampling)
        ],
        "factors": factors and factors.filled(),
        "tasks": [table for table in tasks if table is not None],
        "task_differences": [table for table in gained if table is not None],
        "task_factors": tables.factors(results, resampling, metrics),
        "curve_factors": tables.factors(curve, resampling, curve.task_metrics) if curve else None,
        "task_notes": task_tables.about(results),
        "initializers": causal_tables.initializers(results, resampling),
        "machines": tables.machines(results),
        "cells": causal_tables.cells(results),
    }


def figures(results: Results, resampling: Resampling) -> dict[str, list[Figure]]:
    """All figures that the results allow, by section of the page."""
    curve = factor.by_training_set(results)
    of_curve = [(curve, metric) for metric in curve.task_metrics] if curve else []
    candidates = {
        "curve_figures": [plots.against_data(*pair) for pair in of_curve],
        "curve_factor_figures": [factor.factors(*pair, resampling) for pair in of_curve],
        "data_figures": [plots.against_data(results, metric) for metric in plots.AGAINST_DATA],
        "factor_figures": [factor.factors(results, metric, resampling) for metric in (LOSS, BITS)],
        "task_figures": [plots.against_data(results, metric) for metric in results.task_metrics],
        "task_factor_figures": [
            factor.factors(results, metric, resampling) for metric in results.task_metrics
        ],
        "loss_figures": [plots.learning(results, size) for size in results.sizes],
        "initializer_figures": [
            plots.learning(results, size, initializers=True) for size in results.sizes
        ],
    }
    sections = {
        section: [drawing for drawing in drawings if drawing is not None]
        for section, drawings in candidates.items()
    }
    lines = {drawing.caption: drawing.names for drawing in sections["loss_figures"]}
    sections["initializer_figures"] = [
        drawing
        for drawing in sections["initializer_figures"]
        if lines.get(drawing.caption) != drawing.names
    ]
    return sections


def _facts(results: Results, planned: Sequence[str]) -> list[tuple[str, str]]:
    done = len(results.cells)
    seconds = sum(cell.seconds for cell in results.cells)
    seeds = {cell.seed for cell in results.cells}
    total = max(len(planned), done)
    return [
        ("cells", f"{done} of {total}" if total > done else str(done)),
        ("methods", str(len({group.method for group in results.groups}))),
        ("sizes", str(len(results.sizes))),
        ("seeds", str(len(seeds))),
        ("time of all cells", numbers.duration(seconds)),
    ]


def leaders(results: Results) -> tuple[str, list[Group]]:
    """The metric that the largest size is judged by, and its groups, the best one first.

    The one of `TITLES` that most groups have which were asked for the same as the reference: bits
    per character where some have another vocabulary. Without two such groups there are none.
    """
    groups = results.at(results.sizes[-1]) if results.groups else ()
    reference = next((g for g in groups if g.label == results.reference()), None)
    best: tuple[str, list[Group]] = ("", [])
    for metric in TITLES:
        rivals = [
            (mean, group)
            for group in groups
            if (mean := group.sound(metric)) is not None
            and alike(group, reference or groups[0], metric)
        ]
        if len(rivals) > max(1, len(best[1])):
            best = metric, [group for _, group in sorted(rivals, key=lambda pair: pair[0])]
    return best


def verdict(results: Results, resampling: Resampling) -> str:
    """Who wins at the largest size, whether that is more than luck, and who is left out."""
    if not results.groups:
        return "No verdict yet: no cell has ended."
    metric, groups = leaders(results)
    if not groups:
        ended = "1 cell has" if len(results.cells) == 1 else f"{len(results.cells)} cells have"
        return f"{ended} ended; at the largest size there is nothing to compare."
    first, second = groups[:2]
    show = metric_named(metric).show
    best = f"With {size_text(results.sizes[-1])}, {first.label} is best of {len(groups)}"
    reached = f"{TITLES[metric]} {show(first.mean(metric))}"
    reference = {g.label: g for g in (second, *groups) if g.label == results.reference()}
    beside = {second.label: second} | reference
    beside.pop(first.label, None)
    scores = ", ".join(f"{label} {show(g.mean(metric))}" for label, g in beside.items())
    luck = _luck(first, second, metric, resampling) + _learnt(first)
    return f"{best}: {reached}, {scores}. {luck}{_left_out(results, groups, metric)}"


def _learnt(first: Group) -> str:
    """That even the best has learnt nothing, where that is so."""
    reached, floor = first.mean(PERPLEXITY), first.mean(UNIGRAMS)
    if reached is None or floor is None or reached < floor:
        return ""
    guessing = f"guessing by token frequency alone (perplexity {numbers.significant(floor)})"
    return f" But {first.label} is no better than {guessing}."


def _left_out(results: Results, groups: Sequence[Group], metric: str) -> str:
    """Whom the verdict passes over, and why."""
    others = [group for group in results.at(results.sizes[-1]) if group not in groups]
    reasons = {
        f"measured on other {'words' if metric == BITS else 'tokens or text'}": [
            group.label for group in others if group.sound(metric) is not None
        ],
        f"without a finite {metric_named(metric).title}": [
            group.label for group in others if group.sound(metric) is None
        ],
    }
    said = [f"{', '.join(labels)} ({why})" for why, labels in reasons.items() if labels]
    return f" Not compared: {'; '.join(said)}." if said else ""


def _luck(first: Group, second: Group, metric: str, resampling: Resampling) -> str:
    """Whether the lead of one group over another is more than luck, as far as is known."""
    name = second.label if len(second.label) < LONG_NAME else "the second"
    if not first.rows(metric).keys() & second.rows(metric).keys():
        return f"It shares no seed with {name}, so nothing is known of luck."
    gap = difference(first, second, metric, resampling)
    p = gap.larger_p
    if p is None:
        return f"Whether its lead over {name} is luck is not known: the rows have too few blocks."
    probability = numbers.probability(p)
    if gap.value > 0:  # all that judge are the better the lower they are
        return f"With the seeds that both have, {name} is ahead ({probability}): run equal seeds."
    clause = f"nothing separates it from {name} ({probability})"
    if p < ALPHA:
        clause = f"its lead over {name} is more than luck ({probability})"
    if gap.trained > 1:
        return f"{clause[0].upper()}{clause[1:]}."
    return f"On this test text {clause}; one seed tells nothing of others."


def next_step(results: Results, about: About) -> NextStep | None:
    """The cells and fine-tunings that lack, then more seeds, then a model by the best method.

    That is the recipe of one of its cells, which holds what the study set; None where it ran
    elsewhere.
    """
    place = about.folder or Path("runs") / (about.study.name if about.study else "study")
    rerun = command("study", *about.again, "--out", place)
    if about.waiting or {*about.planned} - {cell.name for cell in results.cells}:
        return NextStep("Not everything has been run. What is done is kept:", rerun)
    _, groups = leaders(results)
    if not groups:
        return None
    if len(groups[0].cells) < SEEDS:
        why = f"Give the axis seed {SEEDS} values or more, then run what is new:"
        return NextStep(why, rerun)
    if groups[0].method == AUTO:
        inputs = ("--source", "SOURCE", "--text", "TEXT", "--lang", "LANG", "--minutes", "30")
        why = "The rules chose best. They are what a run without a recipe follows:"
        return NextStep(why, command("adapt", *inputs, "--out", f"runs/{AUTO}"))
    recipe_path = StudyDir(place).cell(groups[0].cells[0].name).recipe_path
    if not recipe_path.is_file():
        return None
    return NextStep(
        f"Make a model by {groups[0].label}, by the recipe of its cell (raise its sentences and "
        "budgets for a better one):",
        command("adapt", recipe_path, "--out", f"runs/{groups[0].method}"),
    )
