"""Looking at held-out text during training: always the same sentences under the same masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from lingraft.errors import DataError
from lingraft.training import sharding
from lingraft.training.data import Batcher

if TYPE_CHECKING:
    from accelerate import Accelerator
    from torch import nn

    from lingraft.objectives.common import Objective, TokenIds
    from lingraft.recipe import Phase, Training
    from lingraft.tokenizer.shards import Tokens

MASK_SEED = 0


@dataclass(frozen=True)
class Validator:
    """Held-out sentences and how they are masked.

    A function of the text alone, never of the phase or the run's seed.
    """

    batcher: Batcher
    sentences: int

    @classmethod
    def of(
        cls,
        tokens: Tokens,
        objective: Objective,
        vocabulary: TokenIds,
        phase: Phase,
        training: Training,
    ) -> Validator:
        """The validator of a phase."""
        batcher = Batcher(
            tokens,
            objective,
            vocabulary,
            phase.masking,
            training.row_tokens,
            training.micro_batch_tokens,
            MASK_SEED,
            "validation",
        )
        return cls(batcher, min(phase.validation.sentences, len(tokens)))

    @torch.no_grad()
    def loss(self, module: nn.Module, accelerator: Accelerator) -> float:
        """Mean nats over all predicted tokens of the validation sentences."""
        module.eval()
        spread = np.linspace(0, len(self.batcher.tokens) - 1, self.sentences)
        chosen = spread.astype(np.int64)
        nats = torch.zeros((), dtype=torch.float64, device=accelerator.device)
        targets = 0
        for start in range(0, len(chosen), 256):
            step = self.batcher.step(
                chosen[start : start + 256], 0, accelerator.process_index, accelerator.num_processes
            )
            step = sharding.level(step, module, accelerator)
            targets += step.global_targets
            for batch, weight in zip(step.micro_batches, step.weights, strict=True):
                nats += module(batch.to(accelerator.device)).double() * weight
        sharding.settle(module)
        if not targets:
            raise DataError("the validation text has no token that could be masked; give more text")
        return float(accelerator.reduce(nats, reduction="sum")) / targets
