"""Models side by side, for the page, the card and the terminal."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from lingraft.evaluation.records import WORDS_FILE, on_common
from lingraft.report import numbers
from lingraft.report.table import BEST, Cell, Column, row, table
from lingraft.report.variants import HEADLINE_SCHEME, Variant, headline, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingraft.evaluation.records import Common
    from lingraft.report.table import Table

BITS = "bits_per_character"


class Metric(NamedTuple):
    """How a metric is shown."""

    title: str
    decimals: int | None = None
    """None shows significant digits."""
    lower: bool = False
    """Whether less is better."""


METRICS = {
    "perplexity": Metric("PPL", lower=True),
    "hits@1": Metric("hits@1", 1),
    "hits@5": Metric("hits@5", 1),
    "hits@10": Metric("hits@10", 1),
    "mrr": Metric("MRR", 4),
    "mr": Metric("MR", lower=True),
    BITS: Metric("bits/char", 2, lower=True),
}
ESSENTIAL = ("model", "PPL", "hits@1", "MRR", "bits/char", "tokens", "time")
"""The columns that fit a terminal of 80 characters."""
WIDE = 116
CLEARLY = 0.8
"""A perplexity above this share of the unigrams' is hardly better than theirs."""
FEWEST_TARGETS = 300
"""On fewer tokens to predict, perplexity is known no better than to about a fifth."""
MOST_UNKNOWN = 0.2
"""From this share of unknown tokens in a text, a low perplexity on the rest is no success."""


@dataclass(frozen=True)
class Line:
    """One model in the comparison; None where a number is not there yet."""

    name: str
    method: str
    parameters: int | None
    tokens: int | None
    seconds: float | None
    metrics: dict[str, float]
    """By the names in METRICS; without those not measured."""
    fingerprint: str | None
    """Of the masks; None before evaluation."""
    unigram_perplexity: float | None
    best: frozenset[str] = frozenset()
    """Metrics in which no other line is better."""
    words: int | None = None
    """How many words bits per character are over."""
    text: str | None = None
    """Of a causal model the fingerprint of its test text, every character of which is scored; None
    where some of it is unknown, since its bits are too few then."""
    targets: int | None = None
    """How many tokens were to be predicted."""
    unknown: float = 0.0
    """Share of the test text's tokens that are the unknown one."""
    streams: tuple[Line, ...] = ()
    """The model on each of several texts; its own numbers are those of the first."""

    @property
    def perplexity(self) -> float | None:
        return self.metrics.get("perplexity")

    @property
    def too_few(self) -> bool:
        """Whether the test text is too small to say anything but that training failed."""
        few = self.targets is not None and self.targets < FEWEST_TARGETS
        return few and math.isfinite(self.perplexity or 0.0)

    @property
    def ahead(self) -> bool:
        """Whether it is clearly better than unigrams; False before evaluation."""
        if self.perplexity is None or self.unigram_perplexity is None:
            return False
        return self.perplexity < CLEARLY * self.unigram_perplexity

    @property
    def learnt(self) -> bool:
        """Whether it is ahead on each text that is large enough, and knows most of its tokens."""
        own = self.ahead and not self.too_few and self.unknown < MOST_UNKNOWN
        return own and all(stream.learnt or stream.too_few for stream in self.streams)

    @property
    def beside_unigrams(self) -> str:
        """'worse than' or 'hardly better than' guessing by frequency, where it has not learnt."""
        worse = (self.perplexity or math.inf) > (self.unigram_perplexity or math.inf)
        return "worse than" if worse else "hardly better than"

    def cell(self, metric: str) -> Cell:
        """A metric in a table."""
        return Cell(self.shown(metric), rank=BEST if metric in self.best else 0)

    def shown(self, metric: str) -> str:
        """A metric as text."""
        value, decimals = self.metrics.get(metric), METRICS[metric].decimals
        return numbers.significant(value) if decimals is None else numbers.fixed(value, decimals)


@dataclass(frozen=True)
class Comparison:
    """Models side by side, the first one being the run's own."""

    lines: tuple[Line, ...]
    unigrams: tuple[Line, ...]
    """The reference that knows nothing but how often each token occurs; one for each test text.
    Behind it sources as they are, of models that kept their vocabulary."""
    comparable: bool
    """Whether all evaluated models were asked for the same masked tokens."""
    notes: tuple[str, ...]
    by_bits: bool = False
    """Whether bits per character compare where the masked tokens do not."""


