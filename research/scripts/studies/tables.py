"""The tables of a study."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from lingraft.report import numbers
from lingraft.report.table import BEST, Column, TableCell, row, table
from lingraft.report.variants import TITLES
from studies.analysis import difference, incomparable
from studies.entries import MIXED, MIXED_PAIRS, interval, mixed_means, named, spread
from studies.factor import factor
from studies.metrics import BITS, LOSS, PERPLEXITY, TASK, UNIGRAMS, metric_named
from studies.notes import (
    OTHER_MASKS,
    OTHER_WORDS,
    alike,
    left_out,
    quality_notes,
    unknown_note,
    words_note,
)
from studies.results import INITIALIZER, RANDOM, size_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingraft.report.table import Table, TableRow
    from lingraft.stats import Resampling
    from studies.results import Group, Results
    from studies.rows import MetricRow

QUALITY = (
    PERPLEXITY,
    *(f"mask-only/hits@{k}" for k in (1, 3, 5, 10)),
    "mask-only/mrr",
    "mask-only/mr",
    BITS,
)
"""Columns of Lee et al. 2021, Table 2, and bits per character."""
COMPARED = (PERPLEXITY, BITS, "mask-only/hits@1", "mask-only/mrr")
REACHED = (LOSS, BITS, "mask-only/hits@1", "mask-only/mrr")
BASES = "the base recipe's"
"""Where a cell names no initializer."""


def quality(results: Results, sentences: int | None) -> Table:
    """Every metric of every label at one size, mean ± sample standard deviation over the seeds."""
    groups = results.at(sentences)
    main = _main(results, groups)
    best = _best(groups, main)
    rows = [
        row(
            named(group),
            *(_measured(group, metric, main, best) for metric in QUALITY),
            *costs(group),
            role="reference" if group in results.floors else "",
        )
        for group in (*groups, *results.floors)
    ]
    head = ("method", *titles(QUALITY), "seeds", "tokens", "parameters", "trained")
    same = [group for group in groups if alike(group, main, PERPLEXITY)]
    floor = [value for group in same for value in group.values(UNIGRAMS)]
    if floor:
        unigrams = numbers.significant(sum(floor) / len(floor))
        blank = [numbers.ABSENT] * (len(head) - 2)
        rows.append(row("unigrams", unigrams, *blank, role="reference"))
    notes = (*quality_notes((*groups, *results.floors), main), *mixed_means(groups))
    return table(size_text(sentences), head, rows, notes)


def titles(metrics: Iterable[str]) -> Iterable[str]:
    """What the columns of metrics are called; a factor by the loss is one by perplexity."""
    return ("PPL" if metric == LOSS else metric_named(metric).title for metric in metrics)


def _main(results: Results, groups: Sequence[Group]) -> Group:
    """The reference, else one of those with the commonest masks: others are compared with it.

    One whose training diverged only where all did.
    """
    reference = results.reference()
    counted = Counter(group.masks() for group in groups)

    def rank(group: Group) -> tuple[bool, bool, int]:
        diverged = group.sound(PERPLEXITY) is None
        return not diverged, group.label == reference, counted[group.masks()]

    return max(groups, key=rank)


def _best(groups: Sequence[Group], main: Group) -> dict[str, float | None]:
    """By metric, the best mean among groups that compare; none where there is but one."""
    return {
        metric: best_sound((g for g in groups if alike(g, main, metric)), metric)
        for metric in QUALITY
    }


def best_sound(rivals: Iterable[Group], metric: str) -> float | None:
    """The best mean that is a number; None with fewer than two of them."""
    means = [mean for group in rivals if (mean := group.sound(metric)) is not None]
    pick = min if metric_named(metric).lower else max
    return pick(means) if len(means) > 1 else None


def _measured(group: Group, metric: str, main: Group, best: dict[str, float | None]) -> TableCell:
    cell = marked(spread(group, metric), group, main, metric)
    return ranked(cell, group, metric, best[metric] if alike(group, main, metric) else None)


def ranked(cell: TableCell, group: Group, metric: str, best: float | None) -> TableCell:
    """The cell, marked where the group's mean is the best one."""
    return replace(cell, rank=BEST if best is not None and group.mean(metric) == best else 0)


def best_of(groups: Iterable[Group], metric: str) -> float | None:
    """`best_sound` of those groups that have a metric; None where they do not compare."""
    rivals = [group for group in groups if group.rows(metric)]
    return None if incomparable(rivals, metric) is not None else best_sound(rivals, metric)


