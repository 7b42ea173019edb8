"""A model on a task, alone and with one seed: weights, data, what decides a result."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.files import clear_temporary
from lingraft.finetuning import data as task_data, head_settings, heads, partners, plugged, transfer
from lingraft.finetuning.outcomes import split_in
from lingraft.finetuning.recipe import tasks_of
from lingraft.pretrained.checkpoints import weights_fingerprint
from lingraft.pretrained.load import load_config
from lingraft.rundir import FORMAT, Run, Step, digest, fingerprint
from lingraft.tasks.splits import DEV
from lingraft.training.checkpoint import last_step

if TYPE_CHECKING:
    from lingraft.finetuning.recipe import Finetune
    from lingraft.finetuning.transfer import Transfer
    from lingraft.tasks import Data, Task

AGAIN = "--update does it anew, or choose another --out or --label"


@dataclass(frozen=True)
class TaskRun:
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
    is_plugged: bool = False
    """Whether cross-attention is plugged in."""
    teacher: Path | None = None
    """Folder of the tagger for translations without tags."""

    @property
    def title(self) -> str:
        """Return the name of the model in tables."""
        return f"{self.label} (plugged in)" if self.is_plugged else self.label

    @property
    def place(self) -> Path:
        """Return the folder of its seeds, below the folder of the results."""
        return Path(f"{self.label}-plugged-in" if self.is_plugged else self.label, self.task.name)

    @property
    def selection(self) -> tuple[str, ...]:
        """Return the splits that choose the best weights: by the mean of their scores."""
        if self.transfer is None:
            return (DEV,)
        return tuple(split_in(DEV, language) for language in self.transfer.languages.selection)

    @property
    def reported(self) -> tuple[str, ...]:
        """Return the splits to predict: those that choose, and those that are reported."""
        return tuple(dict.fromkeys((*self.selection, *self.data.evaluation)))

    def task_of(self, split: str) -> Task:
        """Return the record that a split is scored with."""
        return self.transfer.task_of(split) if self.transfer else self.task

    def plug_in_record(self) -> dict[str, Any] | None:
        """Return which teacher tagged, and how many of each split have a translation."""
        counts = {
            split: f"{sum(one.id in found for one in self.data.splits[split])} of "
            f"{len(self.data.splits[split])} with the translation, the others with themselves"
            for split, found in self.data.partners.items()
        }
        return {"teacher": str(self.teacher), "read": counts} if self.is_plugged else None

    def inputs(self, seed: int, precision: str) -> dict[str, Any]:
        """Return what decides the result of a seed, as plain data."""
        parts = {
            "format": FORMAT["fine-tuning"],
            "weights": weights_fingerprint(self.folder),
            "tokenizer": heads.settings_fingerprint(self.folder),
            "task": self.task.name,
            "data": self.data_fingerprint,
            **self.task.decisive(),
            "seed": seed,
            "precision": precision,
        }
        generation = self.folder / "generation_config.json"
        if self.task.kind == "translation" and generation.is_file():  # no other task reads it
            parts["generation_config"] = digest(generation)
        if self.transfer:
            parts |= self.transfer.decisive()
        if self.is_plugged:
            teacher = self.teacher and weights_fingerprint(self.teacher)
            parts["plug_in"] = {"stop_gradient": False, "teacher": teacher}
        parts = json.loads(json.dumps(parts))
        return parts | {"fingerprint": fingerprint(parts)}


@dataclass(frozen=True)
class SeedRun:
    """A task run with one seed."""

    run: TaskRun
    seed: int
    folder: Path
    inputs: dict[str, Any]
    """Everything that decides the result."""

    @property
    def name(self) -> str:
        return f"{self.run.title} on {self.run.task.name}, seed {self.seed}"

    @property
    def step(self) -> Step:
        return Step(self.folder)

    @property
    def is_done(self) -> bool:
        return self.step.done_path.is_file()

    def prepare(self, *, update: bool, force: bool) -> None:
        """Make sure that what is there belongs to this seed; delete what does not.

        Raises:
            DataError: something does not, and neither option says what to do with it.
        """
        clear_temporary(self.folder)
        is_cheap = not (self.is_done or last_step(self.folder))
        self.step.is_kept(self.inputs, replace=update or force or is_cheap, mend=AGAIN)
        if force:
            self.step.clear()

    def begin(self) -> None:
        """Make the folder ready; rows of metrics.jsonl that will be written again go."""
        self.step.begin(self.inputs)
        step = last_step(self.folder)
        Run(self.folder).keep_metrics(lambda row: row["step"] <= step)


def plan(recipe: Finetune, base: Path) -> list[TaskRun]:
    """Return all task runs, models outside and tasks inside, with their data read.

    Raises:
        LingraftError: a model or the files of a task are not there.
    """
    is_plugged = recipe.plug == "in"
    learnt: list[tuple[Task, Data, Transfer | None]]
    if recipe.is_transfer:
        learnt = [(setup.task, data, setup) for setup, data in transfer.plan(recipe, base)]
    else:
        read = partners.load if is_plugged else task_data.load
        learnt = [(task, read(task, recipe, base), None) for task in tasks_of(recipe, base)]
    models = [
        (model, label, heads.resolve(model, base))
        for model, label in zip(recipe.models, recipe.model_labels, strict=True)
    ]
    teacher = None
    for model, _, folder in models if is_plugged else ():
        plugged.check(folder, model)
    if is_plugged and recipe.teacher:
        teacher = heads.resolve(recipe.teacher, base)
        for task, _, _ in learnt:
            partners.check_teacher(teacher, task)
    digests = [task_data.fingerprint_of(data) for _, data, _ in learnt]
    return [
        TaskRun(
            model, label, folder, for_model(task, folder), data, mark, setup, is_plugged, teacher
        )
        for model, label, folder in models
        for (task, data, setup), mark in zip(learnt, digests, strict=True)
    ]


def for_model(task: Task, folder: Path) -> Task:
    """Return the task with the settings that a model can have.

    The stock head for texts of a causal model has no dropout, and many tasks set one for encoders.

    Raises:
        UnsupportedModelError: transformers has no head of the task's kind for the model, or the
            model has no dropout that the recipe asks for.
    """
    config, head = load_config(str(folder)), heads.CODERS[task.kind].head
    heads.forward_of(config, head)
    if task.kind != "tagging" and head_settings.is_causal(config):
        settings = task.settings.model_copy(update={"classifier_dropout": None})
        task = replace(task, settings=settings)
    head_settings.dropout_settings(task, config, head)
    return task
