"""The comparison page: one HTML file that needs nothing else, and its tables as files beside it.

That translators got better is drawn from their score at every check (metrics.jsonl).
"""

from __future__ import annotations

import re
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from lingraft.comparison import tables, transfer
from lingraft.comparison.collect import collect
from lingraft.comparison.errors import analyse
from lingraft.comparison.significance import RESAMPLES, differences
from lingraft.errors import DataError, RecipeError
from lingraft.finetuning.outcomes import metric_name
from lingraft.pages import check_target
from lingraft.report import figure, page
from lingraft.report.figure import Figure
from lingraft.report.panels import in_order
from lingraft.report.table import comma_separated, latex, markdown
from lingraft.rundir import Run, write_text
from lingraft.tasks import GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from lingraft.comparison.collect import Comparison, Part
    from lingraft.comparison.errors import Errors
    from lingraft.comparison.significance import Tested
    from lingraft.report.table import Table
    from lingraft.tasks import Task


def compare(
    folders: Sequence[Path],
    out: Path,
    *,
    reference: str | None = None,
    resamples: int = RESAMPLES,
) -> tuple[list[Table], list[Path]]:
    """Compare models after fine-tuning, and write the page and the files beside it.

    Args:
        folders: what `lingraft finetune --out` wrote, and what `lingraft retrieve --out` did.
        out: the page.
        reference: label of the model that the others are tested against.
        resamples: draws of the bootstrap.

    Returns:
        The table of scores, that of XTREME where there is one, and the files that were written, the
        page first.

    Raises:
        DataError: results are missing, broken, or do not belong together; or a file would be
            replaced that is not ours.
        RecipeError: there is no model called like the reference, or the page is no HTML file.
    """
    if out.suffix != ".html":
        raise RecipeError(f"--out: is {out}; the page must end in .html")
    check_target(out, (".md", ".tex", ".csv"))
    searched = [folder for folder in folders if (folder / "retrieve.json").is_file()]
    tuned = [folder for folder in folders if folder not in searched]
    if not tuned:
        raise DataError(
            f"{folders[0]}: is of lingraft retrieve, whose tables lie there; to compare it with "
            "other tasks, name a folder of lingraft finetune too"
        )
    comparison = collect(tuned, reference)
    retrievals = transfer.read_retrievals(searched, comparison.weights)
    tested = differences(comparison, resamples)
    errors = [analyse(part) for part in comparison.parts]
    scores = tables.scores(comparison, tested)
    less = tables.differences(comparison, tested)
    languages = transfer.section(tables.settings_of(comparison), tested, retrievals)
    curves = list(curves_of_checks(comparison))
    context: dict[str, Any] = {"differences": less, "languages": languages, "curves": curves}
    context |= {"errors": errors} | _context(comparison, tested, scores)
    texts = {out: page.render("comparison", **context)}
    texts |= _files(out, comparison, tested, scores, less, errors)
    texts |= {out.with_name(f"{out.stem}-{curve.name}.svg"): curve.alone() for curve in curves}
    if languages is not None:
        texts |= transfer.files(languages, out)
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    xtreme = [languages.summary] if languages and languages.summary else []
    return [scores, *xtreme], list(texts)


def _context(comparison: Comparison, tested: Sequence[Tested], scores: Table) -> dict[str, Any]:
    """What the page says of the models and their scores."""
    runs = sum(len(runs) for part in comparison.parts for runs in part.runs.values())
    return {
        "title": f"{len(comparison.labels)} models after fine-tuning",
        "verdict": tables.verdict(comparison, scores, tested),
        "next_step": tables.next_step(comparison, scores, tested),
        "facts": [
            ("models", str(len(comparison.labels))),
            ("tasks", str(len({part.family for part in comparison.parts}))),
            ("runs", str(runs)),
            ("reference", comparison.reference),
        ],
        "made_from": "saved scores and predictions",
        "unofficial": [part for part in comparison.parts if not part.official],
        "scores": scores,
        "reference": comparison.reference,
        "tasks": list({_whole(part).name: _whole(part) for part in comparison.parts}.values()),
    }


