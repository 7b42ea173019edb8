"""Check sentence pairs of two languages, and write them as TSV; `readers.parallel` reads them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lingraft.corpus.cleaning import clean, duplicates, scripts
from lingraft.corpus.readers.lines import batched
from lingraft.errors import DataError, writing
from lingraft.files import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

EMPTY, IDENTICAL = "an empty side", "identical sides"
TOO_LONG, LENGTH_RATIO = "a side too long", "length ratio"
WRONG_SCRIPT_SOURCE, WRONG_SCRIPT_TARGET = "source in another script", "target in another script"
FOREIGN_SOURCE, FOREIGN_TARGET = "source in another language", "target in another language"
DUPLICATE = "duplicate pair"
BATCH_PAIRS = 8_192


class Pair(NamedTuple):
    """A sentence or word and its translation, the target language first as in a line of TSV."""

    target: str
    source: str


MAX_RATIO, LENGTH_SMOOTHING = 4.5, 10
"""Longer side by the shorter one in characters, 10 added to both so that short sentences are not
dropped for a word. Of 274,497 English-Korean pairs of manuals, 1,000 English-Chinese and 3,575
English-German ones, 99.9 % and more are below 4.3."""


@dataclass
class Checker:
    """A filter of bad pairs that counts why.

    Attributes:
        source_scripts: ISO 15924 codes of the source language; none switches the check off. A side
            without letters passes.
        target_scripts: of the target language.
        max_characters: of either side.
        source_foreign: tells which texts are in another language than the source's (say
            `LanguageIdentifier.foreign`); None switches the check off.
        target_foreign: of the target language.
        dropped: pairs left out, by reason.
        seen: pairs that were kept, as hashes; about 70 bytes each.
    """

    source_scripts: tuple[str, ...] = ()
    target_scripts: tuple[str, ...] = ()
    max_characters: int = 5_000
    source_foreign: Callable[[Sequence[str]], NDArray[np.bool_]] | None = None
    target_foreign: Callable[[Sequence[str]], NDArray[np.bool_]] | None = None
    dropped: Counter[str] = field(default_factory=Counter)
    seen: set[int] = field(default_factory=set)

    def check(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Give the good pairs, normalised (`clean.normalise`), in their order.

        Cheap checks come first; a duplicate is one of a pair that passed the others.
        """
        normalised = (Pair(*map(clean.normalise, pair)) for pair in pairs)
        for batch in batched(normalised, BATCH_PAIRS):
            for find in (self._by_length, self._by_script, self._by_language, self._by_repetition):
                reasons = find(batch) if batch else []
                self.dropped.update(filter(None, reasons))
                batch = [pair for pair, why in zip(batch, reasons, strict=True) if not why]
            yield from batch

    def _length_reason(self, pair: Pair) -> str:
        short, long = sorted(map(len, pair))
        if not short:
            return EMPTY
        if pair.source.casefold() == pair.target.casefold():
            return IDENTICAL
        if long > self.max_characters:
            return TOO_LONG
        ratio = (long + LENGTH_SMOOTHING) / (short + LENGTH_SMOOTHING)
        return LENGTH_RATIO if ratio > MAX_RATIO else ""

    def _by_length(self, batch: list[Pair]) -> list[str]:
        return [self._length_reason(pair) for pair in batch]

    def _by_script(self, batch: list[Pair]) -> list[str]:
        _, source = scripts.shares([pair.source for pair in batch], self.source_scripts)
        _, target = scripts.shares([pair.target for pair in batch], self.target_scripts)
        conditions = [side < clean.MIN_SCRIPT_SHARE for side in (source, target)]
        names = [WRONG_SCRIPT_SOURCE, WRONG_SCRIPT_TARGET]
        return [str(name) for name in np.select(conditions, names, default="")]

    def _by_language(self, batch: list[Pair]) -> list[str]:
        reasons = [""] * len(batch)
        for foreign, name, side in (
            (self.target_foreign, FOREIGN_TARGET, [pair.target for pair in batch]),
            (self.source_foreign, FOREIGN_SOURCE, [pair.source for pair in batch]),
        ):
            if foreign is not None:
                for row in np.flatnonzero(foreign(side)):
                    reasons[row] = name
        return reasons

    def _by_repetition(self, batch: list[Pair]) -> list[str]:
        reasons = []
        for key in duplicates.hashes(f"{pair.source}\t{pair.target}" for pair in batch).tolist():
            reasons.append(DUPLICATE if key in self.seen else "")
            self.seen.add(key)
        return reasons


def write_tsv(pairs: Iterable[Pair], path: Path, dropped: Sequence[Counter[str]] = ()) -> int:
    """Write pairs as `target TAB source`, a pair a line, UTF-8; return how many.

    Args:
        pairs: normalised ones (a `Checker`'s); tabs and line ends in a side become spaces.
        path: replaced if it exists, once the last pair is written.
        dropped: what was left out, by reason.

    Raises:
        DataError: no pair is left, or the file cannot be written.
    """
    count = 0
    with (
        writing(path, "make room or choose another place"),
        replacing(path) as partial,
        partial.open("w", encoding="utf-8", newline="\n") as file,
    ):
        for pair in pairs:
            file.write("\t".join(" ".join(side.split()) for side in pair) + "\n")
            count += 1
        if not count:
            reasons = ", ".join(f"{n:,} {reason}" for reason, n in sum(dropped, Counter()).items())
            raise DataError(
                f"{path}: no pair is left (dropped: {reasons or 'none'}); check the files, the "
                "languages and the columns"
            )
    return count
