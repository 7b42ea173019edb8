"""Tasks from tables: what a task's TOML leaves open is filled in, what cannot be is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lingraft.errors import RecipeError
from lingraft.recipe.decoding import checked, load
from lingraft.tasks import text, translation_metrics, words
from lingraft.tasks.definition import (
    OF_TRANSLATION,
    USUAL,
    Definition,
    Settings,
    Spans,
    Split,
    changed,
)
from lingraft.tasks.metrics import CHARACTERS, SCORES
from lingraft.tasks.reading import MISSING, placed
from lingraft.tasks.splits import find_part
from lingraft.tasks.task import Task

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from lingraft.tasks.examples import Example
    from lingraft.tasks.reading import FileRow

    Rows = Callable[[Path, Definition], Iterable[FileRow]]
    ToExample = Callable[[FileRow, Definition], Example]


FORMATS: dict[str, tuple[Rows, ToExample]] = {
    **dict.fromkeys(("classification", "pair", "regression"), (text.rows, text.example)),
    "tagging": (words.rows, words.example),
    "relation": (text.rows, words.relation),
    "parsing": (words.word_rows, words.parse),
    "span": (text.span_rows, text.span),
    "translation": (text.rows, text.translation),
    "klue-ner": (words.character_rows, words.characters),
    "universal-dependencies": (words.treebank_rows, words.treebank_example),
}
"""Kind of a task, or its `format` → what reads records of its files, and makes examples of them."""


SHARED = ["name", "kind", "files_from", "metrics", "selection", "labels", "headline", "folders"]
"""Fields that a task has as its table."""


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


def task_of(definition: Definition, base: Path | None = None) -> Task:
    """Make the task that a table describes.

    Args:
        definition: the table.
        base: for a user's own task, the folder that its files are relative to; what the table does
            not say is found out (the labels from the training file). A benchmark's says all.

    Raises:
        RecipeError: a metric or selection that the kind does not have.
        DataError: the training file cannot be read.
    """
    if base is not None:
        definition = _completed(definition, base)
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
    usual = USUAL.get(definition.kind, Settings())
    presets = OF_TRANSLATION if definition.kind == "translation" else {}
    return Task(
        **{key: getattr(definition, key) for key in SHARED},
        title=definition.title or definition.name,
        languages=(definition.language,),
        splits=splits,
        rows=lambda path: rows(path, definition),
        example=lambda row: example(row, definition),
        settings=changed(usual, definition),
        evaluation=definition.evaluation or (("test",) if is_tested else ("dev",)),
        alternatives=presets
        | {name: changed(usual, paper) for name, paper in definition.papers.items()},
        spans=changed(Spans(), definition) if definition.kind == "span" else None,
        wants=lambda row: _is_wanted(row, definition.only),
        translation=lambda: _translation(definition, base),
        table=definition,
        is_own=base is not None,
    )


def _placed(name: str, base: Path | None) -> str:
    return name if base is None else str((base / name).resolve())


def _translation(definition: Definition, base: Path | None) -> Task | None:
    """Return the record that reads translations of the examples: of other files, or columns."""
    changes: dict[str, Any] = {"folders": definition.folders or (".",)}  # answers may be hidden
    if definition.translations is not None:
        changes |= {"files": definition.translations, "translations": None}
        changes |= {"hidden": (), "evaluation": ()}  # splits, of which not all are translated
        return task_of(definition.model_copy(update=changes), base)
    if FORMATS[definition.format or definition.kind][1] is not text.example:
        return None
    columns = definition.columns
    texts = {"text": columns.translation, "pair": columns.translation_pair}
    changes["columns"] = columns.model_copy(update=texts)
    task = task_of(definition.model_copy(update=changes), base)
    return replace(
        task,
        wants=lambda row: (
            row.find(columns.translation) not in (MISSING, None)
            and _is_wanted(row, definition.only)
        ),
    )


def _is_wanted(row: FileRow, only: Mapping[str, re.Pattern[str]]) -> bool:
    """Tell whether a row of a file of several languages is of the task's."""
    pairs = ((row.values.get(column), pattern) for column, pattern in only.items())
    return all(value is None or pattern.fullmatch(str(value)) for value, pattern in pairs)


def _completed(definition: Definition, base: Path) -> Definition:
    """Return a user's own task with labels, metrics and scores written out."""
    name, kind = definition.name, definition.kind
    if kind not in SCORES:
        raise RecipeError(f"task {name}: kind is {kind!r}; your own can be {', '.join(SCORES)}")
    for split in (*definition.hidden, *definition.evaluation):
        if split != "dev" and getattr(definition.files, split, None) is None:
            raise RecipeError(f"task {name}: [files] has no {split!r}, which is hidden or reported")
    labels = definition.labels or _labels_of(definition, base)
    options = SCORES[kind] | (CHARACTERS if definition.format == "klue-ner" else {})
    if len(labels) != 2:
        options = {metric: scores for metric, scores in options.items() if metric != "f1"}
    if not words.are_entities(labels):
        options = {metric: scores for metric, scores in options.items() if metric != "entities"}
    usual = tuple(options)
    if kind == "translation":
        usual = translation_metrics.metrics_of(definition.language)
    if kind == "tagging":
        usual = ("chunks", "tokens") if "O" in labels else ("tokens", "chunks")
    metrics = definition.metrics or usual
    _check_among(name, "metrics", metrics, options)
    scores = [score for metric in metrics for score in options[metric]]
    selection = definition.selection or translation_metrics.chooses(scores, definition.language)
    shown = tuple(one for one in metrics if one in translation_metrics.HEADLINE) or metrics
    headline = definition.headline or tuple(options[metric][0] for metric in shown)
    _check_among(name, "selection and headline", (selection, *headline), scores)
    raw = definition.raw and _placed(definition.raw, base)
    complete = {"labels": labels, "metrics": metrics, "selection": selection, "headline": headline}
    return definition.model_copy(update=complete | ({"raw": raw} if raw else {}))


def _check_among(name: str, key: str, values: Iterable[str], allowed: Iterable[str]) -> None:
    for value in values:
        if value not in allowed:
            raise RecipeError(
                f"task {name}: {key}: {value!r} is none of {', '.join(allowed)}, which this kind "
                "and these labels have"
            )


def _labels_of(definition: Definition, base: Path) -> tuple[str, ...]:
    """Return the labels of the training files, sorted; of tags O comes last."""
    if definition.kind in ("regression", "span", "translation"):
        return ()
    labels: set[str] = set()
    read, _ = FORMATS[definition.format or definition.kind]
    for part in definition.files.train or ():
        for path in find_part(part, base, ()) or (base / part[0],):
            with placed(str(path)):
                for row in read(path, definition):
                    if _is_wanted(row, definition.only):
                        labels |= _answers_of(row, definition)
    return tuple(sorted(labels, key=lambda label: (label == "O", label)))


def _answers_of(row: FileRow, definition: Definition) -> set[str]:
    if definition.kind == "tagging":
        answers = {*words.tags_of(row, definition)}
    else:
        answers = {text.label_of(row, definition) or ""}
    if "" in answers:
        raise row.error("has no answer (-1 is none in a task with hidden answers)")
    return answers
