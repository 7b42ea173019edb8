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
from lingraft.tasks import choice_metrics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from lingraft.report.table import Table
    from lingraft.report.variants import Variant
    from lingraft.stats import Difference

SOURCE = "source untouched"
GROUPS = {"all": "all tokens", "new": "new tokens", "old": "old tokens"}
CHOICE_TITLES = {
    "acc": "acc",
    "acc_norm": "acc_norm (by characters)",
    "acc_bytes": "acc_bytes",
    "acc_tokens": "acc_tokens",
}


@dataclass(frozen=True)
class Model:
    """One model's results on the first stream, and what else it was judged by."""

    label: str
    text: Mapping[str, Any]
    """As `judging.on_text`."""
    more: Mapping[str, Any]
    """As `judging.judge`."""
    folder: Path
    """Of the evaluation, where answers lie."""
    tokens: int | None = None
    """That it was trained on; None of the source."""
    source: Model | None = None
    """What it was made of, where that was judged too."""
    machine: Mapping[str, Any] | None = None
    """On which speeds were measured; of an older evaluation that of the run."""

    @property
    def is_source(self) -> bool:
        return self.label.startswith(SOURCE)

    def answers(self, title: str) -> list[choice_metrics.Answered]:
        """What it made of a file of questions."""
        prefix = choice_metrics.UNTOUCHED if self.is_source else ""
        return choice_metrics.read(self.folder / choice_metrics.file_name(title, prefix))

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
        folder = variant.run.stage("evaluation").path
        machine = evaluation.get("machine") or variant.environment
        source = None
        if untouched := evaluation.get("untouched"):
            text = next(iter(untouched["streams"].values()))  # of the stream that was the first
            bits = f"{text['likelihood']['bits_per_byte']:.9g}"
            key = fingerprint(text["masks"]["fingerprint"], bits, _asked(untouched))
            label = SOURCE if not sources else f"{SOURCE} ({variant.label})"
            model = Model(label, text, untouched, folder, machine=machine)
            source = sources.setdefault(key, model)
        numbers_of = (evaluation, evaluation, folder, variant.tokens, source, machine)
        judged.append(Model(variant.label, *numbers_of))
    return [*judged, *sources.values()]


def _asked(judged: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """What a model was judged by beside the test text: fingerprints of texts and questions."""
    return {
        part: {name: str(result["text"]) for name, result in judged.get(part, {}).items()}
        for part in ("kept", "choices")
    }


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
        source = model.source
        for name, result in model.more.get("kept", {}).items() if not model.is_source else ():
            before = (source.more if source else {}).get("kept", {}).get(name)
            same = before is not None and before["text"] == result["text"]
            source_bits = before["likelihood"]["bits_per_byte"] if before and same else None
            key = f"kept/{name}"
            interval = (
                Resampling().between_blocks(
                    model.more["blocks"][key]["bits_per_byte"],
                    source.more["blocks"][key]["bits_per_byte"],
                )
                if source is not None and same
                else None
            )
            model_bits = result["likelihood"]["bits_per_byte"]
            rows.append(
                row(
                    name,
                    Cell(model.label),
                    numbers.count(result["likelihood"]["bytes"]),
                    numbers.fixed(source_bits, 3),
                    numbers.fixed(model_bits, 3),
                    numbers.signed(None if source_bits is None else model_bits - source_bits, 3),
                    _bounds(interval, 3),
                )
            )
    head = ("text", Column("model", "text"), "bytes", "before", "after", "difference")
    notes = ("Bits per byte of the source and of the model on the same bytes; above 0 is a loss.",)
    return table("Source language kept", (*head, "95 % interval"), rows, notes) if rows else None


def _bounds(interval: Difference | None, decimals: int) -> str:
    if interval is None:
        return numbers.ABSENT
    return numbers.between(interval.low, interval.high, decimals, sign=True) or numbers.ABSENT


def choices_table(variants: Sequence[Variant]) -> Table | None:
    """Files of questions × models, and each model less the source with its interval."""
    judged = models(variants)
    titles = dict.fromkeys(title for model in judged for title in model.more.get("choices", {}))
    if not titles:
        return None
    rows = []
    for title in titles:
        results = [
            (m, m.more["choices"][title]) for m in judged if title in m.more.get("choices", {})
        ]
        for model, scores in results:
            is_source = model.is_source
            base = (model.source.more if model.source else {}).get("choices", {}).get(title)
            same = base is not None and base["text"] == scores["text"]
            source = model.source if same else None
            answers = (model.answers(title), source.answers(title)) if source else None
            for metric in choice_metrics.METRICS:
                gain = scores[metric] - base[metric] if same else None
                paired = choice_metrics.difference(*answers, metric) if answers else None
                rows.append(
                    row(
                        title,
                        Cell(model.label),
                        CHOICE_TITLES[metric],
                        Cell(
                            numbers.fixed(scores[metric], 1),
                            under=f"± {numbers.fixed(scores[f'{metric}_stderr'], 1)}",
                        ),
                        numbers.fixed(scores["chance"], 1),
                        numbers.count(scores["n"]),
                        numbers.signed(gain, 1),
                        _bounds(paired, 1),
                        role="reference" if is_source else "",
                    )
                )
    texts = (Column("model", "text"), Column("metric", "text"))
    head = ("questions", *texts, "per cent", "chance", "n", "less its source", "95 % interval")
    notes = [
        "The choice with the largest log-likelihood after the context is taken: as it is (acc), or "
        "for each character, byte or token of it. The names are those of lm-evaluation-harness, "
        "whose acc_norm is by characters; ± is the standard error. No examples in the prompt."
    ]
    notes += [
        f"{title}, {model.label}: {numbers.count(scores['cut'])} choices have a context that lost "
        "its start."
        for model in judged
        for title, scores in model.more.get("choices", {}).items()
        if scores["cut"]
    ]
    return table("Multiple choice", head, rows, notes)


def speed_table(judged: Sequence[Model]) -> Table | None:
    """Characters a second of generation."""
    rows = []
    machines: dict[str, None] = {}
    for model in judged:
        for speed in model.more.get("speeds", ()):
            machines.setdefault(_machine(model.machine))
            rate = speed["tokens_per_second"]
            rows.append(
                row(
                    model.label,
                    numbers.count(speed["batch"]),
                    numbers.count(speed["tokens"]),
                    numbers.significant(rate),
                    numbers.fixed(model.characters_per_token, 2),
                    numbers.significant(rate * model.characters_per_token),
                    role="reference" if model.is_source else "",
                )
            )
    head = ("model", "batch", "tokens", "tokens/s", "characters/token", "characters/s")
    which = "the run" if len(machines) == 1 else "each run"
    notes = [
        "Stock generate(), greedy, with a cache, in fp32; tokens a second of all sequences times "
        f"the characters that a token of the test text has. Measured while {which} was evaluated "
        f"on {' or '.join(machines)}: other load on it counts."
    ]
    if len(machines) > 1:
        notes.append("The runs were evaluated on different machines: their speeds do not compare.")
    return table("Speed of generation", head, rows, notes) if rows else None


def _machine(machine: Mapping[str, Any] | None) -> str:
    if not machine:
        return "a machine that was not recorded"
    devices = ", ".join(dict.fromkeys(map(str, machine.get("devices", ()))))
    threads = machine.get("threads")
    name = machine.get("cpu", "unknown") if devices in ("", "cpu") else devices
    return f"{name}, {threads} thread{'' if threads == 1 else 's'}"


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
        "choices": choices_table(variants),
        "speed": speed_table(judged),
        "samples": list(samples(judged)),
    }
