"""Documents that mostly repeat themselves, or are lists and teasers rather than text.

The measures and limits are those of Gopher (Rae et al. 2021, arXiv 2112.11446, appendix A.1.1,
Table A1), with `words` in place of English words so that they hold for scripts without spaces.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from lingraft.corpus.cleaning.words import ends, measured, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lingraft.recipe import Repetition

REPEATED_LINES, REPEATED_PARAGRAPHS = "repeated lines", "repeated paragraphs"
FREQUENT_PHRASE, REPEATED_PHRASES = "one phrase too frequent", "repeated phrases"
LIST, TEASERS = "mostly a list", "mostly cut-off lines"

BULLETS = tuple("•‣▪▶●○■□◦‧∙·*-–ㆍ※")
ELLIPSES = ("…", "...", "⋯")


def reason(document: str, limits: Repetition) -> str:
    """The reason for which a document is dropped, the first that applies; '' where it is kept."""
    return next((name for name, holds in _checks(document, limits) if holds), "")


def _checks(document: str, limits: Repetition) -> Iterator[tuple[str, bool]]:
    """Each reason and whether it holds; a generator, so that none is worked out after the first."""
    tokens = words(document)
    reach = measured(tokens)
    if not ends(reach, limits.min_words):
        return
    lines = [line.strip() for line in document.splitlines() if line.strip()]
    parts = document.replace("\r\n", "\n").split("\n\n")
    paragraphs = [part.strip() for part in parts if part.strip()]
    bullets = sum(line.startswith(BULLETS) for line in lines)
    ellipses = sum(line.endswith(ELLIPSES) for line in lines)
    yield REPEATED_LINES, _repeats(lines, limits)
    yield REPEATED_PARAGRAPHS, _repeats(paragraphs, limits)
    yield LIST, bullets > limits.bullets * len(lines)
    yield TEASERS, ellipses > limits.ellipses * len(lines)
    yield FREQUENT_PHRASE, _has_frequent_phrase(tokens, reach, limits.frequent)
    yield REPEATED_PHRASES, _repeats_phrases(tokens, reach, limits.repeated)


def _repeats(pieces: list[str], limits: Repetition) -> bool:
    counts = Counter(pieces)
    repeated = sum(counts.values()) - len(counts)
    characters = sum(len(piece) * (count - 1) for piece, count in counts.items())
    total = sum(map(len, pieces))
    return repeated > limits.lines * len(pieces) or characters > limits.line_characters * total


def _has_frequent_phrase(
    tokens: list[str], reach: Sequence[int], limits: tuple[float, ...]
) -> bool:
    total = sum(map(len, tokens))
    for size, limit in enumerate(limits, start=2):
        stops = enumerate(ends(reach, size))
        grams = Counter(tuple(tokens[start:stop]) for start, stop in stops)
        if not grams:
            return False
        most = max(grams.values())
        # Of several that are as frequent, the one that covers most characters counts.
        length = max(sum(map(len, gram)) for gram, count in grams.items() if count == most)
        if most > 1 and most * length > limit * total:
            return True
    return False


def _repeats_phrases(tokens: list[str], reach: Sequence[int], limits: tuple[float, ...]) -> bool:
    lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
    total = int(lengths.sum())
    for size, limit in enumerate(limits, start=5):
        grams: set[tuple[str, ...]] = set()
        covered = np.zeros(len(tokens), np.bool_)
        for start, stop in enumerate(ends(reach, size)):
            gram = tuple(tokens[start:stop])
            if gram in grams:
                covered[start:stop] = True
            grams.add(gram)
        if int(lengths[covered].sum()) > limit * total:
            return True
    return False
