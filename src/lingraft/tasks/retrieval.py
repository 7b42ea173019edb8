"""Finding translations with a model as it is: XTREME's BUCC and Tatoeba (SPEC C.1, C.4, C.5).

Nothing is trained. A record names the files of a language and English; `read` gives both sides
and, where the makers give them, the right pairs. Ids are the file's own (BUCC), or line numbers
from 0. How a model finds pairs is not said here; `accuracy` and `pair_f1` score what it found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lingraft.errors import DataError
from lingraft.recipe.base import Names, Section
from lingraft.tasks.definition import Spellings
from lingraft.tasks.reading import COMPRESSED, file_lines

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

Pair = tuple[str, str]
"""Id of a sentence in the language, id of its translation in English."""


class Sides(Section):
    """The files of one split: either both sides in one table, or a file a side."""

    table: Spellings | None = None
    """Two columns: English, and the language."""
    source: Spellings | None = None
    """In the language."""
    target: Spellings | None = None
    """In English."""
    gold: Spellings | None = None
    """Pairs of ids; None: the same line is right."""


class Retrieval(Section):
    """One language of a benchmark of retrieval."""

    name: str
    language: str
    title: str
    version: str
    citation: str
    licence: str
    files_from: str
    folders: Names
    files: dict[str, Sides]
    """Split → its files."""
    metric: Literal["accuracy", "pair_f1"]
    """The function of this module that scores it."""
    evaluation: Names = ("test",)
    note: str = ""


@dataclass(frozen=True)
class Bitext:
    """Two sides of sentences, id → text in the order of the files, and which belong together."""

    source: Mapping[str, str]
    target: Mapping[str, str]
    gold: frozenset[Pair] | None
    """None where the benchmark hides it."""


def read(record: Retrieval, directory: Path, split: str = "test") -> Bitext:
    """The sentences of a split.

    Raises:
        DataError: there is no such split, its files are missing or broken, the sides of a Tatoeba
            set differ in length, or a gold pair has a sentence that is not there.
    """
    if split not in record.files:
        raise DataError(f"{record.name}: has no split {split}; it has {', '.join(record.files)}")
    files = record.files[split]
    if files.table is not None and (path := _found(record, directory, files.table)):
        sides = _table(path)
        return _aligned(path, *sides)
    paths = [_found(record, directory, names or ()) for names in (files.source, files.target)]
    source, target = paths
    if source is None or target is None:
        raise DataError(_missing(record, directory, split))
    if files.gold is None:
        return _aligned(source, file_lines(source), file_lines(target))
    here, there = _with_ids(source), _with_ids(target)
    gold = _found(record, directory, files.gold)
    return Bitext(here, there, None if gold is None else _pairs(gold, here, there))


def _found(record: Retrieval, directory: Path, spellings: Sequence[str]) -> Path | None:
    for folder in (".", *record.folders):
        for spelling in spellings:
            for packed in ("", *COMPRESSED):
                path = directory / folder / f"{spelling}{packed}"
                if path.is_file():
                    return path
    return None


def _missing(record: Retrieval, directory: Path, split: str) -> str:
    sides = record.files[split]
    names = [*(sides.table or ()), *(sides.source or ()), *(sides.target or ())]
    return (
        f"{directory}: files of {record.name} are missing ({split}: {', '.join(names)}); get them "
        f"from {record.files_from} and put them there or in one of the folders "
        f"{', '.join(record.folders)} (also with {' '.join(COMPRESSED)})"
    )


def _table(path: Path) -> tuple[list[str], list[str]]:
    source, target = [], []
    for number, line in enumerate(file_lines(path), 1):
        cells = line.split("\t")
        if len(cells) != 2:
            raise DataError(
                f"{path}: line {number}: has {len(cells)} columns; it must be a sentence in "
                "English, a tab and its translation"
            )
        target.append(cells[0])
        source.append(cells[1])
    return source, target


def _aligned(path: Path, source: Sequence[str], target: Sequence[str]) -> Bitext:
    if len(source) != len(target) or not source:
        raise DataError(
            f"{path}: has {len(source):,} sentences, and its English side {len(target):,}; the "
            "sides must be equal in number, and not empty"
        )
    ids = [str(number) for number in range(len(source))]
    gold = frozenset(zip(ids, ids, strict=True))
    return Bitext(
        dict(zip(ids, source, strict=True)), dict(zip(ids, target, strict=True)), gold
    )  # fmt: skip


def _with_ids(path: Path) -> dict[str, str]:
    sentences: dict[str, str] = {}
    for number, line in enumerate(file_lines(path), 1):
        identifier, tab, text = line.partition("\t")
        if not tab or identifier in sentences:
            problem = "occurs twice" if tab else "must be an id, a tab and a sentence"
            raise DataError(f"{path}: line {number}: {identifier[:40]!r} {problem}")
        sentences[identifier] = text
    return sentences


def _pairs(path: Path, source: Collection[str], target: Collection[str]) -> frozenset[Pair]:
    pairs = set()
    for number, line in enumerate(file_lines(path), 1):
        cells = line.split("\t")
        if len(cells) != 2 or cells[0] not in source or cells[1] not in target:
            raise DataError(
                f"{path}: line {number}: {line[:60]!r} must be the ids of two sentences that are "
                "there, with a tab between them"
            )
        pairs.add((cells[0], cells[1]))
    return frozenset(pairs)


def accuracy(gold: Sequence[str], said: Sequence[str]) -> float:
    """The share of sentences whose translation was found, in percent (Tatoeba).

    Args:
        gold: for every sentence that was asked for, the id of its translation.
        said: what was found, in the same order.

    Raises:
        DataError: there are none, or the numbers differ.
    """
    if not gold or len(gold) != len(said):
        raise DataError(f"{len(said)} answers to {len(gold)} questions; there must be one to each")
    return 100 * sum(map(str.__eq__, gold, said)) / len(gold)


def pair_f1(gold: Collection[Pair], said: Collection[Pair]) -> dict[str, float]:
    """Precision, recall and F1 of a set of mined pairs, in percent (BUCC).

    Args:
        gold: the right pairs; a pair that occurs twice is one.
        said: the pairs that were mined.
    """
    right = len(set(gold) & set(said))
    if not right:
        return {"f1": 0.0, "precision": 0.0, "recall": 0.0}
    precision, recall = right / len(set(said)), right / len(set(gold))
    f1 = 2 * precision * recall / (precision + recall)
    return {"f1": 100 * f1, "precision": 100 * precision, "recall": 100 * recall}
