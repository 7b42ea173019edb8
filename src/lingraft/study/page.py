"""The page of a study: one table a size, differences, what data is worth, and curves."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from lingraft.log import counted
from lingraft.report import numbers
from lingraft.report import page as writer
from lingraft.report.page import Folded, Text, section
from lingraft.report.table import BEST, Cell, row, table
from lingraft.stats import Resampling
from lingraft.study import figures
from lingraft.study.analysis import (
    BITS,
    BYTES,
    LOSS,
    METRICS,
    PERPLEXITY,
    TASK,
    UNIGRAMS,
    asked,
    difference,
    factor,
    metric_named,
)
from lingraft.study.figures import size_text
from lingraft.study.results import by_examples

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingraft.report.figure import Figure
    from lingraft.report.page import Part
    from lingraft.report.table import Role, Table
    from lingraft.stats import Difference
    from lingraft.study.results import Group, Results

TITLES = {PERPLEXITY: "perplexity", BITS: "bits per character", BYTES: "bits per byte"}
"""Scores for a verdict: it is by what compares most of the models, the first of equals."""
COMPARED = (PERPLEXITY, BITS, BYTES, "mask-only/hits@1", "mask-only/mrr")
ALPHA = 0.05
"""A larger p separates nothing."""
OTHER = "†"
OTHER_NOTE = (
    f"{OTHER} measured on other tokens, words or text (another vocabulary, say): it does not "
    "compare with the others of its column."
)
MEANS = (
    "Mean ± sample standard deviation over the seeds (of tasks, all fine-tunings). The best of a "
    "column is marked. Lower is better, but for hits, MRR and scores of tasks."
)
INTERVALS = (
    "95 % intervals and two-sided p over the seeds that both have: paired bootstrap of blocks of "
    "the test text and of seeds. “over 3 seeds”: p of a paired t-test over the seeds; believe it "
    "where it is larger. With one seed nothing is known of others."
)


def render(name: str, results: Results, planned: Sequence[str] = (), settings: str = "") -> str:
    """Return the page.

    Args:
        name: of the study.
        results: all that is known.
        planned: ids of all its cells.
        settings: the study's file.
    """
    resampling, done = Resampling(), {cell.name for cell in results.cells}
    seconds = sum({c.name: float(c.facts.get("seconds") or 0) for c in results.cells}.values())
    total = max(len(planned), len(done))
    facts = [
        ("cells", f"{len(done)} of {total}" if total > len(done) else str(total)),
        ("seeds", str(len({cell.seed for cell in results.cells}))),
        ("time of all cells", numbers.duration(seconds)),
        *_machine(results),
    ]
    missing = [cell for cell in planned if cell not in done | results.failures.keys()]
    return writer.page(
        f"Study {name}",
        verdict(results, resampling),
        [
            *_lacking(results, missing),
            *sections(results, resampling),
            *(section("Settings", _folded("The study file in full", settings)) if settings else ()),
        ],
        facts=facts,
        made_from="results.jsonl",
    )


def _folded(title: str, code: str) -> Folded:
    return Folded(title, [Text(code, "code")])


def _lacking(results: Results, missing: Sequence[str]) -> list[Part]:
    """Name the cells that failed, and those that are still to run."""
    failed = [Text(f"{cell}: {message}", "item") for cell, message in results.failures.items()]
    again = "failed; the command that ran the study tries them again."
    return section(
        "What is not there",
        Text(f"{counted(len(failed), 'cell')} {again}") if failed else None,
        *failed,
        _folded(f"{len(missing)} still to run", "\n".join(missing)) if missing else None,
    )


def _machine(results: Results) -> Iterable[tuple[str, str]]:
    for key in ("device", "cpu", "precision"):
        values = Counter(str(cell.facts.get(key) or "") for cell in results.cells)
        values.pop("", None)
        several = values.items() if len(values) > 1 else ()
        if values:
            yield key, ", ".join([f"{value} (in {n})" for value, n in several] or values)


def sections(results: Results, resampling: Resampling) -> list[Part]:
    """Return the parts of the page that the results allow; the largest size first."""
    sizes, metrics = results.sizes[::-1], shown(results)
    compared = [name for name in metrics if name in COMPARED or name not in METRICS]
    curve = by_examples(results)
    gaps = [differences(results, size, compared, resampling) for size in sizes]
    drawn = (figures.learning(results, size) for size in sizes)
    return [
        *section("How good is each method?", *_titled(quality(results, size) for size in sizes)),
        *([Text(MEANS, "note")] if sizes else []),
        *(section("Is the difference real?", *_titled(gaps)) if any(gaps) else ()),
        *([Text(INTERVALS, "note")] if any(gaps) else []),
        *_worth("How much data is it worth?", results, compared, resampling),
        *(
            _worth("How many examples is it worth?", curve, shown(curve), resampling)
            if curve
            else ()
        ),
        *section("How do they learn?", *_first_of(drawn)),
    ]


def _titled(tables: Iterable[Table | None]) -> list[Part]:
    """Put each table under its title."""
    return [
        part
        for one in tables
        if one
        for part in section(one.title[0].upper() + one.title[1:], one, level=3)
    ]


def _first_of(drawn: Iterable[Figure | None]) -> list[Part]:
    """Show the first figure, and fold the others away."""
    first, rest = (there := [one for one in drawn if one])[:1], there[1:]
    return [*first, *([Folded(f"{len(rest)} more", rest)] if rest else [])]


def _worth(
    heading: str, results: Results, metrics: Sequence[str], resampling: Resampling
) -> list[Part]:
    """Return what more data brings, and how many times more the reference needs."""
    if results.counted == "examples":
        metrics = [name for name in metrics if name.startswith(TASK)]
    reached = [LOSS if name == PERPLEXITY else name for name in metrics]  # perplexity by its log
    worth = factors(results, reached, resampling)
    note = (
        f"How many times more {results.counted} {results.reference} needs to be as good, with "
        "95 % intervals: straight lines over the logarithm of the size between its means, nothing "
        "extrapolated. “> x”: not as good with x times as many, the most that it was given; “< x”: "
        "its smallest size is already better."
    )
    drawn = (figures.against_data(results, name) for name in metrics)
    return section(heading, worth, Text(note, "note") if worth else None, *_first_of(drawn))


def shown(results: Results) -> list[str]:
    """Return the metrics of which tables have a column: known ones that some cell has."""
    names = dict.fromkeys(m for cell in results.cells for m in (*cell.metrics, *cell.tasks))
    known = [name for name in METRICS if name in names]
    others = [name for name in names if name not in METRICS and name != LOSS]
    return known + [name for name in others if metric_named(name) is not None]


def quality(results: Results, size: int | None) -> Table:
    """Return every metric of every method at one size."""
    groups, metrics = results.at(size), shown(results)
    metrics = [name for name in metrics if any(group.rows(name) for group in groups)]
    columns = {name: _column(groups, name, results.reference) for name in metrics}
    rows = []
    for group in groups:
        tokens = [float(cell.facts.get("tokens") or 0) for cell in group.cells]
        parameters = float(group.cells[-1].facts.get("parameters") or 0)
        costs = (
            str(len(tokens)),
            numbers.short(sum(tokens) / len(tokens)),
            numbers.short(parameters),
        )
        cells = [columns[name][group.label] for name in metrics]
        kind: Role = "reference" if group.is_untrained else ""
        rows.append(row(group.label, *cells, *costs, role=kind))
    floor = [value for group in groups for value in group.values(UNIGRAMS)]
    if floor and PERPLEXITY in metrics:
        blank = [numbers.ABSENT] * (len(metrics) + 2)
        unigrams = numbers.significant(sum(floor) / len(floor))
        rows.append(row("unigrams", unigrams, *blank, role="reference"))
    head = ("method", *_titles(metrics), "seeds", "tokens", "parameters")
    marks = any(cell.mark for column in columns.values() for cell in column.values())
    return table(size_text(size), head, rows, [OTHER_NOTE] * marks)


def _titles(metrics: Iterable[str]) -> list[str]:
    records = (metric_named("mask-only/perplexity" if m == LOSS else m) for m in metrics)
    return [record.title for record in records if record is not None]


def _column(groups: Sequence[Group], metric: str, reference: str | None) -> dict[str, Cell]:
    """Return a metric's cells by label; the best of those that compare is marked."""
    record, cells = metric_named(metric), dict[str, Cell]()
    assert record is not None
    alike = comparable(groups, metric, reference)
    means = [g.mean(metric) or 0.0 for g in alike]
    best = (min if record.lower else max)(means) if len(means) > 1 else None
    for group in groups:
        mean, spread = group.mean(metric), group.deviation(metric)
        decimals = len(record.show(mean).partition(".")[2])
        under = "" if spread is None else f"± {numbers.fixed(spread, decimals)}"
        rank = BEST if group in alike and mean == best else 0
        mark = "" if group in alike or mean is None else OTHER
        cells[group.label] = Cell(record.show(mean), under, rank, mark)
    return cells


