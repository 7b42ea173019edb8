"""Fine-tuning as a problem of the training loop: batches, loss, the task's score, saving."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from accelerate.utils import gather_object
from torch import nn
from transformers import PreTrainedModel

from lingraft.devices import widest
from lingraft.finetuning import head_settings, heads
from lingraft.finetuning.coders.common import collate
from lingraft.log import Ticker
from lingraft.models import dropout
from lingraft.models.families import FAMILIES
from lingraft.training import beside
from lingraft.training.data import BatchPlan, Step, share
from lingraft.training.objectives.common import LossSum
from lingraft.training.problem import Problem, ValidationResult

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from accelerate import Accelerator
    from torch import Tensor

    from lingraft.finetuning.coders.common import Coder, Item, TaskBatch
    from lingraft.finetuning.coders.parsing import Parser
    from lingraft.finetuning.plugged import Plugged
    from lingraft.tasks.examples import Example, Prediction
    from lingraft.tasks.task import Task
    from lingraft.training.phase import Work

TASK = "task"
"""The one term of a task's loss; with partners that of the inputs, and `PARTNER` that of those."""
PARTNER = "partner"
GROUP_COST = {"cpu": 128}
"""By kind of device, tokens that could be computed in the time that one more micro-batch costs."""
USUAL_COST = 1_024


class WithLoss(nn.Module):
    """Model and loss as one module: a distributed wrapper sees the whole forward pass."""

    def __init__(self, model: PreTrainedModel | Parser | Plugged, coder: Coder) -> None:
        super().__init__()
        self.model, self.coder = model, coder

    def forward(self, batch: TaskBatch) -> Any:
        """Return the summed loss, as the one term `TASK`; with `batch.predict` also the outputs.

        With partners two terms, of which each counts half.
        """
        if batch.partner is not None:
            return self._pairs(batch, batch.partner)
        outputs = self.coder.run(self.model, batch)
        losses = {TASK: LossSum(self.coder.loss(outputs, batch.targets), batch.count)}
        return (losses, outputs) if batch.predict else losses

    def _pairs(self, batch: TaskBatch, partner: TaskBatch) -> Any:
        outputs, partner_outputs = self.model(batch.inputs, partner.inputs, both=not batch.predict)
        nats = self.coder.loss(outputs, batch.targets)
        if batch.predict:
            return {TASK: LossSum(nats, batch.count)}, outputs
        return {
            TASK: LossSum(nats / 2, batch.count),
            PARTNER: LossSum(self.coder.loss(partner_outputs, partner.targets) / 2, partner.count),
        }


