"""A task's examples for one call: from files, from the Hub, cut, or a part of the training set."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.corpus.extras import require
from lingraft.errors import DataError, RecipeError
from lingraft.finetuning.outcomes import OFFICIAL, OWN
from lingraft.finetuning.recipe import HUB
from lingraft.hub import check_answers
from lingraft.paths import path_of
from lingraft.tasks import Data, splits
from lingraft.tasks.reading import Row
from lingraft.tasks.splits import DEV, TRAIN, with_selection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lingraft.finetuning.recipe import Finetune
    from lingraft.tasks.examples import Example
    from lingraft.tasks.task import Task

logger = logging.getLogger(__name__)
INPUTS = ("text", "pair", "question", "subject", "object")
"""Fields of an example that a model reads."""


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
    seed = recipe.cut.seed if recipe.cut else 0
    if recipe.data == HUB and task.table.hub is not None:
        data = from_hub(task)
        if shares is not None:
            raise RecipeError("cut: is for files; with data = 'hub' the official splits are there")
    else:
        data = splits.load(task, directory_of(task, recipe, base), shares=shares, seed=seed)
    return part_of(data, recipe.train_examples, task.name)


def directory_of(task: Task, recipe: Finetune, base: Path, name: str = "") -> Path:
    """Return the folder of a task's files; a user's own task says where they are.

    Raises:
        RecipeError: the recipe does not say where; `name` is of the benchmark, where it has
            several tasks.
    """
    if own_files(task):
        return base
    if recipe.data is None or recipe.data == HUB:
        start = "--data hub: has no copy with the official splits;" if recipe.data else "--data:"
        raise RecipeError(
            f"{start} name the directory that holds the files of {name or task.name} "
            f"({task.files_from})" + (", or 'hub'" if task.table.hub else "")
        )
    return base / path_of(recipe.data)


def own_files(task: Task) -> bool:
    """Return whether the task names its files by their full paths, as a user's own does."""
    return all(
        Path(spelling).is_absolute()
        for split in task.splits.values()
        for part in split.parts
        for spelling in part
    )


def part_of(data: Data, examples: int | None, name: str) -> Data:
    """Return the data with a smaller training set; smaller ones are contained in larger ones.

    Raises:
        RecipeError: there are fewer examples.
    """
    if examples is None:
        return data
    train = data.splits[TRAIN]
    if examples > len(train):
        raise RecipeError(
            f"train_examples is {examples:,}, but {name} has {len(train):,}; ask for fewer"
        )
    order = sorted(range(len(train)), key=lambda index: _hash(train[index]))
    sample = [train[index] for index in sorted(order[:examples])]
    names = dict(data.names) | {TRAIN: f"{examples:,} examples of {data.names[TRAIN]}"}
    return replace(data, splits={**data.splits, TRAIN: sample}, names=names)


def tell_shared(data: Data, name: str) -> None:
    """Warn of examples that are judged and have the very inputs of one that is learnt."""
    learnt = {_inputs(example) for example in data.splits[TRAIN]}
    shared = {
        split: sum(_inputs(example) in learnt for example in examples)
        for split, examples in data.splits.items()
        if split != TRAIN
    }
    counts = ", ".join(
        f"{count:,} of {len(data.splits[split]):,} in {split}"
        for split, count in shared.items()
        if count
    )
    if counts:
        logger.warning("%s: examples with the inputs of a training example: %s", name, counts)


def _inputs(example: Example) -> tuple[Any, ...]:
    return tuple(getattr(example, field, None) for field in INPUTS)


def _hash(example: Example) -> bytes:
    return hashlib.blake2b(_line(example), digest_size=16).digest()


def _line(example: Example) -> bytes:
    text = json.dumps(asdict(example), ensure_ascii=False, sort_keys=True)
    return text.encode("utf-8", "surrogatepass")


def digest_of(examples: Iterable[Example]) -> str:
    """Return the fingerprint of examples alone, in their order."""
    digest = hashlib.blake2b(digest_size=16)
    for example in examples:
        digest.update(_line(example) + b"\n")
    return digest.hexdigest()


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
    alike: dict[str, list[str]] = {}
    for split, name in data.names.items():
        if split != name:
            alike.setdefault(name, []).append(split)
    notes = (f"{', '.join(splits)}: {name}" for name, splits in alike.items())
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
    names = {split: split for split in examples}
    return with_selection(examples, names, task.evaluation)


def hub_split(task: Task, split: str) -> list[Example]:
    """Load the examples of one official split from the Hugging Face Hub.

    Raises:
        DataError: the data set or a column is not there.
    """
    whole = task.table.hub
    assert whole is not None
    datasets = require("datasets", "reading a task from the Hub", "data")
    hub = whole.of(split)
    if hub is None:
        raise DataError(
            f"{whole.dataset}: has no {split} split of {task.name}; give its files with --data"
        )
    name = f"hub:{hub.dataset}" + (f":{hub.config}" if hub.config else "")
    check_answers()
    try:
        table = datasets.load_dataset(
            hub.dataset, hub.config, split=hub.splits[split], revision=hub.revision
        )
    except Exception as error:  # datasets raises classes of many libraries
        reason = " ".join(str(error).split())[:200]
        raise DataError(
            f"{name}: cannot be loaded ({reason}); check your connection, "
            f"or get the files from {task.files_from}"
        ) from error
    return task.from_rows(
        hub_rows(table, dict(hub.columns), f"{name} {split}"),
        f"{name} {split}",
        hidden=not task.splits[split].labelled,
    )


def hub_rows(table: Any, columns: dict[str, str], name: str) -> Iterator[Row]:
    """Yield the rows of a `datasets` table: labels by name, columns as the reader expects them."""
    features = table.features
    for number, record in enumerate(table):
        values = {
            columns.get(key, key): _by_name(features.get(key), value)
            for key, value in record.items()
        }
        yield Row(f"{name}, row {number + 1}", number, values)


def _by_name(feature: Any, value: Any) -> Any:
    """Return a class number as its name, also inside a list; -1 is a hidden answer and stays."""
    inner = getattr(feature, "feature", None)
    if inner is not None and isinstance(value, list):
        return [_by_name(inner, element) for element in value]
    if hasattr(feature, "int2str") and isinstance(value, int) and value >= 0:
        return feature.int2str(value)
    return value
