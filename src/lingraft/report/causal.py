"""How a causal model is judged: tables of a run and its baselines beside the untouched source."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lingraft.evaluation.records import NEXT_TOKEN
from lingraft.report import numbers
from lingraft.report.table import BEST, Cell, Column, row, table
from lingraft.report.variants import kind_of, results_of
from lingraft.rundir import fingerprint
from lingraft.stats import Resampling

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lingraft.report.table import Table
    from lingraft.report.variants import Variant

SOURCE = "source untouched"
GROUPS = {"all": "all tokens", "new": "new tokens", "old": "old tokens"}


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

    @property
    def characters_per_token(self) -> float:
        """Of the test text."""
        counted = self.text["likelihood"]
        return float(counted["characters"]) / float(counted["tokens"])


def models(variants: Sequence[Variant]) -> list[Model]:
    """The evaluated causal models, and behind them the source, once for each that differs."""
    judged: list[Model] = []
    sources: dict[str, Model] = {}
    for variant, evaluation in results_of(variants, "evaluation"):
        if kind_of(evaluation) != "causal":
            continue
        source = None
        if untouched := evaluation.get("untouched"):
            text = next(iter(untouched["streams"].values()))  # of the stream that was the first
            bits = f"{text['likelihood']['bits_per_byte']:.9g}"
            key = fingerprint(text["masks"]["fingerprint"], bits, _asked(untouched))
            label = SOURCE if not sources else f"{SOURCE} ({variant.label})"
            model = Model(label, text, untouched)
            source = sources.setdefault(key, model)
        judged.append(Model(variant.label, evaluation, evaluation, variant.tokens, source))
    return [*judged, *sources.values()]


def _asked(judged: Mapping[str, Any]) -> dict[str, str]:
    """Return fingerprints of the kept texts that a model was scored on."""
    return {name: str(result["text"]) for name, result in judged.get("kept", {}).items()}


def unigram_bits(model: Model) -> float | None:
    """Bits per byte of a model that knows but how often each token occurs; None of the source."""
    entropy = model.text.get("unigram_entropy")
    counted = model.text["likelihood"]
    return None if entropy is None else entropy / math.log(2) * counted["tokens"] / counted["bytes"]


def text_table(judged: Sequence[Model]) -> Table | None:
    """Bits of the test text, and ranks of its tokens."""
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
                numbers.fixed(1 / model.characters_per_token, 3),
                numbers.short(model.tokens),
                role="reference" if model.is_source else "",
            )
        )
    unigrams: dict[str, tuple[str, float]] = {}
    for model in judged:
        bits = unigram_bits(model)
        if bits is not None:
            unigrams.setdefault(f"{bits:.6g}", (model.label, bits))
    for name, bits in unigrams.values():
        label = "unigrams" if len(unigrams) == 1 else f"unigrams ({name})"
        blank = [numbers.ABSENT] * 4
        rows.append(row(label, numbers.fixed(bits, 3), *blank, role="reference"))
    head = ("model", "bits/byte", "bits/char", "PPL", "tokens/char", "tokens")
    counted = judged[0].text["likelihood"]
    notes = [
        f"Every byte of {numbers.count(counted['documents'])} whole documents of the test text "
        f"({numbers.count(counted['bytes'])} bytes, {numbers.count(counted['characters'])} "
        "characters); lower is better."
    ]
    begins = {
        f"with {' '.join(tokens)}" if tokens else "with no special token"
        for model in judged
        if (tokens := model.text.get("begins")) is not None
    }
    if begins:
        notes.append(f"Every window of a long document begins {' or '.join(sorted(begins))}.")
    if not alike:
        notes.append("Perplexities are of different tokens and do not compare.")
    if not same_text:
        notes.append("The models were judged on different texts and do not compare.")
    unknown = [m.label for m in judged if m.text["likelihood"]["unknown"]]
    if unknown:
        notes.append(
            f"Some of the text is unknown to {', '.join(unknown)}, whose bits are then too few."
        )
    return table("Bits of the test text", head, rows, notes)


def pieces_table(judged: Sequence[Model]) -> Table | None:
    """Ranks of the next token, apart for tokens that are new to the vocabulary."""
    rows = []
    for model in judged:
        for name, ranks in model.text["pieces"].items():
            rows.append(
                row(
                    model.label,
                    GROUPS[name],
                    numbers.percent(ranks["share"]),
                    *(numbers.fixed(ranks[f"hits@{k}"], 1) for k in (1, 5, 10)),
                    numbers.significant(ranks["mean_rank"]),
                    numbers.significant(ranks["median_rank"]),
                    numbers.fixed(ranks["loss"], 3),
                    role="reference" if model.is_source else "",
                )
            )
    texts = (Column("tokens", "text"), "share", "hits@1", "hits@5", "hits@10")
    head = ("model", *texts, "mean rank", "median rank", "nats")
    notes = (
        "New tokens have no piece of their spelling in the source's vocabulary. Ranks of models "
        "with different vocabularies are of different tokens.",
    )
    return table("The next token", head, rows, notes) if rows else None


def kept_table(judged: Sequence[Model]) -> Table | None:
    """The source's language before and after, on the same texts."""
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


def samples(judged: Sequence[Model]) -> Iterator[dict[str, Any]]:
    """Beginnings of documents with what each model writes behind them."""
    first = judged[0].more.get("generated", ()) if judged else ()
    for number, sample in enumerate(first):
        lines = []
        for model in judged:
            texts = model.more.get("generated", ())
            if number < len(texts) and texts[number]["beginning"] == sample["beginning"]:
                lines += [(model.label, mode, texts[number][mode]) for mode in ("greedy", "drawn")]
        yield {"beginning": sample["beginning"], "written": sample["written"], "lines": lines}


def section(variants: Sequence[Variant]) -> dict[str, Any] | None:
    """What the page shows of causal models; None where there is none."""
    judged = models(variants)
    if not judged:
        return None
    return {
        "has_source": any(model.is_source for model in judged),
        "text": text_table(judged),
        "pieces": pieces_table(judged),
        "kept": kept_table(judged),
        "samples": list(samples(judged)),
    }
