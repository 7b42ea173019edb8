"""Several languages in one run: what each stream is, how it was drawn, and who is better in it.

Shape letters: W words, B blocks of the test text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lingraft.evaluation import records
from lingraft.log import counted
from lingraft.report import numbers
from lingraft.report.table import BEST, Cell, Column, table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lingraft.report.table import Table
    from lingraft.report.variants import Variant

PORTIONS = ("draws", "tokens")
"""What a phase counts of each stream, and a stream has a share of."""


@dataclass(frozen=True)
class PairedBits:
    """Bits per character of two models on the words that both can score."""

    stream: str
    other: str
    """Label of the second model."""
    words: int
    ours: float
    theirs: float
    low: float | None
    """Bounds of the 95 % interval of `difference`; None where the test text is too small."""
    high: float | None

    @property
    def difference(self) -> float:
        """Ours less theirs: below 0 we are better."""
        return self.ours - self.theirs

    @property
    def outcome(self) -> str:
        """'better', 'worse', 'not clearly different', or 'not known' without an interval."""
        if self.low is None or self.high is None:
            return "not known"
        if self.low <= 0 <= self.high:
            return "not clearly different"
        return "better" if self.high < 0 else "worse"


def paired_bits(tsv: Path, other_tsv: Path, stream: str, other: str) -> PairedBits | None:
    """Compare two words.tsv by a paired bootstrap over blocks of the test text.

    Args:
        tsv: of the model that is judged.
        other_tsv: of the one it is judged against.
        stream: whose text it is.
        other: what the second model is called.

    Returns:
        None where a file is not there, they hold other words, or no word is scored by both.

    Raises:
        DataError: a file is broken.
    """
    if not (tsv.is_file() and other_tsv.is_file()):
        return None
    first, second = ({word.word: word for word in records.read(path)} for path in (tsv, other_tsv))
    if first.keys() != second.keys():
        return None
    found = records.paired(first.values(), [second[key] for key in first])
    if found is None:
        return None
    bounds = (found.difference.low, found.difference.high) if found.difference else (None, None)
    return PairedBits(stream, other, found.words, *found.bits, *bounds)


def words_file(variant: Variant, stream: str) -> Path:
    """Name the file of the scored words of a stream."""
    prefix = f"{stream}-" if stream else ""
    return variant.run.stage("evaluation").path / f"{prefix}{records.WORDS_FILE}"


def compared(variants: Sequence[Variant]) -> list[PairedBits]:
    """Compare the first model with each other one, on every stream's words; [] for one text."""
    main, rivals = variants[0], variants[1:]
    pairs = (
        paired_bits(words_file(main, s.name), words_file(rival, s.name), s.name, rival.label)
        for rival in rivals
        for s in main.recipe.streams
    )
    return [pair for pair in pairs if pair is not None]


SOURCE = "the source"


def against_source(main: Variant) -> list[PairedBits]:
    """Compare the model with what it came from, on the streams of `evaluation.before`."""
    folder, pairs = main.run.stage("evaluation").path, []
    for stream in main.recipe.texts:
        if stream.name in main.recipe.evaluation.before:
            source_file = folder / f"{stream.prefix}{records.BEFORE_FILE}"
            file = words_file(main, stream.name)
            pairs.append(paired_bits(file, source_file, stream.name or stream.language, SOURCE))
    return [pair for pair in pairs if pair is not None]


def kept_or_lost(pairs: Sequence[PairedBits]) -> str:
    """Say which of the source's languages were kept, in a sentence."""
    lost_streams = [pair.stream for pair in pairs if pair.outcome == "worse"]
    kept_streams = [pair.stream for pair in pairs if pair.outcome not in ("worse", "not known")]
    unknown = [pair.stream for pair in pairs if pair.outcome == "not known"]
    parts = [f"kept: {', '.join(kept_streams)}"] if kept_streams else []
    parts += [f"lost in part: {', '.join(lost_streams)}"] if lost_streams else []
    parts += [f"too little text to tell: {', '.join(unknown)}"] if unknown else []
    return (
        f"Against the source itself in bits per character, {'; '.join(parts)} (a language is lost "
        "in part where the whole 95 % interval of the difference is above 0)."
    )


