"""Read bilingual lexicons: the words of the source language that a target word means.

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
    from collections.abc import Iterable, Sequence
    from pathlib import Path

logger = logging.getLogger(__name__)

NOT_TWO_COLUMNS, EMPTY = "not two columns", "an empty side"
TOO_LONG, DAMAGED, DUPLICATE = "longer than a word or phrase", "damaged characters", "duplicate"
MAX_CHARACTERS = 100


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
        translations: dict[str, list[str]] = {}
        entries: dict[Pair, None] = {}
        dropped: Counter[str] = Counter()
        for target, source in pairs:
            entry = Pair(normalise(target), normalise(source))
            reason = DUPLICATE if entry in entries else _reason(entry)
            if reason is not None:
                dropped[reason] += 1
                continue
            entries[entry] = None
            translations.setdefault(entry.target, []).append(entry.source)
        return cls(list(entries), translations, dropped)


def _reason(entry: Pair) -> str | None:
    if not all(entry):
        return EMPTY
    if max(map(len, entry)) > MAX_CHARACTERS:
        return TOO_LONG
    return DAMAGED if any(REPLACEMENT_CHARACTER in side for side in entry) else None


def read(names: Sequence[str | Path], *, swap: bool = False) -> Lexicon:
    """Read lexicon files.

    Args:
        names: text files, perhaps compressed, of two columns with a tab between them, or of two
            words with space.
        swap: False where the word of the target language comes first, True
            where that of the source language does.

    Returns:
        Every pair once; `dropped` counts what was left out.

    Raises:
        DataError: a file cannot be read, or no pair is usable.
    """
    reading, rows = Reading(), list[tuple[str, str]]()
    for line in (line for name in names for line in text_lines(path_of(name), reading)):
        cells = line.split("\t") if "\t" in line else line.split()
        if len(cells) == 2:
            rows.append((cells[swap], cells[not swap]))
        elif cells:
            reading.drop(NOT_TWO_COLUMNS)
    lexicon = Lexicon.of(rows)
    lexicon.dropped.update(reading.dropped)
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in lexicon.dropped.items())
    if not lexicon.pairs:
        raise DataError(
            f"{names[0]}: holds no pair of words (left out: {reasons or 'none'}); give two columns "
            "separated by a tab (scripts/convert_dictionary.py makes them of FreeDict and StarDict)"
        )
    logger.info("lexicon: %s pairs; left out: %s", f"{len(lexicon.pairs):,}", reasons or "none")
    return lexicon