def marked(cell: TableCell, group: Group, main: Group, metric: str) -> TableCell:
    """The cell with a sign where its metric was measured on other tokens or words than `main`'s.

    A sum over words compares roughly with one over most of them; one over tokens of another
    vocabulary does not.
    """
    if alike(group, main, metric) or cell.text == numbers.ABSENT:
        return cell
    sign = OTHER_MASKS if metric_named(metric).by_tokens else OTHER_WORDS
    return replace(cell, mark=cell.mark + sign)


def costs(group: Group) -> tuple[str, ...]:
    """Seeds, tokens, parameters, and those that were trained."""
    ends = [cell.end for cell in group.cells]
    last = ends[-1]
    trained = dict.fromkeys(numbers.short(n) for n in last.trained_parameters.values())
    return (
        str(len(ends)),
        numbers.short(sum(end.tokens for end in ends) / len(ends)),
        numbers.short(last.parameters),
        ", ".join(trained) or numbers.ABSENT,
    )


def differences(
    results: Results,
    sentences: int | None,
    resampling: Resampling,
    metrics: Sequence[str] = COMPARED,
) -> Table | None:
    """Each label less the reference at one size; None where there is nothing to compare.

    Args:
        results: the study's results.
        sentences: the size.
        resampling: how intervals are drawn.
        metrics: one a column; beside those of tasks stand the floors too.
    """
    of_tasks = any(metric.startswith(TASK) for metric in metrics)
    groups = measured(results.at(sentences), metrics)
    floors = measured(results.floors, metrics) if of_tasks else []
    base = next((group for group in groups if group.label == results.reference()), None)
    if base is None or len(groups) + len(floors) < 2:
        return None
    notes: dict[str, None] = {}
    rows = []
    for group in (*groups, *floors):
        if group is not base:
            cells = [_less(group, base, metric, resampling, notes) for metric in metrics]
            rows.append(row(group.label, *cells, role="reference" if group in floors else ""))
    return table(size_text(sentences), (f"less {base.label}", *titles(metrics)), rows, notes)


def measured(groups: Iterable[Group], metrics: Sequence[str]) -> list[Group]:
    """The groups that have one of the metrics or more."""
    return [group for group in groups if any(group.rows(metric) for metric in metrics)]


def _less(
    group: Group, base: Group, metric: str, resampling: Resampling, notes: dict[str, None]
) -> TableCell:
    """A group less the base; what there is to say of it is added to the notes."""
    if apart(group, base, metric) is not None:
        if not metric.startswith(TASK):
            notes.setdefault(left_out(group, metric, base))
        return TableCell(numbers.ABSENT)
    gap = difference(group, base, metric, resampling)
    if gap.mixed:
        notes.setdefault(MIXED_PAIRS)
    both = [group, base]
    beneath = (*words_note(both, base, metric), *unknown_note(both, base, metric))
    notes |= dict.fromkeys(beneath)
    return marked(interval(gap, group.mean(metric) or 0.0, metric), group, base, metric)


def apart(group: Group, base: Group, metric: str) -> str | None:
    """Why two groups cannot be subtracted; None if they can."""
    reason = incomparable((group, base), metric)
    if reason is None and not group.rows(metric).keys() & base.rows(metric).keys():
        return f"{group.label} and {base.label} have no seed in common"
    return reason


def factors(
    results: Results, resampling: Resampling, metrics: Sequence[str] = REACHED
) -> Table | None:
    """How many times more data the reference needs; None without a reference of known sizes."""
    reference = results.reference()
    baseline = [
        g for g in measured(results.of(reference or ""), metrics) if g.sentences is not None
    ]
    notes: dict[str, None] = {}
    rows: list[TableRow] = []
    for group in (
        group for label in results.labels for group in measured(results.of(label), metrics)
    ):
        if group.label != reference and group.sentences is not None and baseline:
            cells = [_factor(group, baseline, metric, resampling, notes) for metric in metrics]
            rows.append(row(group.label, f"{group.sentences:,}", *cells))
    if not rows:
        return None
    title = f"times the data that {reference} needs"
    return table(title, ("method", results.counted, *titles(metrics)), rows, notes)


