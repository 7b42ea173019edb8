"""Several languages in one run: how each stream was drawn, and which model is better in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lingraft.evaluation import records
from lingraft.log import counted
from lingraft.report import numbers
from lingraft.report.table import BEST, Cell, Column, table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lingraft.evaluation.records import Paired
    from lingraft.report.table import Table
    from lingraft.report.variants import TrainedModel

SOURCE = "the source"


class PairedBits(NamedTuple):
    """Bits per character of two models on the words of a stream that both can score."""

    stream: str
    other: str
    """Label of the second model."""
    paired: Paired

    @property
    def outcome(self) -> str:
        """Return 'better', 'worse', 'no different', or 'unknown' without an interval."""
        gap = self.paired.difference
        if gap is None or gap.low is None or gap.high is None:
            return "unknown"
        if gap.low <= 0 <= gap.high:
            return "no different"
        return "better" if gap.high < 0 else "worse"


def paired_bits(tsv: Path, other_tsv: Path) -> Paired | None:
    """Compare two words.tsv by a paired bootstrap over blocks of the test text.

    Args:
        tsv: of the model that is judged.
        other_tsv: of the one it is judged against.

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
    return records.paired(first.values(), [second[key] for key in first])


def compared(models: Sequence[TrainedModel]) -> list[PairedBits]:
    """Compare the first model with each other one on every stream's words, and with its source.

    With the source on the streams of `evaluation.before`; nothing where there is one text.
    """
    recipe, folder = models[0].recipe, models[0].run.stage("evaluation").path
    files = [
        (stream, model.label, model.run.stage("evaluation").path, records.WORDS_FILE)
        for model in models[1:]
        for stream in recipe.streams
    ]
    files += [
        (stream, SOURCE, folder, records.BEFORE_FILE)
        for stream in recipe.texts
        if stream.name in recipe.evaluation.before
    ]
    pairs = []
    for stream, label, place, name in files:
        own = folder / f"{stream.prefix}{records.WORDS_FILE}"
        found = paired_bits(own, place / f"{stream.prefix}{name}")
        if found is not None:
            pairs.append(PairedBits(stream.name or stream.language, label, found))
    return pairs


def verdict(main: str, pairs: Sequence[PairedBits]) -> str:
    """Say in which languages a model is better, a sentence for each that it is compared with."""
    sentences = []
    for label in dict.fromkeys(pair.other for pair in pairs):
        own = [pair for pair in pairs if pair.other == label]
        by_outcome = {
            outcome: [pair.stream for pair in own if pair.outcome == outcome]
            for outcome in ("better", "worse", "no different", "unknown")
        }
        counts = (f"{outcome} in {len(names)} ({', '.join(names)})"
                  for outcome, names in by_outcome.items() if names)  # fmt: skip
        sentences.append(
            f"In bits per character {main} is, beside {label}, of {counted(len(own), 'stream')} "
            f"{', '.join(counts)} (95 % interval of a paired bootstrap over the test text)."
        )
    return " ".join(sentences)


def table_of(main: str, pairs: Sequence[PairedBits]) -> Table | None:
    """Show the pairs with their intervals; None where there are none."""
    rows = []
    for pair in pairs:
        ours, theirs = pair.paired.bits
        best = {"better": (BEST, 0), "worse": (0, BEST)}.get(pair.outcome, (0, 0))
        gap = pair.paired.difference
        bounds = numbers.between(gap.low, gap.high, 3, sign=True) if gap else numbers.ABSENT
        rows.append(
            (
                pair.stream,
                pair.other,
                numbers.count(pair.paired.words),
                Cell(numbers.fixed(ours, 3), rank=best[0]),
                Cell(numbers.fixed(theirs, 3), rank=best[1]),
                numbers.signed(ours - theirs, 3),
                bounds,
            )
        )
    texts = (Column("against", "text"), "words", main, "the other", "difference", "95 % interval")
    return table("Bits per character by stream", ("stream", *texts), rows) if rows else None
