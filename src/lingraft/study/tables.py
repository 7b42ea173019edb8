"""The tables of a study, as text that page, document and terminal each lay out in their own way."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.table import Table as RichTable
from rich.text import Text

from lingraft.report import numbers
from lingraft.report.rows import TITLES
from lingraft.study.analysis import difference, incomparable
from lingraft.study.entries import (
    MIXED,
    MIXED_PAIRS,
    Entry,
    Line,
    Table,
    interval,
    mixed_means,
    named,
    spread,
)
from lingraft.study.factor import factor
from lingraft.study.notes import (
    OTHER_MASKS,
    OTHER_WORDS,
    asked,
    left_out,
    quality_notes,
    ties_note,
    words_note,
)
from lingraft.study.results import (
    BITS,
    INITIALISER,
    LOSS,
    METRICS,
    PERPLEXITY,
    RANDOM,
    UNIGRAMS,
    collect,
    metric_named,
    size_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.stats import Resampling
    from lingraft.study.results import Group, Results
    from lingraft.study.rows import AnyRow, MetricRow

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
"""Where a cell names no initialiser."""
WIDE = 160


def quality(found: Results, sentences: int | None) -> Table:
    """Every metric of every label at one size, mean ± sample standard deviation over the seeds."""
    groups = found.at(sentences)
    main = _main(found, groups)
    best = _best(groups, main)
    lines = [
        Line(
            (
                Entry(named(group)),
                *(_measured(group, metric, main, best) for metric in QUALITY),
                *(Entry(text) for text in _costs(group)),
            ),
            reference=group in found.floors,
        )
        for group in (*groups, *found.floors)
    ]
    alike = [group for group in groups if asked(group, PERPLEXITY) == asked(main, PERPLEXITY)]
    floor = [value for group in alike for value in group.values(UNIGRAMS)]
    columns = len(QUALITY) + 5
    if floor:
        unigrams = numbers.significant(sum(floor) / len(floor))
        blank = [Entry(numbers.ABSENT)] * (columns - 2)
        lines.append(Line((Entry("unigrams"), Entry(unigrams), *blank), reference=True))
    titles = (METRICS[metric].title for metric in QUALITY)
    head = ("method", *titles, "seeds", "tokens", "parameters", "trained")
    notes = (*quality_notes((*groups, *found.floors), main), *mixed_means(groups))
    return Table(size_text(sentences), head, tuple(lines), notes)


def _main(found: Results, groups: Sequence[Group]) -> Group:
    """The reference, else one of those with the commonest masks: others are compared with it."""
    reference = found.reference()
    counted = Counter(group.masks() for group in groups)
    return max(groups, key=lambda group: (group.label == reference, counted[group.masks()]))


def _best(groups: Sequence[Group], main: Group) -> dict[str, float]:
    """By metric, the best mean among groups that compare; none where there is but one."""
    best = {}
    for metric in QUALITY:
        rivals = [group for group in groups if asked(group, metric) == asked(main, metric)]
        means = [mean for group in rivals if (mean := group.sound(metric)) is not None]
        if len(means) > 1:
            best[metric] = min(means) if METRICS[metric].lower else max(means)
    return best


def _measured(group: Group, metric: str, main: Group, best: dict[str, float]) -> Entry:
    entry = marked(spread(group, metric), group, main, metric)
    alike = asked(group, metric) == asked(main, metric)
    chosen = alike and metric in best and group.mean(metric) == best[metric]
    return replace(entry, best=chosen)


def marked(entry: Entry, group: Group, main: Group, metric: str) -> Entry:
    """The entry with a sign where its metric was measured on other tokens or words than `main`'s.

    A sum over words compares roughly with one over most of them; one over tokens of another
    vocabulary does not.
    """
    if asked(group, metric) == asked(main, metric) or entry.text == numbers.ABSENT:
        return entry
    sign = OTHER_MASKS if metric_named(metric).by_tokens else OTHER_WORDS
    return replace(entry, text=entry.text + sign)


def _costs(group: Group) -> tuple[str, ...]:
    ends = [cell.end for cell in group.cells]
    last = ends[-1]
    trained = dict.fromkeys(numbers.short(n) for n in last.trained_parameters.values())
    return (
        str(len(ends)),
        numbers.short(sum(end.tokens for end in ends) / len(ends)),
        numbers.short(last.parameters),
        ", ".join(trained) or numbers.ABSENT,
    )


def differences(found: Results, sentences: int | None, resampling: Resampling) -> Table | None:
    """Each label less the reference at one size; None where there is nothing to compare."""
    reference = found.reference()
    groups = found.at(sentences)
    base = next((group for group in groups if group.label == reference), None)
    if base is None or len(groups) < 2:
        return None
    notes: dict[str, None] = {}
    lines = []
    for group in groups:
        if group is base:
            continue
        entries = [Entry(group.label)]
        for metric in COMPARED:
            reason = apart(group, base, metric)
            if reason is None:
                found_one = difference(group, base, metric, resampling)
                entry = interval(found_one, group.mean(metric) or 0.0, metric)
                entries.append(marked(entry, group, base, metric))
                if found_one.mixed:
                    notes.setdefault(MIXED_PAIRS)
                if metric == BITS:
                    notes |= dict.fromkeys(words_note([group, base], base))
            else:
                entries.append(Entry(numbers.ABSENT))
                notes.setdefault(left_out(group, base))
        lines.append(Line(tuple(entries)))
    head = (f"less {base.label}", *(METRICS[metric].title for metric in COMPARED))
    return Table(size_text(sentences), head, tuple(lines), tuple(notes))


def apart(one: Group, other: Group, metric: str) -> str | None:
    """Why two groups cannot be subtracted; None if they can."""
    reason = incomparable((one, other), metric)
    if reason is None and not one.rows(metric).keys() & other.rows(metric).keys():
        return f"{one.label} and {other.label} have no seed in common"
    return reason


def factors(found: Results, resampling: Resampling) -> Table | None:
    """How many times more data the reference needs; None without a reference of known sizes."""
    reference = found.reference()
    baseline = [g for g in found.of(reference or "") if g.sentences is not None]
    notes: dict[str, None] = {}
    lines = []
    for label in found.labels:
        for group in found.of(label):
            if label == reference or group.sentences is None or not baseline:
                continue
            entries = [Entry(label), Entry(f"{group.sentences:,}")]
            for metric in REACHED:
                measured = [one for one in baseline if one.rows(metric)]
                reason = incomparable((group, *measured), metric) if measured else "none"
                if reason is None:
                    entry = Entry(*factor(group, measured, metric, resampling).shown())
                    entries.append(marked(entry, group, measured[0], metric))
                    if metric == BITS:
                        notes |= dict.fromkeys(words_note([group, measured[0]], measured[0]))
                else:
                    entries.append(Entry(numbers.ABSENT))
                    notes.setdefault(left_out(group, *baseline))
            lines.append(Line(tuple(entries)))
    if not lines:
        return None
    titles = ("PPL" if metric == LOSS else METRICS[metric].title for metric in REACHED)
    return Table(
        f"times the data that {reference} needs", ("method", "sentences", *titles),
        tuple(lines), tuple(notes),
    )  # fmt: skip


def initialisers(found: Results, resampling: Resampling) -> Table | None:
    """Initialisers of the embeddings side by side; None where that axis does not vary."""
    groups = [group for size in found.sizes for group in found.initialised(size)]
    names = {_initialiser(group) for group in groups}
    if len(names) < 2:
        return None
    lines = [
        Line(
            (
                Entry(_initialiser(group)),
                Entry(", ".join(TITLES.get(str(p), str(p)) for p in group.beside.values())),
                Entry(numbers.ABSENT if group.sentences is None else f"{group.sentences:,}"),
                *(marked(spread(group, m), group, groups[0], m) for m in COMPARED),
                _gain(group, groups, resampling),
                Entry(str(len(group.cells))),
            )
        )
        for group in groups
    ]
    titles = (METRICS[metric].title for metric in COMPARED)
    less = " or ".join(name for name in (RANDOM, BASES) if name in names)
    head = ("initialiser", "method", "sentences", *titles, f"bits/char less {less}", "seeds")
    gains = [line.entries[-2] for line in lines]
    mixed = (MIXED_PAIRS,) if any(entry.text.endswith(MIXED) for entry in gains) else ()
    notes = (*quality_notes(groups, groups[0]), *mixed)
    return Table("initialisers of the embeddings", head, tuple(lines), notes)


def _initialiser(group: Group) -> str:
    return str(group.further.get(INITIALISER, BASES))


def _gain(group: Group, groups: Sequence[Group], resampling: Resampling) -> Entry:
    """A group's bits per character less those of `random`, or of the base recipe's initialiser."""
    same = [g for g in groups if (g.sentences, g.beside) == (group.sentences, group.beside)]
    base = next((g for g in same if _initialiser(g) in (RANDOM, BASES)), group)
    if group is base or apart(group, base, BITS) is not None:
        return Entry(numbers.ABSENT)
    one = difference(group, base, BITS, resampling)
    return marked(interval(one, group.mean(BITS) or 0.0, BITS), group, base, BITS)


def machines(found: Results) -> Table:
    """What the cells ran on and with; where they differ, in how many cells each."""
    ends = [cell.end for cell in found.cells]
    names = dict.fromkeys(name for end in ends for name in {**end.machine, **end.versions})
    lines = []
    for name in names:
        values = Counter(str({**end.machine, **end.versions}.get(name, "")) for end in ends)
        told = [
            value if len(values) == 1 else f"{value or numbers.ABSENT} (in {count})"
            for value, count in values.items()
        ]
        lines.append(Line((Entry(name), Entry(", ".join(told)))))
    return Table("machine", ("", ""), tuple(lines))


def cells(found: Results) -> Table:
    """Every cell that has ended well."""
    metrics = (PERPLEXITY, BITS)
    lines = [
        Line(
            tuple(
                Entry(text)
                for text in (
                    cell.name,
                    group.label,
                    numbers.ABSENT if group.sentences is None else f"{group.sentences:,}",
                    str(cell.seed),
                    *(METRICS[m].show(_value(cell.metrics.get(m))) for m in metrics),
                    numbers.short(cell.end.tokens),
                    numbers.duration(cell.end.seconds),
                    "".join(sorted({row.masks for row in cell.metrics.values()})[:1])[:8],
                )
            )
        )
        for group in (*found.groups, *found.floors)
        for cell in group.cells
    ]
    titles = (METRICS[metric].title for metric in metrics)
    head = ("cell", "method", "sentences", "seed", *titles, "tokens", "time", "masks")
    return Table("cells", head, tuple(lines))


def _value(row: MetricRow | None) -> float | None:
    return None if row is None else row.value


def console(study: Any, rows: Sequence[AnyRow], width: int = WIDE) -> RichTable:
    """The results in short for a terminal; an asterisk marks the best, for those without colours.

    Args:
        study: with a `name`.
        rows: of the results file.
        width: characters in a line; a terminal narrower than `WIDE` gets fewer columns.
    """
    found = collect(rows)
    metrics = QUALITY if width >= WIDE else (PERPLEXITY, "mask-only/hits@1", BITS)
    failed = f", {len(found.failures)} failed" if found.failures else ""
    notes = {note: None for size in found.sizes for note in ties_note(found.at(size))}
    table = RichTable(
        title=f"{study.name}: {len(found.cells)} cells{failed}",
        title_justify="left",
        caption=" ".join(notes) or None,
        caption_justify="left",
    )
    table.add_column("sentences", justify="right")
    table.add_column("method", overflow="fold")
    for metric in metrics:
        table.add_column(METRICS[metric].title, justify="right", no_wrap=True)
    table.add_column("seeds", justify="right")
    for size in found.sizes:
        groups = found.at(size)
        main = _main(found, groups)
        best = _best(groups, main)
        for group in (*groups, *found.floors):
            entries = [_measured(group, metric, main, best) for metric in metrics]
            table.add_row(
                "all" if size is None else f"{size:,}",
                Text(group.label),
                *(
                    Text(f"{entry.whole}*", style="bold green") if entry.best else Text(entry.whole)
                    for entry in entries
                ),
                str(len(group.cells)),
            )
        table.add_section()
    return table