def _whole(part: Part) -> Task:
    """The task, without the language where it has several."""
    if part.languages is None:
        return part.task
    name = part.languages.task
    title = GROUPS[name].title if name in GROUPS else name
    return replace(part.task, name=name, title=title)


def _files(
    out: Path,
    comparison: Comparison,
    tested: Sequence[Tested],
    scores: Table,
    less: Table | None,
    errors: Sequence[Errors],
) -> dict[Path, str]:
    """The tables beside the page, and the error analysis in a folder of its own."""
    rows = tables.score_rows(comparison)
    texts = {
        out.with_suffix(".md"): markdown(scores) + "\n",
        out.with_suffix(".tex"): latex(scores),
        out.with_suffix(".csv"): comma_separated(rows[0], (row.values() for row in rows)),
    }
    if less is not None:
        stem = f"{out.stem}-differences"
        texts |= {
            out.with_name(f"{stem}.md"): markdown(less) + "\n",
            out.with_name(f"{stem}.tex"): latex(less),
            out.with_name(f"{stem}.csv"): tables.differences_sheet(tested, comparison.reference),
        }
    folder = out.with_name(f"{out.stem}-errors")
    for analysis in errors:
        task = re.sub(r"[^\w.-]+", "-", analysis.title).strip("-")
        for sheet in analysis.sheets:
            texts[folder / f"{task}-{sheet.name}.csv"] = comma_separated(sheet.head, sheet.rows)
    return texts


Points = dict[int, list[float]]
"""Step → the score of every seed."""


def at_checks(folders: Sequence[Path], key: str) -> Points:
    """A score at the checks of some seeds; steps that not all of them checked are left out."""
    scores: Points = {}
    for folder in folders:
        for row in Run(folder).metrics():
            if row["kind"] == "valid" and row.get(key) is not None:
                scores.setdefault(row["step"], []).append(row[key])
    return {step: values for step, values in scores.items() if len(values) == len(folders)}


def curves_of_checks(comparison: Comparison) -> Iterator[Figure]:
    """A figure a translation task: the score that chooses against updates, a line a model."""
    families: set[str] = set()
    for part in comparison.parts:
        if part.task.kind == "translation" and part.family not in families:
            families.add(part.family)
            curve = _curve(part, comparison.labels, len(families))
            if curve is not None:
                yield curve


def _curve(part: Part, labels: Sequence[str], number: int) -> Figure | None:
    key = part.task.selection
    lines = {
        label: at_checks([run.outcome.folder for run in runs], key)
        for label, runs in part.runs.items()
    }
    lines = {label: points for label, points in lines.items() if len(points) > 1}
    if not lines:
        return None
    indices = {label: list(labels).index(label) for label in lines}

    def draw(axes: Axes, form: str) -> None:
        for label, points in lines.items():
            steps = sorted(points)
            means = [fmean(points[step]) for step in steps]
            ends = tuple([end(points[step]) for step in steps] for end in (min, max))
            figure.line(axes, steps, means, indices[label], spread=(ends[0], ends[1]))
        axes.set_xlabel("updates")
        axes.set_ylabel(f"{metric_name(key)} on dev")

    summaries = (
        f"{label}: {fmean(points[max(points)]):.1f} after {max(points):,} updates"
        for label, points in lines.items()
    )
    return Figure(
        name=f"checks-{number}",
        draw=draw,
        names=tuple(indices.items()),
        panels=in_order(tuple(indices.items())),
        description=f"{part.family}, {metric_name(key)} on dev: " + "; ".join(summaries),
        caption=f"{part.family}: {metric_name(key)} on the development set against updates, "
        "translated greedily at every check. Lines: mean over the seeds; bands: lowest to highest.",
    )
