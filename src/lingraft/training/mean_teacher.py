"""Mean teacher: the exponential mean of the weights over the steps teaches the weights.

A small text that is read many times is learnt by heart. The mean of the weights knows it less by
heart, and its probabilities beside the text's own tokens are labels that are not so sure of
themselves. The mean is what is looked at, and kept.

Source: Tarvainen and Valpola 2017, whose students learn to agree with it; labels as Hinton et al.
2015.

Shape letters: M predicted tokens, V vocabulary.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from lingraft.models.losses import IGNORED
from lingraft.training.objectives.common import Losses, LossSum, Objective

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingraft.models.packed import PackedBatch, PackedModel
    from lingraft.training.trained import Trained

BEGINS, WINDOW = 0.3, 0.1
"""Share of a phase after which the mean teaches; share that the mean is of."""
MEAN = "mean"
"""Key of the optimizer's state: so a checkpoint has the mean."""


class MeanTeacher:
    """Means of what a phase trains."""

    def __init__(self, weight: float) -> None:
        """Begin without a mean.

        Args:
            weight: of its labels beside the text's own, which have the rest.
        """
        self.weight, self.teaches = weight, False
        self.optimizer: torch.optim.Optimizer | None = None
        self.trained: Trained | None = None

    def begin(self, optimizer: torch.optim.Optimizer, trained: Trained, done: float) -> None:
        """Begin a step.

        Args:
            optimizer: whose state has the mean.
            trained: its parameters.
            done: share of the phase.
        """
        self.optimizer, self.trained, self.teaches = optimizer, trained, done >= BEGINS

    @torch.no_grad()
    def update(self, step: int, done: float) -> None:
        """Add the weights after a step to their mean.

        Args:
            step: taken so far, from 1.
            done: share of the phase.
        """
        assert self.optimizer is not None
        window = WINDOW * step / max(done, 1e-9)
        share = 1.0 / max(1.0, min(step, window))
        for parameter, state in self.optimizer.state.items():
            if MEAN in state:
                state[MEAN].lerp_(parameter.detach(), share)
            else:
                state[MEAN] = parameter.detach().clone()

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Put the means in the place of the weights for a while."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        if self.optimizer is None or self.trained is None:
            return
        for parameter, state in self.optimizer.state.items():  # none before the first step
            parameter.data, state[MEAN] = state[MEAN], parameter.data
        self.trained.put()
        torch.clear_autocast_cache()

    def teach(self, objective: Objective) -> Objective:
        """Return an objective of one term that has the mean's labels, too, while it trains."""

        def loss(packed: PackedModel, batch: PackedBatch) -> Losses:
            if not (packed.training and self.teaches):
                return objective.loss(packed, batch)
            return {objective.name: LossSum(self.loss(packed, batch), len(batch.targets_M))}

        return replace(objective, loss=loss)

    def loss(self, packed: PackedModel, batch: PackedBatch) -> torch.Tensor:
        """Return the summed cross-entropy of both kinds of labels, by weight; softmax in fp32."""
        filled = batch.filled()
        packed.eval()
        try:
            with self.in_place(), torch.no_grad():
                soft_MV = packed.logits(filled).softmax(1, dtype=torch.float32)
        finally:  # memory may be full: the step is repeated
            packed.train()
        log_MV = packed.logits(filled).log_softmax(1, dtype=torch.float32)
        own_M = log_MV.gather(1, filled.targets_M.clamp_min(0)[:, None])[:, 0]
        both_M = torch.lerp(own_M, (soft_MV * log_MV).sum(1), self.weight)
        return -(both_M * (filled.targets_M != IGNORED)).sum()
