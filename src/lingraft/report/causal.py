"""How a causal model is judged: tables of a run and its baselines beside the untouched source."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from lingraft.evaluation.records import NEXT_TOKEN
from lingraft.report import numbers
from lingraft.report.page import Text, section
from lingraft.report.table import BEST, Cell, Column, row, table
from lingraft.report.variants import kind_of, results_of
from lingraft.rundir import fingerprint
from lingraft.stats import Resampling

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lingraft.report.page import Part
    from lingraft.report.table import Table
    from lingraft.report.variants import Variant

SOURCE = "source untouched"


@dataclass(frozen=True)
class Model:
    """One model's results on the first stream, and what else it was judged by."""

    label: str
    text: Mapping[str, Any]
    """As `causal_evaluation.score_documents`."""
    more: Mapping[str, Any]
    """As `causal_evaluation.score_kept_and_sample`."""
    tokens: int | None = None
    """That it was trained on; None of the source."""
    source: Model | None = None
    """What it was made of, where that was judged too."""

    @property
    def is_source(self) -> bool:
        return self.label.startswith(SOURCE)


def models(variants: Sequence[Variant]) -> list[Model]:
    """Return the evaluated causal models, and behind them each source that differs."""
    judged: list[Model] = []
    sources: dict[str, Model] = {}
    for variant, evaluation in results_of(variants, "evaluation"):
        if kind_of(evaluation) != "causal":
            continue
        source = None
        if untouched := evaluation.get("untouched"):
            text = next(iter(untouched["streams"].values()))  # of the stream that was the first
            bits = f"{text['likelihood']['bits_per_byte']:.9g}"
            kept = {name: str(one["text"]) for name, one in untouched.get("kept", {}).items()}
            key = fingerprint(text["masks"]["fingerprint"], bits, kept)
            label = SOURCE if not sources else f"{SOURCE} ({variant.label})"
            source = sources.setdefault(key, Model(label, text, untouched))
        judged.append(Model(variant.label, evaluation, evaluation, variant.tokens, source))
    return [*judged, *sources.values()]


def text_table(judged: Sequence[Model]) -> Table | None:
    """Show the bits of the test text; the fewest are marked where they compare."""
    if not judged:
        return None
    alike = len({model.text["masks"]["fingerprint"] for model in judged}) == 1
    same_text = len({model.text["text"] for model in judged}) == 1
    # with one vocabulary the same is unknown to all
    compares = [model for model in judged if alike or not model.text["likelihood"]["unknown"]]
    theirs = [model.text["likelihood"]["bits_per_byte"] for model in compares]
    known = [value for value in theirs if math.isfinite(value or math.nan)]
    least = min(known) if same_text and len(known) > 1 else None
    rows = []
    for model in judged:
        counted = model.text["likelihood"]
        best = model in compares and counted["bits_per_byte"] == least
        rows.append(
            row(
                model.label,
                Cell(numbers.fixed(counted["bits_per_byte"], 3), rank=BEST if best else 0),
                numbers.fixed(counted["bits_per_character"], 3),
                numbers.significant(model.text["metrics"][NEXT_TOKEN]["perplexity"]),
                numbers.fixed(counted["tokens"] / counted["characters"], 3),
                numbers.short(model.tokens),
                role="reference" if model.is_source else "",
            )
        )
    head = ("model", "bits/byte", "bits/char", "PPL", "tokens/char", "tokens")
    counted = judged[0].text["likelihood"]
    notes = [
        f"Every byte of {numbers.count(counted['documents'])} whole documents of the test text "
        f"({numbers.count(counted['bytes'])} bytes, {numbers.count(counted['characters'])} "
        "characters); lower is better."
    ]
    if not alike:
        notes.append("Perplexities are of different tokens and do not compare.")
    if not same_text:
        notes.append("The models were judged on different texts and do not compare.")
    if unknown := [m.label for m in judged if m.text["likelihood"]["unknown"]]:
        notes.append(
            f"Some of the text is unknown to {', '.join(unknown)}, whose bits are then too few."
        )
    return table("Bits of the test text", head, rows, notes)


def kept_table(judged: Sequence[Model]) -> Table | None:
    """Show the source's language before and after, on the same texts."""
    rows = []
    for model in judged:
        for name, result in model.more.get("kept", {}).items() if not model.is_source else ():
            source, bounds, source_bits, gain = model.source, None, None, None
            before = source.more.get("kept", {}).get(name) if source else None
            model_bits = result["likelihood"]["bits_per_byte"]
            if source and before and before["text"] == result["text"]:
                source_bits = before["likelihood"]["bits_per_byte"]
                gain = model_bits - source_bits
                own, other = (
                    side.more["blocks"][f"kept/{name}"]["bits_per_byte"] for side in (model, source)
                )
                if found := Resampling().between_blocks(own, other):
                    bounds = numbers.between(found.low, found.high, 3, sign=True)
            rows.append(
                row(
                    name,
                    Cell(model.label),
                    numbers.count(result["likelihood"]["bytes"]),
                    numbers.fixed(source_bits, 3),
                    numbers.fixed(model_bits, 3),
                    numbers.signed(gain, 3),
                    bounds or numbers.ABSENT,
                )
            )
    head = ("text", Column("model", "text"), "bytes", "before", "after", "difference")
    notes = ("Bits per byte of the source and of the model on the same bytes; above 0 is a loss.",)
    return table("Source language kept", (*head, "95 % interval"), rows, notes) if rows else None


def samples(judged: Sequence[Model], lang: str) -> list[Part]:
    """Show beginnings of documents with what each model writes behind them."""
    parts: list[Part] = []
    for number, sample in enumerate(judged[0].more.get("generated", ()), start=1):
        rows = [
            (model.label, mode, one[mode])
            for model in judged
            for one in model.more.get("generated", ())[number - 1 : number]
            if one["beginning"] == sample["beginning"]
            for mode in ("greedy", "drawn")
        ]
        text = Markup("{beginning}<mark>{written}</mark>").format_map(sample)
        head = ("model", Column("how", "text"), Column("continuation", "long", lang=lang))
        written = table(f"Continuations of document {number}", head, rows)
        sentence = Text(text, "sentence", lang)
        parts += section(f"Document {number}", sentence, written, level=3)
    return parts
