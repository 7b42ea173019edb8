"""One model on one task: where the weights and the data are, and what decides a result."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lingraft.finetuning import data as task_data
from lingraft.finetuning import heads
from lingraft.finetuning.recipe import tasks_of
from lingraft.rundir import FORMAT, fingerprint
from lingraft.tasks import rules
from lingraft.tasks.splits import TRAIN

if TYPE_CHECKING:
    from pathlib import Path

    from lingraft.finetuning.recipe import Finetune
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

    @property
    def weights(self) -> str:
        """Fingerprint of the checkpoint's weights."""
        return heads.weights_fingerprint(self.folder)

    @cached_property
    def rules(self) -> dict[str, dict[str, dict[str, float]]]:
        """What needs no model, by split, rule and score: the same for every seed."""
        splits = self.data.splits
        return {
            split: rules.scores(self.task, splits[TRAIN], splits[split])
            for split in task_data.reported(self.data)
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
        parts = json.loads(json.dumps(parts))
        return parts | {"fingerprint": fingerprint(parts)}


def plan(recipe: Finetune, base: Path) -> list[Cell]:
    """All cells, models outside and tasks inside, with their data read.

    Raises:
        LingraftError: a model or the files of a task are not there.
    """
    tasks = [(task, task_data.load(task, recipe, base)) for task in tasks_of(recipe, base)]
    models = [
        (model, label, heads.resolve(model, base))
        for model, label in zip(recipe.models, recipe.model_labels, strict=True)
    ]
    digests = [task_data.fingerprint_of(data) for _, data in tasks]
    return [
        Cell(*model, task, data, digest)
        for model in models
        for (task, data), digest in zip(tasks, digests, strict=True)
    ]