def summary(variants: Sequence[Variant]) -> str:
    """Say for a terminal where the first model is better, and what it kept; empty of one text."""
    pairs = against_source(variants[0])
    texts = [verdict(variants[0].label, compared(variants)), kept_or_lost(pairs) if pairs else ""]
    return " ".join(filter(None, texts))


def verdict(main: str, pairs: Sequence[PairedBits]) -> str:
    """Say in which languages the first model is better, a sentence for each other model."""
    sentences = []
    for label in dict.fromkeys(pair.other for pair in pairs):
        own = [pair for pair in pairs if pair.other == label]
        better = [pair.stream for pair in own if pair.outcome == "better"]
        worse = [pair.stream for pair in own if pair.outcome == "worse"]
        sentence = f"In bits per character {main} is better than {label} in {len(better)} of "
        sentence += f"{counted(len(own), 'stream')}{_named(better)}"
        sentence += f", worse in {len(worse)}{_named(worse)}" if worse else ""
        unclear = sum(pair.outcome == "not clearly different" for pair in own)
        differ = "differs" if unclear == 1 else "differ"
        sentence += f"; {unclear} {differ} by no more than chance" if unclear else ""
        unknown = [pair.stream for pair in own if pair.outcome == "not known"]
        sentence += f"; too little text to tell: {', '.join(unknown)}" if unknown else ""
        sentences.append(f"{sentence} (95 % interval of a paired bootstrap over the test text).")
    return " ".join(sentences)


def _named(streams: Sequence[str]) -> str:
    return f" ({', '.join(streams)})" if streams else ""


def table_of(main: str, pairs: Sequence[PairedBits], title: str) -> Table | None:
    """Show the pairs with their intervals; None where there are none."""
    rows = []
    for pair in pairs:
        best = {"better": (BEST, 0), "worse": (0, BEST)}.get(pair.outcome, (0, 0))
        bounds = (
            numbers.ABSENT
            if pair.low is None or pair.high is None
            else f"{numbers.signed(pair.low, 3)} … {numbers.signed(pair.high, 3)}"
        )
        rows.append(
            (
                pair.stream,
                pair.other,
                numbers.count(pair.words),
                Cell(numbers.fixed(pair.ours, 3), rank=best[0]),
                Cell(numbers.fixed(pair.theirs, 3), rank=best[1]),
                numbers.signed(pair.difference, 3),
                bounds,
            )
        )
    texts = (Column("against", "text"), "words", main, "the other", "difference", "95 % interval")
    return table(title, ("stream", *texts), rows) if rows else None


def draws(variant: Variant) -> Table | None:
    """Count how often each stream was drawn, and its tokens, phase by phase."""
    rows = []
    for phase in variant.phases:
        streams = (phase.result or {}).get("streams") or {}
        total = {key: sum(counts.get(key, 0) for counts in streams.values()) for key in PORTIONS}
        for label, stream in streams.items():
            shares = [
                numbers.percent(stream[key] / total[key], 2)
                if total[key] and key in stream  # tokens were not counted in older runs
                else numbers.ABSENT
                for key in PORTIONS
            ]
            rows.append(
                (
                    str(label),
                    phase.name,
                    numbers.count(stream["sentences"]),
                    numbers.percent(stream["probability"], 2),
                    numbers.count(stream["draws"]),
                    *shares,
                    numbers.fixed(stream["draws"] / stream.get("samples", stream["sentences"]), 2),
                )
            )
    begin = ("stream", Column("phase", "text"), "sentences", "probability", "draws")
    head = (*begin, "share", "share of tokens", "passes")
    return table("How the streams were drawn", head, rows) if rows else None
