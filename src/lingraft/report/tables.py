"""Models side by side, for the page, the card and the terminal."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lingraft.evaluation.records import WORDS_FILE, on_common
from lingraft.report import numbers
from lingraft.report.numbers import Metric, hits
from lingraft.report.table import BEST, TableCell, row, table
from lingraft.report.variants import TrainedModel, headline

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingraft.evaluation.records import Common
    from lingraft.report.table import Table

BITS = "bits_per_character"
METRICS = {
    "perplexity": Metric("PPL"),
    "hits@1": hits(1),
    "hits@5": hits(5),
    "hits@10": hits(10),
    "mrr": Metric("MRR", 4, lower=False),
    "mr": Metric("MR"),
    BITS: Metric("bits/char", 2),
    "bits_per_byte": Metric("bits/byte", 3),
}
BY_TEXT = (BITS, "bits_per_byte")
"""Metrics that compare between vocabularies."""
ESSENTIAL = ("model", "PPL", "hits@1", "MRR", "bits/char", "tokens", "time")
"""The columns that fit a terminal of 80 characters."""
CLEARLY = 0.8
"""A perplexity above this share of the unigrams' is hardly better than theirs."""
FEWEST_TARGETS = 300
"""On fewer tokens to predict, perplexity is known no better than to about a fifth."""
MOST_UNKNOWN = 0.2
"""From this share of unknown tokens in a text, a low perplexity on the rest is no success."""


@dataclass(frozen=True)
class Line:
    """A model in the comparison; None where a number is not there yet."""

    name: str
    method: str
    parameters: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    """By the names in METRICS; without those not measured."""
    fingerprint: str | None = None
    """Fingerprint of the masks; None before evaluation."""
    unigram_perplexity: float | None = None
    best: frozenset[str] = frozenset()
    """Metrics in which no other line is better."""
    words: int | None = None
    """Number of words that bits per character are over."""
    text: str | None = None
    """Fingerprint of a causal model's test text, every character of which is scored; None where
    some of it is unknown, since its bits are too few then."""
    targets: int | None = None
    """Number of tokens that were to be predicted."""
    unknown: float = 0.0
    """Share of the test text's tokens that are the unknown one."""
    streams: tuple[Line, ...] = ()
    """The model on each of several texts; its own numbers are those of the first."""

    @property
    def perplexity(self) -> float | None:
        return self.metrics.get("perplexity")

    @property
    def too_few(self) -> bool:
        """Return whether the test text is too small to say anything but that training failed."""
        few = self.targets is not None and self.targets < FEWEST_TARGETS
        return few and math.isfinite(self.perplexity or 0.0)

    @property
    def ahead(self) -> bool:
        """Return whether it is clearly better than unigrams; False before evaluation."""
        if self.perplexity is None or self.unigram_perplexity is None:
            return False
        return self.perplexity < CLEARLY * self.unigram_perplexity

    @property
    def has_learnt(self) -> bool:
        """Return whether it is ahead on each text that is large enough, and knows its tokens."""
        own = self.ahead and not self.too_few and self.unknown < MOST_UNKNOWN
        return own and all(stream.has_learnt or stream.too_few for stream in self.streams)

    @property
    def beside_unigrams(self) -> str:
        """Return 'worse than' or 'hardly better than' guessing by frequency."""
        worse = (self.perplexity or math.inf) > (self.unigram_perplexity or math.inf)
        return "worse than" if worse else "hardly better than"

    def shown(self, metric: str) -> str:
        """Return a metric as text."""
        return METRICS[metric].show(self.metrics.get(metric))


@dataclass(frozen=True)
class Comparison:
    """Models side by side, the first one being the run's own."""

    lines: tuple[Line, ...]
    references: tuple[Line, ...]
    """Guessing by how often each token occurs, once for each test text; behind it sources as they
    are, of models that kept their vocabulary."""
    comparable: bool
    """Whether all evaluated models were asked for the same masked tokens."""
    notes: tuple[str, ...]
    by_bits: bool = False
    """Whether bits per character compare where the masked tokens do not."""


def compare(models: Sequence[TrainedModel]) -> Comparison:
    """Compare labelled models; best ones are marked only where the masks are the same.

    Bits per character of models that dropped different words are taken over the words that none of
    them dropped, and compare where the masks do not; of causal models they compare on one text.

    Args:
        models: the first is the main one.
    """
    lines, common = [_line(model) for model in models], _common_words(models)
    if common is not None:
        bits = iter(common.bits_per_character)
        lines = [_over(line, next(bits), common) if line.fingerprint else line for line in lines]
    evaluated = [line for line in lines if line.fingerprint is not None]
    prints = {line.fingerprint for line in evaluated}
    notes = [f"{line.name} is not evaluated yet." for line in lines if line.fingerprint is None]
    if common is not None and common.dropped:
        notes.append(
            f"Bits per character are over the {common.words:,} words that every model can score; "
            f"{numbers.percent(common.dropped)} of the chosen ones are none."
        )
    alike = len({line.words for line in lines if line.words}) < 2
    if not alike:
        notes.append("Bits per character are over different words and compare only roughly.")
    texts = {line.text for line in evaluated}
    by_bits = common is not None or (len(texts) == 1 and None not in texts)
    by_bits &= sum(math.isfinite(line.metrics.get(BITS, math.nan)) for line in lines) > 1
    comparable = len(prints) <= 1
    if not comparable:
        but = " but for bits per character" if by_bits else ""
        notes.append(
            f"No best is marked{but}: the models were evaluated on {len(prints)} different sets of "
            "tokens (another tokenizer, test text or evaluation seed)."
        )
    marked = [name for name in METRICS if comparable and (alike or name not in BY_TEXT)]
    lines = _with_best(lines, marked or BY_TEXT * by_bits)
    references = (*_unigrams(evaluated), *_sources(models, prints))
    return Comparison(tuple(lines), references, comparable, tuple(notes), by_bits)


