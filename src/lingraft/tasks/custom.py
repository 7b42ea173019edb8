"""A user's own task out of a TOML table: files, columns, labels, metric (docs/tasks.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from lingraft.errors import DataError, RecipeError
from lingraft.recipe.base import Names, Section, Share
from lingraft.recipe.decoding import checked, load
from lingraft.tasks import klue_mrc
from lingraft.tasks.examples import TaggedExample
from lingraft.tasks.metrics import SCORES
from lingraft.tasks.reading import Row, file_lines, jsonl_rows, suffix, table_rows
from lingraft.tasks.task import Settings, Spans, Split, Task
from lingraft.tasks.text import Columns, TextReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from lingraft.tasks.examples import Example

Positive = Annotated[int, Field(gt=0)]


class UserFiles(Section):
    """The files of a task, relative to the recipe."""

    train: str
    dev: str | None = None
    """Chooses the best checkpoint; None cuts 5 % of train for it."""
    test: str | None = None
    """What is reported; None reports dev."""


class UserColumns(Section):
    """The names of the columns."""

    text: str = "text"
    pair: str = "pair"
    """The second text of a pair."""
    label: str = "label"
    score: str = "score"
    id: str = "id"
    """Rows without one are numbered."""
    words: str = "words"
    """Tagging in JSONL: a list of strings."""
    tags: str = "tags"


class UserTask(Section):
    """One task of a user's own."""

    name: str
    kind: Literal["classification", "pair", "regression", "tagging", "span"]
    files: UserFiles
    """CSV, TSV or JSONL; tagging: JSONL, or CoNLL (a word a line, its tag last, gaps between
    sentences); span: JSON like SQuAD's, or JSONL with id, question, context and answers."""
    language: str = "und"
    columns: UserColumns = UserColumns()
    labels: Names = ()
    """Empty takes those of the training file, sorted."""
    metrics: Names = ()
    """Empty takes all that the kind has."""
    selection: str | None = None
    """The score that chooses the best checkpoint; None takes the first of the first metric."""
    has_pair: bool = False
    """Regression on pairs of texts."""
    epochs: Positive = 5
    batch: Positive = 32
    learning_rate: Annotated[float, Field(gt=0)] = 5e-5
    warmup: Share = 0.1
    max_length: Positive = 128
    weight_decay: Annotated[float, Field(ge=0)] = 0.0


def decode(table: dict[str, Any], where: str = "task") -> UserTask:
    """Check a table and freeze it.

    Raises:
        RecipeError: the first thing that is wrong, on one line.
    """
    return checked(UserTask, table, where)


def task_in(path: Path) -> Task:
    """The task of a TOML file; its own files are relative to it.

    Raises:
        LingraftError: as `decode` and `user_task`, or the file cannot be read.
    """
    return user_task(decode(load(path), str(path)), path.resolve().parent)


def user_task(section: UserTask, base: Path) -> Task:
    """The task that a table describes; reads the training file where labels are not given.

    Args:
        section: the table.
        base: the folder that files are relative to.

    Raises:
        RecipeError: a metric or selection that the kind does not have, too few labels.
        DataError: the training file cannot be read.
    """
    known = _known_metrics(section.kind)
    chosen = section.metrics or tuple(known)
    for name in chosen:
        if name not in known:
            raise RecipeError(
                f"task {section.name}: metrics has {name!r}; a {section.kind} task can have "
                f"{', '.join(known)}"
            )
    labels = section.labels or _labels_of(section, base)
    if section.kind in ("classification", "pair") and len(labels) < 2:
        raise RecipeError(
            f"task {section.name}: has {len(labels)} labels; a classification needs two or more"
        )
    if not section.metrics and len(labels) != 2:
        chosen = tuple(name for name in chosen if name != "f1")
    if "f1" in chosen and len(labels) != 2:
        raise RecipeError(
            f"task {section.name}: metric 'f1' is of the second of two labels, and there are "
            f"{len(labels)}; take macro_f1"
        )
    scores = [score for name in chosen for score in known[name]]
    selection = section.selection or scores[0]
    if selection not in scores:
        raise RecipeError(
            f"task {section.name}: selection is {selection!r}; its metrics give {', '.join(scores)}"
        )
    settled = {"labels": list(labels), "metrics": list(chosen), "selection": selection}
    return Task(
        name=section.name,
        title=section.name,
        kind=section.kind,
        languages=(section.language,),
        version="the user's own",
        citation="",
        licence="the user's own",
        files_from="you (the recipe names them)",
        splits=_splits(section, base),
        rows=_rows(section),
        example=_reader(section, labels),
        metrics=chosen,
        selection=selection,
        settings=_settings(section),
        labels=labels,
        headline=tuple(known[name][0] for name in chosen),
        evaluation=("test",) if section.files.test else ("dev",),
        spans=Spans() if section.kind == "span" else None,
        definition=section.model_dump(mode="json", exclude_none=True) | settled,
    )


