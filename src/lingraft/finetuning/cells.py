"""One model on one task: where the weights and the data are, and what decides a result."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lingraft.finetuning import data as task_data
from lingraft.finetuning import heads, transfer
from lingraft.finetuning.outcomes import split_in
from lingraft.finetuning.recipe import tasks_of
from lingraft.pretrained.checkpoints import weights_fingerprint
from lingraft.rundir import FORMAT, fingerprint
from lingraft.tasks import rules
from lingraft.tasks.splits import DEV, TRAIN

if TYPE_CHECKING:
    from pathlib import Path

    from lingraft.finetuning.recipe import Finetune
    from lingraft.finetuning.transfer import Transfer
    from lingraft.tasks import Data, Task


@dataclass(frozen=True)
class Cell:
    """One model on one task."""

    model: str
    """As it was given."""
    label: str
    folder: Path
    """Of the checkpoint."""
    task: Task
    data: Data
    data_fingerprint: str
    transfer: Transfer | None = None
    """Of a task in several languages: which are learnt, and which are scored."""

    @property
    def selection(self) -> tuple[str, ...]:
        """The splits that choose the best weights: by the mean of their scores."""
        if self.transfer is None:
            return (DEV,)
        return tuple(split_in(DEV, language) for language in self.transfer.selection)

    @property
    def reported(self) -> tuple[str, ...]:
        """The splits to predict: those that choose, and those that are reported."""
        return tuple(dict.fromkeys((*self.selection, *self.data.evaluation)))

    def task_of(self, split: str) -> Task:
        """The record that a split is scored with."""
        return self.transfer.task_of(split) if self.transfer else self.task

    @property
    def weights(self) -> str:
        """Fingerprint of the checkpoint's weights."""
        return weights_fingerprint(self.folder)

    @cached_property
    def rules(self) -> dict[str, dict[str, dict[str, float]]]:
        """What needs no model, by split, rule and score: the same for every seed."""
        splits = self.data.splits
        return {
            split: rules.scores(self.task_of(split), splits[TRAIN], splits[split])
            for split in self.reported
        }

    def inputs(self, seed: int, precision: str) -> dict[str, Any]:
        """What decides the result of a seed; plain data."""
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
        if self.transfer:
            parts |= self.transfer.decisive()
        parts = json.loads(json.dumps(parts))
        return parts | {"fingerprint": fingerprint(parts)}


def plan(recipe: Finetune, base: Path) -> list[Cell]:
    """All cells, models outside and tasks inside, with their data read.

    Raises:
        LingraftError: a model or the files of a task are not there.
    """
    learnt: list[tuple[Task, Data, Transfer | None]]
    if recipe.is_transfer:
        learnt = [(one.task, data, one) for one, data in transfer.plan(recipe, base)]
    else:
        learnt = [
            (task, task_data.load(task, recipe, base), None) for task in tasks_of(recipe, base)
        ]
    models = [
        (model, label, heads.resolve(model, base))
        for model, label in zip(recipe.models, recipe.model_labels, strict=True)
    ]
    digests = [task_data.fingerprint_of(data) for _, data, _ in learnt]
    return [
        Cell(*model, task, data, digest, languages)
        for model in models
        for (task, data, languages), digest in zip(learnt, digests, strict=True)
    ]
