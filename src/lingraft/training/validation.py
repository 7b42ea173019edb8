"""Looking at held-out text during training: always the same sentences under the same masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lingraft.errors import DataError
from lingraft.objectives import objective_for
from lingraft.recipe import Masking
from lingraft.tokenizer.documents import Documents
from lingraft.training import beside, sharding
from lingraft.training.accumulation import Totals
from lingraft.training.data import Batcher, row_of_pass
from lingraft.training.mixture import probabilities

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accelerate import Accelerator
    from torch import nn

    from lingraft.models.packed import PackedModel
    from lingraft.objectives.common import Objective, TokenIds
    from lingraft.recipe import Hardware, Phase
    from lingraft.tokenizer.pairs import TokenPairs
    from lingraft.tokenizer.shards import Tokens
    from lingraft.training.data import Reading

Array = np.ndarray[Any, Any]

MASK_SEED = 0
AT_A_TIME = 256
"""Sentences that are laid out together."""
TOKENS_OF_A_SENTENCE = 32
"""Tokens of a sentence, by which documents are counted where sentences are asked for."""


def by_term(means: dict[str, float]) -> dict[str, float]:
    """Return columns of metrics.jsonl for the terms of a loss; none where it has a single one."""
    return {f"loss/{term}": mean for term, mean in means.items()} if len(means) > 1 else {}


def documents_for(sentences: int, lengths: Array) -> int:
    """Return the number of documents, or pieces, to look at in place of sentences; one at least.

    Args:
        sentences: asked for.
        lengths: tokens in each of the documents.
    """
    return max(1, min(sentences, int(sentences * TOKENS_OF_A_SENTENCE / lengths.mean())))


def hidden(reading: Reading, phase: Phase) -> Masking:
    """Return the masking of validation: of masked words 15 %, however many training hides.

    With more hidden the loss is higher, and compares with no other run. What an entry of the
    phase's data says itself is kept.
    """
    if reading.objective == "mlm" and reading.masking == phase.masking:
        return reading.masking.model_copy(update={"rate": Masking().rate})
    return reading.masking


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
        tokens: Tokens | Documents | TokenPairs,
        objective: Objective,
        vocabulary: TokenIds,
        phase: Phase,
        hardware: Hardware,
        masking: Masking | None = None,
        packed: PackedModel | None = None,
    ) -> Validator:
        """Build the validator of a phase; `masking` where it is not the phase's own."""
        batcher = Batcher(
            tokens,
            objective,
            vocabulary,
            masking or phase.masking,
            hardware.row_tokens,
            hardware.at_once,
            MASK_SEED,
            "validation",
            row_of_pass(packed, hardware.at_once, tokens.lengths, AT_A_TIME, "sentences"),
        )
        most = phase.validation.max_sentences
        if isinstance(tokens, Documents):
            most = documents_for(most, tokens.lengths)
        return cls(batcher, min(most, len(tokens)))

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
                Validator.of(
                    entry.valid,
                    objective_for(entry.objective, phase),
                    vocabulary,
                    phase,
                    hardware,
                    hidden(entry, phase),
                    packed,
                )
                for entry in (reading, *reading.also)
            )
            for reading in readings
        }
        return cls(validators, probabilities(readings, phase.mixture))

    @property
    def objectives(self) -> list[Objective]:
        """Return the objectives that a module must know to be judged, each once."""
        objectives = [
            validator.batcher.objective
            for validators in self.validators.values()
            for validator in validators
        ]
        return list({objective.name: objective for objective in objectives}.values())

    @property
    def tokens(self) -> int:
        """Return the number of tokens that a look reads."""
        every = (one for validators in self.validators.values() for one in validators)
        return sum(int(one.batcher.tokens.lengths[one.sample].sum()) for one in every)

    def losses(self, module: nn.Module, accelerator: Accelerator) -> tuple[float, dict[str, float]]:
        """Return the loss, and columns of metrics.jsonl: its terms, or those of several readings.

        The loss of several is the mean of theirs, weighed as they are drawn.
        """
        losses = {
            label: {
                term: mean
                for validator in validators
                for term, mean in validator.losses(module, accelerator).items()
            }
            for label, validators in self.validators.items()
        }
        if len(losses) == 1:
            (means,) = losses.values()
            return sum(means.values()), by_term(means)
        sums = {f"loss/{label}": sum(means.values()) for label, means in losses.items()}
        terms = {
            f"loss/{label}/{term}": mean
            for label, means in losses.items()
            if len(means) > 1
            for term, mean in means.items()
        }
        return float(self.probabilities @ np.array(list(sums.values()))), sums | terms
