"""A model on a task, alone and with one seed: weights, data, what decides a result."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError
from lingraft.finetuning import data as task_data
from lingraft.finetuning import dropout, heads, outcomes, partners, plugged, transfer
from lingraft.finetuning.coders.spans import SpanCoder
from lingraft.finetuning.names import split_in
from lingraft.finetuning.outcomes import SCORES
from lingraft.finetuning.recipe import HUB, tasks_of
from lingraft.pretrained.checkpoints import weights_fingerprint
from lingraft.pretrained.load import load_config
from lingraft.rundir import (
    FORMAT,
    Run,
    Step,
    clear_temporary,
    digest,
    fingerprint,
    read_json,
    write_record,
)
from lingraft.tasks import rules
from lingraft.tasks.splits import DEV, TRAIN
from lingraft.training.checkpoint import last_step

if TYPE_CHECKING:
    from lingraft.finetuning.recipe import Finetune, PlugIn
    from lingraft.finetuning.transfer import Transfer
    from lingraft.tasks import Data, Task

AGAIN = "--update does it anew, or choose another --out or --label"
GENERATION = "generation_config.json"
"""File of a checkpoint: by it a translator writes, and no other task reads it."""


@dataclass(frozen=True)
class Cell:
    """A model on a task."""

    model: str
    """As it was given."""
    label: str
    folder: Path
    """Folder of the checkpoint."""
    task: Task
    data: Data
    data_fingerprint: str
    transfer: Transfer | None = None
    """Languages of a task in several: which are learnt, and which are scored."""
    plug_in: PlugIn | None = None
    """Settings of plugged-in cross-attention; None leaves it out."""
    teacher: Path | None = None
    """Folder of the tagger for translations without tags."""

    @property
    def shown(self) -> str:
        """Return the name of the model in tables."""
        return f"{self.label} (plugged in)" if self.plug_in else self.label

    @property
    def place(self) -> Path:
        """Return the folder of its seeds, below the folder of the results."""
        return Path(f"{self.label}-plugged-in" if self.plug_in else self.label, self.task.name)

    @property
    def selection(self) -> tuple[str, ...]:
        """Return the splits that choose the best weights: by the mean of their scores."""
        if self.transfer is None:
            return (DEV,)
        return tuple(split_in(DEV, language) for language in self.transfer.selection)

    @property
    def reported(self) -> tuple[str, ...]:
        """Return the splits to predict: those that choose, and those that are reported."""
        return tuple(dict.fromkeys((*self.selection, *self.data.evaluation)))

    @property
    def languages(self) -> list[str]:
        """Return the languages of the splits that are reported."""
        return [self.task_of(split).table.language for split in self.reported]

    def task_of(self, split: str) -> Task:
        """Return the record that a split is scored with."""
        return self.transfer.task_of(split) if self.transfer else self.task

    def read(self, split: str) -> str:
        """Return a note of what the examples of a split are read with."""
        return partners.note(self.data, split)

    def said(self) -> dict[str, Any]:
        """Return how it was plugged in, and what each split was read with, for scores.json."""
        assert self.plug_in is not None
        notes = {split: self.read(split) for split in self.data.splits}
        return {"plug_in": self.plug_in.model_dump() | {"read": notes}}

    @property
    def told(self) -> dict[str, Any]:
        """Return what is shown of a result and decides none, for scores.json."""
        told = {"task_definition": self.task.saved, "shown": self.task.shown}
        return told | {"evaluation": self.data.evaluation}

    @property
    def weights(self) -> str:
        """Return the fingerprint of the checkpoint's weights."""
        return weights_fingerprint(self.folder)

    @cached_property
    def rules(self) -> dict[str, dict[str, dict[str, float]]]:
        """Compute the scores of rules, by split, rule and score: the same for every seed."""
        splits = self.data.splits
        return {
            split: rules.scores(self.task_of(split), splits[TRAIN], splits[split])
            for split in self.reported
        }

    def inputs(self, seed: int, precision: str) -> dict[str, Any]:
        """Return what decides the result of a seed, as plain data."""
        parts = {
            "format": FORMAT["fine-tuning"],
            "weights": self.weights,
            "tokenizer": heads.settings_fingerprint(self.folder),
            "task": self.task.name,
            "data": self.data_fingerprint,
            **self.task.decisive(),
            "seed": seed,
            "precision": precision,
        }
        if self.task.kind == "translation" and (writes := self.folder / GENERATION).is_file():
            parts["generation_config"] = digest(writes)
        if self.transfer:
            parts |= self.transfer.decisive()
        if self.plug_in:
            settings = self.plug_in.model_dump(exclude={"teacher"})
            teacher = self.teacher and weights_fingerprint(self.teacher)
            parts["plug_in"] = settings | {"teacher": teacher}
        parts = json.loads(json.dumps(parts))
        return parts | {"fingerprint": fingerprint(parts)}


