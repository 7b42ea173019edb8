"""Bring text into one form, and tell which sentences are not worth keeping.

Cut documents into normalised sentences.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

import numpy as np
import regex
import sentencex

from lingraft.corpus.cleaning.scripts import language_subtag, shares
from lingraft.corpus.readers.lines import HOLE, REPLACEMENT_CHARACTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
    letter_share, script_share = shares(sentences, scripts)
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


# How one piece ends and the next begins where they belong together: a dotted name or address
# ("email.mime.", "MIMEBase"), and a date or section number ("1976. ", "3. ").
TAIL_CHARACTERS = 3
DOTTED = re.compile(r"[A-Za-z0-9_][.?!]\Z"), re.compile(r"[A-Za-z0-9_]")
NUMBERS = re.compile(r"\d\. \Z"), re.compile(r"\d")
# A quotation that the sentence goes on behind: `"빌려 달라."라고 했다`, `「行く。」と言った`.
# A new sentence would stand behind a space, or (in Chinese and Japanese) a mark.
QUOTATION = re.compile(r"[\"'”’»」』》〉]\Z"), re.compile(r"[^\W\d_]")
# A closing mark is never the beginning of anything.
CLOSING = re.compile(r"[.?!…。！？]\Z"), re.compile(r"[”’»」』》〉]")
JOINED = (DOTTED, NUMBERS, QUOTATION, CLOSING)
# A piece that is but a number or one letter counts what follows it: "1. ", "(가) ".
ENUMERATOR = re.compile(r"[(\[]?(?:\d+|\w)[.)\]]+ ?")
# What sentencex does not know: Khmer's khan (not the two of "។ល។", and so on), Tibetan's shad, and
# two word spaces, which Amharic is often typed with for a full stop; then closing marks and space.
# Thai and Lao end sentences with a space alone (Khmer and Burmese parts of them): one that stands
# so many characters behind the last end is taken for an end.
SPACED = "[\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff]"
SPACED_CHARACTERS = 500
FURTHER_ENDS = re.compile(
    r"(?:(?<!។ល)[។៕](?!ល។)|[།༎](?: ?[།༎])*|፡፡)[”’»」』》〉\"')\]]* ?"
    f"|(?<={SPACED}) (?={SPACED})"
)
# sentencex takes a time that grows with the square of a line with quotation marks (0.25 MB of
# Korean: 46 s), so it sees a long line through windows. The last characters of a window only say
# how what comes before them ends.
WINDOW_CHARACTERS, LOOK_AHEAD_CHARACTERS = 4_000, 1_000


def splitter(language: str, *, split_sentences: bool) -> Callable[[str], list[str]]:
    """Return a function that cuts a document into normalised sentences, none of them empty.

    Lines are cut first, then sentences within a line. Those with a `HOLE` are cut out of lines that
    are kept whole, too, and stand behind them.

    Args:
        language: BCP 47 code.
        split_sentences: False keeps every line whole.

    Raises:
        RecipeError: the language code is not valid.
    """
    subtag, cut = language_subtag(language), segment if split_sentences else _apart

    def split(text: str) -> list[str]:
        lines = [line for raw in text.splitlines() if (line := normalise(raw))]
        return [piece for line in lines for piece in cut(subtag, line)]

    return split


def _apart(subtag: str, line: str) -> list[str]:
    """Return a line without its sentences that words are missing in, and then these."""
    if HOLE not in line:
        return [line]
    incomplete = [sentence for sentence in segment(subtag, line) if HOLE in sentence]
    for sentence in incomplete:
        line = line.replace(sentence, "", 1)
    rest = " ".join(line.split())
    return [rest, *incomplete] if rest else incomplete


def segment(subtag: str, line: str) -> list[str]:
    """Return the sentences of a line, by sentencex, which hold every character of it but spaces.

    sentencex has rules for many languages and takes general ones for the rest. What it cuts inside
    dotted names, addresses and dates (Korean writes "1976. 3. 9."), after the number of an item,
    and between a quotation and a letter right behind it, is put together again.

    Args:
        subtag: the bare language, say 'zh'.
        line: normalised text without line ends.
    """
    groups: list[list[str]] = []
    for piece in (part for whole in _pieces(subtag, line) for part in _further(whole)):
        if groups and _belong_together(groups[-1][-1], piece):
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return [sentence for group in groups if (sentence := "".join(group).strip())]


def _pieces(subtag: str, line: str) -> Iterator[str]:
    """Give the pieces that sentencex cuts a line into, in a time that grows with its length."""
    start = 0
    unfinished: list[str] = []
    while len(line) - start > WINDOW_CHARACTERS:
        end = WINDOW_CHARACTERS - LOOK_AHEAD_CHARACTERS
        before = start
        for piece in sentencex.segment(subtag, line[start : start + WINDOW_CHARACTERS]):
            if start + len(piece) > before + end:
                break
            start += len(piece)
            yield "".join([*unfinished, piece])
            unfinished = []
        if start == before:  # no sentence ends here
            unfinished.append(line[start : start + end])
            start += end
    rest = sentencex.segment(subtag, line[start:])
    yield "".join([*unfinished, *rest[:1]])
    yield from rest[1:]


def _further(piece: str) -> Iterator[str]:
    """Cut a piece where a sentence ends that sentencex does not see."""
    start = 0
    for end in FURTHER_ENDS.finditer(piece):
        if end[0] != " " or end.end() - start > SPACED_CHARACTERS:
            yield piece[start : end.end()]
            start = end.end()
    yield piece[start:]


def _belong_together(left: str, right: str) -> bool:
    tail = left[-TAIL_CHARACTERS:]
    return ENUMERATOR.fullmatch(left) is not None or any(
        end.search(tail) and begin.match(right) for end, begin in JOINED
    )
