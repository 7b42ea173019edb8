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
from lingraft.finetuning import heads
from lingraft.finetuning.coders.tagging import TagCoder
from lingraft.finetuning.names import language_of, without_language
from lingraft.finetuning.problem import Finetuning
from lingraft.pretrained.load import load_config
from lingraft.tasks.examples import SpanExample, TaggedExample, TagPrediction, TextExample
from lingraft.tasks.splits import TRAIN, find, origin_of, read_split

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from accelerate import Accelerator

    from lingraft.finetuning.coders.common import Coder, Item
    from lingraft.finetuning.recipe import PlugIn
    from lingraft.tasks import Data, Task
    from lingraft.tasks.examples import Example

logger = logging.getLogger(__name__)


def translations(task: Task, split: str, directory: Path) -> dict[str, Example]:
    """Return the translations of a split's examples by id; none where there are none.

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
    own_files = find(task, directory).get(split, ())
    if own_files != files:
        _check_ids(task, (*((task, path) for path in own_files), *((record, p) for p in files)))
    examples = read_split(record, split, files, unanswered=True)
    return {example.id: example for example in examples if not _is_empty(example)}


def _is_empty(example: Example) -> bool:
    """Return whether an example is a row that nobody has translated."""
    sides = (example.text, example.pair) if isinstance(example, TextExample) else ()
    return any(side is not None and not side.strip() for side in sides)


def _check_ids(task: Task, files: Iterable[tuple[Task, Path]]) -> None:
    """Refuse files of several languages of which one numbers its rows for want of ids.

    Raises:
        DataError: one does.
    """
    for record, path in files:
        first = next(filter(record.wants, record.rows(path)), None)
        if first is not None and record.example(replace(first, number=-1)).id == "-1":
            raise DataError(
                f"{task.name}: which rows are translations of each other is not known: {path} has "
                "no ids; give both files a column of ids"
            )


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
        here = {example.id for example in data.splits[name]}
        pairs = {start + key: example for key, example in by_id.items() if start + key in here}
        if by_id and here and not pairs:
            raise DataError(
                f"{tasks[language].name}: no example of {name} has the id of a translation "
                f"({min(here)!r} here, {next(iter(by_id))!r} there); give a translation the id of "
                "its example"
            )
        return pairs

    partners: dict[str, Mapping[str, Example]] = {}
    for name in data.splits:
        if name != TRAIN:
            place = ("", name) if "" in tasks else (language_of(name), without_language(name))
            partners[name] = found(*place, name)
    starts = {language: f"{language}/" if len(train) > 1 else "" for language in train}
    learnt = [found(language, TRAIN, TRAIN, start) for language, start in starts.items()]
    partners[TRAIN] = {key: example for part in learnt for key, example in part.items()}
    return _checked(replace(data, partners=partners), tasks[train[0]], plug_in)


def _checked(data: Data, task: Task, plug_in: PlugIn) -> Data:
    """Leave out training examples without a translation; refuse translations without an answer."""
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
    return replace(data, splits={**data.splits, TRAIN: kept_examples})


def note(data: Data, split: str) -> str:
    """Describe what a split's examples are read with, for scores.json and the log."""
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
    """Return inputs with their partners.

    Of an example with several inputs (windows of a passage, parts of a sentence) each is read with
    the one of the translation that lies at the same share of the way.

    Args:
        coder: of the model that learns.
        examples: labelled.
        partners: their translations, by id.
        teacher: tags those that have no tags.
    """
    matches = [partners.get(example.id, example) for example in examples]
    if teacher is not None:
        matches = teacher.tagged(matches)
    matches = [
        _answered(match, example, coder.task)
        for match, example in zip(matches, examples, strict=True)
    ]
    own_items: list[list[Item]] = [[] for _ in examples]
    partner_items: list[list[Item]] = [[] for _ in examples]
    for grouped, inputs in ((own_items, examples), (partner_items, matches)):
        for item in coder.encode(inputs):
            grouped[item.example].append(item)
    return [
        replace(item, partner=partners_here[number * len(partners_here) // len(own)])
        for own, partners_here in zip(own_items, partner_items, strict=True)
        for number, item in enumerate(own)
    ]


def _answered(partner: Example, example: Example, task: Task) -> Example:
    """Return a partner as coders want it; only of training partners the answer counts."""
    if isinstance(partner, TextExample) and isinstance(example, TextExample):
        return replace(partner, label=example.label, score=example.score)
    if isinstance(partner, TaggedExample) and partner.tags is None:
        return replace(partner, tags=(task.labels[-1],) * len(partner.units))
    return partner


def check_teacher(folder: Path, task: Task) -> None:
    """Refuse a teacher that is none for a task.

    Raises:
        RecipeError: the model was fine-tuned on something else, or not at all.
    """
    config = load_config(str(folder))
    labels = tuple((config.id2label or {}).values())
    tags = any("TokenClassification" in name for name in config.architectures or ())
    if labels != task.labels or not tags:
        raise RecipeError(
            f"plug_in.teacher {folder}: is no model that tags for {task.name}; fine-tune one on it "
            "plugged out, with keep_models=true, and name its seed's folder best"
        )


class Teacher:
    """A fine-tuned model and what it reads."""

    def __init__(self, folder: Path, task: Task, accelerator: Accelerator, tokens: int) -> None:
        """Load a tagger.

        Args:
            folder: of a kept seed (`keep_models`).
            task: the one that it was fine-tuned on.
            accelerator: where it runs.
            tokens: that go through it at once.
        """
        check_teacher(folder, task)
        self.task, self.accelerator, self.tokens = task, accelerator, tokens
        self.tokenizer = heads.tokenizer_for(folder, task)
        self.shape = heads.shape_of(folder, task, self.tokenizer)
        model = heads.build(folder, task, self.tokenizer, seed=0)
        self.model = model.to(accelerator.device)

    def tagged(self, examples: Sequence[Example]) -> list[Example]:
        """Return the examples; those without tags get the likeliest ones."""
        outside = (self.task.labels[-1],)
        bare = {
            index: replace(example, tags=outside * len(example.units))
            for index, example in enumerate(examples)
            if isinstance(example, TaggedExample) and not example.tags
        }
        coder = TagCoder(self.task, self.shape)
        items = coder.encode(list(bare.values()))
        problem = Finetuning(self.model, coder, self.shape, items, [], self.tokens)
        predictions, _ = problem.predict(
            problem.module, self.accelerator, list(bare.values()), items
        )
        logger.info("teacher: tags %d of %d translations", len(bare), len(examples))
        result = list(examples)
        for (index, example), answer in zip(bare.items(), predictions, strict=True):
            assert isinstance(answer, TagPrediction)
            result[index] = replace(example, tags=answer.tags)
        return result
