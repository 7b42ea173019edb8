"""Links between the words of two sentences, and files of them; no torch here.

In memory words count from 0. A gold set has sure and possible links, and every sure link is
possible too (Och and Ney 2003, "A systematic comparison of various statistical alignment models").
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lingraft.corpus.readers.lines import kind
from lingraft.crosslingual import bitext
from lingraft.errors import DataError
from lingraft.tasks import sentences

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from lingraft.crosslingual.bitext import SentencePair

logger = logging.getLogger(__name__)

Link: TypeAlias = "tuple[int, int]"
"""A word of the source and a word of the target."""
Links: TypeAlias = "tuple[Link, ...]"
Outside: TypeAlias = Literal["stop", "drop", "miss"]
"""What becomes of gold links outside their sentence."""
TRIPLE = re.compile(r"\s*(\S+)\s+(-?[0-9]{1,9})\s+(-?[0-9]{1,9})(?:\s+([SP]))?\s*")
"""XLM-Align's alignv2.txt: a sentence's id, two words, sure (also where it is not said) or
possible. Real files hold words below 0 (de-en has a -99)."""
PAIRS = r"\s*(?:[0-9]{1,9}[-p][0-9]{1,9}(?:\s+|$))*"
"""Pharaoh's: `i-j` is sure, `ipj` possible."""
PHARAOH = re.compile(PAIRS)
NUMBERED = re.compile(rf"([^\t]*\S[^\t]*)\t({PAIRS})")
PAIR = re.compile(r"([0-9]+)([-p])([0-9]+)")
FORMATS = "'ID I J [S|P]', 'I-J IpJ …', 'ID TAB I-J IpJ …', or JSON lines with sure and possible"


@dataclass(frozen=True)
class Gold:
    """What people linked in one sentence pair."""

    sure: frozenset[Link]
    possible: frozenset[Link]
    """The sure links are among them."""


@dataclass(frozen=True)
class GoldSet:
    """Sentence pairs with their gold links."""

    name: str
    pairs: tuple[SentencePair, ...]
    gold: tuple[Gold, ...]
    outside: int = 0
    """Links that point outside their sentence."""


@dataclass(frozen=True)
class Marked:
    """The links of one sentence as its file writes them."""

    where: str
    sure: list[Link]
    possible: list[Link]
    """Those that are only possible."""


def read(
    name: str,
    gold: Path,
    text: Sequence[Path] = (),
    *,
    base: int | None = None,
    outside: Outside = "stop",
) -> GoldSet:
    """A gold set out of its files.

    Args:
        name: what tables call it.
        gold: links in one of `FORMATS`, which is told from the file; JSON lines bring their
            sentences.
        text: the sentences of the other formats, as `bitext.read` takes them.
        base: what the file calls the first word, 0 or 1; None takes 1 for `ID I J` and else 0.
        outside: what becomes of links that point outside their sentence: they are an error, are
            left out, or stay as links that nobody can find, as the published scorers have it.

    Raises:
        DataError: the format is unknown, counts differ, a link lies outside its sentence, or sure
            links are missing among the possible ones.
    """
    if kind(gold) == ".jsonl":
        pairs, marked = _json(gold)
        usual = 0
    else:
        if not text:
            raise DataError(f"{gold}: holds links alone; give its sentences with --text")
        pairs = list(bitext.read(text))
        marked, usual = _plain(gold)
        if len(marked) != len(pairs):
            raise DataError(
                f"{gold} has links of {len(marked):,} sentences and {text[0]} has {len(pairs):,} "
                "sentences; they must be as many, in one order"
            )
    if not pairs:
        raise DataError(f"{gold}: holds no sentence; give a gold set with some")
    first = usual if base is None else base
    gold_links, number = _inside(marked, pairs, first, outside)
    if number:
        action = "left out" if outside == "drop" else "kept, always missed"
        logger.warning("%s: gold links outside their sentence, %s: %d", gold, action, number)
    all_links = [link for of_pair in gold_links for link in (*of_pair.sure, *of_pair.possible)]
    if first == 0 and all_links and all(0 not in link for link in all_links):
        logger.warning(
            "%s: no link names a first word (0); if the file counts from 1, give base=1", gold
        )
    return GoldSet(name, tuple(pairs), tuple(map(_gold, gold_links)), number)


