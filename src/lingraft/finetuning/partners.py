"""The translation that each example is read with, for models that are plugged in.

A training example is read with its translation, or left out. A scored one without a translation is
read with itself (as FILTER does). Translations are found by id in the files of the task's table
`translations`, or in the columns `translation` and `translation_pair` of its own files.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from lingraft.errors import DataError, RecipeError
from lingraft.finetuning.names import language_of, without_language
from lingraft.tasks.examples import SpanExample, TaggedExample, TextExample
from lingraft.tasks.splits import TRAIN, find, origin_of, read_split

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lingraft.finetuning.coders.common import Coder, Item
    from lingraft.finetuning.recipe import PlugIn
    from lingraft.finetuning.teachers import Teacher
    from lingraft.tasks import Data, Task
    from lingraft.tasks.examples import Example

logger = logging.getLogger(__name__)

STRANGE = 0.25
"""Share of pairs with two labels above which ids do not belong together."""


def translations(task: Task, split: str, directory: Path) -> dict[str, Example]:
    """The translations of a split's examples by id; none where there are no such files or columns.

    Raises:
        DataError: a file is broken, or its rows may be translations of others.
    """
    record = task.translation()
    if record is None or split not in record.splits:
        return {}
    try:
        files = find(replace(record, splits={split: record.splits[split]}), directory)[split]
    except DataError:
        return {}
    if not any(record.wants(row) for path in files for row in record.rows(path)):
        return {}
    _check_order(task, find(task, directory).get(split, ()), record, files)
    examples = read_split(record, split, files, unanswered=True)
    return {example.id: example for example in examples if not _is_empty(example)}


def _is_empty(example: Example) -> bool:
    """Whether it is a row that nobody has translated."""
    sides = (example.text, example.pair) if isinstance(example, TextExample) else ()
    return any(side is not None and not side.strip() for side in sides)


def _check_order(
    task: Task, files: Sequence[Path], other: Task, other_files: Sequence[Path]
) -> None:
    """Refuse rows that only their order could put together, where there are not as many of each.

    Raises:
        DataError: one of two files has no ids, or neither has and they differ in rows.
    """
    for own, theirs in zip(files, other_files, strict=False):
        rows, their_rows = _unnamed(task, own), _unnamed(other, theirs)
        if own != theirs and rows != their_rows:
            described = " and ".join(
                f"{path} has ids" if number is None else f"{path} has {number:,} rows without ids"
                for path, number in ((own, rows), (theirs, their_rows))
            )
            raise DataError(
                f"{task.name}: which rows are translations of each other is not known: "
                f"{described}; give both a column of ids"
            )


def _unnamed(task: Task, path: Path) -> int | None:
    """How many rows a file has where their numbers stand in for ids; None where it has ids."""
    rows = filter(task.wants, task.rows(path))
    first = next(rows, None)
    if first is None or task.example(replace(first, number=-1)).id != "-1":
        return None
    return 1 + sum(1 for _ in rows)


def add(
    data: Data,
    tasks: Mapping[str, Task],
    train: Sequence[str],
    directory: Path | None,
    plug_in: PlugIn,
) -> Data:
    """Add the translations of a task's examples, in one language or in several.

    Args:
        data: its examples.
        tasks: by language; of a task in one language under "".
        train: the languages that are learnt; of several, ids of training examples begin with them.
        directory: of the files; None for the Hub, which has no translations.
        plug_in: says whether a teacher tags.

    Raises:
        DataError: no training example has a translation.
    """

    def found(language: str, split: str, name: str, start: str = "") -> dict[str, Example]:
        if directory is None:
            return {}
        by_id = translations(tasks[language], origin_of(split, data.names[name]), directory)
        examples = [one for one in data.splits[name] if one.id.startswith(start)]
        moved = {start + key: example for key, example in by_id.items()}
        return _by_id(tasks[language], name, examples, moved)

    partners: dict[str, Mapping[str, Example]] = {}
    for name in data.splits:
        if name != TRAIN:
            place = ("", name) if "" in tasks else (language_of(name), without_language(name))
            partners[name] = found(*place, name)
    starts = {language: f"{language}/" if len(train) > 1 else "" for language in train}
    learnt = [found(language, TRAIN, TRAIN, start) for language, start in starts.items()]
    partners[TRAIN] = {key: example for part in learnt for key, example in part.items()}
    return _checked(replace(data, partners=partners), tasks[train[0]], plug_in)


def _by_id(
    task: Task, split: str, examples: Sequence[Example], by_id: Mapping[str, Example]
) -> dict[str, Example]:
    """Those of the examples.

    Raises:
        DataError: ids of examples and translations have nothing to do with each other.
    """
    pairs = {example.id: by_id[example.id] for example in examples if example.id in by_id}
    if by_id and examples and not pairs:
        raise DataError(
            f"{task.name}: no example of {split} has the id of a translation ({examples[0].id!r} "
            f"here, {next(iter(by_id))!r} there); give a translation the id of its example"
        )
    apart = [
        example.id
        for example in examples
        if isinstance(example, TextExample)
        and isinstance(partner := pairs.get(example.id), TextExample)
        and None not in (example.label, partner.label)
        and example.label != partner.label
    ]
    if len(apart) > max(1, STRANGE * len(pairs)):
        raise DataError(
            f"{task.name}: {len(apart):,} of {len(pairs):,} examples of {split} have another label "
            f"than the translation with their id ({apart[0]!r} is one); ids do not belong together"
        )
    return pairs


def _checked(data: Data, task: Task, plug_in: PlugIn) -> Data:
    """The training set without examples that lack a translation; nothing without an answer."""
    train = data.splits[TRAIN]
    kept_examples = [example for example in train if example.id in data.partners[TRAIN]]
    if not kept_examples:
        raise DataError(
            f"{task.name}: no training example has a translation, and a model that is plugged in "
            "learns from pairs; give translations in a column or file (docs/guides/translation.md)"
        )
    if len(kept_examples) < len(train):
        logger.info(
            "%s: %d pairs of an example and its translation are learnt, of %d examples",
            task.name,
            len(kept_examples),
            len(train),
        )
    partners = data.partners[TRAIN].values()
    if any(isinstance(record, SpanExample) and record.answers is None for record in partners):
        raise DataError(
            f"{task.name}: a translation of the training set has no answers; give answers and "
            "their places in the translated passages"
        )
    untagged = any(isinstance(record, TaggedExample) and record.tags is None for record in partners)
    if untagged and plug_in.teacher is None:
        raise DataError(
            f"{task.name}: translations of the training set have no tags; name a model that is "
            "fine-tuned on this task and gives them (plug_in.teacher=OUT/MODEL/TASK/seed-0/best)"
        )
    if plug_in.teacher is not None and not untagged:
        raise RecipeError(
            f"plug_in.teacher: {task.name} has no translations without tags for a teacher; "
            "leave it out"
        )
    return replace(data, splits={**data.splits, TRAIN: kept_examples})


def note(data: Data, split: str) -> str:
    """What a split's examples are read with, for scores.json and the log."""
    partners, examples = data.partners[split], data.splits[split]
    number = sum(example.id in partners for example in examples)
    if number == len(examples):
        return "each with its translation"
    if not number:
        return "each with itself"
    return f"{number:,} of {len(examples):,} with the translation, the others with themselves"


