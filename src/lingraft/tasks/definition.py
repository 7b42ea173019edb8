"""A task as a TOML table: files, columns, labels, metrics, settings (docs/reference/tasks.md).

The built-in tasks (`catalogue`) and a user's own are written in this schema.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from lingraft.errors import RecipeError
from lingraft.recipe.base import Names
from lingraft.recipe.decoding import checked, load
from lingraft.tasks import klue, squad, text, translation, words
from lingraft.tasks.columns import Columns, Files, Headers, Pattern
from lingraft.tasks.metrics import CHARACTERS, SCORES
from lingraft.tasks.reading import MISSING, no_examples
from lingraft.tasks.settings import Paper, Settings, Spans, changed
from lingraft.tasks.splits import find_part
from lingraft.tasks.task import Hub, Kind, Split, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from lingraft.tasks.examples import Example
    from lingraft.tasks.reading import Row

    Rows = Callable[[Path, "Definition"], Iterable[Row]]
    ToExample = Callable[[Row, "Definition"], Example]

FORMATS: dict[str, tuple[Rows, ToExample]] = {
    **dict.fromkeys(("classification", "pair", "regression"), (text.rows, text.example)),
    "tagging": (words.rows, words.example),
    "relation": (text.rows, klue.relation),
    "parsing": (klue.word_rows, klue.parse),
    "span": (squad.rows, squad.example),
    "translation": (text.rows, translation.example),
    "klue-ner": (klue.character_rows, klue.characters),
    "universal-dependencies": (words.treebank_rows, words.treebank_example),
}
"""Kind of a task, or its `format` → what reads records of its files, and makes examples of them."""
NAME = re.compile(r"[A-Za-z0-9{][A-Za-z0-9._+{}-]*")
"""Of a task: a folder is called so."""


class Definition(Paper):
    """One task."""

    name: str
    kind: Kind
    files: Files
    """CSV, TSV or JSONL; tagging: JSONL, or CoNLL (a word a line, its tag last, gaps between
    sentences); span: JSON like SQuAD's, or JSONL with id, question, context and answers."""
    language: str = "und"
    """Of translations, that of the target."""
    codes: Annotated[tuple[str, str], Field(strict=False)] | None = None
    """Translation: what the tokenizer of a model of many languages calls source and target."""
    columns: Columns = Columns()
    translations: Files | None = None
    """The same examples, by their ids, in another language; answers may be missing. Columns do it
    too."""
    aligned: bool = False
    """Examples with the same id in two of its languages are translations of each other."""
    labels: Names = ()
    """Empty takes those of the training file, sorted."""
    aliases: dict[str, str] = {}
    """Other spellings of labels."""
    metrics: Names = ()
    """Empty takes all that the kind has."""
    selection: str | None = None
    """The score that chooses the best checkpoint; None takes the first of the first metric."""
    has_pair: bool = False
    """Regression on pairs of texts."""
    score_range: Annotated[tuple[float, float], Field(strict=False)] | None = None
    """Lowest and highest score."""
    header: Headers = ()
    """The columns of TSV files that may lack a header."""
    only: dict[str, Pattern] = {}
    """Column → regular expression: rows whose value it does not fit as a whole are of another
    language. Rows without the column stay."""
    prefix: str = ""
    """Tagging: taken off the words of a file in which all words have it (WikiAnn's `de:Berlin`)."""
    repeats_ids: bool = False
    """Ids may occur several times; the later ones get a number."""
    drop_ragged: bool = False
    """Leave out rows of TSV files with another number of columns than the header."""
    format: Literal["klue-ner", "universal-dependencies"] | None = None
    """Files of a format of its own."""
    hidden: Annotated[tuple[Literal["test"], ...], Field(strict=False)] = ()
    """Splits whose answers the benchmark hides."""
    evaluation: Names = ()
    """The splits that are reported; empty takes test, or dev where there is none."""
    headline: Names = ()
    """The scores that tables show."""
    title: str = ""
    version: str = "the user's own"
    citation: str = ""
    licence: str = "the user's own"
    files_from: str = "you (the recipe names them)"
    folders: Names = ()
    """Where the files may lie inside the data directory."""
    hub: Hub | None = None
    papers: dict[str, Paper] = {}
    """Settings of other papers."""
    note: str = ""


