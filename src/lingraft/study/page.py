"""The page of a study: one table a size, differences, what data is worth, and curves.

Figures after Lee et al. 2021, Figure 3: metrics against the number of training examples, log axis.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lingraft.errors import RecipeError
from lingraft.files import check_target, write_text
from lingraft.recipe.decoding import checked, load
from lingraft.report import numbers, page as writer
from lingraft.report.figure import Figure, Series
from lingraft.report.page import Folded, PageText, section
from lingraft.report.row import RESULTS
from lingraft.report.table import BEST, TableCell, row, table
from lingraft.stats import Resampling
from lingraft.study import analysis, runner
from lingraft.study.analysis import BITS, BYTES, CURVE, LOSS, METRICS, PERPLEXITY, UNIGRAMS
from lingraft.study.recipe import Study, to_toml
from lingraft.study.results import collect

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from lingraft.report.table import Role, Table
    from lingraft.study.analysis import SeedGroup
    from lingraft.study.results import Results

TITLES = {PERPLEXITY: "perplexity", BITS: "bits per character", BYTES: "bits per byte"}
"""Scores for a verdict: it is by what compares most of the models, the first of equals."""
ALPHA = 0.05
"""A larger p separates nothing."""
OTHER = "†"
OTHER_NOTE = f"{OTHER} measured on other tokens, words or text: not to be compared with the others."
MEANS = (
    "Mean ± sample standard deviation over the seeds (of tasks, all fine-tunings). Lower is "
    "better, but for hits, MRR and scores of tasks. With one seed nothing is known of others."
)
BENEATH = (
    " Beneath: the difference to {} over the seeds that both have, its 95 % interval by a paired "
    "bootstrap of blocks of the test text and of seeds, and the larger p of that and of a paired "
    "t-test over the seeds."
)
WORTH = (
    "How many times more sentences {} needs to be as good, with 95 % intervals: straight lines "
    "over the logarithm of the size between its means, nothing extrapolated. “> x”: not as good "
    "with x times as many, the most that it was given; “< x”: its smallest size is already better."
)


class Report(NamedTuple):
    """Findings of a study's results."""

    name: str
    path: Path
    """The page."""
    verdict: str
    tables: list[Table]
    """Every metric of every method, a table a size."""
    failures: Mapping[str, str]
    """Why cells failed, by cell."""


def run(study: Study, out: Path, options: runner.RunnerOptions) -> Report:
    """Run the cells that are missing, and write the page.

    Raises:
        RecipeError: a cell failed; the page has the others.
        LingraftError: as `runner.run`.
    """
    failed = runner.run(study, out, options)
    report = write(out) if (out / RESULTS).is_file() else None
    if failed or report is None:
        raise RecipeError(f"failed: {', '.join(failed)}; the command without --force tries again")
    return report


def write(folder: Path) -> Report:
    """Write the page of a study again.

    Raises:
        LingraftError: there are no results, or they are broken.
    """
    path, known = folder / runner.STUDY, runner.current(folder)
    study = checked(Study, load(path), str(path)) if path.is_file() else None
    name, select = (study.name, study.select) if study else (folder.name, {})
    results, target = collect(known.rows, select, known.failures), folder / runner.PAGE
    check_target(target)
    found = findings(name, target, results)
    write_text(target, render(found, results, known.planned, to_toml(study) if study else ""))
    return found


def findings(name: str, target: Path, results: Results) -> Report:
    """Return the verdict and the tables of a study, for its page and the terminal."""
    resampling = Resampling()
    tables = [quality(results, size, resampling) for size in results.sizes]
    return Report(name, target, verdict(results, resampling), tables, results.failures)


def render(found: Report, results: Results, planned: Sequence[str] = (), settings: str = "") -> str:
    """Return the page.

    Args:
        found: what the page says.
        results: all that is known.
        planned: ids of all cells of the study.
        settings: the study's file.
    """
    facts = {cell.name: cell.facts for cell in results.cells}
    machines = {str(of.get("device") or of.get("cpu") or "") for of in facts.values()}
    seconds = sum(float(of.get("seconds") or 0) for of in facts.values())
    failed = [PageText(f"{cell}: {message}", "item") for cell, message in results.failures.items()]
    return writer.page(
        f"Study {found.name}",
        found.verdict,
        [
            *section("Failed; the command that ran the study tries again", *failed),
            *sections(results, found.tables),
            *section("Settings", Folded("The study file in full", [PageText(settings, "code")])),
        ],
        facts=[
            ("cells done", f"{len(facts)} of {max(len(planned), len(facts))}"),
            ("time of all cells", numbers.duration(seconds)),
            ("machine", ", ".join(sorted(machines))),
        ],
        made_from="results.jsonl",
    )


