"""StarDict dictionaries: `NAME.ifo` with `NAME.idx` (or .idx.gz) and `NAME.dict` (or .dict.dz).

A StarDict article is written for a reader. What it translates to is taken from its form: tags,
pronunciations, notes in brackets and numbers go, what is left is cut at line ends, semicolons and
commas, and pieces of more than `MAX_WORDS` words are explanations, not translations. Where a
dictionary is also to be had as `.tei` or TSV, take that.

The format: https://github.com/huzheng001/stardict-3 (dict/doc/StarDictFileFormat)
"""

from __future__ import annotations

import gzip
import html
import re
import struct
from typing import TYPE_CHECKING

from lingraft.corpus.readers.lines import reading_errors
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator
    from pathlib import Path

NO_TRANSLATION = "entry without a translation"
BROKEN_ENTRY = "broken entry"
MAX_FILE_BYTES = 1 << 30
MAX_IFO_BYTES = 1 << 16
MAX_HEADWORD_BYTES = 256
MAX_ARTICLE_BYTES = 1 << 20
MAX_WORDS = 4

MAGIC = "StarDict's dict ifo file"
# Plain text, and text with mark-up: Pango, XDXF, HTML.
TEXT_TYPES, TAGGED_TYPES = "ml", "gxh"

NOT_MEANING = re.compile(
    r"<(k|tr|ex|co|abr|gr|script|style|i)\b[^<>]{0,200}>[^<>]{0,2000}</\1>", re.IGNORECASE
)
BREAKING = re.compile(r"<(?:br|/?p|/?div|/?li|/?tr|/?def|/?dtrn|/?ol|/?ul)\b[^<>]{0,200}>", re.I)
TAG = re.compile(r"<[^<>]{0,2000}>")
BRACKETED = re.compile(
    r"\([^()]{0,200}\)|\[[^][]{0,200}\]|\{[^{}]{0,200}\}|/[^/\n]{1,60}/|（[^（）]{0,200}）"
)
NUMBER = re.compile(r"(?m)^\s*(?:\d{1,2}|[a-z])[.):]\s*|^\s*[-–—•*]+\s*")
SEPARATOR = re.compile(r"[\n;,；，、]")
PART_OF_SPEECH = {
    "n", "v", "vt", "vi", "adj", "adv", "prep", "conj", "pron", "interj", "int", "num", "art",
    "abbr",
    "noun", "verb", "adjective", "adverb", "preposition", "conjunction", "pronoun", "interjection",
    "numeral", "article", "m", "f", "pl", "sg",
}  # fmt: skip


def read(path: Path, dropped: Counter[str]) -> Iterator[tuple[str, str]]:
    """Headword and translation, a pair each.

    Args:
        path: the .ifo file; the others lie beside it.
        dropped: counts broken entries and those without a translation.

    Raises:
        DataError: a file is missing, too large, cut short or broken, or it is no StarDict
            dictionary.
    """
    facts = _facts(path)
    index = _whole(_beside(path, (".idx", ".idx.gz")))
    data = _whole(_beside(path, (".dict", ".dict.dz")))
    types = facts.get("sametypesequence", "")
    for word, offset, size in _entries(index, facts.get("idxoffsetbits") == "64", path):
        if not word or size > MAX_ARTICLE_BYTES or offset + size > len(data):
            dropped[BROKEN_ENTRY] += 1
            continue
        texts = _fields(data[offset : offset + size], types)
        if texts is None:
            dropped[BROKEN_ENTRY] += 1
            continue
        meanings = dict.fromkeys(
            meaning for kind, text in texts for meaning in translations(text, kind, word)
        )
        if not meanings:
            dropped[NO_TRANSLATION] += 1
        yield from ((word, meaning) for meaning in meanings)


def _facts(path: Path) -> dict[str, str]:
    with reading_errors(path), path.open("rb") as file:
        lines = file.read(MAX_IFO_BYTES).decode("utf-8-sig", "replace").splitlines()
    if not lines or lines[0].strip() != MAGIC:
        raise DataError(
            f"{path}: is no StarDict dictionary (its first line is not {MAGIC!r}); "
            "give the .ifo file of one"
        )
    return {
        key.strip(): value.strip() for key, equals, value in (line.partition("=") for line in lines)
        if equals
    }  # fmt: skip


def _beside(path: Path, suffixes: tuple[str, ...]) -> Path:
    for suffix in suffixes:
        candidate = path.with_suffix(suffix)
        if candidate.is_file():
            return candidate
    raise DataError(
        f"{path.with_suffix(suffixes[0])}: no such file; {path.name} needs it beside it"
    )


def _whole(path: Path) -> bytes:
    """All bytes of a file; dictzip (.dz) is gzip with an index that is not needed here."""
    with reading_errors(path):
        if path.suffix in (".gz", ".dz"):
            with gzip.open(path) as packed:
                data = packed.read(MAX_FILE_BYTES + 1)
        else:
            with path.open("rb") as plain:
                data = plain.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise DataError(
            f"{path}: holds more than {MAX_FILE_BYTES:,} bytes, more than any dictionary needs; "
            "leave it out"
        )
    return bytes(data)


def _entries(index: bytes, wide: bool, path: Path) -> Iterator[tuple[str, int, int]]:
    numbers = struct.Struct(">QI" if wide else ">II")
    at = 0
    while at < len(index):
        end = index.find(b"\0", at, at + MAX_HEADWORD_BYTES + 1)
        if end < 0 or end + 1 + numbers.size > len(index):
            raise DataError(
                f"{path.with_suffix('.idx')}: broken or cut short after {at:,} bytes; "
                "copy or download the dictionary again"
            )
        offset, size = numbers.unpack_from(index, end + 1)
        yield index[at:end].decode("utf-8", "replace"), offset, size
        at = end + 1 + numbers.size


def _fields(article: bytes, types: str) -> list[tuple[str, str]] | None:
    """The texts of an article with their types; None where it does not keep to the format."""
    fields: list[tuple[str, str]] = []
    at, place = 0, 0
    while at < len(article) and (not types or place < len(types)):
        if types:
            kind, last = types[place], place == len(types) - 1
        else:
            kind, last = chr(article[at]), False
            at += 1
        place += 1
        if last:
            end = following = len(article)
        elif kind.isupper():
            if at + 4 > len(article):
                return None
            end = following = at + 4 + int(struct.unpack_from(">I", article, at)[0])
            at += 4
        else:
            end = article.find(b"\0", at)
            end = len(article) if end < 0 else end
            following = end + 1
        if end > len(article):
            return None
        if kind in TEXT_TYPES + TAGGED_TYPES:
            fields.append((kind, article[at:end].decode("utf-8", "replace")))
        at = following
    return fields


def translations(text: str, kind: str, word: str) -> list[str]:
    """What an article translates its headword to.

    Args:
        text: the article.
        kind: its StarDict type: m and l are plain, g x h have tags.
        word: the headword, which articles often repeat.
    """
    if kind in TAGGED_TYPES:
        text = TAG.sub("", BREAKING.sub("\n", NOT_MEANING.sub("", text)))
        text = html.unescape(text)
    else:
        text = TAG.sub("", text)
    text = NUMBER.sub("\n", BRACKETED.sub("", text))
    pieces = (" ".join(piece.split()).strip(" .:·") for piece in SEPARATOR.split(text))
    return [
        piece
        for piece in pieces
        if piece
        and piece.casefold() != word.casefold()
        and len(piece.split()) <= MAX_WORDS
        and piece.casefold() not in PART_OF_SPEECH
    ]
