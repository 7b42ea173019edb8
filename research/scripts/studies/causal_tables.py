"""The tables of a study of causal models: what compares whatever the vocabulary is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from lingraft.report.table import row, table
from studies.entries import mixed_means, named, spread
from studies.metrics import BYTES, KEPT, UNKNOWN, metric_named
from studies.notes import OTHER_WORDS, asked, texts, unknown, unknown_note
from studies.results import size_text
from studies.tables import (
    best_of,
    cells as every_cell,
    costs,
    differences,
    initializers as side_by_side,
    marked,
    measured,
    quality as of_masked,
    ranked,
    titles,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.report.table import Table, TableCell
    from lingraft.stats import Resampling
    from studies.results import Group, Results

SHOWN = (
    BYTES,
    "likelihood/bits_per_character",
    "all/hits@1",
    "new/hits@1",
    "all/median_rank",
    "tokens_per_character",
)


def shown(results: Results) -> tuple[str, ...]:
    """The metrics of causal models that some cell has; none in a study of other models."""
    names = dict.fromkeys(name for cell in results.cells for name in cell.metrics)
    kept_metrics = (name for name in names if _is_kept(name))
    return (*(name for name in SHOWN if name in names), *kept_metrics)


def _is_kept(name: str) -> bool:
    return name.startswith(KEPT) and not name.endswith(f"/{UNKNOWN}")


def compared(results: Results) -> tuple[str, ...]:
    """Return those that are means over text, so that differences have intervals."""
    return tuple(name for name in shown(results) if name == BYTES or name.startswith(KEPT))


def quality(results: Results, sentences: int | None) -> Table:
    """`tables.quality` in the metrics of the study's kind of model."""
    metrics = shown(results)
    groups = measured(results.at(sentences), metrics)
    if not groups:
        return of_masked(results, sentences)
    main = _main(groups)
    alike = {
        metric: [group for group in groups if _same(group, metric, main)] for metric in metrics
    }
    best = {metric: best_of(alike[metric], metric) for metric in metrics}
    rows = [
        row(
            named(group),
            *(_measured(group, metric, main, best[metric]) for metric in metrics),
            *costs(group),
        )
        for group in groups
    ]
    head = ("method", *titles(metrics), "seeds", "tokens", "parameters", "trained")
    text_notes = _other_texts(groups, main)
    same_text = len({texts(group, BYTES) for group in groups if group.rows(BYTES)}) < 2
    documents = "the same held-out documents" if same_text else "held-out documents"
    notes = (
        f"Bits are of every byte of {documents} and compare across vocabularies; "
        "hits and ranks are of each model's own tokens.",
        *text_notes,
        *mixed_means(groups),
    )
    return table(size_text(sentences), head, rows, notes)


def _main(groups: Sequence[Group]) -> Group:
    """One of those that were scored on what most were: others are compared with it.

    One to which some of the text is unknown only where it is so to all.
    """
    counted = Counter(asked(group, BYTES) for group in groups)
    return max(groups, key=lambda g: (not unknown(g, BYTES), counted[asked(g, BYTES)]))


def _same(group: Group, metric: str, main: Group) -> bool:
    """Whether a metric that says what it was measured on was measured on the same as `main`'s."""
    return not metric_named(metric).by_own or asked(group, metric) == asked(main, metric)


def _measured(group: Group, metric: str, main: Group, best: float | None) -> TableCell:
    cell = spread(group, metric)
    if _same(group, metric, main):
        return ranked(cell, group, metric, best)
    return marked(cell, group, main, metric)


def _other_texts(groups: Sequence[Group], main: Group) -> tuple[str, ...]:
    """Whose bits are of other documents, and whose are too few."""
    if not main.rows(BYTES):
        return ()
    theirs = texts(main, BYTES)
    others = [
        f"{g.label} ({_bytes(g)})" for g in groups if texts(g, BYTES) not in (frozenset(), theirs)
    ]
    said = (
        f"{OTHER_WORDS} {', '.join(others)}: bits of other held-out documents than those of "
        f"{main.label} ({_bytes(main)}), so they compare only roughly.",
    )
    names = dict.fromkeys(name for group in groups for cell in group.cells for name in cell.metrics)
    measured_on = (BYTES, *(name for name in names if _is_kept(name)))
    unknown_to = (note for name in measured_on for note in unknown_note(groups, main, name))
    return (*(said if others else ()), *unknown_to)


def _bytes(group: Group) -> str:
    sizes = sorted({row.n for row in group.rows(BYTES).values()})
    return " and ".join(f"{size:,}" for size in sizes) + " bytes"


def differences_of(results: Results, sentences: int | None, resampling: Resampling) -> Table | None:
    """`tables.differences` in the metrics of the study's kind of model."""
    metrics = compared(results)
    return differences(results, sentences, resampling, *([metrics] if metrics else []))


def initializers(results: Results, resampling: Resampling) -> Table | None:
    """`tables.initializers` in the metrics of the study's kind of model."""
    metrics = shown(results)
    groups = measured(results.groups, metrics)
    if not groups:
        return side_by_side(results, resampling)
    kept_metrics = [name for name in metrics if name.startswith(KEPT)]
    beside = [name for name in metrics if name == "tokens_per_character"]
    main = _main(groups)
    result = side_by_side(results, resampling, (BYTES, *kept_metrics, *beside), BYTES, main)
    initialised = [group for size in results.sizes for group in results.initialised(size)]
    return result and replace(result, notes=(*result.notes, *_other_texts(initialised, main)))


def cells(results: Results) -> Table:
    """`tables.cells` in the metrics of the study's kind of model."""
    metrics = [name for name in shown(results) if name in SHOWN[:2]]
    return every_cell(results, metrics) if metrics else every_cell(results)