def sections(results: Results, tables: Sequence[Table]) -> list[writer.Part]:
    """Return the parts of the page that the results allow; the largest size first.

    Args:
        results: all that is known.
        tables: one a size.
    """
    sizes, metrics, reference = results.sizes[::-1], shown(results), results.reference
    worth = factors(results, metrics, Resampling())
    parts: list[writer.Part] = []
    for size, of_size in zip(sizes, reversed(tables), strict=True):
        parts += section(f"How good is each method? {size_text(size)}", of_size)
    beneath = BENEATH.format(reference) if reference else ""
    parts += [PageText(MEANS + beneath, "note")]
    parts += section("How do they learn?", learning(results, sizes[0]) if sizes else None)
    return parts + section(
        "How much data is it worth?",
        worth,
        PageText(WORTH.format(reference), "note") if worth else None,
        *(against_data(results, name) for name in metrics),
    )


def shown(results: Results) -> list[str]:
    """Return the metrics of which tables have a column: known ones that some cell has."""
    names = dict.fromkeys(m for cell in results.cells for m in (*cell.metrics, *cell.tasks))
    known = [name for name in METRICS if name in names]
    others = [name for name in names if name not in METRICS and name != LOSS]
    return known + [name for name in others if analysis.metric_named(name) is not None]


def size_text(size: int | None) -> str:
    """Return a size as a heading says it."""
    return "all sentences" if size is None else f"{size:,} sentences"


def quality(results: Results, size: int | None, resampling: Resampling) -> Table:
    """Return every method's scores at one size, and how they differ from the reference's."""
    groups = results.at(size)
    metrics = [name for name in shown(results) if any(group.rows(name) for group in groups)]
    columns = {name: _column(results, groups, name, resampling) for name in metrics}
    rows = []
    for group in groups:
        tokens = [float(cell.facts.get("tokens") or 0) for cell in group.cells]
        short = numbers.short(sum(tokens) / len(tokens))
        cells = [columns[name][group.label] for name in metrics]
        kind: Role = "reference" if group.is_untrained else ""
        rows.append(
            row(TableCell(group.label, group.chosen), *cells, str(len(tokens)), short, role=kind)
        )
    head = ("method", *_titles(metrics), "seeds", "tokens")
    marks = any(cell.mark for column in columns.values() for cell in column.values())
    return table(size_text(size), head, rows, [OTHER_NOTE] * marks)


def _titles(metrics: Iterable[str]) -> list[str]:
    return [record.title for record in map(analysis.metric_named, metrics) if record is not None]


def _column(
    results: Results, groups: Sequence[SeedGroup], metric: str, resampling: Resampling
) -> dict[str, TableCell]:
    """Return a metric's cells by label; the best of those that compare is marked."""
    record, cells = analysis.metric_named(metric), dict[str, TableCell]()
    assert record is not None
    alike = comparable(groups, metric)
    means = [g.mean(metric) or 0.0 for g in alike]
    best = (min if record.lower else max)(means) if len(means) > 1 else None
    by_label = {group.label: group for group in groups}
    for group in groups:
        base = by_label.get(results.base_of(group) or "")
        mean, spread = group.mean(metric), group.deviation(metric)
        decimals = len(record.show(mean).partition(".")[2])
        under = [] if spread is None else [f"± {numbers.fixed(spread, decimals)}"]
        gap = None if base is None else analysis.difference(group, base, metric, resampling)
        if gap is not None:
            bounds = numbers.between(gap.low, gap.high, decimals, sign=True)
            p = "" if gap.larger_p is None else numbers.probability(gap.larger_p)
            under.append(f"{numbers.signed(gap.value, decimals)} {bounds}\n{p}".rstrip())
        rank = BEST if group in alike and mean == best else 0
        mark = "" if group in alike or mean is None or not math.isfinite(mean) else OTHER
        cells[group.label] = TableCell(record.show(mean), "\n".join(under), rank, mark)
    return cells


def comparable(groups: Sequence[SeedGroup], metric: str) -> list[SeedGroup]:
    """Return the groups that were asked for the same as most were."""
    means = [(group, group.mean(metric)) for group in groups]
    having = [group for group, mean in means if mean is not None and math.isfinite(mean)]
    counts = Counter(analysis.asked(group, metric) for group in having)
    common = max(counts, key=counts.__getitem__, default=None)
    return [group for group in having if analysis.asked(group, metric) == common]


