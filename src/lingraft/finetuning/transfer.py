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
from lingraft.files import path_of
from lingraft.finetuning import data as task_data, partners
from lingraft.finetuning.outcomes import Languages, join_languages, language_of, split_in
from lingraft.finetuning.recipe import MEAN, check_names, with_settings
from lingraft.recipe.decoding import load
from lingraft.tasks import GROUPS, TASKS, Data, catalogue, find
from lingraft.tasks.decoding import decode, task_of
from lingraft.tasks.splits import DEV, SELECTION, TRAIN, find_part, named_cut, read_split

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from lingraft.finetuning.recipe import Finetune
    from lingraft.tasks import Task
    from lingraft.tasks.examples import Example

    Family = tuple[str, Mapping[str, Task]]
    """The name of a task in several languages, and its tasks by language."""

logger = logging.getLogger(__name__)

ALL = ("all",)
"""As the languages to train in: those whose files are here."""


def family_named(name: str, base: Path, train: Sequence[str]) -> Family:
    """Return a task in several languages of this name, or of a TOML file of a user's own.

    Args:
        name: as `lingraft show tasks` has it, without the language.
        base: the folder that a file's path is relative to.
        train: languages whose training files are there; `ALL` for those that have one.

    Raises:
        RecipeError: there is none, or the file is not valid.
        DataError: a training file, which says the labels, cannot be read.
    """
    if name.endswith(".toml"):
        return _own_family(base / path_of(name), train)
    if name not in GROUPS:
        raise RecipeError(
            f"tasks: {name} is no task in several languages; with train_languages give one of "
            f"{', '.join(GROUPS)}, or the TOML file of your own (docs/guides/fine-tune.md)"
        )
    group = GROUPS[name]
    return name, {code: TASKS[group.member(code)] for code in group.languages}


def _own_family(path: Path, train: Sequence[str]) -> Family:
    """Read a user's own task, with `languages` and `{lang}` in the names of its files."""
    table, base = load(path), path.resolve().parent
    name = str(table.get("name", path.stem))
    try:
        filled = list(catalogue.tables(table | {"name": f"{name}-{{lang}}", "tasks": [{}]}))
        tables = {entry["language"]: entry for entry in filled}
    except (KeyError, ValueError, IndexError, TypeError, AttributeError):
        raise RecipeError(
            f'{path}: a task in several languages has languages = ["en", "de"], and {{lang}} in '
            "the names of its files; braces stand for nothing else"
        ) from None
    definitions = {code: decode(entry, str(path)) for code, entry in tables.items()}
    trained = [code for code in train if code in tables]
    if tuple(train) == ALL:
        parts = {code: table.files.train or () for code, table in definitions.items()}
        trained = [code for code in tables if any(find_part(p, base, ()) for p in parts[code])]
    learnt = [task_of(definitions[code], base) for code in trained]
    labels = {label for task in learnt for label in task.labels}
    more: dict[str, Any] = {}
    if labels and "labels" not in table:  # found in the training files: all languages have them
        more = {"labels": sorted(labels, key=lambda label: (label == "O", label))}
    if learnt and learnt[0].kind == "tagging" and "metrics" not in table:
        more["metrics"] = min((list(task.metrics) for task in learnt), key=len)  # if any is IOB1
    tasks = {
        language: task_of(decode(entry | more, str(path)), base)
        for language, entry in tables.items()
    }
    return name, tasks


@dataclass(frozen=True)
class Transfer:
    """Records of a task in the languages that are learnt, chosen by and scored."""

    tasks: Mapping[str, Task]
    """By language, with the settings that are to be used."""
    languages: Languages

    @property
    def task(self) -> Task:
        """Return the record that is trained with, under the name of the whole."""
        train = self.languages.train
        name = f"{self.languages.task}-from-{join_languages(train)}"
        return replace(self.tasks[train[0]], name=name, is_own=False)

    def task_of(self, split: str) -> Task:
        """Return the record that a split is scored with: metrics may depend on the language."""
        return self.tasks[language_of(split) or self.languages.train[0]]

    def decisive(self) -> dict[str, Any]:
        """Return what decides a result, beside the examples; for fingerprints."""
        selection, test = self.languages.selection, self.languages.test
        return {
            "train_languages": self.languages.train,
            "selection_languages": selection,
            "test_languages": test,
            "metrics_by_language": {
                language: (self.tasks[language].metrics, self.tasks[language].selection)
                for language in dict.fromkeys((*selection, *test))
            },
        }


