"""Finding translations with a model as it is: XTREME's BUCC and Tatoeba.

Nothing is trained. A record names the files of a language and English; `read` gives both sides
and, where the makers give them, the right pairs. Ids are the file's own (BUCC), or line numbers
from 0. `lingraft.crosslingual` finds pairs with a model; `accuracy` and `pair_f1` score them.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lingraft.corpus.readers.lines import COMPRESSED
from lingraft.errors import DataError
from lingraft.recipe.base import Names, Section
from lingraft.tasks.columns import Spellings
from lingraft.tasks.sentences import gold_pairs, translations, with_ids
from lingraft.tasks.splits import find_part

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from lingraft.tasks.sentences import Pair


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
    """None where nobody says."""

    @property
    def gold_texts(self) -> frozenset[Pair]:
        """The sentences of the pairs that belong together, not their ids; empty without them."""
        return frozenset((self.source[one], self.target[other]) for one, other in self.gold or ())


def read(record: Retrieval, directory: Path, split: str = "test") -> Bitext:
    """The sentences of a split.

    Raises:
        DataError: its files are missing or broken, the sides of a Tatoeba set differ in length, or
            a gold pair has a sentence that is not there.
    """
    files = record.files[split]
    if table := _found(record, directory, files.table):
        return _aligned([(text, english) for english, text, _ in translations([table])])
    source, target = (_found(record, directory, names) for names in (files.source, files.target))
    if source is None or target is None:
        raise DataError(_missing(record, directory, split))
    if files.gold is None:
        return _aligned([(text, english) for text, english, _ in translations([source, target])])
    return mixed(source, target, _found(record, directory, files.gold))


def mixed(source: Path, target: Path, gold: Path | None, *, bare: bool = False) -> Bitext:
    """Two texts in which some sentences translate each other.

    Args:
        source: sentences with ids.
        target: sentences with ids.
        gold: pairs of ids, if they are known.
        bare: sentences may stand there without ids (`with_ids`).

    Raises:
        DataError: a file is broken, or a gold pair has a sentence that is not there.
    """
    sources, targets = with_ids(source, bare=bare), with_ids(target, bare=bare)
    pairs = None if gold is None else gold_pairs(gold, (source, sources), (target, targets))
    return Bitext(sources, targets, pairs)


def _aligned(pairs: Sequence[Pair]) -> Bitext:
    ids = [str(number) for number in range(len(pairs))]
    source, target = (dict(zip(ids, side, strict=True)) for side in zip(*pairs, strict=True))
    return Bitext(source, target, frozenset(zip(ids, ids, strict=True)))


def _found(record: Retrieval, directory: Path, spellings: Sequence[str] | None) -> Path | None:
    return next(iter(find_part(spellings or (), directory, record.folders, COMPRESSED)), None)


def _missing(record: Retrieval, directory: Path, split: str) -> str:
    sides = record.files[split]
    names = [*(sides.table or ()), *(sides.source or ()), *(sides.target or ())]
    return (
        f"{directory}: files of {record.name} are missing ({split}: {', '.join(names)}); get them "
        f"from {record.files_from} and put them there or in one of the folders "
        f"{', '.join(record.folders)} (also with {' '.join(COMPRESSED)})"
    )


def accuracy(gold: Sequence[Any], predictions: Sequence[Any]) -> float:
    """The share of sentences whose translation was found, in percent (Tatoeba).

    Args:
        gold: for every sentence that was asked for, the id of its translation.
        predictions: what was found, in the same order.
    """
    return 100 * sum(map(bool, map(operator.eq, gold, predictions))) / len(gold)


def pair_f1(gold: Collection[Pair], predictions: Collection[Pair]) -> dict[str, float]:
    """Precision, recall and F1 of a set of mined pairs, in percent (BUCC).

    Args:
        gold: the right pairs; a pair that occurs twice is one.
        predictions: the pairs that were mined.
    """
    right = len(set(gold) & set(predictions))
    if not right:
        return {"f1": 0.0, "precision": 0.0, "recall": 0.0}
    precision, recall = right / len(set(predictions)), right / len(set(gold))
    f1 = 2 * precision * recall / (precision + recall)
    return {"f1": 100 * f1, "precision": 100 * precision, "recall": 100 * recall}
