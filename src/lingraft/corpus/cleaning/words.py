"""Words of a text in any script, for what compares texts word by word."""

from __future__ import annotations

import unicodedata
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import regex

if TYPE_CHECKING:
    from collections.abc import Sequence

# Scripts that put no spaces between words: a character counts as a word.
WORD = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*|"
    r"[\p{L}\p{N}--[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]]"
    r"[\p{L}\p{N}\p{M}--[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]]*",
    regex.VERSION1,
)

# Of these scripts, which spell words by their sounds, about so many characters make a word.
SPELT = regex.compile(r"[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")
SPELT_CHARACTERS = 4

NO_LETTER = regex.compile(r"[^\p{L}\p{N}\p{M}]+")


def letters(text: str) -> str:
    """The letters (with their marks) and digits of a text, of one case and width (NFKC).

    White space and punctuation go: what is left is the same however somebody spaced the text.
    """
    characters: str = NO_LETTER.sub("", unicodedata.normalize("NFKC", text).casefold())
    return characters


def words(text: str) -> list[str]:
    """The words of a text, case folded, without punctuation.

    A word is a run of letters, marks and digits between other characters (in Korean an eojeol
    without its punctuation); in scripts that do not part words (Chinese, Japanese, Thai, Lao,
    Khmer, Burmese) it is a character with its marks.
    """
    matches: list[str] = WORD.findall(text.casefold())
    return matches


def measured(tokens: Sequence[str]) -> Sequence[int]:
    """How far a text reaches before each of its words, and at its end, in quarters of a word.

    Four characters of Thai, Lao, Khmer and Burmese are as long as a word; one of Chinese or
    Japanese counts as one, as it does in `words`.
    """
    if not SPELT.search("".join(tokens)):
        return range(0, SPELT_CHARACTERS * len(tokens) + 1, SPELT_CHARACTERS)
    quarters = (1 if SPELT.match(token) else SPELT_CHARACTERS for token in tokens)
    return list(accumulate(quarters, initial=0))


def ends(reach: Sequence[int], size: int) -> Sequence[int]:
    """Where the runs of `size` words end that start at the first word, at the second ….

    Args:
        reach: of `measured`.
        size: of a run.

    Returns:
        An entry for each run that the text is long enough for; none for a text of fewer words.
    """
    if isinstance(reach, range):
        return range(size, len(reach))
    stops = np.searchsorted(reach, np.array(reach[:-1]) + SPELT_CHARACTERS * size)
    return [stop for stop in stops.tolist() if stop < len(reach)]
