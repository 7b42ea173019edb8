"""Bold and italic marks out of a line, as MediaWiki reads them."""

from __future__ import annotations

import re

QUOTES = re.compile(r"'{2,}")


def without_quotes(line: str) -> str:
    """A line without its marks of bold and italic.

    The rules of MediaWiki's `doQuotes`: four apostrophes are one and a bold mark, more than five
    are some and a mark of both; when both kinds are odd in number on a line, one bold mark is an
    apostrophe and an italic mark, so that French l'''Iliade'' is l'Iliade.
    """
    if "''" not in line:
        return line
    pieces: list[str] = [""]  # text, length of mark, text, …
    marks: list[int] = []
    position = 0
    for match in QUOTES.finditer(line):
        length = match.end() - match.start()
        mark = 3 if length == 4 else min(length, 5)
        pieces[-1] += line[position : match.start()] + "'" * (length - mark)
        pieces.append("")
        marks.append(mark)
        position = match.end()
    pieces[-1] += line[position:]
    bold = sum(mark in (3, 5) for mark in marks)
    italic = sum(mark in (2, 5) for mark in marks)
    if bold % 2 and italic % 2:
        _give_apostrophe(pieces, marks)
    return "".join(pieces)


def _give_apostrophe(pieces: list[str], marks: list[int]) -> None:
    """Of the bold marks, one follows a word of one letter, or else a longer one, or a space."""
    indices: dict[str, int] = {}
    for index, mark in enumerate(marks):
        if mark != 3:
            continue
        before = pieces[index]
        if before.endswith(" "):
            place = "after a space"
        elif before[-2:-1] == " ":
            place = "after one letter"
        else:
            place = "after a word"
        indices.setdefault(place, index)
    for place in ("after one letter", "after a word", "after a space"):
        if place in indices:
            pieces[indices[place]] += "'"
            return