USUAL = {"span": Settings(max_length=384), "translation": translation.USUAL}
"""Of kinds whose inputs are longer; of passages as SQuAD's script, which `doc_stride` fits."""


def decode(table: dict[str, Any], where: str = "task") -> Definition:
    """Check a table and freeze it.

    Raises:
        RecipeError: the first thing that is wrong, on one line.
    """
    return checked(Definition, table, where)


def task_in(path: Path) -> Task:
    """Return the task of a TOML file; its own files are relative to it.

    Raises:
        LingraftError: as `decode` and `task_of`, or the file cannot be read.
    """
    return task_of(decode(load(path), str(path)), path.resolve().parent)


def task_of(definition: Definition, base: Path | None = None, *, read_tags: bool = True) -> Task:
    """Make the task that a table describes.

    Args:
        definition: the table.
        base: for a user's own task, the folder that its files are relative to; what the table does
            not say is found out (the labels from the training file). A benchmark's says all.
        read_tags: whether to look into the training file, if it is there, for what its tags are;
            not for a table that was saved or for translations, and not once for every language.

    Raises:
        RecipeError: a metric or selection that the kind does not have, too few labels.
        DataError: the training file cannot be read.
    """
    if base is not None:
        definition = _settled(definition, base, read_tags=read_tags)
    rows, example = FORMATS[definition.format or definition.kind]
    splits = {
        split: Split(
            tuple(tuple(_placed(name, base) for name in spellings) for spellings in parts),
            labelled=split not in definition.hidden,
        )
        for split, parts in definition.files
        if parts is not None
    }
    is_tested = "test" in splits and splits["test"].labelled
    assert definition.selection is not None
    usual = USUAL.get(definition.kind, Settings())
    presets = translation.SETTINGS if definition.kind == "translation" else {}
    return Task(
        name=definition.name,
        title=definition.title or definition.name,
        kind=definition.kind,
        languages=(definition.language,),
        files_from=definition.files_from,
        splits=splits,
        rows=lambda path: rows(path, definition),
        example=lambda row: example(row, definition),
        metrics=definition.metrics,
        selection=definition.selection,
        settings=changed(usual, definition),
        labels=definition.labels,
        headline=definition.headline,
        evaluation=definition.evaluation or (("test",) if is_tested else ("dev",)),
        folders=definition.folders,
        alternatives=presets
        | {name: changed(usual, paper) for name, paper in definition.papers.items()},
        spans=changed(Spans(), definition) if definition.kind == "span" else None,
        wants=lambda row: _wanted(row, definition.only),
        translation=lambda: _translation(definition, base),
        table=definition,
        is_own=base is not None,
    )


def _placed(name: str, base: Path | None) -> str:
    return name if base is None else str((base / name).resolve())


def _translation(definition: Definition, base: Path | None) -> Task | None:
    """The record by which translations of the examples are read: from other files or columns."""
    changes: dict[str, Any] = {"folders": definition.folders or (".",)}  # answers may be hidden
    if definition.translations is not None:
        changes |= {"files": definition.translations, "translations": None}
        changes |= {"hidden": (), "evaluation": ()}  # splits, of which not all are translated
        return task_of(definition.model_copy(update=changes), base, read_tags=False)
    if FORMATS[definition.format or definition.kind][1] is not text.example:
        return None
    columns = definition.columns
    texts = {"text": columns.translation, "pair": columns.translation_pair}
    changes["columns"] = columns.model_copy(update=texts)
    task = task_of(definition.model_copy(update=changes), base)
    return replace(
        task,
        wants=lambda row: (
            row.find(columns.translation) not in (MISSING, None) and _wanted(row, definition.only)
        ),
    )


def _wanted(row: Row, only: Mapping[str, str]) -> bool:
    """Whether a row of a file of several languages is of the task's."""
    pairs = ((row.values.get(column), pattern) for column, pattern in only.items())
    return all(value is None or re.fullmatch(pattern, str(value)) for value, pattern in pairs)