@dataclass(frozen=True)
class Job:
    """A cell with one seed."""

    cell: Cell
    seed: int
    folder: Path
    inputs: dict[str, Any]
    """Everything that decides the result."""

    @property
    def name(self) -> str:
        return f"{self.cell.shown} on {self.cell.task.name}, seed {self.seed}"

    @property
    def step(self) -> Step:
        return Step(self.folder)

    @property
    def is_done(self) -> bool:
        return self.step.done_path.is_file()

    def prepare(self, *, update: bool, force: bool) -> None:
        """Make sure that what is there belongs to this job; delete what does not.

        Raises:
            DataError: something does not, and neither option says what to do with it.
        """
        folder, step = self.folder, self.step
        clear_temporary(folder)
        if not folder.is_dir():
            return
        if not step.inputs() and any(folder.iterdir()):
            raise DataError(
                f"{folder}: holds files but no results of lingraft finetune; choose another --out"
            )
        worth = self.is_done or last_step(folder) or (folder / SCORES).is_file()
        replace = update or force or not worth
        step.is_kept(self.inputs, replace=replace, mend=AGAIN)
        if (folder / SCORES).is_file() and not self.is_done:  # an earlier version ended here
            self.finish(read_json(folder / SCORES))
        if force:
            step.clear()
        elif self.is_done and not outcomes.tell(folder, self.cell.told):
            if not replace:
                raise DataError(f"{folder}: was evaluated in other splits or scores; {AGAIN}")
            step.clear()

    def begin(self) -> None:
        """Make the folder ready; rows of metrics.jsonl that will be written again go."""
        self.step.begin(self.inputs)
        step = last_step(self.folder)
        Run(self.folder).keep_metrics(lambda row: row["step"] <= step)

    def finish(self, scores: dict[str, Any]) -> None:
        """Write scores.json, and mark the seed as done."""
        write_record(self.folder / SCORES, scores)
        self.step.finish(self.inputs["fingerprint"], {}, scores["seconds"])


def plan(recipe: Finetune, base: Path) -> list[Cell]:
    """Return all cells, models outside and tasks inside, with their data read.

    Raises:
        LingraftError: a model or the files of a task are not there.
    """
    learnt: list[tuple[Task, Data, Transfer | None]]
    if recipe.is_transfer:
        learnt = [(setup.task, data, setup) for setup, data in transfer.plan(recipe, base)]
    else:
        learnt = [(task, _alone(task, recipe, base), None) for task in tasks_of(recipe, base)]
    models = [
        (model, label, heads.resolve(model, base))
        for model, label in zip(recipe.models, recipe.model_labels, strict=True)
    ]
    plug_in, teacher = recipe.plug_in if recipe.plug == "in" else None, None
    if plug_in is not None:
        for model, _, folder in models:
            plugged.check(folder, model)
        if plug_in.teacher:
            teacher = heads.resolve(plug_in.teacher, base)
            for task, _, _ in learnt:
                partners.check_teacher(teacher, task)
    digests = [task_data.fingerprint_of(data) for _, data, _ in learnt]
    for task, data, _ in learnt:
        task_data.tell_shared(data, task.name)
    cells = [
        Cell(
            *model,
            _suited(task, recipe, model),
            data,
            digest,
            languages,
            plug_in,
            teacher,
        )
        for model in models
        for (task, data, languages), digest in zip(learnt, digests, strict=True)
    ]
    for cell in cells:
        if cell.task.kind == "span":
            _check_windows(cell)
    return cells


def _check_windows(cell: Cell) -> None:
    """Refuse windows that are too short before anything trains; raises DataError."""
    tokenizer = heads.tokenizer_for(cell.folder, cell.task)
    coder = SpanCoder(cell.task, heads.shape_of(cell.folder, cell.task, tokenizer))
    coder.check(example for examples in cell.data.splits.values() for example in examples)


def _suited(task: Task, recipe: Finetune, model: tuple[str, str, Path]) -> Task:
    """Return the task with the settings that a model can have.

    Raises:
        UnsupportedModelError: transformers has no head of the task's kind for the model, or the
            model has no dropout that the recipe asks for.
    """
    _, label, folder = model
    config, head = load_config(str(folder)), heads.CODERS[task.kind].head
    heads.forward_of(config, head)
    if "classifier_dropout" not in recipe.settings.model_fields_set:
        task = dropout.without_classifiers(task, config, label)
    dropout.settings_for(task, config, head)
    return task


def _alone(task: Task, recipe: Finetune, base: Path) -> Data:
    """Load a task in one language; for models that are plugged in with translations."""
    if recipe.plug == "out":
        return task_data.load(task, recipe, base)
    whole = recipe.model_copy(update={"train_examples": None})
    data = task_data.load(task, whole, base)
    directory = None if recipe.data == HUB else task_data.directory_of(task, recipe, base)
    data = partners.add(data, {"": task}, ("",), directory, recipe.plug_in)
    return task_data.part_of(data, recipe.train_examples, task.name)