class TransferFiles:
    """The examples of a task's languages; a file is read once."""

    def __init__(self, tasks: Mapping[str, Task], recipe: Finetune, base: Path) -> None:
        task = next(iter(tasks.values()))
        self.tasks, self.hub = tasks, task_data.is_on_hub(task, recipe)
        self.directory = base if self.hub else task_data.directory_of(task, recipe, base)
        self._read: dict[tuple[str, str], list[Example]] = {}

    def has(self, language: str, *splits: str) -> bool:
        """Return whether the files of all these splits are here."""
        task = self.tasks[language]
        if self.hub:
            return all(task.table.hub and task.table.hub.of(split) for split in splits)
        if not self.directory.is_dir() or not task.splits.keys() >= {*splits}:
            return False
        try:
            find(task, self.directory, splits)
        except DataError:
            return False
        return True

    def examples(self, language: str, split: str) -> list[Example]:
        """Read a split of a language.

        Raises:
            DataError: its files are missing, broken, or hide the answers.
        """
        if (language, split) not in self._read:
            task = self.tasks[language]
            if split not in task.labelled_splits:
                raise DataError(
                    f"{task.name}: has no {split} split with answers, only "
                    f"{', '.join(task.labelled_splits)}; train or choose by another language"
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
    families = [family_named(name, base, recipe.train_languages) for name in recipe.tasks]
    check_names([name for name, _ in families])
    known = {MEAN, *(code for _, own in families for code in own)}
    for code in (*recipe.test_languages, *recipe.selection_languages):
        if code not in known:
            has = ", ".join(sorted(known - {MEAN}))
            raise RecipeError(f"{code} is no language of these tasks, which have {has}")
    for name, own in families:
        tasks = dict(zip(own, with_settings(list(own.values()), recipe), strict=True))
        files = TransferFiles(tasks, recipe, base)
        transfer = _transfer(name, recipe, files)
        languages = transfer.languages
        data = _data(transfer, files)
        if recipe.plug == "in":
            directory = None if files.hub else files.directory
            data = partners.add(data, transfer.tasks, languages.train, directory, recipe.teacher)
        yield transfer, task_data.part_of(data, recipe.train_examples, transfer.task.name)


def _transfer(name: str, recipe: Finetune, files: TransferFiles) -> Transfer:
    """Return the languages of a recipe that a task has, and whose files are here."""
    tasks, train = files.tasks, recipe.train_languages
    here = [code for code, task in tasks.items() if files.has(code, *task.evaluation)]
    test = [code for code in recipe.test_languages or here if code in tasks]
    if train == ALL:
        train = tuple(code for code in tasks if files.has(code, TRAIN))
    if not train or not tasks.keys() >= {*train}:
        raise RecipeError(
            f"train_languages: {name} has {', '.join(tasks)}, and a training file must be "
            f"in {files.directory}"
        )
    unused = [code for code in (*tasks, *recipe.test_languages) if code not in test]
    if unused:
        logger.info("%s: not tested in %s", name, ", ".join(dict.fromkeys(unused)))
    tested = tuple(dict.fromkeys((*(code for code in train if code in (*here, *test)), *test)))
    selection = tuple(code for code in recipe.selection_languages if code in tasks)
    selection = tested if recipe.selection_languages == (MEAN,) else selection or train
    for code in (*selection, *tested, *train):
        if not {*tasks[code].labels} <= {*tasks[train[0]].labels}:
            raise RecipeError(
                f"{name}: {code} has labels that {train[0]} has not; one model cannot be "
                "scored in both"
            )
    used = {code: tasks[code] for code in dict.fromkeys((*train, *selection, *tested))}
    languages = Languages(
        task=name,
        train=train,
        selection=selection,
        test=tested,
        names={code: task.name for code, task in used.items()},
        definitions={code: saved for code, task in used.items() if (saved := task.saved)},
    )
    return Transfer(tasks, languages)


# -- examples


def _data(transfer: Transfer, files: TransferFiles) -> Data:
    languages = transfer.languages
    splits: dict[str, list[Example]] = {TRAIN: []}
    names: dict[str, str] = {}
    notes: dict[str, None] = {}
    for language in languages.train:
        taught, note, dev, dev_note = _taught(transfer, language, files)
        if len(languages.train) > 1:
            taught = [replace(example, id=f"{language}/{example.id}") for example in taught]
        splits[TRAIN] += taught
        notes[note] = None
        if language in languages.selection:
            splits[split_in(DEV, language)], names[split_in(DEV, language)] = dev, dev_note
    reported = [
        (language, split)
        for language in languages.test
        for split in transfer.tasks[language].evaluation
    ]
    for language, split in [*((language, DEV) for language in languages.selection), *reported]:
        if (at := split_in(split, language)) not in splits:
            splits[at], names[at] = files.examples(language, split), at
    names[TRAIN] = "; ".join(notes)
    evaluation = tuple(split_in(split, language) for language, split in reported)
    if not evaluation:
        raise DataError(f"{files.directory}: holds no test files of {languages.task}")
    return Data(splits, names, evaluation)


def _taught(
    transfer: Transfer, language: str, files: TransferFiles
) -> tuple[list[Example], str, list[Example], str]:
    """Return training and development examples of a language, and what each of them is."""
    task, dev = transfer.tasks[language], split_in(DEV, language)
    whole = files.examples(language, TRAIN)
    if language not in transfer.languages.selection:
        return whole, TRAIN, [], dev
    if DEV in task.splits:
        return whole, TRAIN, files.examples(language, DEV), dev
    if task.table.aligned and len(transfer.languages.train) > 1:
        raise DataError(
            f"{task.name}: has no development set, and a part of its training set would hold "
            "translations of what is learnt in the other languages; give it a dev file"
        )
    cuts, names = named_cut(whole, SELECTION, 0, TRAIN)
    return cuts[TRAIN], names[TRAIN], cuts[DEV], names[DEV]
