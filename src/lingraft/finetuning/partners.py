"""The translation that each example is read with, for models that are plugged in (SPEC A.6).

A training example is read with its translation, or left out. A scored one without a translation is
read with itself (as FILTER does). Translations are found by id, in this order: in files of the
task's table `translations`, in the columns `translation` and `translation_pair` of its own files,
and, where the languages of a benchmark are aligned, among the examples of the first training
language.
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
    from lingraft.finetuning.transfer import Files, Transfer
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


def of_task(data: Data, task: Task, directory: Path | None, plug_in: PlugIn) -> Data:
    """A task in one language with the translations of its examples.

    Args:
        data: its examples.
        task: says where translations are.
        directory: of its files; None for the Hub, which has no translations.
        plug_in: says what is read at test.

    Raises:
        DataError: no training example has a translation.
    """
    partners: dict[str, Mapping[str, Example]] = {}
    for split, examples in data.splits.items():
        by_id: dict[str, Example] = {}
        if directory is not None and (split == TRAIN or plug_in.test_partner != "itself"):
            by_id = translations(task, origin_of(split, data.names[split]), directory)
        partners[split] = _by_id(task, split, examples, by_id)
    return _checked(replace(data, partners=partners), task, plug_in)


def across(data: Data, transfer: Transfer, files: Files, plug_in: PlugIn) -> Data:
    """The same for a task that is learnt in several languages.

    Args:
        data: the examples of all languages.
        transfer: which are learnt; the first is the one that others are translations of.
        files: their examples.
        plug_in: says what is read at test.
    """
    lead = transfer.train[0]

    def partners_in(language: str, split: str) -> dict[str, Example]:
        task, at = transfer.tasks[language], origin_of(split, data.names[_name(split, language)])
        kind = "translation" if split == TRAIN else plug_in.test_partner
        matches: dict[str, Example] = {}
        if kind == "translation" and not files.hub:
            matches = translations(task, at, files.directory)
        originals = kind == "original" or (split == TRAIN and not matches)
        if originals and task.table.aligned and language != lead and files.has(lead, at):
            if not files.hub:
                own, leading = (
                    find(record, files.directory)[at] for record in (task, transfer.tasks[lead])
                )
                _check_order(task, own, transfer.tasks[lead], leading)
            matches = {example.id: example for example in files.official(lead, at)}
        return matches

    partners: dict[str, Mapping[str, Example]] = {}
    several = len(transfer.train) > 1
    for name, examples in data.splits.items():
        if name != TRAIN:
            language, split = language_of(name), without_language(name)
            task = transfer.tasks[language]
            partners[name] = _by_id(task, name, examples, partners_in(language, split))
            continue
        of_all: dict[str, Example] = {}
        for language in transfer.train:
            start = f"{language}/" if several else ""
            part = [example for example in examples if example.id.startswith(start)]
            by_id = {start + key: example for key, example in partners_in(language, TRAIN).items()}
            of_all |= _by_id(transfer.tasks[language], TRAIN, part, by_id)
        partners[TRAIN] = of_all
    return _checked(replace(data, partners=partners), transfer.task, plug_in)


def _name(split: str, language: str) -> str:
    return TRAIN if split == TRAIN else f"{split}-{language}"


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
            "learns from pairs; train in two languages that are translations of each other "
            "(--train-language en,ko), or give translations (docs/veco-finetuning.md)"
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
            "fine-tuned on this task and gives them (--teacher OUT/MODEL/TASK/seed-0/best)"
        )
    if plug_in.teacher is not None and not untagged:
        raise RecipeError(
            f"--teacher: {task.name} has no translations without tags that a teacher could tag; "
            "leave it out"
        )
    return replace(data, splits={**data.splits, TRAIN: kept_examples})


def note(data: Data, split: str, plug_in: PlugIn) -> str:
    """What a split's examples are read with, for scores.json and the log."""
    partners, examples = data.partners[split], data.splits[split]
    number = sum(example.id in partners for example in examples)
    kind = "translation"
    if split != TRAIN and plug_in.test_partner == "original":
        kind = "original in the first training language"
    if number == len(examples):
        return f"each with its {kind}"
    if not number:
        return "each with itself"
    return f"{number:,} of {len(examples):,} with the {kind}, the others with themselves"


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