def micro_batches(sizes: Sequence[tuple[int, ...]], tokens: int, cost: int) -> list[list[int]]:
    """Group inputs by at most `tokens`, with as little padding and as few groups as possible.

    The inputs of a step are put in the order of their lengths, and cut where the sum over the
    groups, of their tokens with padding and `cost`, is least. So the random batches stay those of
    the paper, and only within a batch like goes with like.

    Args:
        sizes: tokens of each input; of a pair for encoder and decoder, of both sides.
        tokens: of a group; an input that is longer has a group to itself.
        cost: tokens that could be computed in the time that one more group costs.
    """
    order = sorted(range(len(sizes)), key=lambda index: max(sizes[index]), reverse=True)
    sizes_NK = np.array([sizes[index] for index in order])
    least, starts = np.zeros(len(order) + 1), [0] * (len(order) + 1)
    for end in range(1, len(order) + 1):  # the best way to cut what stands before `end`
        most = max(1, tokens // max(1, int(sizes_NK[end - 1].sum())))
        first = max(0, end - most)
        widths = np.maximum.accumulate(sizes_NK[first:end][::-1]).sum(1)
        padded = widths * np.arange(1, len(widths) + 1)
        allowed = (padded <= tokens) | (np.arange(len(widths)) == 0)
        costs = np.where(allowed, padded + cost + least[first:end][::-1], np.inf)
        starts[end] = end - 1 - int(costs.argmin())
        least[end] = costs.min()
    groups, end = [], len(order)
    while end:
        groups.append(order[starts[end] : end])
        end = starts[end]
    return groups[::-1]


class SelectionSplit(NamedTuple):
    """A split that chooses the best weights, alone or with those of other languages."""

    name: str
    task: Task
    examples: Sequence[Example]
    items: Sequence[Item]


class Finetuning(Problem):
    """A task, a model and the coder between them."""

    def __init__(
        self,
        model: PreTrainedModel | Parser | Plugged,
        coder: Coder,
        train: Sequence[Item],
        dev: Sequence[SelectionSplit],
        micro_batch_tokens: int,
    ) -> None:
        self.model, self.coder = model, coder
        skips = any(getattr(module, "layerdrop", 0.0) for module in model.modules())
        parts = (part for part in model.modules() if isinstance(part, PreTrainedModel))
        is_known = all(part.config.model_type in FAMILIES for part in parts)
        self.uneven = skips or (coder.head != "translation" and not is_known)
        """Whether layers are skipped at random (M2M), each process' own; or nobody knows that a
        loss reaches all of a model: not of BigBird, whose pooler no head asks."""
        self.items, self.dev = train, dev
        self.micro_batch_tokens = micro_batch_tokens
        self.group_cost = GROUP_COST.get(next(model.parameters()).device.type, USUAL_COST)
        self.module = WithLoss(model, coder)
        dropout.use_bits(self.module)
        head_settings.attend(self.module)
        self.lengths = np.array([sum(coder.size(item)) for item in train])
        self.trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)

    def batches(self, items: Sequence[Item], *, predict: bool) -> list[tuple[list[int], TaskBatch]]:
        """Return micro-batches, each with the places of its inputs in `items`."""
        groups = micro_batches(
            [self.coder.size(item) for item in items], self.micro_batch_tokens, self.group_cost
        )
        return [
            (group, collate(self.coder, [items[i] for i in group], predict=predict))
            for group in groups
        ]

    def plan(self, work: Work) -> BatchPlan:
        """Plan all examples in an order of their own in each pass."""
        return BatchPlan(self.lengths, work.phase.batch, work.seed, work.phase.name)

    def step(self, indices: np.ndarray[Any, Any], epoch: int, rank: int, num_ranks: int) -> Step:
        """Return one process' share of a global batch; without an input it runs one for nothing."""
        mine = share(self.lengths[indices], rank, num_ranks)
        weight = 1.0 if len(mine) else 0.0
        places = indices[mine] if len(mine) else indices[:1]
        batches = self.batches([self.items[int(place)] for place in places], predict=False)
        items = [self.items[int(place)] for place in indices]
        targets = {TASK: sum(map(self.coder.count, items))}
        if partners := [item.partner for item in items if item.partner]:
            targets[PARTNER] = sum(map(self.coder.count, partners))
        return Step(
            [batch for _, batch in batches],  # type: ignore[misc]
            [weight] * len(batches),
            targets,
            int(self.lengths[indices].sum()),
            len(indices),
        )

    def look(self, module: nn.Module, accelerator: Accelerator) -> ValidationResult:
        """Score the task on the splits that choose the best weights; of several, by the means."""
        pairs = [self.predict(module, accelerator, part.examples, part.items) for part in self.dev]
        loss = fmean(loss for _, loss in pairs)
        if not math.isfinite(loss):  # the loop stops there, with a message of its own
            return ValidationResult(loss)
        scores = {
            part.name: part.task.score(part.examples, predictions)
            for part, (predictions, _) in zip(self.dev, pairs, strict=True)
        }
        score = fmean(scores[part.name][part.task.selection] for part in self.dev)
        shared = set.intersection(*map(set, scores.values()))
        means = {
            key: fmean(row[key] for row in scores.values())
            for key in next(iter(scores.values()))
            if key in shared
        }
        if len(scores) > 1:
            means |= {f"{name}/{key}": row[key] for name, row in scores.items() for key in row}
        return ValidationResult(loss, score, means)

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
        """Return what the present weights predict, and the mean loss; the same on every process.

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
        loss = torch.zeros((), dtype=widest(accelerator.device), device=accelerator.device)
        results: list[tuple[int, Any]] = []
        mine = [items[place] for place in places] or items[:1]
        writes = self.coder.head == "translation"  # which takes much longer than the loss
        title = f"{self.coder.task.name}: {'translate' if writes else 'predict'}"
        ticker = Ticker(title, len(places), "inputs", None)
        for group, batch in self.batches(mine, predict=True) if mine else []:
            losses, outputs = module(beside.sent(batch, accelerator.device))
            if not places:  # for nothing, but DDP's first pass after a step is a collective
                break
            loss += losses[TASK].nats.to(loss.dtype)
            collected = self.coder.collect(outputs, [items[places[i]] for i in group])
            results += [(places[i], result) for i, result in zip(group, collected, strict=True)]
            ticker.advance(0 if writes else len(group))
        written = self.coder.generate(self.model, items, places, ticker.advance, best=best)
        if written is not None:
            results = list(zip(places, written, strict=True))
        if num_ranks > 1:
            results = list(gather_object(results))
        results.sort(key=lambda pair: pair[0])
        targets = sum(self.coder.count(item) for item in items)
        total: Tensor = accelerator.reduce(loss, reduction="sum")
        predictions = self.coder.decode(examples, items, [result for _, result in results])
        return predictions, float(total) / max(1, targets)

    def save(self, folder: Path) -> None:
        """Save a stock checkpoint with its tokenizer."""
        heads.save(self.model, self.coder.shape.tokenizer, folder)
