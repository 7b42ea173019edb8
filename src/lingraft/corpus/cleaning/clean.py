"""Bring text into one form, and tell which sentences are not worth keeping."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

import numpy as np
import regex

from lingraft.corpus.cleaning import scripts as scripts_module
from lingraft.corpus.readers.lines import HOLE, REPLACEMENT_CHARACTER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lingraft import recipe

TOO_SHORT, TOO_LONG = "too short", "too long"
FEW_LETTERS, WRONG_SCRIPT = "few letters", "wrong script"
DAMAGED = "damaged characters"
DUPLICATE = "duplicate"
WORDS_MISSING = "words missing or mark-up left (of a wiki)"
OTHER_LANGUAGE, CONTAMINATED = "other language", "occurs in an evaluation"
KEPT = ""

# Index in this tuple = the code that `reasons` gives.
REASONS = (
    *(KEPT, TOO_SHORT, TOO_LONG, DAMAGED, FEW_LETTERS, WRONG_SCRIPT, OTHER_LANGUAGE),
    *(CONTAMINATED, DUPLICATE, WORDS_MISSING),
)
MIN_LETTER_SHARE = 0.2
"""Share of letters among the characters of a sentence that are no white space."""
MIN_SCRIPT_SHARE = 0.1
"""Share of the language's scripts among the letters; one Hangul syllable stands for several."""

# Deleted: controls that are not white space, soft hyphen, zero-width space, direction marks, word
# joiner and invisible operators, byte order mark, interlinear marks, noncharacters, and surrogates.
# Kept: the zero-width joiner and non-joiner (U+200D, U+200C), which change words in Persian and
# Indic scripts and join emoji, and Mongolian's vowel separator (U+180E), which does so there.
INVISIBLE_CHARACTERS = (
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffc\ufffe\uffff\ufdd0-\ufdef"
)
"""As ranges of a regular expression."""
INVISIBLE = re.compile(f"[{INVISIBLE_CHARACTERS}\ud800-\udfff]")
# Letters to Unicode, blanks to the eye: Korean pages use them as spaces.
HANGUL_FILLERS = re.compile("[\u3164\uffa0]")
# Unicode's normal forms take a time that grows with the square of a run of combining marks (80,000
# of them: 19 s); no script puts more than 30 on a letter (UAX #15, Stream-Safe Text Format).
LONG_RUN = 1_000
MARKS = regex.compile(r"(\p{M}{30})\p{M}{970,}+")


def normalise(line: str) -> str:
    """Return a line of text in the form that everything downstream sees.

    Invisible characters go (see `INVISIBLE`), Unicode form NFC, runs of white space of any kind
    become one space, none at the ends. Of a thousand combining marks or more on one letter, 30
    stay. Applying it twice changes nothing.
    """
    line = HANGUL_FILLERS.sub(" ", INVISIBLE.sub("", line))
    if len(line) > LONG_RUN:
        line = MARKS.sub(r"\1", line)
    return " ".join(unicodedata.normalize("NFC", line).split())


def reasons(
    sentences: Sequence[str], section: recipe.Corpus, scripts: tuple[str, ...]
) -> NDArray[np.int8]:
    """Return why each sentence is dropped, the first reason that applies; 0 for those kept.

    Args:
        sentences: normalised, none empty.
        section: the limits.
        scripts: the language's; none switches that filter off.

    Returns:
        int8, an index into `REASONS` for each sentence; OTHER_LANGUAGE, CONTAMINATED and DUPLICATE
        are found elsewhere.
    """
    if not sentences:
        return np.zeros(0, np.int8)
    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
    damaged, incomplete = (
        np.fromiter((mark in sentence for sentence in sentences), np.bool_, len(sentences))
        for mark in (REPLACEMENT_CHARACTER, HOLE)
    )
    letter_share, script_share = scripts_module.shares(sentences, scripts)
    checks = {
        WORDS_MISSING: incomplete,
        TOO_SHORT: lengths < section.min_characters,
        TOO_LONG: lengths > section.max_characters,
        DAMAGED: damaged,
        FEW_LETTERS: letter_share < MIN_LETTER_SHARE,
        WRONG_SCRIPT: script_share < MIN_SCRIPT_SHARE,
    }
    codes = [REASONS.index(reason) for reason in checks]
    return np.select(list(checks.values()), codes, default=0).astype(np.int8)
