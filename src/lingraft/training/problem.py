"""What a phase learns: data, loss, and how well it goes. The loop knows no more of it than this.

Masked language modelling is one problem; fine-tuning on a task is another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from lingraft.models import dropout, export
from lingraft.models.packed import PackedModel, check_isolation
from lingraft.models.parts import trained_parts
from lingraft.objectives import OBJECTIVES
from lingraft.training import throughput
from lingraft.training.data import Batcher
from lingraft.training.phase import WithObjective, freeze, recompute_activations
from lingraft.training.validation import Validator

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from accelerate import Accelerator
    from torch import nn
    from transformers import PreTrainedModel

    from lingraft.training.data import Step
    from lingraft.training.phase import Job


def by_term(means: dict[str, float]) -> dict[str, float]:
    """Columns of metrics.jsonl for the terms of a loss; none where it has a single one."""
    return {f"loss/{term}": mean for term, mean in means.items()} if len(means) > 1 else {}


@dataclass(frozen=True)
class Look:
    """What a look at the held-out data says."""

    loss: float
    """Mean nats, or the task's own loss."""
    score: float | None = None
    """What the best weights are chosen by, higher is better; None chooses by the loss."""
    metrics: dict[str, float] = field(default_factory=dict)
    """More numbers for metrics.jsonl."""

    @property
    def to_minimise(self) -> float:
        """The number by which looks are compared."""
        return self.loss if self.score is None else -self.score


class Problem(Protocol):
    """What the loop asks for."""

    @property
    def lengths(self) -> np.ndarray[Any, Any]:
        """Real tokens of each training example."""
        ...

    @property
    def module(self) -> nn.Module:
        """Takes one of `step`'s micro-batches; gives the summed losses, by term."""
        ...

    @property
    def trainable(self) -> int:
        """Parameters that train."""
        ...

    def step(self, indices: np.ndarray[Any, Any], epoch: int, rank: int, num_ranks: int) -> Step:
        """One process' share of a global batch."""
        ...

    def look(self, module: nn.Module, accelerator: Accelerator) -> Look:
        """Judge the present weights; `module` is the prepared one."""
        ...

    def save(self, folder: Path) -> None:
        """Write the present weights as a checkpoint that can be loaded."""
        ...


class MaskedText:
    """Masked language modelling on packed sentences, with some parts of the model frozen."""

    def __init__(self, job: Job, model: PreTrainedModel) -> None:
        phase, training = job.phase, job.training
        self.job, self.model = job, model
        self.trainable = freeze(
            model, job.family, job.itl_layers, trained_parts(phase.train, phase.name)
        )
        if training.gradient_checkpointing:
            recompute_activations(model)
        objective = OBJECTIVES[phase.objective]
        packed = PackedModel(model, job.family)
        dropout.use_bits(model)
        check_isolation(packed, job.vocabulary.pad)
        self.module = WithObjective(packed, objective)
        self.lengths = job.train.lengths
        self.operations = throughput.count(model, job.family, job.itl_layers)
        self.batcher = Batcher(
            job.train,
            objective,
            job.vocabulary,
            phase.masking,
            training.row_tokens,
            training.micro_batch_tokens,
            job.seed,
            phase.name,
        )
        self.validator = Validator.of(job.valid, objective, job.vocabulary, phase, training)

    def step(self, indices: np.ndarray[Any, Any], epoch: int, rank: int, num_ranks: int) -> Step:
        """Packed rows with fresh masks."""
        return self.batcher.step(indices, epoch, rank, num_ranks)

    def useful_flops(self, indices: np.ndarray[Any, Any], targets: int) -> float:
        """Floating-point operations that training on a global batch needs; none for padding.

        Args:
            indices: its sentences.
            targets: their predicted tokens.
        """
        return self.operations.training(self.lengths[indices], targets)

    def look(self, module: nn.Module, accelerator: Accelerator) -> Look:
        """Mean nats on the validation text."""
        means = self.validator.losses(module, accelerator)
        return Look(sum(means.values()), metrics=by_term(means))

    def save(self, folder: Path) -> None:
        """A stock checkpoint with the source's own dropout."""
        changed = {key: getattr(self.model.config, key) for key in self.job.kept_config}
        self.model.config.update(self.job.kept_config)
        export.save(self.model, folder)
        self.model.config.update(changed)
