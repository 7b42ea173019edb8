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
from lingraft.finetuning.outcomes import language_of
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
        DataError: a file is broken.
    """
    other = task.translation()
    if other is None or split not in other.splits:
        return {}
    try:
        files = find(replace(other, splits={split: other.splits[split]}), directory)[split]
    except DataError:
        return {}
    first = next(iter(other.rows(files[0])), None)
    if first is None or not other.wants(first):
        return {}
    return {one.id: one for one in read_split(other, split, files, unanswered=True)}


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
    found: dict[str, Mapping[str, Example]] = {}
    for split, examples in data.splits.items():
        known: dict[str, Example] = {}
        if directory is not None and (split == TRAIN or plug_in.test_partner != "itself"):
            known = translations(task, origin_of(split, data.names[split]), directory)
        found[split] = _by_id(task, split, examples, known)
    return _checked(replace(data, partners=found), task, plug_in)


def across(data: Data, transfer: Transfer, files: Files, plug_in: PlugIn) -> Data:
    """The same for a task that is learnt in several languages.

    Args:
        data: the examples of all languages.
        transfer: which are learnt; the first is the one that others are translations of.
        files: their examples.
        plug_in: says what is read at test.
    """
    lead = transfer.train[0]

    def known(language: str, split: str) -> dict[str, Example]:
        task, at = transfer.tasks[language], origin_of(split, data.names[_name(split, language)])
        asked = "translation" if split == TRAIN else plug_in.test_partner
        mine: dict[str, Example] = {}
        if asked == "translation" and not files.hub:
            mine = translations(task, at, files.directory)
        originals = asked == "original" or (split == TRAIN and not mine)
        if originals and task.aligned and language != lead and files.has(lead, at):
            mine = {one.id: one for one in files.official(lead, at)}
        return mine

    found: dict[str, Mapping[str, Example]] = {}
    several = len(transfer.train) > 1
    for name, examples in data.splits.items():
        if name != TRAIN:
            language, split = language_of(name), name.partition("-")[0]
            task = transfer.tasks[language]
            found[name] = _by_id(task, name, examples, known(language, split))
            continue
        of_all: dict[str, Example] = {}
        for language in transfer.train:
            start = f"{language}/" if several else ""
            mine = [one for one in examples if one.id.startswith(start)]
            theirs = {start + one: other for one, other in known(language, TRAIN).items()}
            of_all |= _by_id(transfer.tasks[language], TRAIN, mine, theirs)
        found[TRAIN] = of_all
    return _checked(replace(data, partners=found), transfer.task, plug_in)


def _name(split: str, language: str) -> str:
    return TRAIN if split == TRAIN else f"{split}-{language}"


def _by_id(
    task: Task, split: str, examples: Sequence[Example], known: Mapping[str, Example]
) -> dict[str, Example]:
    """Those of the examples.

    Raises:
        DataError: ids of examples and translations have nothing to do with each other.
    """
    found = {one.id: known[one.id] for one in examples if one.id in known}
    if known and examples and not found:
        raise DataError(
            f"{task.name}: no example of {split} has the id of a translation ({examples[0].id!r} "
            f"here, {next(iter(known))!r} there); give a translation the id of its example"
        )
    apart = [
        one.id
        for one in examples
        if isinstance(one, TextExample)
        and isinstance(other := found.get(one.id), TextExample)
        and None not in (one.label, other.label)
        and one.label != other.label
    ]
    if len(apart) > max(1, STRANGE * len(found)):
        raise DataError(
            f"{task.name}: {len(apart):,} of {len(found):,} examples of {split} have another label "
            f"than the translation with their id ({apart[0]!r} is one); ids do not belong together"
        )
    return found


def _checked(data: Data, task: Task, plug_in: PlugIn) -> Data:
    """The training set without examples that lack a translation; nothing without an answer."""
    taught = data.splits[TRAIN]
    kept = [one for one in taught if one.id in data.partners[TRAIN]]
    if not kept:
        raise DataError(
            f"{task.name}: no training example has a translation, and a model that is plugged in "
            "learns from pairs; train in two languages that are translations of each other "
            "(--train-language en,ko), or give translations (docs/veco.md)"
        )
    if len(kept) < len(taught):
        logger.info(
            "%s: %d pairs of an example and its translation are learnt, of %d examples",
            task.name,
            len(kept),
            len(taught),
        )
    others = data.partners[TRAIN].values()
    if any(isinstance(one, SpanExample) and one.answers is None for one in others):
        raise DataError(
            f"{task.name}: a translation of the training set has no answers; give answers and "
            "their places in the translated passages"
        )
    untagged = any(isinstance(one, TaggedExample) and one.tags is None for one in others)
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
    return replace(data, splits={**data.splits, TRAIN: kept})


def note(data: Data, split: str, plug_in: PlugIn) -> str:
    """What a split's examples are read with, for scores.json and the log."""
    there, examples = data.partners[split], data.splits[split]
    number = sum(one.id in there for one in examples)
    what = "translation"
    if split != TRAIN and plug_in.test_partner == "original":
        what = "original in the first training language"
    if number == len(examples):
        return f"each with its {what}"
    if not number:
        return "each with itself"
    return f"{number:,} of {len(examples):,} with the {what}, the others with themselves"


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
    others = [partners.get(one.id, one) for one in examples]
    bare = {i for i, one in enumerate(others) if isinstance(one, TaggedExample) and not one.tags}
    others = [
        _answered(one, example, coder.task) for one, example in zip(others, examples, strict=True)
    ]
    if teacher is not None:
        others = teacher.tagged(others, bare)
    encoded = coder.encode(others)
    if teacher is not None:
        encoded = teacher.softened(encoded, bare, coder.shape)
    theirs: list[list[Item]] = [[] for _ in examples]
    mine: list[list[Item]] = [[] for _ in examples]
    for grouped, inputs in ((mine, coder.encode(examples)), (theirs, encoded)):
        for item in inputs:
            grouped[item.example].append(item)
    return [
        replace(item, partner=there[number * len(there) // len(here)])
        for here, there in zip(mine, theirs, strict=True)
        for number, item in enumerate(here)
    ]


def _answered(partner: Example, example: Example, task: Task) -> Example:
    """A partner as coders want it; only of training partners the answer counts."""
    if isinstance(partner, TextExample) and isinstance(example, TextExample):
        return replace(partner, label=example.label, score=example.score)
    if isinstance(partner, TaggedExample) and partner.tags is None:
        return replace(partner, tags=(task.labels[-1],) * len(partner.units))
    return partner
