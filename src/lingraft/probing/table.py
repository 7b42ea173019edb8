"""The table of a probe, from the results on disk: Markdown, CSV, JSON and the comparison page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.comparison import page, tables
from lingraft.comparison.collect import collect
from lingraft.probing.models import SOURCE
from lingraft.report.table import comma_separated, markdown, row, table
from lingraft.rundir import write_json, write_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lingraft.comparison.collect import Comparison
    from lingraft.probing.models import Variant
    from lingraft.report.table import Table

PAGE = "comparison.html"
"""In OUT, as `lingraft compare` calls it."""
HEAD = ("after", "translation layers", "vocabulary")


def write(variants: Sequence[Variant], notes: Sequence[str], out: Path) -> tuple[Table, list[Path]]:
    """Write OUT/table.{md,csv,json} and the comparison page.

    Args:
        variants: all that OUT may hold, in the order of the rows.
        notes: on the run.
        out: the folder of the results.

    Returns:
        The table, and the files that were written, the page first.

    Raises:
        DataError: results are missing or broken.
    """
    (scores, *_), written = page.compare([out], out / PAGE, reference=SOURCE)
    comparison = collect([out], SOURCE)
    present = [variant for variant in variants if variant.label in comparison.labels]
    equal = equal_to_source(comparison)
    all_notes = [*notes]
    if equal:
        all_notes.append(f"Weights equal to the source's, bit for bit: {', '.join(equal)}.")
    all_notes += [
        f"{label}: other scores than the source's with equal weights and seed, so the software or "
        "the machine changed between the two; --overwrite does all anew."
        for label in equal
        if _scores_differ(comparison, label)
    ]
    main_table = table_of(present, scores, all_notes)
    rows = [_row(variant, comparison, variant.label in equal) for variant in present]
    write_text(out / "table.md", markdown(main_table) + "\n")
    write_text(out / "table.csv", _sheet(rows))
    write_json(out / "table.json", {"notes": list(main_table.notes), "rows": rows})
    return main_table, [*written, *(out / f"table.{kind}" for kind in ("md", "csv", "json"))]


def equal_to_source(comparison: Comparison) -> list[str]:
    """Labels of the models whose weights are the source's, from the fingerprints of the results."""
    weights = comparison.weights
    return [
        label
        for label in comparison.labels
        if label != SOURCE and weights.get(label) == weights.get(SOURCE)
    ]


def _scores_differ(comparison: Comparison, label: str) -> bool:
    """Whether a model has other scores than the source with a common seed."""
    pairs = (
        (part.values(label, key), part.values(SOURCE, key))
        for part in comparison.parts
        for key in part.keys
    )
    return any(
        own[seed] != source[seed] for own, source in pairs for seed in own.keys() & source.keys()
    )


def table_of(variants: Sequence[Variant], scores: Table, notes: Sequence[str]) -> Table:
    """The comparison's table of scores, with a column for each thing in which the models differ.

    Args:
        variants: the rows.
        scores: models × tasks; its first column holds the labels.
        notes: are put before the comparison's own.
    """
    by_label = {row.cells[0].text: row.cells[1:] for row in scores.rows}
    rows = [row(*_names(variant), *by_label[variant.label]) for variant in variants]
    mark = (
        f"* differs from {SOURCE}, p < 0.05 (paired bootstrap and, with several seeds, paired "
        f"t-test; {PAGE})."
    )
    marked = any(cell.mark.startswith("*") for cells in by_label.values() for cell in cells)
    all_notes = (*notes, *([mark] if marked else []), *scores.notes)
    return table("Source language after fine-tuning", (*HEAD, *scores.columns[1:]), rows, all_notes)


def _names(variant: Variant) -> tuple[str, str, str]:
    after = variant.after or "the source as it was"
    if variant.random:
        after = "random weights, no pretraining"
    return after, variant.layers, variant.vocabulary


def _row(variant: Variant, comparison: Comparison, equal: bool) -> dict[str, Any]:
    """A row as plain data, its scores to full precision."""
    scores = [row for row in tables.score_rows(comparison) if row.pop("model") == variant.label]
    return {
        "label": variant.label,
        "after": None if variant.random else variant.after,
        "random_weights": variant.random,
        "translation_layers": variant.layers,
        "vocabulary": variant.vocabulary,
        "equals_source": equal,
        "scores": scores,
    }


def _sheet(rows: Sequence[Mapping[str, Any]]) -> str:
    """One row a model and score."""
    flat = [{**row, **score} for row in rows for score in row["scores"]]
    head = [name for name in flat[0] if name != "scores"]
    return comma_separated(head, ([row[name] for name in head] for row in flat))
