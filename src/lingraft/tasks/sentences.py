"""Sentences and translations that measure: nothing is repaired or left out. No torch here.

A line that is no sentence, or no pair of them, is an error that names its place. Files may be
packed (.gz .xz .bz2 .zst) and are read a line at a time.

Benchmarks in several languages, and translations found with a model as it is (BUCC, Tatoeba).

A group is one task in several languages: trained in one of them, tested in all. Its records are
ordinary tasks, one a language, called `NAME-LANGUAGE`: `TASKS["xquad-de"]`. One that has no
training files in its language lacks the split `train`; labels are the same in all.

Nothing is trained. A record names the files of a language and English; `read` gives both sides
and, where the makers give them, the right pairs. Ids are the file's own (BUCC), or line numbers
from 0. `lingraft.crosslingual` finds pairs with a model; `pair_f1` scores mined ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal, NamedTuple

from lingraft.errors import DataError, RecipeError
from lingraft.recipe.base import Names, Section
from lingraft.tasks.definition import Spellings
from lingraft.tasks.reading import lines
from lingraft.tasks.splits import find_part

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path


Pair = tuple[str, str]
"""Ids of two sentences that translate each other."""


class Translation(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str
    where: str
    """File and line, for messages."""


def translations(paths: Sequence[Path]) -> Iterator[Translation]:
    """Yield pairs of sentences.

    Args:
        paths: two files, line n of one translating line n of the other; or a table of two columns.

    Raises:
        DataError: a file cannot be read, there is no pair or half of one, or a sentence is empty.
    """
    rows = (line.split("\t") for line in lines(paths[0]))
    number = 0
    for number, cells in enumerate(rows if len(paths) == 1 else zip_longest(*map(lines, paths)), 1):
        if None in cells:
            counts = [sum(1 for _ in lines(path)) for path in paths]
            raise DataError(
                f"{paths[0]} has {counts[0]:,} lines and {paths[1]} has {counts[1]:,}; line n of "
                "one must translate line n of the other"
            )
        where = f"{paths[0]}: line {number:,}"
        _check_two(cells, where, "a sentence TAB its translation")
        for path, text in zip((paths[0], paths[-1]), cells, strict=True):
            check_filled(text, f"{path}: line {number:,}")
        yield Translation(cells[0], cells[1], where)
    if not number:
        raise DataError(f"{paths[-1]}: holds no pairs of sentences")


def _check_two(cells: Sequence[str], where: str, wanted: str) -> None:
    if len(cells) != 2:
        raise DataError(f"{where}: has {len(cells)} columns; two are wanted, {wanted}")


def check_filled(text: str | Sequence[str], where: str) -> None:
    """Refuse a sentence of nothing or of spaces.

    Raises:
        DataError: it is one.
    """
    if not (text.strip() if isinstance(text, str) else text):
        raise DataError(f"{where}: the sentence is empty; leave the line out on both sides")


def with_ids(path: Path, *, bare: bool = False) -> dict[str, str]:
    """Return sentences by id, `id TAB sentence` a line as in BUCC.

    Args:
        path: the file.
        bare: it may hold sentences alone; these are numbered from 1.

    Raises:
        DataError: the file is broken or empty, a sentence is empty, or an id is there twice.
    """
    cells = [line.split("\t") for line in lines(path)]
    if bare and {len(row) for row in cells} == {1}:
        cells = [[str(number), row[0]] for number, row in enumerate(cells, 1)]
    sentences: dict[str, str] = {}
    for number, row in enumerate(cells, 1):
        where = f"{path}: line {number:,}"
        _check_two(row, where, "id TAB sentence")
        check_filled(row[1], where)
        if row[0] in sentences:
            raise DataError(f"{where}: the id '{row[0]}' stands there twice")
        sentences[row[0]] = row[1]
    if not sentences:
        raise DataError(f"{path}: is empty; give a sentence a line, or id TAB sentence")
    return sentences


def gold_pairs(path: Path, source: Collection[str], target: Collection[str]) -> frozenset[Pair]:
    """Return the pairs that are to be found, `source id TAB target id` a line.

    Args:
        path: the file.
        source: ids that the first column may name.
        target: ids that the second column may name.

    Raises:
        DataError: the file is broken or empty, or names a sentence that is not there.
    """
    pairs = set()
    for number, line in enumerate(lines(path), 1):
        where, cells = f"{path}: line {number:,}", line.split("\t")
        _check_two(cells, where, "source id TAB target id")
        if cells[0] not in source or cells[1] not in target:
            raise DataError(f"{where}: no sentences have the ids '{cells[0]}' and '{cells[1]}'")
        pairs.add((cells[0], cells[1]))
    if not pairs:
        raise DataError(f"{path}: holds no pairs")
    return frozenset(pairs)


Category = Literal["classification", "tagging", "qa", "retrieval"]
"""XTREME's four groups of tasks."""


