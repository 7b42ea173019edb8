"""Bilingual lexicons: which words of the source language a word of the target language means.

Read from tab-separated columns, or from MUSE's two words with a space (Conneau et al. 2018).
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lingraft.corpus.cleaning.clean import normalise
from lingraft.corpus.pairs import Pair
from lingraft.corpus.readers.lines import REPLACEMENT_CHARACTER, Reading, text_lines
from lingraft.errors import DataError
from lingraft.paths import path_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

logger = logging.getLogger(__name__)

NOT_TWO_COLUMNS, EMPTY = "not two columns", "an empty side"
TOO_LONG, DAMAGED, DUPLICATE = "longer than a word or phrase", "damaged characters", "duplicate"
MAX_CHARACTERS = 100
MAX_LINE_BYTES = 1 << 20


@dataclass(frozen=True)
class Lexicon:
    """Words with their translations."""

    pairs: list[Pair]
    """Normalised, in the order of the files, each once."""
    translations: dict[str, list[str]]
    """For a target word its translations, in the order of the files, each once."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Lines and entries left out, by reason."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> Lexicon:
        """Normalise, check and collect pairs of a target-language and a source-language word."""
        by_target: dict[str, dict[str, None]] = {}
        entries: dict[Pair, None] = {}
        dropped: Counter[str] = Counter()
        for target, source in pairs:
            entry = Pair(normalise(target), normalise(source))
            reason = DUPLICATE if entry in entries else _reason(entry)
            if reason is not None:
                dropped[reason] += 1
                continue
            entries[entry] = None
            by_target.setdefault(entry.target, {})[entry.source] = None
        return cls(
            list(entries), {word: list(meanings) for word, meanings in by_target.items()}, dropped
        )


def _reason(entry: Pair) -> str | None:
    if not all(entry):
        return EMPTY
    if max(map(len, entry)) > MAX_CHARACTERS:
        return TOO_LONG
    return DAMAGED if any(REPLACEMENT_CHARACTER in side for side in entry) else None


def read(
    names: Sequence[str | Path], *, swap: bool = False, columns: tuple[int, int] | None = None
) -> Lexicon:
    """Read lexicon files.

    Args:
        names: text files, perhaps compressed.
        swap: False where the word of the target language comes first, True
            where that of the source language does.
        columns: of tab-separated files with more than two columns, the first and the second word's,
            counted from 0. None takes lines of exactly two; a line without a tab is two words with
            space between.

    Returns:
        Every pair once; `dropped` counts what was left out.

    Raises:
        DataError: a file is not there, cannot be read or holds no pair.
    """
    dropped: Counter[str] = Counter()
    pairs: list[tuple[str, str]] = []
    for name in names:
        path = path_of(name)
        if not path.is_file():
            raise DataError(f"{name}: no such file; give a lexicon, two columns separated by a tab")
        before = len(pairs)
        rows = _text(path, columns, dropped)
        pairs += ((second, first) if swap else (first, second) for first, second in rows)
        if len(pairs) == before:
            raise DataError(
                f"{path}: holds no pair of words; give two columns separated by a tab "
                "(scripts/convert_dictionary.py makes them of FreeDict and StarDict)"
            )
    lexicon = Lexicon.of(pairs)
    lexicon.dropped.update(dropped)
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in lexicon.dropped.items())
    if not lexicon.pairs:
        raise DataError(f"{names[0]}: none of its {len(pairs):,} pairs is usable ({reasons})")
    logger.info("lexicon: %s pairs; left out: %s", f"{len(lexicon.pairs):,}", reasons or "none")
    return lexicon


def _text(
    path: Path, columns: tuple[int, int] | None, dropped: Counter[str]
) -> Iterator[tuple[str, str]]:
    reading = Reading()
    for line in text_lines(path, MAX_LINE_BYTES, reading):
        if not line.strip():
            continue
        cells = line.split("\t") if "\t" in line or columns is not None else line.split()
        if columns is None and len(cells) == 2:
            yield cells[0], cells[1]
        elif columns is not None and len(cells) > max(columns):
            yield cells[columns[0]], cells[columns[1]]
        else:
            dropped[NOT_TWO_COLUMNS] += 1
    dropped.update(reading.dropped)