def comparable(groups: Sequence[Group], metric: str, reference: str | None) -> list[Group]:
    """Return the groups that were asked for the same as the reference, else as most were."""
    means = [(group, group.mean(metric)) for group in groups]
    having = [group for group, mean in means if mean is not None and math.isfinite(mean)]
    counts = Counter(asked(group, metric) for group in having)
    own = [asked(group, metric) for group in having if group.label == reference]
    common = own[0] if own else max(counts, key=counts.__getitem__, default=None)
    return [group for group in having if asked(group, metric) == common]


def differences(
    results: Results, size: int | None, metrics: Sequence[str], resampling: Resampling
) -> Table | None:
    """Return each method less the reference at one size; None where there is nothing to compare."""
    groups = results.at(size)
    base = next((group for group in groups if group.label == results.reference), None)
    if base is None or len(groups) < 2:
        return None
    rows = []
    for group in groups:
        cells = [_gap(difference(group, base, m, resampling), group, m) for m in metrics]
        if group is not base:
            rows.append(row(group.label, *cells))
    head = (f"less {base.label}", *_titles(metrics))
    return table(f"differences, {size_text(size)}", head, rows)


def _gap(gap: Difference | None, group: Group, metric: str) -> Cell:
    """Return a difference as `−118.2 [−130.1, −110.4] p < 0.001, over 3 seeds 0.023`."""
    record = metric_named(metric)
    if gap is None or record is None:
        return Cell(numbers.ABSENT)
    decimals = len(record.show(group.mean(metric)).partition(".")[2])
    value = Cell(numbers.signed(gap.value, decimals))
    if gap.low is None or gap.p is None:
        return value
    tested = numbers.tested(gap.p, gap.p_seeds, gap.trained)
    bounds = numbers.between(gap.low, gap.high, decimals, sign=True)
    return replace(value, under=f"{bounds} {tested}{', text alone' if gap.trained == 1 else ''}")