def compare(variants: Sequence[Variant], scheme: str = HEADLINE_SCHEME) -> Comparison:
    """Compare labelled variants; best ones are marked only where the masks are the same.

    Bits per character of models that dropped different words are taken over the words that none of
    them dropped, and compare where the masks do not; of causal models they compare on one text.

    Args:
        variants: the first is the main one.
        scheme: how the test tokens were masked, 'mask-only' or 'bert'.
    """
    lines = [_line(variant, scheme) for variant in variants]
    common = _common_words(variants)
    if common is not None:
        lines = _on_common(lines, common)
    evaluated = [line for line in lines if line.fingerprint is not None]
    prints = {line.fingerprint for line in evaluated}
    notes = [f"{line.name} is not evaluated yet." for line in lines if line.fingerprint is None]
    comparable = len(prints) <= 1
    words = _words_note(lines, common)
    notes += [words] if words else []
    texts = {line.text for line in evaluated}
    by_bits = common is not None or (len(texts) == 1 and None not in texts)
    by_bits &= sum(math.isfinite(line.metrics.get(BITS, math.nan)) for line in lines) > 1
    if not comparable:
        but, other = (" but for bits per character", "other ") if by_bits else ("", "")
        notes.append(
            f"No best is marked{but}: the models were evaluated on {len(prints)} different sets of "
            f"tokens (another tokenizer, test text or evaluation seed), so their {other}numbers do "
            "not compare."
        )
        lines = _with_best(lines, (BITS,)) if by_bits else lines
    elif len(evaluated) > 1:
        alike = len({line.words for line in lines if line.words}) < 2
        lines = _with_best(lines, [name for name in METRICS if alike or name != BITS])
    references = (*_unigrams(evaluated), *_sources(variants, scheme))
    return Comparison(tuple(lines), references, comparable, tuple(notes), by_bits)


def _line(variant: Variant, scheme: str) -> Line:
    evaluation, tokenizer = variant.result("evaluation"), variant.result("tokenizer") or {}
    line = _line_on(variant, scheme, evaluation, tokenizer)
    streams = (evaluation or {}).get("streams", {})
    counted = tokenizer.get("streams", {})
    return replace(
        line,
        streams=tuple(
            replace(_line_on(variant, scheme, on_text, counted.get(name, {})), name=name)
            for name, on_text in streams.items()
        ),
    )


def _line_on(
    variant: Variant, scheme: str, evaluation: dict[str, Any] | None, tokenizer: dict[str, Any]
) -> Line:
    """Return a model's line on one text, from what evaluation and tokenizer left of that text."""
    graft = variant.result("graft")
    metrics: dict[str, float] = {}
    words: dict[str, Any] = {}
    if evaluation is not None:
        words = evaluation.get("words") or evaluation.get("likelihood") or {}
        scores = evaluation["metrics"][headline(evaluation, scheme)]
        measured = {**scores, BITS: words.get(BITS)}
        metrics = {name: float(measured[name]) for name in METRICS if measured[name] is not None}
    return Line(
        name=variant.label,
        method=variant.method,
        parameters=int(graft["parameters"]["total"]) if graft else None,
        tokens=variant.tokens,
        seconds=variant.seconds,
        metrics=metrics,
        fingerprint=str(evaluation["masks"]["fingerprint"]) if evaluation else None,
        unigram_perplexity=math.exp(evaluation["unigram_entropy"]) if evaluation else None,
        words=words.get("words"),
        text=evaluation.get("text") if evaluation and not words.get("unknown") else None,
        targets=int(evaluation["masks"]["positions"]) if evaluation else None,
        unknown=tokenizer.get("statistics", {}).get("test", {}).get("unknown_rate") or 0.0,
    )


def _words_note(lines: Sequence[Line], common: Common | None) -> str:
    """How many words bits per character are over."""
    if common is not None and common.dropped:
        return (
            f"Bits per character are over the {common.words:,} words that every model can score; "
            f"{numbers.percent(common.dropped)} of the chosen ones hold a token that is unknown to "
            "one of them, have more tokens than it reads, or are changed by its tokenizer."
        )
    counted = {line.name: line.words for line in lines if line.words}
    if len(set(counted.values())) > 1:
        text = ", ".join(f"{name} {words:,}" for name, words in counted.items())
        return (
            f"Bits per character are over different words and compare only roughly: {text} words."
        )
    return "".join(f"Bits per character are over {n:,} words." for n in set(counted.values()))


