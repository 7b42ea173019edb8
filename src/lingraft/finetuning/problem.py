"""Fine-tuning as a problem of the training loop: batches, loss, the task's score, saving."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from accelerate.utils import gather_object
from torch import nn

from lingraft.finetuning import heads
from lingraft.finetuning.coders.common import collate
from lingraft.models import dropout
from lingraft.models.packed import attend_fast
from lingraft.objectives.common import LossSum
from lingraft.training.data import BatchPlan, Step, share
from lingraft.training.problem import Look

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from accelerate import Accelerator
    from torch import Tensor
    from transformers import PreTrainedModel

    from lingraft.finetuning.coders.biaffine import Parser
    from lingraft.finetuning.coders.common import Coder, Item, Shape, TaskBatch
    from lingraft.tasks.examples import Example
    from lingraft.tasks.predictions import Prediction
    from lingraft.tasks.task import Task
    from lingraft.training.data import Plan
    from lingraft.training.phase import Work

TASK = "task"
"""The one term of a task's loss."""
FEW = 8
"""A micro-batch of fewer inputs is not split further, however much their lengths differ."""
SHORTEST = 2 / 3
"""Of the longest input of a micro-batch: shorter ones go to the next."""


class WithLoss(nn.Module):
    """Model and loss as one module: a distributed wrapper sees the whole forward pass."""

    def __init__(self, model: PreTrainedModel | Parser, coder: Coder) -> None:
        super().__init__()
        self.model, self.coder = model, coder

    def forward(self, batch: TaskBatch) -> Any:
        """The summed loss, as the one term `TASK`; with `batch.predict` also the outputs."""
        outputs = self.coder.run(self.model, batch)
        losses = {TASK: LossSum(self.coder.loss(outputs, batch.targets), batch.count)}
        return (losses, outputs) if batch.predict else losses


def micro_batches(sizes: Sequence[tuple[int, ...]], tokens: int) -> list[list[int]]:
    """Inputs grouped so that little is padding and no group is larger than `tokens`, padding too.

    The inputs of a step are sorted by length; a group ends where it is full, or where it has `FEW`
    inputs and the next is much shorter than its longest. So the random batches stay those of the
    paper, and only within a batch like goes with like.

    Args:
        sizes: tokens of each input; of a pair for encoder and decoder, of both sides.
        tokens: of a group; an input that is longer has a group to itself.
    """
    groups: list[list[int]] = []
    widths: tuple[int, ...] = ()
    for index in sorted(range(len(sizes)), key=lambda index: max(sizes[index]), reverse=True):
        group = groups[-1] if groups else []
        wider = tuple(map(max, widths, sizes[index])) if group else sizes[index]
        full = (len(group) + 1) * sum(wider) > tokens
        shorter = len(group) >= FEW and sum(sizes[index]) < SHORTEST * sum(widths)
        if not group or full or shorter:
            groups.append([index])
            widths = sizes[index]
        else:
            group.append(index)
            widths = wider
    return groups


class Judged(NamedTuple):
    """A split that chooses the best weights, alone or with those of other languages."""

    name: str
    task: Task
    examples: Sequence[Example]
    items: Sequence[Item]