def items(
    coder: Coder,
    examples: Sequence[Example],
    partners: Mapping[str, Example],
    teacher: Teacher | None = None,
) -> list[Item]:
    """Inputs with their partners.

    Of an example with several inputs (windows of a passage, parts of a sentence) each is read with
    the one of the translation that lies at the same share of the way.

    Args:
        coder: of the model that learns.
        examples: labelled.
        partners: their translations, by id.
        teacher: tags those that have no tags.
    """
    matches = [partners.get(example.id, example) for example in examples]
    bare = {
        i for i, match in enumerate(matches) if isinstance(match, TaggedExample) and not match.tags
    }
    matches = [
        _answered(match, example, coder.task)
        for match, example in zip(matches, examples, strict=True)
    ]
    if teacher is not None:
        matches = teacher.tagged(matches, bare)
    encoded = coder.encode(matches)
    if teacher is not None:
        encoded = teacher.softened(encoded, bare, coder.shape)
    partner_items: list[list[Item]] = [[] for _ in examples]
    own_items: list[list[Item]] = [[] for _ in examples]
    for grouped, inputs in ((own_items, coder.encode(examples)), (partner_items, encoded)):
        for item in inputs:
            grouped[item.example].append(item)
    return [
        replace(item, partner=partners_here[number * len(partners_here) // len(own)])
        for own, partners_here in zip(own_items, partner_items, strict=True)
        for number, item in enumerate(own)
    ]


def _answered(partner: Example, example: Example, task: Task) -> Example:
    """A partner as coders want it; only of training partners the answer counts."""
    if isinstance(partner, TextExample) and isinstance(example, TextExample):
        return replace(partner, label=example.label, score=example.score)
    if isinstance(partner, TaggedExample) and partner.tags is None:
        return replace(partner, tags=(task.labels[-1],) * len(partner.units))
    return partner