def factors(results: Results, metrics: Sequence[str], resampling: Resampling) -> Table | None:
    """Return how many times more data the reference needs; None without one of several sizes."""
    rows = []
    metrics = [LOSS if name == PERPLEXITY else name for name in metrics]  # by its logarithm
    for label in results.labels:
        for group in results.of(label):
            if len(baseline := results.of(results.base_of(group))) < 2:
                continue
            found = [analysis.factor(group, baseline, metric, resampling) for metric in metrics]
            cells = [TableCell(*one.shown()) if one else TableCell(numbers.ABSENT) for one in found]
            rows.append(row(label, f"{group.sentences:,}", *cells))
    head = ("method", "sentences", *_titles(metrics))
    return table(f"Times the text of {results.reference}", head, rows).filled() if rows else None


def verdict(results: Results, resampling: Resampling) -> str:
    """Say who wins at the largest size, and whether that is more than luck."""
    if not results.groups:
        return "No verdict yet: no cell has ended."
    size = results.sizes[-1]
    every = {tuple(cell.name for cell in g.cells): g for g in reversed(results.at(size))}
    models = list(every.values())  # fine-tuned in several ways they are one
    by = {metric: comparable(models, metric) for metric in TITLES}
    metric = max(TITLES, key=lambda name: len(by[name]))
    groups = sorted(by[metric], key=lambda group: group.mean(metric) or 0.0)
    if len(groups) < 2:
        return "At the largest size there is nothing to compare yet."
    first, second = groups[:2]
    values = [METRICS[metric].show(group.mean(metric)) for group in groups]
    last = f", the last one {values[-1]}" if len(groups) > 2 else ""
    best = (
        f"With {size_text(size)}, {first.trained} is best of {len(groups)}: {TITLES[metric]} "
        f"{values[0]}, {second.trained} {values[1]}{last}."
    )
    means = {group.trained: group.mean(metric) for group in models}
    if broken := [name for name, mean in means.items() if mean is not None and mean != mean]:
        best += f" {', '.join(broken)}: a score is no number."
    floor, mean = first.mean(UNIGRAMS), first.mean(PERPLEXITY)
    if floor is not None and mean is not None and mean >= floor:
        best += f" But {first.trained} is no better than guessing by frequency."
    gap = analysis.difference(first, second, metric, resampling)
    if gap is None or (p := gap.larger_p) is None:
        return f"{best} Whether its lead over {second.trained} is luck is not known."
    if gap.value >= 0:  # lower is better; means are over each one's own seeds
        return f"{best} On the seeds that both have it is not ahead of {second.trained}."
    luck = "is more than luck" if p < ALPHA else "may be luck"
    alone = "" if gap.trained > 1 else " on this test text; one seed tells nothing of others"
    return f"{best} Its lead over {second.trained} {luck} ({numbers.probability(p)}){alone}."


def learning(results: Results, size: int | None) -> Figure | None:
    """Draw the validation loss at one size against the tokens of training; means over the seeds."""
    lines = []
    for group in results.at(size):
        rows = [cell.metrics[CURVE] for cell in group.cells if CURVE in cell.metrics]
        curves = [np.array(row.points, dtype=np.float64).T for row in rows if row.points]
        if curves:
            x = curves[0][0]
            y = np.array([np.interp(x, *curve) for curve in curves])
            band = (y.min(0).tolist(), y.max(0).tolist()) if len(curves) > 1 else None
            mean = y.mean(0).tolist()
            lines.append(
                Series(group.label, x.tolist(), mean, results.labels.index(group.label), band=band)
            )
    axes = ("tokens", "validation loss (nats)")
    caption = f"Validation loss against tokens, {size_text(size)}: mean over the seeds; bands: "
    return Figure("learning", axes, lines, f"{caption}lowest to highest seed.") if lines else None


def against_data(results: Results, metric: str) -> Figure | None:
    """Draw a metric against the amount of data; None with fewer than two sizes that have it."""
    lines = []
    for index, label in enumerate(results.labels):
        points = [
            (float(group.sentences or 0), mean, min(values), max(values))
            for group in results.of(label)
            if (mean := group.mean(metric)) is not None and math.isfinite(mean)
            for values in [group.values(metric)]
        ]
        if len(points) > 1:
            x, y, low, high = zip(*points, strict=True)
            lines.append(Series(label, x, y, index, band=None if low == high else (low, high)))
    (title,) = _titles([metric])
    caption = f"{title} against sentences: mean over the seeds; bands: lowest to highest seed."
    name = "data-" + metric.replace("/", "-").replace("@", "").replace("_", "-")
    return Figure(name, ("sentences", title), lines, caption, over_sizes=True) if lines else None