def factors(results: Results, metrics: Sequence[str], resampling: Resampling) -> Table | None:
    """Return how many times more data the reference needs; None without one of several sizes."""
    baseline, rows = results.of(results.reference or ""), []
    for label in results.labels:
        for group in results.of(label) if label != results.reference and baseline else ():
            found = [factor(group, baseline, metric, resampling) for metric in metrics]
            cells = [Cell(*one.shown()) if one else Cell(numbers.ABSENT) for one in found]
            rows.append(row(label, f"{group.sentences:,}", *cells))
    head = ("method", results.counted, *_titles(metrics))
    title = f"times the {results.counted} that {results.reference} needs"
    return table(title, head, rows).filled() if rows and len(baseline) > 1 else None


def verdict(results: Results, resampling: Resampling) -> str:
    """Say who wins at the largest size, and whether that is more than luck."""
    if not results.groups:
        return "No verdict yet: no cell has ended."
    size, reference = results.sizes[-1], results.reference
    by = {metric: comparable(results.at(size), metric, reference) for metric in TITLES}
    metric = max(TITLES, key=lambda name: len(by[name]))
    groups = sorted(by[metric], key=lambda group: group.mean(metric) or 0.0)
    if len(groups) < 2:
        return "At the largest size there is nothing to compare yet."
    first, second = groups[:2]
    others = dict.fromkeys([second.label, *(g.label for g in groups[1:] if g.label == reference)])
    show = {g.label: METRICS[metric].show(g.mean(metric)) for g in groups}
    beside = ", ".join(f"{label} {show[label]}" for label in others)
    said = (
        f"With {size_text(size)}, {first.label} is best of {len(groups)}: {TITLES[metric]} "
        f"{show[first.label]}, {beside}."
    )
    gap = difference(first, second, metric, resampling)
    if gap is None or (p := gap.larger_p) is None:
        return f"{said} Whether its lead over {second.label} is luck is not known."
    luck = "its lead over" if p < ALPHA else "nothing separates it from"
    more = " is more than luck" if p < ALPHA else ""
    alone = "" if gap.trained > 1 else " on this test text; one seed tells nothing of others"
    floor, mean = first.mean(UNIGRAMS), first.mean(PERPLEXITY)
    learnt = floor is None or mean is None or mean < floor
    nothing = "" if learnt else f" But {first.label} is no better than guessing by frequency."
    clause = f"{luck} {second.label}{more} ({numbers.probability(p)}){alone}."
    return f"{said} {clause[0].upper()}{clause[1:]}{nothing}"