def pharaoh(links: Iterable[Link]) -> str:
    """A line of a Pharaoh file, words counted from 0."""
    return " ".join(f"{i}-{j}" for i, j in links)


def parsed(line: str) -> Links:
    """The links of a line that `pharaoh` wrote."""
    return tuple((int(i), int(j)) for i, _, j in PAIR.findall(line))


def _json(path: Path) -> tuple[list[SentencePair], list[Marked]]:
    pairs, marked = [], []
    for row in bitext.rows(path):
        where = row.where
        pairs.append(bitext.pair_of(row))
        sure = _listed(row.values.get("sure"), "sure", where)
        possible = _listed(row.values.get("possible", []), "possible", where)
        outside = sorted(set(sure) - set(possible))
        if outside and set(sure) & set(possible):
            i, j = outside[0]
            raise DataError(
                f"{where}: the sure link {i}-{j} is not among the possible ones, though others "
                "are; list all sure links there, or none"
            )
        marked.append(Marked(where, sure, possible))
    return pairs, marked


def _listed(value: Any, name: str, where: str) -> list[Link]:
    if isinstance(value, list) and all(
        isinstance(link, list) and len(link) == 2 and all(type(word) is int for word in link)
        for link in value
    ):
        return [(link[0], link[1]) for link in value]
    raise DataError(f"{where}: '{name}' must be a list of links, each two numbers of words")


def _plain(path: Path) -> tuple[list[Marked], int]:
    """The sentences of a file without text, and what such files usually call the first word."""
    lines = list(sentences.lines(path))
    filled = [line for line in lines if line.strip()]
    if filled and all(map(TRIPLE.fullmatch, filled)):
        return _triples(path, lines), 1
    for pattern in (PHARAOH, NUMBERED):
        if filled and all(map(pattern.fullmatch, filled)):
            numbered = pattern is NUMBERED
            return [
                _line(line.partition("\t")[2] if numbered else line, f"{path}: line {number}")
                for number, line in enumerate(lines, 1)
                if line.strip() or not numbered
            ], 0
    raise DataError(f"{path}: is in no known format of links; allowed, one in all of it: {FORMATS}")


def _triples(path: Path, lines: list[str]) -> list[Marked]:
    """Sentences by id, in the order in which ids first appear."""
    by_name: dict[str, Marked] = {}
    for match in filter(None, map(TRIPLE.fullmatch, lines)):
        name, i, j, mark = match.groups()
        marked = by_name.setdefault(name, Marked(f"{path}: sentence {name}", [], []))
        (marked.possible if mark == "P" else marked.sure).append((int(i), int(j)))
    return list(by_name.values())


def _line(line: str, where: str) -> Marked:
    marked = Marked(where, [], [])
    for i, mark, j in PAIR.findall(line):
        (marked.possible if mark == "p" else marked.sure).append((int(i), int(j)))
    return marked


def _inside(
    marked: Sequence[Marked], pairs: Sequence[SentencePair], base: int, outside: Outside
) -> tuple[list[Marked], int]:
    """The links counted from 0, and how many lie outside.

    Raises:
        DataError: the first link outside its sentence, if that is an error.
    """
    gold_links, number = [], 0
    for of_pair, pair in zip(marked, pairs, strict=True):
        sides: list[list[Link]] = []
        for links in (of_pair.sure, of_pair.possible):
            moved = [(i - base, j - base) for i, j in links]
            bad = [link for link in moved if not _fits(link, pair)]
            if bad and outside == "stop":
                raise DataError(
                    f"{of_pair.where}: the link {bad[0][0] + base}-{bad[0][1] + base} lies outside "
                    f"its sentences of {len(pair.source)} and {len(pair.target)} words, counted "
                    f"from {base}; correct it, or give base={1 - base}, or outside=drop or miss "
                    "(leave such links out, or keep them, never found)"
                )
            number += len(bad)
            sides.append([x for x in moved if x not in bad] if outside == "drop" else moved)
        gold_links.append(Marked(of_pair.where, *sides))
    return gold_links, number


def _fits(link: Link, pair: SentencePair) -> bool:
    return 0 <= link[0] < len(pair.source) and 0 <= link[1] < len(pair.target)


def _gold(marked: Marked) -> Gold:
    sure = frozenset(marked.sure)
    return Gold(sure, sure | frozenset(marked.possible))
