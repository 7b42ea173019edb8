"""Tables of what a causal model kept of the source's language, and texts that it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from lingraft.report import numbers
from lingraft.report.page import Text, section
from lingraft.report.table import Column, row, table
from lingraft.report.variants import results_of
from lingraft.stats import Resampling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.report.page import Part
    from lingraft.report.table import Table
    from lingraft.report.variants import TrainedModel

SOURCE = "source untouched"


def kept_table(models: Sequence[TrainedModel]) -> Table | None:
    """Show the source's language before and after, on the same texts."""
    rows = []
    for model, evaluation in results_of(models, "evaluation"):
        untouched = evaluation.get("untouched") or {}
        for name, result in evaluation.get("kept", {}).items():
            before, bounds, source_bits, gain = untouched.get("kept", {}).get(name), "", None, None
            model_bits = result["likelihood"]["bits_per_byte"]
            if before and before["text"] == result["text"]:
                source_bits = before["likelihood"]["bits_per_byte"]
                gain = model_bits - source_bits
                own, other = (
                    side["blocks"][f"kept/{name}"]["bits_per_byte"]
                    for side in (evaluation, untouched)
                )
                if found := Resampling().between_blocks(own, other):
                    bounds = numbers.between(found.low, found.high, 3, sign=True)
            shown = (numbers.fixed(source_bits, 3), numbers.fixed(model_bits, 3))
            size = numbers.count(result["likelihood"]["bytes"])
            difference = (numbers.signed(gain, 3), bounds or numbers.ABSENT)
            rows.append(row(name, model.label, size, *shown, *difference))
    head = ("text", Column("model", "text"), "bytes", "before", "after", "difference")
    notes = ("Bits per byte of the source and of the model on the same bytes; above 0 is a loss.",)
    return table("Source language kept", (*head, "95 % interval"), rows, notes) if rows else None


def samples(models: Sequence[TrainedModel], lang: str) -> list[Part]:
    """Show beginnings of documents with what each model, and its source, writes behind them."""
    sides: dict[str, dict[str, Any]] = {}
    for model, evaluation in results_of(models, "evaluation"):
        sides[model.label] = evaluation
        sides.setdefault(SOURCE, evaluation.get("untouched") or {})
    parts: list[Part] = []
    for number, sample in enumerate(sides[models[0].label].get("generated", ()), start=1):
        rows = [
            (label, mode, one[mode])
            for label, side in sides.items()
            for one in side.get("generated", ())
            if one["beginning"] == sample["beginning"]
            for mode in ("greedy", "drawn")
        ]
        text = Markup("{beginning}<mark>{written}</mark>").format_map(sample)
        head = ("model", Column("how", "text"), Column("continuation", "long", lang=lang))
        written = table(f"Continuations of document {number}", head, rows)
        sentence = Text(text, "sentence", lang)
        parts += section(f"Document {number}", sentence, written, level=3)
    return parts
