"""Looking at held-out text during training: always the same sentences under the same masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lingraft.errors import DataError
from lingraft.recipe import Masking
from lingraft.tokenizer.documents import Documents
from lingraft.training import beside, sharding
from lingraft.training.accumulation import Totals
from lingraft.training.data import Batcher, row_of_pass
from lingraft.training.mixture import probabilities
from lingraft.training.objectives import objective_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accelerate import Accelerator
    from torch import nn

    from lingraft.models.packed import PackedModel
    from lingraft.recipe import Hardware, Phase
    from lingraft.training.data import Reading
    from lingraft.training.objectives.common import TokenIds

Array = np.ndarray[Any, Any]

MASK_SEED = 0
AT_A_TIME = 256
"""Sentences that are laid out together."""
TOKENS_OF_A_SENTENCE = 32
"""Tokens of a sentence, by which documents are counted where sentences are asked for."""


def by_term(means: dict[str, float], prefix: str = "loss") -> dict[str, float]:
    """Return columns of metrics.jsonl for the terms of a loss; none where it has a single one."""
    return {f"{prefix}/{term}": mean for term, mean in means.items()} if len(means) > 1 else {}


@dataclass(frozen=True)
class Validator:
    """Held-out sentences and how they are masked: a function of the text alone.

    Neither the phase nor the run's seed counts. Of masked words 15 % are hidden, however many
    training hides: with more the loss is higher, and compares with no other run. What an entry of
    the phase's data says itself is kept.
    """

    batcher: Batcher
    sentences: int

    @classmethod
    def of(
        cls,
        reading: Reading,
        vocabulary: TokenIds,
        phase: Phase,
        hardware: Hardware,
        packed: PackedModel | None = None,
    ) -> Validator:
        """Build the validator of one thing that a phase reads, for a model."""
        masking, lengths = reading.masking, reading.valid.lengths
        if reading.objective == "mlm" and masking == phase.masking:
            masking = masking.model_copy(update={"rate": Masking().rate})
        batcher = Batcher(
            reading.valid,
            objective_for(reading.objective, phase),
            vocabulary,
            masking,
            hardware.row_tokens,
            hardware.at_once,
            MASK_SEED,
            "validation",
            row_of_pass(packed, hardware.at_once, lengths, AT_A_TIME, "sentences"),
        )
        most = phase.validation.max_sentences
        if isinstance(reading.valid, Documents):
            most = max(1, min(most, int(most * TOKENS_OF_A_SENTENCE / lengths.mean())))
        return cls(batcher, min(most, len(reading.valid)))

    @property
    def sample(self) -> Array:
        """Return indices of the sentences, spread evenly."""
        return np.linspace(0, len(self.batcher.tokens) - 1, self.sentences).astype(np.int64)

    @torch.no_grad()
    def losses(self, module: nn.Module, accelerator: Accelerator) -> dict[str, float]:
        """Return mean nats of each term over all tokens it predicts in the validation sentences."""
        module.eval()
        sample = self.sample
        totals = Totals(accelerator.device)
        for start in range(0, len(sample), AT_A_TIME):
            rank, num_ranks = accelerator.process_index, accelerator.num_processes
            step = self.batcher.step(sample[start : start + AT_A_TIME], 0, rank, num_ranks)
            step = sharding.level(step, module, accelerator)
            totals.expect(step)
            for batch, weight in zip(step.micro_batches, step.weights, strict=True):
                totals.add(module(beside.sent(batch, accelerator.device)), weight)
        sharding.settle(module)
        if not any(totals.targets.values()):
            raise DataError("the validation text has no token that could be masked; give more text")
        return totals.means(accelerator)


@dataclass(frozen=True)
class HeldOut:
    """The validation text of everything that a phase reads."""

    validators: dict[str, tuple[Validator, ...]]
    """By label of the reading, one for each of its objectives."""
    probabilities: Array
    """[readings] how likely each is to be drawn."""

    @classmethod
    def of(
        cls,
        readings: Sequence[Reading],
        vocabulary: TokenIds,
        phase: Phase,
        hardware: Hardware,
        packed: PackedModel | None = None,
    ) -> HeldOut:
        """Build the validation text of what a phase reads, for a model."""
        validators = {
            reading.label: tuple(
                Validator.of(entry, vocabulary, phase, hardware, packed)
                for entry in (reading, *reading.also)
            )
            for reading in readings
        }
        return cls(validators, probabilities(readings, phase.mixture))

    @property
    def tokens(self) -> int:
        """Return the number of tokens that a look reads."""
        every = (entry for validators in self.validators.values() for entry in validators)
        return sum(int(entry.batcher.tokens.lengths[entry.sample].sum()) for entry in every)

    def losses(self, module: nn.Module, accelerator: Accelerator) -> tuple[float, dict[str, float]]:
        """Return the loss, and columns of metrics.jsonl: its terms, or those of several readings.

        The loss of several is the mean of theirs, weighed as they are drawn.
        """
        sums: dict[str, float] = {}
        terms: dict[str, float] = {}
        for label, validators in self.validators.items():
            found = [validator.losses(module, accelerator) for validator in validators]
            means = {term: mean for losses in found for term, mean in losses.items()}
            sums[f"loss/{label}"] = sum(means.values())
            prefix = "loss" if len(self.validators) == 1 else f"loss/{label}"
            terms |= by_term(means, prefix)
        if len(sums) == 1:
            return next(iter(sums.values())), terms
        return float(self.probabilities @ np.array(list(sums.values()))), sums | terms
