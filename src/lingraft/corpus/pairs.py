"""Sentence pairs of two languages: checked, and written as TSV; `readers.parallel` reads them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lingraft.corpus.cleaning import clean, dedup, scripts
from lingraft.corpus.readers.lines import batched
from lingraft.errors import DataError, writing
from lingraft.rundir import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

KEPT = ""
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
"""Of the longer to the shorter side in characters, 10 added to both so that short sentences are not
dropped for a word. Of 274,497 English-Korean pairs of manuals, 1,000 English-Chinese and 3,575
English-German ones, 99.9 % and more are below 4.3."""


@dataclass
class Checker:
    """Drops bad pairs and counts why.

    Attributes:
        source_scripts: ISO 15924 codes of the source language; none switches the check off.
        target_scripts: of the target language.
        max_characters: of either side.
        min_script_share: share of the letters of each side that belong to its language's scripts;
            a side without letters passes.
        source_foreign: tells which texts are in another language than the source's (say
            `LanguageIdentifier.foreign`); None switches the check off.
        target_foreign: of the target language.
        dropped: pairs left out, by reason.
        seen: pairs that were kept, as hashes; about 70 bytes each.
        swapped: of the pairs of a wrong script or language, those that fit with sides swapped.
    """

    source_scripts: tuple[str, ...] = ()
    target_scripts: tuple[str, ...] = ()
    max_characters: int = 5_000
    min_script_share: float = 0.1
    source_foreign: Callable[[Sequence[str]], NDArray[np.bool_]] | None = None
    target_foreign: Callable[[Sequence[str]], NDArray[np.bool_]] | None = None
    dropped: Counter[str] = field(default_factory=Counter)
    seen: set[int] = field(default_factory=set)
    swapped: int = 0

    def check(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """The good pairs, normalised (`clean.normalise`), in their order.

        Raises:
            DataError: more pairs would fit with their sides swapped; at the end.
        """
        normalised = (Pair(*map(clean.normalise, pair)) for pair in pairs)
        kept = 0
        for batch in batched(normalised, BATCH_PAIRS):
            for pair in self._check_batch(batch):
                kept += 1
                yield pair
        fit = kept + self.dropped[DUPLICATE]
        if self.swapped > fit:
            raise DataError(
                f"the two sides of the pairs seem to be the other way round: {fit:,} fit their "
                f"languages, {self.swapped:,} would if they were swapped; swap the languages, or "
                "the columns of the file"
            )

    def _check_batch(self, batch: list[Pair]) -> Iterator[Pair]:
        """Cheap checks first; a duplicate is one of a pair that passed the others."""
        for find in (self._by_length, self._by_script, self._by_language, self._by_repetition):
            if not batch:
                return
            reasons = find(batch)
            self.dropped.update(reason for reason in reasons if reason != KEPT)
            if find in (self._by_script, self._by_language):
                bad = [pair for pair, why in zip(batch, reasons, strict=True) if why != KEPT]
                self.swapped += self._fitting_swapped(bad)
            batch = [pair for pair, why in zip(batch, reasons, strict=True) if why == KEPT]
        yield from batch

    def _fitting_swapped(self, batch: list[Pair]) -> int:
        if not batch:
            return 0
        swapped = [Pair(target=pair.source, source=pair.target) for pair in batch]
        reasons = zip(self._by_script(swapped), self._by_language(swapped), strict=True)
        return sum(not any(why) for why in reasons)

    def _by_length(self, batch: list[Pair]) -> list[str]:
        return [self._length_reason(pair) for pair in batch]

    def _length_reason(self, pair: Pair) -> str:
        short, long = sorted((len(pair.source), len(pair.target)))
        if not short:
            return EMPTY
        if pair.source.casefold() == pair.target.casefold():
            return IDENTICAL
        if long > self.max_characters:
            return TOO_LONG
        ratio = (long + LENGTH_SMOOTHING) / (short + LENGTH_SMOOTHING)
        return LENGTH_RATIO if ratio > MAX_RATIO else KEPT

    def _by_script(self, batch: list[Pair]) -> list[str]:
        limit = self.min_script_share
        _, source = scripts.shares([pair.source for pair in batch], self.source_scripts)
        _, target = scripts.shares([pair.target for pair in batch], self.target_scripts)
        conditions = [source < limit, target < limit]
        names = [WRONG_SCRIPT_SOURCE, WRONG_SCRIPT_TARGET]
        return [str(name) for name in np.select(conditions, names, default=KEPT)]

    def _by_language(self, batch: list[Pair]) -> list[str]:
        reasons = [KEPT] * len(batch)
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
        keys = dedup.hashes(f"{pair.source}\t{pair.target}" for pair in batch)
        for key in keys.tolist():
            reasons.append(DUPLICATE if key in self.seen else KEPT)
            self.seen.add(key)
        return reasons


def write_tsv(pairs: Iterable[Pair], path: Path) -> int:
    """Write pairs as `target TAB source`, a pair a line, UTF-8.

    Args:
        pairs: normalised ones (a `Checker`'s); tabs and line ends in a side become spaces.
        path: replaced if it exists, once the last pair is written.

    Returns:
        How many.

    Raises:
        DataError: the file cannot be written.
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
    return count
