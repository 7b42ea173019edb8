"""Gold links between the words of two sentences; no torch here.

Words count from 0. A gold set has sure and possible links, and every sure link is possible too
(Och and Ney 2003, "A systematic comparison of various statistical alignment models").
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from lingraft.errors import DataError
from lingraft.tasks import sentences

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

Link: TypeAlias = "tuple[int, int]"
"""A word of the source and a word of the target."""
Links: TypeAlias = "tuple[Link, ...]"
Words: TypeAlias = "tuple[str, ...]"
PAIR = re.compile(r"([0-9]{1,9})([-p])([0-9]{1,9})")
"""Pharaoh's: `i-j` is sure, `ipj` possible."""
NO_SPACES = re.compile(r"[^ \t\n\r\f\v]+")
"""A word, as other aligners cut it; a no-break space (U+00A0) is within one."""


@dataclass(frozen=True)
class Gold:
    """Links that people made in one sentence pair."""

    sure: frozenset[Link]
    possible: frozenset[Link]
    """The sure links are among them."""


@dataclass(frozen=True)
class GoldSet:
    """Sentence pairs in words, with their gold links."""

    name: str
    pairs: list[tuple[Words, Words]]
    gold: list[Gold] | None
    """None where nobody made links."""

    def plain_links(self) -> list[list[list[Link]]]:
        """Return the links in order."""
        return [[sorted(pair.sure), sorted(pair.possible)] for pair in self.gold or ()]


def read(name: str, gold: Path | None, source: Path, target: Path) -> GoldSet:
    """Read a gold set.

    Args:
        name: what tables call it.
        gold: links in Pharaoh's format, a line a sentence pair.
        source: a sentence a line.
        target: line n translates line n of the source.

    Raises:
        DataError: a file cannot be read, counts differ, a line is in another format, or a link lies
            outside its sentence.
    """
    found = sentences.translations([source, target])
    pairs = [(tuple(NO_SPACES.findall(x)), tuple(NO_SPACES.findall(y))) for x, y, _ in found]
    if gold is None:
        return GoldSet(name, pairs, None)
    lines = list(sentences.lines(gold))
    if len(lines) != len(pairs):
        raise DataError(
            f"{gold} has links of {len(lines):,} sentences and {source} has {len(pairs):,} "
            "sentences; they must be as many, in one order"
        )
    all_links = []
    for number, (line, (x, y)) in enumerate(zip(lines, pairs, strict=True), 1):
        sides = [PAIR.fullmatch(word) for word in line.split()]
        links = [(m[2], (int(m[1]), int(m[3]))) for m in sides if m]
        outside = any(i >= len(x) or j >= len(y) for _, (i, j) in links)
        if outside or len(links) < len(sides):
            raise DataError(
                f"{gold}: line {number:,}: write links within its sentences of {len(x)} and "
                f"{len(y)} words, counted from 0, as in '0-0 1p2' (p: only possible)"
            )
        sure = frozenset(link for mark, link in links if mark == "-")
        all_links.append(Gold(sure, frozenset(link for _, link in links)))
    return GoldSet(name, pairs, all_links)


def pharaoh(links: Iterable[Link]) -> str:
    """Return a line of a Pharaoh file."""
    return " ".join(f"{i}-{j}" for i, j in links)


def parsed(line: str) -> Links:
    """Return the links of a line that `pharaoh` wrote."""
    return tuple((int(i), int(j)) for i, _, j in PAIR.findall(line))


def diagonal(pairs: Sequence[tuple[Words, Words]]) -> list[Links]:
    """Link words at the same share of their sentences, where that holds in both directions."""
    links = []
    for source, target in pairs:
        m, n = len(source), len(target)
        forward = [(i, (2 * i + 1) * n // (2 * m)) for i in range(m)]
        links.append(tuple((i, j) for i, j in forward if (2 * j + 1) * m // (2 * n) == i))
    return links