class Finetuning:
    """A task, a model and the coder between them."""

    def __init__(
        self,
        model: PreTrainedModel | Parser,
        coder: Coder,
        shape: Shape,
        train: Sequence[Item],
        dev: Sequence[Judged],
        micro_batch_tokens: int,
    ) -> None:
        self.model, self.coder, self.shape = model, coder, shape
        self.items, self.dev = train, dev
        self.micro_batch_tokens = micro_batch_tokens
        self.module = WithLoss(model, coder)
        dropout.use_bits(self.module)
        attend_fast(self.module)
        self.lengths = np.array([sum(coder.size(item)) for item in train])
        self.trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)

    def batches(self, items: Sequence[Item], *, predict: bool) -> list[tuple[list[int], TaskBatch]]:
        """Micro-batches, each with the places of its inputs in `items`."""
        groups = micro_batches([self.coder.size(item) for item in items], self.micro_batch_tokens)
        return [
            (group, collate(self.coder, self.shape, [items[i] for i in group], predict=predict))
            for group in groups
        ]

    def plan(self, work: Work) -> Plan:
        """All examples in an order of their own in each pass."""
        return BatchPlan(self.lengths, work.phase.batch, work.seed, work.phase.name)

    def step(self, indices: np.ndarray[Any, Any], epoch: int, rank: int, num_ranks: int) -> Step:
        """One process' share of a global batch; a process without an input runs one for nothing."""
        mine = share(self.lengths[indices], rank, num_ranks)
        weight = 1.0 if len(mine) else 0.0
        places = indices[mine] if len(mine) else indices[:1]
        found = self.batches([self.items[int(place)] for place in places], predict=False)
        return Step(
            [batch for _, batch in found],  # type: ignore[misc]
            [weight] * len(found),
            {TASK: sum(self.coder.count(self.items[int(place)]) for place in indices)},
            int(self.lengths[indices].sum()),
            len(indices),
        )

    def look(self, module: nn.Module, accelerator: Accelerator) -> Look:
        """The task's scores on the splits that choose the best weights; of several, the means."""
        found = [self.predict(module, accelerator, part.examples, part.items) for part in self.dev]
        loss = fmean(loss for _, loss in found)
        if not math.isfinite(loss):  # the loop stops there, with a message of its own
            return Look(loss)
        scores = {
            part.name: part.task.score(part.examples, said)
            for part, (said, _) in zip(self.dev, found, strict=True)
        }
        chosen = fmean(scores[part.name][part.task.selection] for part in self.dev)
        first, *others = scores.values()
        means = {
            key: fmean((value, *(one[key] for one in others)))
            for key, value in first.items()
            if all(key in one for one in others)
        }
        if others:
            means |= {
                f"{name}/{key}": value for name, one in scores.items() for key, value in one.items()
            }
        return Look(loss, chosen, means)

    @torch.no_grad()
    def predict(
        self,
        module: nn.Module,
        accelerator: Accelerator,
        examples: Sequence[Example],
        items: Sequence[Item],
        *,
        best: bool = False,
    ) -> tuple[list[Prediction], float]:
        """What the present weights say, and their mean loss; the same on every process.

        Args:
            module: `self.module`, or what accelerate made of it.
            accelerator: its device; of several processes each predicts a share.
            examples: labelled.
            items: their inputs.
            best: of a model that writes, whether time matters less than quality.
        """
        module.eval()
        rank, num_ranks = accelerator.process_index, accelerator.num_processes
        places = list(range(rank, len(items), num_ranks))
        loss = torch.zeros((), dtype=torch.float64, device=accelerator.device)
        found: list[tuple[int, Any]] = []
        batches = self.batches([items[place] for place in places], predict=True) if places else []
        for group, batch in batches:
            losses, outputs = module(batch.to(accelerator.device))
            loss += losses[TASK].nats.double()
            collected = self.coder.collect(outputs, [items[places[i]] for i in group])
            found += [(places[i], one) for i, one in zip(group, collected, strict=True)]
        written = self.coder.generate(self.model, [items[place] for place in places], best=best)
        if written is not None:
            found = list(zip(places, written, strict=True))
        if num_ranks > 1:
            found = list(gather_object(found))
        found.sort(key=lambda pair: pair[0])
        targets = sum(self.coder.count(item) for item in items)
        total: Tensor = accelerator.reduce(loss, reduction="sum")
        predictions = self.coder.decode(examples, items, [one for _, one in found])
        return predictions, float(total) / max(1, targets)

    def save(self, folder: Path) -> None:
        """A stock checkpoint with its tokenizer."""
        heads.save(self.model, self.shape.tokenizer, folder)