def _factor(
    group: Group,
    baseline: Sequence[Group],
    metric: str,
    resampling: Resampling,
    notes: dict[str, None],
) -> TableCell:
    """The factor of a group; what there is to say of it is added to the notes."""
    same = [g for g in baseline if g.rows(metric)]
    if not same or incomparable((group, *same), metric) is not None:
        if not metric.startswith(TASK):
            notes.setdefault(left_out(group, metric, *baseline))
        return TableCell(numbers.ABSENT)
    if metric == BITS:
        notes |= dict.fromkeys(words_note([group, same[0]], same[0]))
    return marked(
        TableCell(*factor(group, same, metric, resampling).shown()), group, same[0], metric
    )


def initializers(
    results: Results,
    resampling: Resampling,
    metrics: Sequence[str] = COMPARED,
    by: str = BITS,
    main: Group | None = None,
) -> Table | None:
    """Initializers of the embeddings side by side; None where that axis does not vary.

    Args:
        results: the study's results.
        resampling: how intervals are drawn.
        metrics: one a column.
        by: the metric in which they are subtracted.
        main: what was measured on other tokens, words or texts than this one's is marked; the first
            initializer's by default, with notes on masked tokens.
    """
    groups = [group for size in results.sizes for group in results.initialised(size)]
    names = {_initializer(group) for group in groups}
    if len(names) < 2:
        return None
    gains = [_gain(group, groups, resampling, by) for group in groups]
    places = [group.beside for group in groups]
    equal = {key for key in places[0] if len({repr(place.get(key)) for place in places}) == 1}
    equal -= {"method"}
    marked_by = main or groups[0]
    rows = [
        row(
            _initializer(group),
            ", ".join(
                TITLES.get(str(place), str(place))
                for key, place in group.beside.items()
                if key not in equal
            ),
            numbers.ABSENT if group.sentences is None else f"{group.sentences:,}",
            *(marked(spread(group, m), group, marked_by, m) for m in metrics),
            gain,
            str(len(group.cells)),
        )
        for group, gain in zip(groups, gains, strict=True)
    ]
    less = " or ".join(name for name in (RANDOM, BASES) if name in names)
    named_columns = ("initializer", "method", "sentences")
    gained = f"{metric_named(by).title} less {less}"
    head = (*named_columns, *titles(metrics), gained, "seeds")
    mixed = (MIXED_PAIRS,) if any(MIXED in gain.mark for gain in gains) else ()
    notes = (*(quality_notes(groups, groups[0]) if main is None else ()), *mixed)
    return table("initializers of the embeddings", head, rows, notes)


def _initializer(group: Group) -> str:
    return str(group.further.get(INITIALIZER, BASES))


def _gain(group: Group, groups: Sequence[Group], resampling: Resampling, by: str) -> TableCell:
    """A group's metric less that of `random`, or of the base recipe's initializer."""
    same = [g for g in groups if (g.sentences, g.beside) == (group.sentences, group.beside)]
    base = next((g for g in same if _initializer(g) in (RANDOM, BASES)), group)
    if group is base or apart(group, base, by) is not None:
        return TableCell(numbers.ABSENT)
    gap = difference(group, base, by, resampling)
    return marked(interval(gap, group.mean(by) or 0.0, by), group, base, by)


def machines(results: Results) -> Table:
    """What the cells ran on and with; where they differ, in how many cells each."""
    ends = [cell.end for cell in results.cells]
    names = dict.fromkeys(name for end in ends for name in {**end.machine, **end.versions})
    rows = []
    for name in names:
        values = Counter(str({**end.machine, **end.versions}.get(name, "")) for end in ends)
        texts = [
            value if len(values) == 1 else f"{value or numbers.ABSENT} (in {count})"
            for value, count in values.items()
        ]
        rows.append((name, ", ".join(texts)))
    return table("machine", ("", Column("", "long")), rows)


def cells(results: Results, metrics: Sequence[str] = (PERPLEXITY, BITS)) -> Table:
    """Every cell that has ended well."""
    rows = [
        (
            cell.name,
            group.label,
            numbers.ABSENT if group.sentences is None else f"{group.sentences:,}",
            str(cell.seed),
            *(metric_named(m).show(_value(cell.metrics.get(m))) for m in metrics),
            numbers.short(cell.end.tokens),
            numbers.duration(cell.end.seconds),
            "".join(sorted({row.masks for row in cell.metrics.values()})[:1])[:8],
        )
        for group in (*results.groups, *results.floors)
        for cell in group.cells
    ]
    head = ("cell", "method", "sentences", "seed", *titles(metrics), "tokens", "time", "masks")
    return table("cells", head, rows)


def _value(row: MetricRow | None) -> float | None:
    return None if row is None else row.value