def _line(model: TrainedModel) -> Line:
    evaluation, tokenizer = model.result("evaluation"), model.result("tokenizer") or {}
    counted = tokenizer.get("streams", {})
    streams = (
        replace(_line_on(model, on_text, counted.get(name, {})), name=name)
        for name, on_text in (evaluation or {}).get("streams", {}).items()
    )
    return replace(_line_on(model, evaluation, tokenizer), streams=tuple(streams))


def _line_on(
    model: TrainedModel, evaluation: dict[str, Any] | None, tokenizer: dict[str, Any]
) -> Line:
    """Return a model's line on one text, from what evaluation and tokenizer left of that text."""
    graft = model.result("graft")
    line = Line(
        name=model.label,
        method=model.method,
        parameters=int(graft["parameters"]["total"]) if graft else None,
        tokens=model.tokens,
        seconds=model.seconds,
    )
    if evaluation is None:
        return line
    words = evaluation.get("words") or evaluation.get("likelihood") or {}
    return replace(
        line,
        metrics=_metrics(evaluation),
        fingerprint=str(evaluation["masks"]["fingerprint"]),
        unigram_perplexity=math.exp(evaluation["unigram_entropy"]),
        words=words.get("words"),
        text=None if words.get("unknown") else evaluation.get("text"),
        targets=int(evaluation["masks"]["positions"]),
        unknown=tokenizer.get("statistics", {}).get("test", {}).get("unknown_rate") or 0.0,
    )


def _metrics(evaluation: dict[str, Any]) -> dict[str, float]:
    words = evaluation.get("words") or evaluation.get("likelihood") or {}
    scores = evaluation["metrics"][headline(evaluation)]
    measured = scores | {name: words.get(name) for name in BY_TEXT}
    known = {name: measured.get(name) for name in METRICS}
    return {name: float(value) for name, value in known.items() if value is not None}


def _common_words(models: Sequence[TrainedModel]) -> Common | None:
    """Return the evaluated models on the words that all of them scored.

    None for a single model, where one has no words.tsv, and where the words are not the same.
    """
    stages = [model.run.stage("evaluation") for model in models]
    files = [stage.path / WORDS_FILE for stage in stages if stage.done_path.is_file()]
    if len(files) < 2 or not all(file.is_file() for file in files):
        return None
    return on_common(files)


def _over(line: Line, bits: float | None, common: Common) -> Line:
    """Return the line with bits per character over the common words."""
    metrics = {name: value for name, value in line.metrics.items() if name != BITS}
    return replace(
        line, metrics=metrics | ({} if bits is None else {BITS: bits}), words=common.words
    )


def _with_best(lines: Sequence[Line], metrics: Iterable[str]) -> list[Line]:
    best: dict[str, float] = {}
    for metric in metrics:
        values = [v for line in lines if math.isfinite(v := line.metrics.get(metric, math.nan))]
        if len(values) > 1:
            best[metric] = min(values) if METRICS[metric].lower else max(values)
    return [
        replace(
            line,
            best=frozenset(name for name, value in best.items() if line.metrics.get(name) == value),
        )
        for line in lines
    ]


def _unigrams(evaluated: Sequence[Line]) -> list[Line]:
    texts: dict[float, Line] = {}
    for line in evaluated:
        texts.setdefault(line.unigram_perplexity or math.nan, line)
    lines = []
    for perplexity, line in texts.items():
        name = "unigrams" if len(texts) == 1 else f"unigrams ({line.name})"
        lines.append(Line(name, name, metrics={"perplexity": perplexity}))
    return lines


def _sources(models: Sequence[TrainedModel], prints: set[str | None]) -> list[Line]:
    """Return the sources as they are, on the text of the models that were made of them.

    What they were asked for other tokens is left out but for bits.
    """
    lines: list[Line] = []
    for model in models:
        evaluation = model.result("evaluation") or {}
        streams = evaluation.get("untouched", {}).get("streams", {})
        source = evaluation.get("source") or next(iter(streams.values()), None)
        if source is None:
            continue
        alike = {str((source.get("masks") or evaluation["masks"])["fingerprint"])} == prints
        metrics = {k: v for k, v in _metrics(source).items() if alike or k in BY_TEXT}
        name = "source untouched" + (f" ({model.label})" if lines else "")
        if metrics and metrics not in [line.metrics for line in lines]:
            lines.append(Line(name, name, metrics=metrics))
    return lines


def table_of(compared: Comparison) -> Table:
    """Show the comparison as a table, the references beneath."""
    rows = [
        row(
            line.name,
            *(TableCell(line.shown(m), rank=BEST if m in line.best else 0) for m in METRICS),
            numbers.short(line.tokens),
            numbers.duration(line.seconds),
            numbers.short(line.parameters),
            role="" if line in compared.lines else "reference",
        )
        for line in (*compared.lines, *compared.references)
    ]
    head = ("model", *(metric.title for metric in METRICS.values()), "tokens", "time", "parameters")
    return table("Models compared", head, rows, compared.notes)


def for_terminal(compared: Comparison) -> Table:
    """Show the comparison in few columns."""
    return table_of(compared).only(ESSENTIAL)