def _settled(definition: Definition, base: Path, *, read_tags: bool) -> Definition:
    """A user's own task with labels, metrics and scores written out."""
    name, kind = definition.name, definition.kind
    options = SCORES.get("classification" if kind == "pair" else kind)
    if options is None:
        raise RecipeError(
            f"task {name}: kind is {kind!r}, which only benchmarks have; a task of your own is "
            f"{', '.join(SCORES)} or pair"
        )
    labels = definition.labels or _labels_of(definition, base)
    _check(definition, labels)
    options = options | (CHARACTERS if definition.format == "klue-ner" else {})
    usual = tuple(metric for metric in options if metric != "f1" or len(labels) == 2)
    if kind == "translation":
        usual = translation.metrics_of(definition.language)
    if kind == "tagging" and not _has_entities(definition, base, labels, read_tags):
        usual = ("chunks", "tokens") if "O" in labels else ("tokens", "chunks")
        if "entities" in definition.metrics:
            raise RecipeError(
                f"task {name}: metric 'entities' reads IOB2 (B-LOC begins every name, I-LOC goes "
                f"on), and these tags are others: {', '.join(labels[:6])}; take chunks or tokens"
            )
    metrics = definition.metrics or usual
    for metric in metrics:
        if metric not in options:
            raise RecipeError(
                f"task {name}: metrics has {metric!r}; a {kind} task can have {', '.join(options)}"
            )
    if "f1" in metrics and len(labels) != 2:
        raise RecipeError(
            f"task {name}: metric 'f1' is of the second of two labels, and there are "
            f"{len(labels)}; take macro_f1"
        )
    scores = [score for metric in metrics for score in options[metric]]
    selection, shown = definition.selection or scores[0], metrics
    if kind == "translation":
        selection = definition.selection or translation.chooses(scores, definition.language)
        shown = tuple(metric for metric in metrics if metric in translation.HEADLINE) or metrics
    headline = definition.headline or tuple(options[metric][0] for metric in shown)
    for key, score in (("selection", selection), *(("headline", score) for score in headline)):
        if score not in scores:
            raise RecipeError(
                f"task {name}: {key} is {score!r}; its metrics give {', '.join(scores)}"
            )
    settled = {"labels": labels, "metrics": metrics, "selection": selection, "headline": headline}
    return definition.model_copy(update=settled)


def _has_entities(
    definition: Definition, base: Path, labels: Sequence[str], read_tags: bool
) -> bool:
    """Whether tags are IOB2, in the training files too where they are here and to be read."""
    read_tags &= all(find_part(part, base, ()) for part in definition.files.train or ())
    rows = _train_rows(definition, base) if read_tags else ()
    return words.are_entities(labels, (row.strings(definition.columns.tags) for row in rows))


def _check(definition: Definition, labels: Sequence[str]) -> None:
    """Refuse a name that is no folder's, labels that are there twice or alone, a missing split.

    A development set is made where there is none.
    """
    asked = {split: key for key in ("hidden", "evaluation") for split in getattr(definition, key)}
    asked.pop("dev", None)
    absent = [split for split in asked if getattr(definition.files, split, None) is None]
    wrong = ""
    if not NAME.fullmatch(definition.name):
        wrong = "its name names a folder: letters, digits, '.', '_', '+' and '-'"
    elif len(set(labels)) < len(labels):
        wrong = f"a label is there twice in {', '.join(labels)}"
    elif definition.kind in ("classification", "pair") and len(labels) < 2:
        wrong = f"has {len(labels)} labels; a classification needs two or more"
    elif absent:
        wrong = f"{asked[absent[0]]}: [files] has no {absent[0]!r}"
    if wrong:
        raise RecipeError(f"task {definition.name}: {wrong}")


def _labels_of(definition: Definition, base: Path) -> tuple[str, ...]:
    """The labels of the training files, sorted; of tags O comes last."""
    if definition.kind in ("regression", "span", "translation"):
        return ()
    name = definition.name
    if definition.files.train is None:
        why = "files has no train, which would say the labels; name it, or give labels"
        raise RecipeError(f"task {name}: {why}")
    rows = _train_rows(definition, base)
    labels = {label for row in rows for label in text.labels_of(row, definition)}
    if not labels:
        raise no_examples(base / definition.files.train[0][0], name)
    return tuple(sorted(labels, key=lambda label: (label == "O", label)))


def _train_rows(definition: Definition, base: Path) -> Iterator[Row]:
    read, _ = FORMATS[definition.format or definition.kind]
    for part in definition.files.train or ():
        for path in find_part(part, base, ()) or (base / part[0],):
            yield from (row for row in read(path, definition) if _wanted(row, definition.only))
