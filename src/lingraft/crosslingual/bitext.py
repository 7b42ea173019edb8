"""Sentence pairs in words: two text files side by side, a table, or JSON lines. No torch here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lingraft.corpus.readers.lines import kind
from lingraft.errors import DataError
from lingraft.tasks.reading import MISSING, jsonl_rows
from lingraft.tasks.sentences import check_filled, lines, translations

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lingraft.tasks.reading import Row

SIDES = (("src", "source"), ("tgt", "trg", "target"))
"""Fields of JSON lines: source and target."""
WHOLE = (".tsv", ".jsonl")
"""Kinds of files that hold both sides."""

NO_SPACES = re.compile(r"[^ \t\n\r\f\v]+")
"""A word; a no-break space (U+00A0) is within one."""


@dataclass(frozen=True)
class SentencePair:
    """A sentence and its translation, in words."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    where: str
    """File and line, for messages."""


def grouped(paths: Sequence[Path]) -> list[tuple[Path, ...]]:
    """Files as the texts that they are: a .tsv or .jsonl alone, others two by two.

    Raises:
        DataError: a text has no second side.
    """
    texts: list[tuple[Path, ...]] = []
    single: Path | None = None
    for path in paths:
        if single is not None:
            texts.append((single, path))
            single = None
        elif kind(path) in WHOLE:
            texts.append((path,))
        else:
            single = path
    if single is not None:
        raise DataError(
            f"{single}: has no second side; give two text files, source and target, or one .tsv "
            "or .jsonl with both"
        )
    return texts


def read(paths: Sequence[Path]) -> Iterator[SentencePair]:
    """The sentence pairs of one text, words cut at white space of ASCII as other aligners do.

    Args:
        paths: two files with a sentence a line; or one, `source TAB target` (.tsv) or JSON lines
            with `src` and `tgt`, each a string or a list of words. Also .gz, .xz, .bz2, .zst.

    Raises:
        DataError: a file cannot be read, a sentence is empty, or the sides differ in length.
    """
    if kind(paths[0]) == ".jsonl" and len(paths) == 1:
        return map(pair_of, rows(paths[0]))
    return (
        SentencePair(tuple(_cut(x)), tuple(_cut(y)), where) for x, y, where in translations(paths)
    )


def _cut(text: str) -> list[str]:
    return NO_SPACES.findall(text)


def rows(path: Path) -> Iterator[Row]:
    """The rows of JSON lines, plain or packed, one at a time.

    Raises:
        DataError: a line is not a JSON object.
    """
    return jsonl_rows(path, lines(path))


def pair_of(row: Row) -> SentencePair:
    """The sentence pair of a row of JSON lines.

    Raises:
        DataError: a side is missing, empty or no text.
    """
    source, target = (_words(row, names) for names in SIDES)
    return SentencePair(source, target, row.where)


def _words(row: Row, names: Sequence[str]) -> tuple[str, ...]:
    value = row.find(names)
    if isinstance(value, str):
        value = _cut(value)
    elif not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        fields = ", ".join(map(repr, row.values)) or "no fields"
        problem = f"it has {fields}" if value is MISSING else f"it is {str(value)[:40]!r}"
        raise row.error(
            f"'{names[0]}' must hold a sentence, as a string or a list of words; {problem}"
        )
    if any(_cut(word) != [word] for word in value):
        raise row.error(
            f"a word of '{names[0]}' is empty or holds a space, so links could not be written by "
            "words; correct it"
        )
    check_filled(value, row.where)
    return tuple(value)
