"""Zero-shot transfer: a task is learnt in some languages and scored in each.

Two settings differ in the training languages alone: transfer from one (MetaXLM, table 1) and all
languages together (table 2). The best weights are those with the highest mean score on the
development sets of the selection languages: those that are trained on (XTREME), or all that are
tested (XPT).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError, RecipeError
from lingraft.finetuning import data as task_data
from lingraft.finetuning import partners
from lingraft.finetuning.families import ALL, named
from lingraft.finetuning.names import language_of, learnt, split_in
from lingraft.finetuning.recipe import HUB, MEAN, check_distinct, check_known, with_settings
from lingraft.tasks import Data, find
from lingraft.tasks.splits import DEV, SELECTION, TRAIN, named_cut, read_split

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from lingraft.finetuning.families import Family
    from lingraft.finetuning.recipe import Finetune
    from lingraft.tasks import Task
    from lingraft.tasks.examples import Example

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Transfer:
    """Languages of a task that are learnt, chosen by and scored."""

    family: str
    tasks: Mapping[str, Task]
    """By language, with the settings that are to be used."""
    train: tuple[str, ...]
    selection: tuple[str, ...]
    test: tuple[str, ...]
    select_on: str
    """`MEAN`, or the languages."""

    @property
    def name(self) -> str:
        """Return the name of the folder."""
        return f"{self.family}-from-{learnt(self.train)}"

    @property
    def task(self) -> Task:
        """Return the record that is trained with, under the name of the whole."""
        first = self.tasks[self.train[0]]
        return replace(first, name=self.name, is_own=False)

    def task_of(self, split: str) -> Task:
        """Return the record that a split is scored with: metrics may depend on the language."""
        return self.tasks[language_of(split) or self.train[0]]

    def said(self) -> dict[str, Any]:
        """Return what scores.json says of it."""
        used = dict.fromkeys((*self.train, *self.selection, *self.test))
        definitions = {language: self.tasks[language].saved for language in used}
        return {
            "task": self.family,
            "train": self.train,
            "selection": self.selection,
            "select_on": self.select_on,
            "test": self.test,
            "names": {language: self.tasks[language].name for language in used},
            "definitions": {language: table for language, table in definitions.items() if table},
        }

    def decisive(self) -> dict[str, Any]:
        """Return what decides a result, beside the examples; for fingerprints."""
        return {
            "train_languages": self.train,
            "selection_languages": self.selection,
            "test_languages": self.test,
            "metrics_by_language": {
                language: (self.tasks[language].metrics, self.tasks[language].selection)
                for language in dict.fromkeys((*self.selection, *self.test))
            },
        }


class Files:
    """The examples of a family's languages; a file is read once."""

    def __init__(self, family: Family, recipe: Finetune, base: Path) -> None:
        task = next(iter(family.tasks.values()))
        self.family, self.hub = family, recipe.data == HUB and task.table.hub is not None
        self.directory = base
        if not self.hub:
            self.directory = task_data.directory_of(task, recipe, base, family.name)
        self._read: dict[tuple[str, str], list[Example]] = {}

    def has(self, language: str, split: str) -> bool:
        """Return whether a split's files are here."""
        task = self.family.tasks[language]
        if self.hub:
            return task.table.hub is not None and task.table.hub.of(split) is not None
        if split not in task.splits:
            return False
        try:
            find(task, self.directory, [split])
        except DataError:
            if not self.directory.is_dir():
                raise
            return False
        return True

    def can_test(self, language: str) -> bool:
        """Return whether all splits are here that a language is reported on."""
        return all(self.has(language, split) for split in self.family.tasks[language].evaluation)

    def examples(self, language: str, split: str) -> list[Example]:
        """Read a split of a language.

        Raises:
            DataError: its files are missing, broken, or hide the answers.
        """
        if (language, split) not in self._read:
            task = self.family.tasks[language]
            if split not in task.labelled_splits:
                raise DataError(
                    f"{task.name}: has no {split} split with answers; its labelled splits are "
                    f"{', '.join(task.labelled_splits)}"
                )
            if self.hub:
                examples = task_data.hub_split(task, split)
            else:
                examples = read_split(task, split, find(task, self.directory, [split])[split])
            self._read[language, split] = examples
        return self._read[language, split]


def plan(recipe: Finetune, base: Path) -> Iterator[tuple[Transfer, Data]]:
    """Return every training that a recipe with train_languages asks for, with its examples.

    Args:
        recipe: says tasks, languages and where the files are.
        base: the folder that its paths are relative to.

    Raises:
        RecipeError: an unknown task or language, or languages that do not go together.
        DataError: files are missing or broken.
    """
    if recipe.cut:
        raise RecipeError("cut: is for tasks in one language; leave it out with train_languages")
    families = [_family(name, base, recipe) for name in recipe.tasks]
    check_distinct([family.name for family in families])
    check_known([task for family in families for task in family.tasks.values()], recipe)
    _known_somewhere(recipe, families)
    for family in families:
        files = Files(family, recipe, base)
        transfer = _transfer(family, recipe, files)
        data = _data(transfer, files)
        if recipe.plug == "in":
            directory = None if files.hub else files.directory
            of = (transfer.tasks, transfer.train, directory, recipe.plug_in)
            data = partners.add(data, *of)
        yield transfer, task_data.part_of(data, recipe.train_examples, transfer.name)