def _known_metrics(kind: str) -> dict[str, tuple[str, ...]]:
    return SCORES["classification" if kind == "pair" else kind]


def _settings(section: UserTask) -> Settings:
    return Settings(
        epochs=section.epochs,
        batch=section.batch,
        learning_rate=section.learning_rate,
        warmup=section.warmup,
        max_length=section.max_length,
        weight_decay=section.weight_decay,
        source="the recipe",
    )


def _splits(section: UserTask, base: Path) -> dict[str, Split]:
    files: Mapping[str, str | None] = section.files.model_dump()
    return {
        name: Split(((str((base / file).resolve()),),))
        for name, file in files.items()
        if file is not None
    }


def _rows(section: UserTask) -> Callable[[Path], Iterable[Row]]:
    if section.kind == "tagging":
        return lambda path: tagged_rows(path, section.columns)
    return klue_mrc.rows if section.kind == "span" else table_rows


def tagged_rows(path: Path, columns: UserColumns) -> Iterable[Row]:
    """Sentences of a JSONL file, or of CoNLL: a word a line, its tag last, gaps between sentences.

    Raises:
        DataError: a line has a word and no tag.
    """
    return jsonl_rows(path) if suffix(path) == ".jsonl" else _conll(path, columns)


def _conll(path: Path, columns: UserColumns) -> Iterator[Row]:
    """Columns are separated by tabs, or by spaces in lines without a tab; no line is a comment."""
    number = 0
    start = 1
    words: list[str] = []
    tags: list[str] = []
    for line_number, line in enumerate([*file_lines(path), ""], 1):
        if not line.strip() or line.startswith("-DOCSTART-"):
            if words:
                values = {columns.words: words, columns.tags: tags}
                yield Row(f"{path}: line {start}", number, values)
                number += 1
                words, tags = [], []
            start = line_number + 1
            continue
        cells = line.split("\t") if "\t" in line else line.split()
        if len(cells) < 2:
            raise DataError(
                f"{path}: line {line_number}: is {line[:40]!r}; it must be word and tag"
            )
        words.append(cells[0])
        tags.append(cells[-1])


def _reader(section: UserTask, labels: tuple[str, ...]) -> Callable[[Row], Example]:
    columns = section.columns
    if section.kind == "span":
        return klue_mrc.example
    if section.kind == "tagging":
        return lambda row: _tagged(row, section, labels)
    paired = section.kind == "pair" or section.has_pair
    scored = section.kind == "regression"
    return TextReader(
        Columns(
            text=(columns.text,),
            pair=(columns.pair,) if paired else (),
            label=() if scored else (columns.label,),
            score=(columns.score,) if scored else (),
            id=(columns.id,),
        ),
        labels=labels,
        hidden=False,
    )


def _tagged(row: Row, section: UserTask, labels: tuple[str, ...]) -> TaggedExample:
    columns = section.columns
    words, tags = row.strings([columns.words]), row.strings([columns.tags])
    if len(words) != len(tags) or not words:
        raise row.error(f"has {len(words)} words and {len(tags)} tags; the numbers must be equal")
    for tag in tags:
        if tag not in labels:
            raise row.error(f"unknown label {tag!r}; allowed: {', '.join(labels)}")
    return TaggedExample(row.identifier([columns.id]), words, tags)


def _labels_of(section: UserTask, base: Path) -> tuple[str, ...]:
    """The labels of the training file, sorted; of tags O comes last."""
    if section.kind in ("regression", "span"):
        return ()
    found: set[str] = set()
    for row in _rows(section)(base / section.files.train):
        if section.kind == "tagging":
            found.update(row.strings([section.columns.tags]))
        else:
            found.add(row.text([section.columns.label]))
    return tuple(sorted(found, key=lambda label: (label == "O", label)))
