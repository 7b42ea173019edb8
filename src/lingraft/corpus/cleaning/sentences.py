"""Cut documents into normalised sentences."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import sentencex

from lingraft.corpus.cleaning import clean, scripts
from lingraft.corpus.readers.lines import HOLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    subtag = scripts.language_subtag(language)

    def split(text: str) -> list[str]:
        lines = [line for raw in text.splitlines() if (line := clean.normalise(raw))]
        if not split_sentences:
            return [piece for line in lines for piece in _apart(subtag, line)]
        return [sentence for line in lines for sentence in segment(subtag, line)]

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
