"""FreeDict (.tei) and StarDict (.ifo) dictionaries as TSV, a word and a translation a line.

    python scripts/convert_dictionary.py eng-kor.tei en-ko.tsv

Translations within a FreeDict entry's examples do not count. A StarDict article is written for a
reader: tags, pronunciations, notes in brackets and numbers go, what is left is cut at line ends,
semicolons and commas, and pieces of more than four words are explanations, not translations. Where
a dictionary is also to be had as .tei, take that.

The forms: https://github.com/freedict/fd-dictionaries/wiki/FreeDict-HOWTO and
https://github.com/huzheng001/stardict-3 (dict/doc/StarDictFileFormat)
"""

from __future__ import annotations

import gzip
import html
import lzma
import re
import struct
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

OPENERS = {".gz": gzip.open, ".dz": gzip.open, ".xz": lzma.open}  # dictzip is gzip with an index
MAX_WORDS = 4
TRANSLATION_TYPES = {"trans", "translation"}
# StarDict's types of text, and of text with mark-up: Pango, XDXF, HTML.
TEXT_TYPES, TAGGED_TYPES = "ml", "gxh"
NOT_MEANING = re.compile(r"<(k|tr|ex|co|abr|gr|script|style|i)\b[^<>]*>[^<>]*</\1>", re.I)
BREAKING = re.compile(r"<(?:br|/?p|/?div|/?li|/?tr|/?def|/?dtrn|/?ol|/?ul)\b[^<>]*>", re.I)
TAG = re.compile(r"<[^<>]*>")
BRACKETED = re.compile(r"\([^()]*\)|\[[^][]*\]|\{[^{}]*\}|/[^/\n]{1,60}/|（[^（）]*）")
NUMBER = re.compile(r"(?m)^\s*(?:\d{1,2}|[a-z])[.):]\s*|^\s*[-–—•*]+\s*")
SEPARATOR = re.compile(r"[\n;,；，、]")
PART_OF_SPEECH = {
    "n", "v", "vt", "vi", "adj", "adv", "prep", "conj", "pron", "interj", "int", "num", "art",
    "abbr", "noun", "verb", "adjective", "adverb", "preposition", "conjunction", "pronoun",
    "interjection", "numeral", "article", "m", "f", "pl", "sg",
}  # fmt: skip


def opened(path):
    return OPENERS.get(path.suffix, open)(path, "rb")


def freedict(path):
    """Headword and translation of every entry of a .tei file."""
    with opened(path) as file:
        for _, element in ET.iterparse(file):
            element.tag = element.tag.rpartition("}")[2].lower()
            if element.tag == "entry":
                words = ["".join(orth.itertext()) for orth in element.iterfind("form//orth")]
                meanings = list(translations_of(element))
                yield from ((word, meaning) for word in words for meaning in meanings)
                element.clear()


def translations_of(element, outer=None):
    """Translations stand in `cit type="trans"` with a `quote`, in older files in `trans`."""
    kind = element.get("type", "").lower() if element.tag == "cit" else None
    if kind is not None and kind not in TRANSLATION_TYPES:
        return  # an example, whose own translation stands within it
    inside = "quote" if kind is not None else "tr" if element.tag == "trans" else outer
    for child in element:
        if child.tag == inside:
            yield "".join(child.itertext())
        else:
            yield from translations_of(child, inside)


def stardict(path):
    """Headword and translations of every article; .idx and .dict lie beside the .ifo."""
    facts = dict(
        line.split("=", 1)
        for line in path.read_text("utf-8-sig", "replace").splitlines()
        if "=" in line
    )
    index, data = beside(path, ".idx", ".idx.gz"), beside(path, ".dict", ".dict.dz")
    numbers = struct.Struct(">QI" if facts.get("idxoffsetbits", "").strip() == "64" else ">II")
    at = 0
    while at < len(index):
        end = index.index(b"\0", at)
        offset, size = numbers.unpack_from(index, end + 1)
        word = index[at:end].decode("utf-8", "replace")
        at = end + 1 + numbers.size
        for kind, text in fields(
            data[offset : offset + size], facts.get("sametypesequence", "").strip()
        ):
            yield from ((word, meaning) for meaning in meanings(text, kind, word))


def beside(path, *suffixes):
    for file in map(path.with_suffix, suffixes):
        if file.is_file():
            with opened(file) as stream:
                return stream.read()
    sys.exit(f"{path.with_suffix(suffixes[0])}: no such file; {path.name} needs it beside it")


def fields(article, types):
    """The texts of an article with their types."""
    at = place = 0
    while at < len(article) and (not types or place < len(types)):
        kind = types[place] if types else chr(article[at])
        at += not types
        place += 1
        if types and place == len(types):
            end = following = len(article)
        elif kind.isupper():
            end = following = at + 4 + struct.unpack_from(">I", article, at)[0]
        else:
            end = (article + b"\0").index(b"\0", at)
            following = end + 1
        if kind in TEXT_TYPES + TAGGED_TYPES:
            yield kind, article[at:end].decode("utf-8", "replace")
        at = following


def meanings(text, kind, word):
    """What an article translates its headword to."""
    if kind in TAGGED_TYPES:
        text = html.unescape(TAG.sub("", BREAKING.sub("\n", NOT_MEANING.sub("", text))))
    text = NUMBER.sub("\n", BRACKETED.sub("", TAG.sub("", text)))
    pieces = (" ".join(piece.split()).strip(" .:·") for piece in SEPARATOR.split(text))
    return [
        piece
        for piece in dict.fromkeys(pieces)
        if piece
        and piece.casefold() not in PART_OF_SPEECH | {word.casefold()}
        and len(piece.split()) <= MAX_WORDS
    ]


def convert(dictionary, out):
    """Write the pairs; how many."""
    reader = stardict if dictionary.suffix == ".ifo" else freedict
    count = 0
    with out.open("w", encoding="utf-8") as file:
        for sides in reader(dictionary):
            file.write("\t".join(" ".join(side.split()) for side in sides) + "\n")
            count += 1
    return count


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        print(f"{convert(Path(sys.argv[1]), Path(sys.argv[2])):,} pairs")
    except (OSError, EOFError, ValueError, struct.error, ET.ParseError) as error:
        sys.exit(f"{sys.argv[1]}: cannot be read: {error}")