def _family(name: str, base: Path, recipe: Finetune) -> Family:
    family = named(name, base, recipe.train_languages)
    tasks = {language: with_settings(task, recipe) for language, task in family.tasks.items()}
    return replace(family, tasks=tasks)


def _known_somewhere(recipe: Finetune, families: Sequence[Family]) -> None:
    """Refuse a language that no task has; one that only some have is left out of the others."""
    languages = dict.fromkeys(language for family in families for language in family.tasks)
    for key in ("test_languages", "selection_languages"):
        for language in getattr(recipe, key):
            if language not in (*languages, ALL, MEAN):
                raise RecipeError(
                    f"{key}: none of the tasks ({', '.join(f.name for f in families)}) has "
                    f"the language {language!r}; they have {', '.join(languages)}"
                )


def _transfer(family: Family, recipe: Finetune, files: Files) -> Transfer:
    test = _tested(family, recipe, files)
    train = recipe.train_languages
    if train == (ALL,):
        train = tuple(code for code in family.tasks if files.has(code, TRAIN))
        if not train:
            raise DataError(
                f"{files.directory}: holds no training file of {family.name} in any language; get "
                "the files"
            )
    family.check(train, "train_languages")
    here = [code for code in train if code in test or files.can_test(code)]
    if len(here) < len(train):
        logger.info(
            "%s: no test files of %s are here, so there is no transfer gap",
            family.name,
            ", ".join(code for code in train if code not in here),
        )
    tested = tuple(dict.fromkeys((*here, *test)))
    selection = tuple(code for code in recipe.selection_languages if code in family.tasks)
    if recipe.selection_languages == (MEAN,):
        selection = tested
    select_on = MEAN if recipe.selection_languages == (MEAN,) else "+".join(selection or train)
    transfer = Transfer(family.name, family.tasks, train, selection or train, tested, select_on)
    _check_labels(transfer)
    return transfer


def _tested(family: Family, recipe: Finetune, files: Files) -> tuple[str, ...]:
    """Return the languages to score, beside those that are trained on."""
    languages = recipe.test_languages or (ALL,)
    if languages != (ALL,):
        lacking = [language for language in languages if language not in family.tasks]
        if lacking:
            logger.info("%s: does not have the languages %s", family.name, ", ".join(lacking))
        return tuple(language for language in languages if language in family.tasks)
    here = tuple(language for language in family.tasks if files.can_test(language))
    lacking = [language for language in family.tasks if language not in here]
    if lacking:
        logger.info("%s: no test files here of %s", family.name, ", ".join(lacking))
    return here


def _check_labels(transfer: Transfer) -> None:
    labels = transfer.task.labels
    for language in (*transfer.selection, *transfer.test, *transfer.train):
        strange = [label for label in transfer.tasks[language].labels if label not in labels]
        if strange:
            raise RecipeError(
                f"{transfer.family}: {language} has the label {strange[0]!r}, which "
                f"{transfer.train[0]} has not; one model cannot be scored in both"
            )


# -- examples


def _data(transfer: Transfer, files: Files) -> Data:
    splits: dict[str, list[Example]] = {TRAIN: []}
    names: dict[str, str] = {}
    notes: dict[str, None] = {}
    for language in transfer.train:
        taught, note, dev, dev_note = _taught(transfer, language, files)
        if len(transfer.train) > 1:
            taught = [replace(example, id=f"{language}/{example.id}") for example in taught]
        splits[TRAIN] += taught
        notes[note] = None
        if language in transfer.selection:
            splits[split_in(DEV, language)], names[split_in(DEV, language)] = dev, dev_note
    reported = [
        (language, split)
        for language in transfer.test
        for split in transfer.tasks[language].evaluation
    ]
    for language, split in [*((language, DEV) for language in transfer.selection), *reported]:
        if (at := split_in(split, language)) not in splits:
            if split == DEV and DEV not in transfer.tasks[language].splits:
                raise DataError(
                    f"{transfer.tasks[language].name}: has no development set to choose by; "
                    f"choose by {transfer.train[0]} (selection_languages={transfer.train[0]})"
                )
            splits[at], names[at] = files.examples(language, split), at
    names[TRAIN] = "; ".join(notes)
    evaluation = tuple(split_in(split, language) for language, split in reported)
    if not evaluation:
        raise RecipeError(f"test_languages: {transfer.family} has none of them; name others")
    return Data(splits, names, evaluation)


def _taught(
    transfer: Transfer, language: str, files: Files
) -> tuple[list[Example], str, list[Example], str]:
    """Return training and development examples of a language, and what each of them is."""
    task, dev = transfer.tasks[language], split_in(DEV, language)
    if not files.has(language, TRAIN):
        parts = task.splits[TRAIN].parts if TRAIN in task.splits else ()
        spelt = " or ".join(dict.fromkeys(name for part in parts for name in part))
        raise DataError(
            f"{files.directory}: holds no training file of {task.name}"
            f"{f' ({spelt})' if spelt else ''}; get it from {task.files_from}"
        )
    whole = files.examples(language, TRAIN)
    if language not in transfer.selection:
        return whole, TRAIN, [], dev
    if DEV in task.splits:
        return whole, TRAIN, files.examples(language, DEV), dev
    if task.table.aligned and len(transfer.train) > 1:
        raise DataError(
            f"{task.name}: has no development set, and a part of its training set would hold "
            "translations of what is learnt in the other languages; give it a dev file"
        )
    cuts, names = named_cut(whole, SELECTION, 0, TRAIN)
    return cuts[TRAIN], names[TRAIN], cuts[DEV], names[DEV]
