"""Layout of the text of .txt files, guessed from the first megabyte; wrapped lines joined.

| seen | taken for |
|---|---|
| nearly every line is `number TAB sentence` (the form of the Leipzig corpora) | its sentence |
| many lines end at one width within a sentence, which the next line goes on with | one paragraph |
| empty lines stand between groups of lines | each group a document |
| twenty small files or more in a folder | each file a document |
| nothing of it | each line a document |
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path  # noqa: TC003 - pydantic reads the annotations
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import regex

from lingraft.corpus.readers.lines import Counts, kind, text_lines
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


JOINED = "ends of wrapped lines joined"
SAMPLE_CHARACTERS = 1 << 20
SMALL_BYTES, MANY_FILES, FILES_LOOKED_AT = 100_000, 20, 50
NUMBERED = re.compile(r"\s*\d+\t(?=[^\t]+\Z)")
NUMBERED_SHARE, FEWEST_NUMBERED = 0.95, 3
FEWEST_GAPS, FEWEST_LINES_A_BLOCK, MOST_LINES_A_BLOCK = 2, 1.5, 50
ENDED = re.compile(r"[.!?…:;。！？؟۔।]['\"”’»」』)\]]*\s*\Z")
FEWEST_WRAPPED = 20
"""Fewer lines say nothing of a width."""
WIDTHS = range(30, 121)
"""Characters after which text is wrapped."""
SPREAD = 8
"""Most wrapped lines are shorter than their width by fewer characters: a word that did not fit."""
WRAPPED, STEEP, LONGER, FULL, GOING_ON = 0.25, 1.5, 0.02, 0.8, 0.4
"""Share of the lines that are nearly as long as the longest and end no sentence; how many more
such long lines there are than somewhat shorter ones; share of lines that may be longer than the
width; of the long lines, those to which the next one's first word would not have fitted, and those
behind which the next begins with no capital."""
HYPHENATED = re.compile(r"([^\W\d_]+)[-\u00ad\u2010]\Z")
LONG = 20_000
"""Characters of a paragraph that ends with the next sentence, so that none grows with the file."""
WORD = re.compile(r"[^\W\d_]+")
CONJUNCTIONS = frozenset("and or to und oder bis et ou en of och eller og".split())  # noqa: SIM905
"""Words that a hyphen stands before as a word of its own: German "Vor- und Nachteile"."""
# Between characters of scripts without spaces, the end of a line is no space.
SOLID = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uff00-\uff9f"
    r"\U00020000-\U0003ffff"
)
QUOTES = "“”‘’…—"
UNSPACED = re.compile(f"(?<=[{SOLID}])\n(?=[{SOLID}{QUOTES}])|(?<=[{QUOTES}])\n(?=[{SOLID}])")
WIDE = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uff60\U00020000-\U0003ffff]")
"""Letters behind each of which a line may end."""
NO_COLUMN = regex.compile(r"[\p{Mn}\p{Me}\p{Cf}]")
TWO_COLUMNS = regex.compile(r"[\p{EA=W}\p{EA=F}]")


UNITS = {"line": "a line", "block": "what stands between empty lines", "file": "a file"}


@dataclass(frozen=True)
class TextLayout:
    """The layout of a .txt file.

    Attributes:
        document: a document: a line, a block between empty lines, or the file.
        width: characters after which lines are wrapped; 0 where they are not.
        in_columns: whether these are columns of a terminal.
        numbered: whether each line is a number, a TAB and a sentence.
    """

    document: Literal["line", "block", "file"] = "line"
    width: int = 0
    in_columns: bool = False
    numbered: bool = False

    @property
    def told(self) -> str:
        """Return the layout in words, for the user."""
        if self.numbered:
            return "lines are number TAB sentence: a sentence is a document"
        unit = "a paragraph" if self.width and self.document == "line" else UNITS[self.document]
        what = "columns" if self.in_columns else "characters"
        wrapped = f"lines are wrapped at {self.width} {what} and joined; " if self.width else ""
        return f"{wrapped}{unit} is a document"


def sample_of(path: Path) -> list[str]:
    """Return the first lines of a file; what is broken is told where all is read."""
    lines: list[str] = []
    size = 0
    with contextlib.suppress(DataError):
        for line in text_lines(path, Counts()):
            lines.append(line)
            size += len(line)
            if size > SAMPLE_CHARACTERS:
                break
    return lines


def guess(paths: Sequence[Path], asked: str | None) -> dict[Path, TextLayout]:
    """Guess how files are laid out: of a large one by itself, of small ones of a folder together.

    Args:
        paths: .txt files, plain or compressed.
        asked: what the recipe says that a document is; "line" leaves lines as they are.
    """
    if asked == "line":
        return dict.fromkeys(paths, TextLayout())
    groups: dict[Path, list[Path]] = {}
    for path in paths:
        is_small = path.is_file() and path.stat().st_size < SMALL_BYTES
        groups.setdefault(path.parent if is_small else path, []).append(path)
    found: dict[Path, TextLayout] = {}
    for group in groups.values():
        samples = [sample_of(path) for path in group[:FILES_LOOKED_AT]]
        found |= dict.fromkeys(group, _layout(samples, len(group), asked))
    return found


def _layout(samples: list[list[str]], n_files: int, asked: str | None) -> TextLayout:
    """Guess the layout of files, of some of which there are samples."""
    lines = [line for sample in samples for line in (*sample, "")]
    texts = [line for line in lines if line.strip()]
    numbered = sum(NUMBERED.match(line) is not None for line in texts)
    if numbered >= max(FEWEST_NUMBERED, NUMBERED_SHARE * len(texts)):
        return TextLayout(numbered=True)
    wrapped = width_of(lines)
    if asked == "file" or (asked is None and n_files >= MANY_FILES):
        return TextLayout("file", *wrapped)
    blocks = sum(has_text for has_text, _ in groupby(lines, lambda line: bool(line.strip())))
    size = len(texts) / max(blocks, 1)
    parted = blocks - len(samples) >= FEWEST_GAPS
    parted &= FEWEST_LINES_A_BLOCK <= size <= MOST_LINES_A_BLOCK
    return TextLayout("block" if asked == "block" or parted else "line", *wrapped)


def columns(text: str) -> int:
    """Count the columns of a terminal: none for a mark, two for a wide letter."""
    if text.isascii():
        return len(text)
    return len(text) - len(NO_COLUMN.findall(text)) + len(TWO_COLUMNS.findall(text))


def width_of(lines: Sequence[str]) -> tuple[int, bool]:
    """Return where lines are wrapped, 0 for nowhere, and whether that is in columns."""
    texts = [line.strip() for line in lines]
    full, width = _width(texts, len)
    if all(map(str.isascii, texts)):
        return width, False
    other_full, other = _width(texts, columns)
    return (other, True) if other_full > full else (width, False)


def _width(texts: Sequence[str], measure: Callable[[str], int]) -> tuple[float, int]:
    """Return a width, and of the lines that end there the share that nothing more fits in."""
    lengths = [measure(text) for text in texts]
    sizes = np.bincount(list(filter(None, lengths)) or [0], minlength=WIDTHS.stop + 1)
    total = int(sizes.sum())
    longer = total - np.cumsum(sizes)
    width = int(np.argmax(longer <= LONGER * total))
    if total < FEWEST_WRAPPED or width not in WIDTHS:
        return 0.0, 0
    near, shorter = (sizes[width + 1 - SPREAD * n :][:SPREAD].sum() for n in (1, 2))
    followed = [
        (length + _needed(after, measure), after[0])
        for length, (text, after) in zip(lengths, pairwise(texts), strict=False)
        if after and width - SPREAD < length <= width and not ENDED.search(text)
    ]
    full = sum(size > width for size, _ in followed)
    going_on = sum(not first.isupper() for _, first in followed if first.isalpha())
    wraps = len(followed) >= WRAPPED * total and near > STEEP * shorter
    wraps &= min(full / FULL, going_on / GOING_ON) >= len(followed)
    return (full / len(followed), width) if wraps and followed else (0.0, 0)


def _needed(line: str, measure: Callable[[str], int]) -> int:
    """Return what another line must have left for this one to begin there.

    Some signs may not begin a line of Chinese or Japanese, so that it ends a letter earlier.
    """
    first = line.partition(" ")[0]
    return 2 * measure(line[0]) if WIDE.match(line) else 1 + measure(first)


def words_of(lines: Iterable[str]) -> set[str]:
    """Return the words that stand within lines."""
    return {word.casefold() for line in lines for word in WORD.findall(line.rstrip("- \u00ad"))}


def joined(
    lines: Iterable[str],
    wrapped: tuple[int, bool],
    words: set[str],
    reading: Counts | None = None,
) -> Iterator[str]:
    """Join lines that were wrapped; empty ones stay.

    A line goes on with the next where the next one's first word would not have fitted. A hyphen at
    the end of a line goes where the word without it stands elsewhere in the file, and stays where
    it does not: no word is made up.

    Args:
        lines: in the order of the file.
        wrapped: of `width_of`.
        words: of the file.
        reading: counts the ends of lines that go.
    """
    width, measure = wrapped[0], columns if wrapped[1] else len
    pieces: list[str] = []
    size, length, is_indented = 0, 0, False
    for raw in lines:
        line = raw.strip()
        last = pieces[-1] if pieces else ""
        hyphen, ended = HYPHENATED.search(last), ENDED.search(last)
        fits = size + (_needed(line, measure) if line else 0) <= width
        fits &= not (hyphen and size > width - SPREAD)
        begins = ended and ((raw[:1].isspace() and not is_indented) or length > LONG)
        if not (pieces and line) or fits or begins or length > 10 * LONG:
            if pieces:
                yield "".join(pieces)
            if not line:
                yield ""
            pieces, length = [line] if line else [], 0
        else:
            pieces[-1:] = _seam(last, line, hyphen, words)
            if reading is not None:
                reading.changed[JOINED] += 1
        size, is_indented = measure(line), raw[:1].isspace()
        length += size
    if pieces:
        yield "".join(pieces)


def _seam(last: str, line: str, hyphen: re.Match[str] | None, words: set[str]) -> list[str]:
    """Return the end of a paragraph and the line behind it, with what stands between."""
    rest = WORD.match(line)
    if hyphen is None or rest is None or rest[0] in CONJUNCTIONS:
        return [last, line if UNSPACED.search(f"{last[-1]}\n{line[0]}") else f" {line}"]
    goes = last.endswith("\u00ad") or (hyphen[1] + rest[0]).casefold() in words
    return [last[:-1] if goes else last, line]


Row: TypeAlias = tuple[object, str]
"""Name of a document or None, and its text."""


@dataclass(frozen=True)
class TextSource:
    """Thing to read: a file, a part of one, or a Hub dataset (then `path` is None).

    Attributes:
        name: as the user knows it.
        path: the file.
        span: of a part of a file, the byte at which it begins and the one at which the next part
            does; None is the whole. Only what `plan` cuts can have one.
        layout: of a .txt file; None where nobody has looked at it.
    """

    name: str
    path: Path | None
    span: tuple[int, int] | None = None
    layout: TextLayout | None = None

    @property
    def file(self) -> Path:
        """Return the file of what is none of the Hub's."""
        assert self.path is not None
        return self.path

    @property
    def format(self) -> str:
        """Return the suffix without the compression's, or 'hub' or 'model'."""
        return kind(self.path) if self.path is not None else self.name.partition(":")[0]

    @property
    def is_beginning(self) -> bool:
        """Return whether the file's first byte is read; what it says holds for the other parts."""
        return not (self.span and self.span[0])
