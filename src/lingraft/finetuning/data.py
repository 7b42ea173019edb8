"""A task's examples for one call: from files, from the Hub, cut, or a part of the training set."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError, RecipeError
from lingraft.files import path_of
from lingraft.finetuning.outcomes import OFFICIAL, OWN
from lingraft.finetuning.recipe import HUB
from lingraft.optional import check_answers, require
from lingraft.tasks import Data, splits
from lingraft.tasks.reading import FileRow
from lingraft.tasks.splits import DEV, TRAIN, with_selection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingraft.finetuning.recipe import Finetune
    from lingraft.tasks.examples import Example
    from lingraft.tasks.task import Task

NO_CODES = ("codes", None)
"""What fingerprints leave out, as those of before."""


def load(task: Task, recipe: Finetune, base: Path) -> Data:
    """Load the splits of a task, as a recipe wants them.

    Args:
        task: one of the recipe's.
        recipe: says where the files are, and whether to cut them.
        base: the folder that paths are relative to.

    Raises:
        DataError: files are missing or broken.
        RecipeError: the recipe does not say where they are.
    """
    shares = recipe.cut.shares if recipe.cut else None
    if is_on_hub(task, recipe):
        if shares is not None:
            raise RecipeError("cut: is for files; with data = 'hub' the official splits are there")
        data = from_hub(task)
    else:
        data = splits.load(task, directory_of(task, recipe, base), shares=shares)
    return part_of(data, recipe.train_examples, task.name)


def is_on_hub(task: Task, recipe: Finetune) -> bool:
    """Return whether a task's examples are to be read from the Hugging Face Hub."""
    return recipe.data == HUB and task.table.hub is not None


def directory_of(task: Task, recipe: Finetune, base: Path) -> Path:
    """Return the folder of a task's files; a user's own task says where they are.

    Raises:
        RecipeError: the recipe does not say where.
    """
    parts = [part for split in task.splits.values() for part in split.parts]
    if all(Path(spelling).is_absolute() for part in parts for spelling in part):
        return base
    if recipe.data is None or recipe.data == HUB:
        raise RecipeError(
            f"--data: name the directory that holds the files of {task.name} ({task.files_from})"
            + (", or 'hub'" if task.table.hub else "")
        )
    return base / path_of(recipe.data)


def part_of(data: Data, examples: int | None, name: str) -> Data:
    """Return the data with a smaller training set; smaller ones are contained in larger ones.

    Raises:
        RecipeError: there are fewer examples.
    """
    if examples is None:
        return data
    train = data.splits[TRAIN]
    if examples > len(train):
        raise RecipeError(f"train_examples is {examples:,}, but {name} has {len(train):,}")
    hashes = [hashlib.blake2b(_line(example), digest_size=16).digest() for example in train]
    order = sorted(range(len(train)), key=hashes.__getitem__)
    sample = [train[index] for index in sorted(order[:examples])]
    names = dict(data.names) | {TRAIN: f"{examples:,} examples of {data.names[TRAIN]}"}
    return replace(data, splits={**data.splits, TRAIN: sample}, names=names)


def _line(example: Example) -> bytes:
    values = {key: value for key, value in asdict(example).items() if (key, value) != NO_CODES}
    text = json.dumps(values, ensure_ascii=False, sort_keys=True)
    return text.encode("utf-8", "surrogatepass")


def fingerprint_of(data: Data) -> str:
    """Return the fingerprint of all examples and what the splits are."""
    digest = hashlib.blake2b(digest_size=16)
    for split in sorted(data.splits):
        digest.update(f"{split}: {data.names[split]}\n".encode())
        for example in data.splits[split]:
            digest.update(_line(example) + b"\n")
    for split, partners in sorted(data.partners.items()):
        digest.update(f"partners of {split}\n".encode())
        for identifier, example in sorted(partners.items()):
            digest.update(json.dumps(identifier).encode() + _line(example) + b"\n")
    return digest.hexdigest()


def split_note(data: Data, task: Task) -> str:
    """Return a note of splits that were cut; else `OFFICIAL`, or `OWN` of a user's own task."""
    notes = [f"{split}: {name}" for split, name in data.names.items() if split != name]
    return "; ".join(notes) or (OWN if task.is_own else OFFICIAL)


# -- the Hub


def from_hub(task: Task) -> Data:
    """Load the official splits from the Hugging Face Hub.

    Raises:
        DataError: the data set or a column is not there.
    """
    hub = task.table.hub
    assert hub is not None
    splits_needed = dict.fromkeys([TRAIN, *([DEV] if hub.of(DEV) else []), *task.evaluation])
    examples = {split: hub_split(task, split) for split in splits_needed}
    return with_selection(examples, {split: split for split in examples}, task.evaluation)


def hub_split(task: Task, split: str) -> list[Example]:
    """Load the examples of one official split from the Hugging Face Hub.

    Raises:
        DataError: the data set or a column is not there.
    """
    hub = task.table.hub and task.table.hub.of(split)
    datasets = require("datasets", "reading a task from the Hub", "data")
    if not hub:
        raise DataError(f"{task.name}: the Hub has no {split} split; give its files with --data")
    name = f"hub:{hub.dataset} {hub.config or ''} {split}"
    check_answers()
    try:
        table = datasets.load_dataset(
            hub.dataset, hub.config, split=hub.splits[split], revision=hub.revision
        )
    except Exception as error:  # datasets raises classes of many libraries
        raise DataError(
            f"{name}: cannot be loaded ({error}); check your connection, or get the files from "
            f"{task.files_from}"
        ) from error
    rows = hub_rows(table, dict(hub.columns), name)
    return task.from_rows(rows, name, hidden=not task.splits[split].labelled)


def hub_rows(table: Any, columns: dict[str, str], name: str) -> Iterator[FileRow]:
    """Yield the rows of a `datasets` table: labels by name, columns as the reader expects them."""
    features = table.features
    for number, record in enumerate(table):
        values = {
            columns.get(key, key): _by_name(features.get(key), value)
            for key, value in record.items()
        }
        yield FileRow(f"{name}, row {number + 1}", number, values)


def _by_name(feature: Any, value: Any) -> Any:
    """Return a class number as its name, also inside a list; -1 is a hidden answer and stays."""
    inner = getattr(feature, "feature", None)
    if inner is not None and isinstance(value, list):
        return [_by_name(inner, element) for element in value]
    if hasattr(feature, "int2str") and isinstance(value, int) and value >= 0:
        return feature.int2str(value)
    return value