def _common_words(variants: Sequence[Variant]) -> Common | None:
    """The evaluated models on the words that all of them scored.

    None for a single model, where one has no words.tsv, and where the words are not the same.
    """
    stages = [variant.run.stage("evaluation") for variant in variants]
    files = [stage.path / WORDS_FILE for stage in stages if stage.done_path.is_file()]
    if len(files) < 2 or not all(file.is_file() for file in files):
        return None
    return on_common(files)


def _on_common(lines: Sequence[Line], common: Common) -> list[Line]:
    bits, changed = iter(common.bits_per_character), []
    for line in lines:
        if line.fingerprint is not None:
            measured = {**line.metrics, BITS: next(bits)}
            metrics = {name: value for name, value in measured.items() if value is not None}
            line = replace(line, metrics=metrics, words=common.words)
        changed.append(line)
    return changed


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


def _unigrams(evaluated: Sequence[Line]) -> tuple[Line, ...]:
    texts: dict[float, Line] = {}
    for line in evaluated:
        if line.unigram_perplexity is not None:
            texts.setdefault(line.unigram_perplexity, line)
    return tuple(
        Line(
            name="unigrams" if len(texts) == 1 else f"unigrams ({line.name})",
            method="unigrams",
            parameters=None,
            tokens=None,
            seconds=None,
            metrics={"perplexity": perplexity},
            fingerprint=line.fingerprint,
            unigram_perplexity=perplexity,
        )
        for perplexity, line in texts.items()
    )


def _sources(variants: Sequence[Variant], scheme: str) -> list[Line]:
    """Return the sources as they are, asked for the tokens that the trained models were."""
    lines: list[Line] = []
    for variant in variants:
        evaluation = variant.result("evaluation") or {}
        if source := evaluation.get("source"):
            scores = source["metrics"][headline(source, scheme)]
            metrics = {name: float(scores[name]) for name in METRICS if name in scores}
            prints = str(evaluation["masks"]["fingerprint"])
            name = "source as it is" + (f" ({variant.label})" if lines else "")
            lines.append(Line(name, "source", None, None, None, metrics, prints, None))
    return lines


def table_of(compared: Comparison) -> Table:
    """Show the comparison as a table, the unigrams beneath."""
    rows = [
        row(
            line.name,
            *(line.cell(name) for name in METRICS),
            numbers.short(line.tokens),
            numbers.duration(line.seconds),
            numbers.short(line.parameters),
            role="" if line in compared.lines else "reference",
        )
        for line in (*compared.lines, *compared.unigrams)
    ]
    head = ("model", *(metric.title for metric in METRICS.values()), "tokens", "time", "parameters")
    return table("Models compared", head, rows, compared.notes)


def by_stream(compared: Comparison) -> Table | None:
    """Show every model on the test text of every stream; None where there is one text."""
    rows = [
        row(
            line.name,
            stream.name,
            *(stream.shown(name) for name in METRICS),
            numbers.significant(stream.unigram_perplexity),
        )
        for line in compared.lines
        for stream in line.streams
    ]
    metrics = [metric.title for metric in METRICS.values()]
    head: list[str | Column] = ["model", Column("stream", "text"), *metrics, "PPL of unigrams"]
    return table("Every stream's own test text", head, rows).filled() if rows else None


def by_scheme(variants: Sequence[Variant]) -> Table:
    """Show the models under every masking scheme; the notes stand elsewhere."""
    evaluation = variants[0].result("evaluation") or {}
    masked = kind_of(evaluation) == "masked"
    schemes = [HEADLINE_SCHEME, "bert"] if masked else [headline(evaluation)]
    shown = {scheme: table_of(compare(variants, scheme)) for scheme in schemes}
    rows = [
        row(line.cells[0], scheme, *line.cells[1:])
        for scheme, compared in shown.items()
        for line in compared.rows
        if not line.role
    ]
    first, *columns = shown[schemes[0]].columns
    asked = Column("masks" if masked else "asked for", "text")
    return table("Metrics", (first, asked, *columns), rows)


def for_terminal(compared: Comparison, width: int) -> Table:
    """Show the comparison; a terminal narrower than `WIDE` gets fewer columns."""
    full_table = table_of(compared)
    return full_table if width >= WIDE else full_table.only(ESSENTIAL)