class Group(Section):
    """The records of one task, and what their scores are averaged to."""

    name: str
    title: str
    category: Category
    languages: Names = ()
    """In which there is a record; filled in by the catalogue."""
    train_language: str = "en"
    """In which XTREME trains; of retrieval, the language that translations are in."""
    scores: Names
    """Whose mean is the task's one number (`avg_metric`): exact match and F1 of answers."""

    def member(self, language: str) -> str:
        """Return the name of the record in a language.

        Raises:
            RecipeError: there is none.
        """
        if language not in self.languages:
            raise RecipeError(
                f"{self.name}: is not in the language {language!r}; it is in "
                f"{', '.join(sorted(self.languages))}"
            )
        return f"{self.name}-{language}"


class Sides(Section):
    """Files of one split: either both sides in one table, or a file a side."""

    table: Spellings | None = None
    """Two columns: English, and the language."""
    source: Spellings | None = None
    """In the language."""
    target: Spellings | None = None
    """In English."""
    gold: Spellings | None = None
    """Pairs of ids; None: the same line is right."""


class Retrieval(Section):
    """Language of a benchmark of retrieval."""

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
        """Return the sentences, not the ids, of the pairs that belong together; empty without."""
        return frozenset((self.source[one], self.target[other]) for one, other in self.gold or ())


def read(record: Retrieval, directory: Path, split: str = "test") -> Bitext:
    """Read the sentences of a split.

    Raises:
        DataError: its files are missing or broken, the sides of a Tatoeba set differ in length, or
            a gold pair has a sentence that is not there.
    """
    sides = record.files[split]
    table, source, target, gold = (
        next(iter(find_part(names or (), directory, record.folders)), None)
        for names in (sides.table, sides.source, sides.target, sides.gold)
    )
    if table is not None:
        return _aligned([(text, english) for english, text, _ in translations([table])])
    if source is None or target is None:
        wanted = ", ".join((*(sides.table or ()), *(sides.source or ()), *(sides.target or ())))
        raise DataError(
            f"{directory}: files of {record.name} are missing ({split}: {wanted}); get them from "
            f"{record.files_from} and put them there or in one of the folders "
            f"{', '.join(record.folders)}"
        )
    if sides.gold is None:
        return _aligned([(text, english) for text, english, _ in translations([source, target])])
    return mixed(source, target, gold)


def mixed(source: Path, target: Path, gold: Path | None, *, bare: bool = False) -> Bitext:
    """Read two texts in which some sentences translate each other.

    Args:
        source: sentences with ids.
        target: sentences with ids.
        gold: pairs of ids, if they are known.
        bare: sentences may stand there without ids (`with_ids`).

    Raises:
        DataError: a file is broken, or a gold pair has a sentence that is not there.
    """
    sources, targets = with_ids(source, bare=bare), with_ids(target, bare=bare)
    pairs = gold_pairs(gold, sources, targets) if gold else None
    return Bitext(sources, targets, pairs)


def _aligned(pairs: Sequence[Pair]) -> Bitext:
    source, target = ({str(n): pair[side] for n, pair in enumerate(pairs)} for side in (0, 1))
    return Bitext(source, target, frozenset(zip(source, source, strict=True)))


def pair_f1(gold: Collection[Pair], predictions: Collection[Pair]) -> dict[str, float]:
    """Return precision, recall and F1 of a set of mined pairs, in percent (BUCC).

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
