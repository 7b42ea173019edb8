"""The translation that each example is read with, for models that are plugged in.

A training example is read with its translation, or left out. A scored one without a translation is
read with itself (as FILTER does). Translations are found by id in the files of the task's table
`translations`, or in the columns `translation` and `translation_pair` of its own files.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError, RecipeError
from lingraft.finetuning import data as task_data, heads
from lingraft.finetuning.outcomes import language_of, without_language
from lingraft.finetuning.problem import Finetuning
from lingraft.pretrained.load import load_config
from lingraft.tasks.examples import SpanExample, TaggedExample, TextExample
from lingraft.tasks.splits import TRAIN, find, origin_of, read_split

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from accelerate import Accelerator

    from lingraft.finetuning.coders.common import Coder, Item
    from lingraft.finetuning.recipe import Finetune
    from lingraft.tasks import Data, Task
    from lingraft.tasks.examples import Example

logger = logging.getLogger(__name__)


def load(task: Task, recipe: Finetune, base: Path) -> Data:
    """Load a task in one language, with the translations of its examples."""
    data = task_data.load(task, recipe.model_copy(update={"train_examples": None}), base)
    on_hub = task_data.is_on_hub(task, recipe)
    directory = None if on_hub else task_data.directory_of(task, recipe, base)
    data = add(data, {"": task}, ("",), directory, recipe.teacher)
    return task_data.part_of(data, recipe.train_examples, task.name)


def translations(task: Task, split: str, directory: Path) -> dict[str, Example]:
    """Return the translations of a split's examples by id; none where there are none.

    Raises:
        DataError: a file is broken, or one of several files numbers its rows for want of ids.
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
    sources = [*((task, path) for path in own_files), *((record, path) for path in files)]
    for source, path in sources if own_files != files else ():
        first = next(filter(source.wants, source.rows(path)), None)
        if first is not None and source.example(replace(first, number=-1)).id == "-1":
            raise DataError(f"{path}: has no ids, by which translations are found; add a column")
    examples = read_split(record, split, files, unanswered=True)
    return {example.id: example for example in examples if not _is_empty(example)}


def _is_empty(example: Example) -> bool:
    """Return whether an example is a row that nobody has translated."""
    sides = (example.text, example.pair) if isinstance(example, TextExample) else ()
    return any(side is not None and not side.strip() for side in sides)


def add(
    data: Data,
    tasks: Mapping[str, Task],
    train: Sequence[str],
    directory: Path | None,
    teacher: str | None,
) -> Data:
    """Add the translations of a task's examples; training examples without one are left out.

    Args:
        data: its examples.
        tasks: by language; of a task in one language under "".
        train: the languages that are learnt; of several, ids of training examples begin with them.
        directory: of the files; None for the Hub, which has no translations.
        teacher: tags translations without tags.

    Raises:
        DataError: no training example has a translation, or a translation has no answer.
    """

    def found(language: str, split: str, name: str, start: str = "") -> dict[str, Example]:
        if directory is None:
            return {}
        by_id = translations(tasks[language], origin_of(split, data.names[name]), directory)
        here = {example.id for example in data.splits[name]}
        return {start + key: example for key, example in by_id.items() if start + key in here}

    partners: dict[str, Mapping[str, Example]] = {}
    for name in data.splits:
        if name != TRAIN:
            place = ("", name) if "" in tasks else (language_of(name), without_language(name))
            partners[name] = found(*place, name)
    starts = {language: f"{language}/" if len(train) > 1 else "" for language in train}
    learnt = [found(language, TRAIN, TRAIN, start) for language, start in starts.items()]
    own = partners[TRAIN] = {key: example for part in learnt for key, example in part.items()}
    kept = [example for example in data.splits[TRAIN] if example.id in own]
    name = tasks[train[0]].name
    logger.info("%s: %d of %d have a translation", name, len(kept), len(data.splits[TRAIN]))
    if not kept:
        raise DataError(f"{name}: no training example has a translation; give translations")
    if any(isinstance(record, SpanExample) and record.answers is None for record in own.values()):
        raise DataError(f"{name}: a translation of the training set has no answers; give them")
    untagged = (isinstance(record, TaggedExample) and not record.tags for record in own.values())
    if any(untagged) and teacher is None:
        raise DataError(
            f"{name}: translations of the training set have no tags; name a model that is "
            "fine-tuned on this task and gives them (teacher=OUT/MODEL/TASK/seed-0/best)"
        )
    return replace(data, splits={**data.splits, TRAIN: kept}, partners=partners)


def items(coder: Coder, examples: Sequence[Example], partners: Mapping[str, Example]) -> list[Item]:
    """Return inputs with their partners.

    Of an example with several inputs (windows of a passage, parts of a sentence) each is read with
    the one of the translation that lies at the same share of the way.

    Args:
        coder: of the model that learns.
        examples: labelled.
        partners: their translations, by id.
    """
    matches = [
        _answered(partners.get(example.id, example), example, coder.task) for example in examples
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
            f"teacher {folder}: is no model that tags for {task.name}; fine-tune one on it plugged "
            "out, with keep_models=true, and name its seed's folder best"
        )


def tag(
    partners: Mapping[str, Example], folder: Path, task: Task, accelerator: Accelerator, tokens: int
) -> dict[str, Example]:
    """Return translations by id; those without tags get the likeliest ones.

    Args:
        partners: translations by id.
        folder: of a kept seed (`keep_models`), the teacher.
        task: the one that it was fine-tuned on.
        accelerator: where it runs.
        tokens: that go through it at once.
    """
    untagged: dict[str, Any] = {
        key: example
        for key, example in partners.items()
        if isinstance(example, TaggedExample) and not example.tags
    }
    bare = [replace(one, tags=(task.labels[-1],) * len(one.units)) for one in untagged.values()]
    coder = heads.coder_for(folder, task)
    model = heads.build(folder, task, coder.shape.tokenizer, seed=0).to(accelerator.device)
    items = coder.encode(bare)
    problem = Finetuning(model, coder, items, [], tokens)
    answers, _ = problem.predict(problem.module, accelerator, bare, items)
    pairs: Any = zip(untagged.items(), answers, strict=True)
    return dict(partners) | {key: replace(one, tags=said.tags) for (key, one), said in pairs}
