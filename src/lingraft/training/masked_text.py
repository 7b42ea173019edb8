"""Phase of pretraining as a problem of the loop: masked, causal or paired text.

Looking at held-out text during training: always the same sentences under the same masks.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lingraft.errors import DataError
from lingraft.models import dropout, export, lora
from lingraft.models.cross_attention import check_pairs
from lingraft.models.modules import MODULES
from lingraft.models.packed import check_isolation
from lingraft.models.stacks import packed_model
from lingraft.recipe import Masking
from lingraft.tokenizer.documents import Documents
from lingraft.training import beside, problem, sharding, throughput
from lingraft.training.data import Batcher, BatchPlan, row_of_pass
from lingraft.training.loop import run_phase
from lingraft.training.mean_teacher import MeanTeacher
from lingraft.training.mixture import MixtureBatcher, MixturePlan, probabilities
from lingraft.training.objectives import objective_for
from lingraft.training.phase import WithObjective, in_fp32, lighten, recompute_activations
from lingraft.training.problem import Problem, Totals, ValidationResult, by_term, select_trained

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from accelerate import Accelerator
    from torch import nn
    from transformers import PreTrainedModel

    from lingraft.models.packed import PackedModel
    from lingraft.recipe import Hardware, Phase
    from lingraft.training.data import Reading, Step
    from lingraft.training.mixture import Plan
    from lingraft.training.objectives.common import Objective, TokenIds
    from lingraft.training.phase import Job, Work

Array = np.ndarray[Any, Any]


def train_phase(job: Job, model: PreTrainedModel, accelerator: Accelerator) -> dict[str, Any]:
    """Train one phase of masked language modelling, from its last checkpoint where there is one.

    Args:
        job: data and settings.
        model: the weights to start from, in fp32; changed in place.
        accelerator: device, processes, precision.

    Returns:
        Plain data for done.json. The best weights are in `job.folder/best`.

    Raises:
        TrainingError: the loss is not finite.
        Stopped: SIGTERM or SIGINT came; a checkpoint was written.
    """
    text = MaskedText(job, model.to(accelerator.device))
    if accelerator.mixed_precision == "bf16":
        lighten(model)
    result = run_phase(job, text, accelerator)
    streams = text.streams(job, result["steps"])
    return result | {"train": sorted(job.phase.trained)} | ({"streams": streams} if streams else {})


class MaskedText(Problem):
    """Masked language modelling on packed sentences, with some parts of the model frozen."""

    def __init__(self, job: Job, model: PreTrainedModel) -> None:
        phase, readings, family = job.phase, job.readings, job.family
        self.job, self.model = job, model
        rows = lambda: torch.tensor(job.new_rows)  # noqa: E731 - asked for where it matters
        self.trained = select_trained(model, family, phase, job.itl_layers, rows, job.seed)
        self.trainable = self.trained.count
        if job.hardware.gradient_checkpointing:
            recompute_activations(model)
        units = [
            [objective_for(entry.objective, phase) for entry in (reading, *reading.also)]
            for reading in readings
        ]
        objectives = [objective for unit in units for objective in unit]
        crosses = any(
            parameter.requires_grad and MODULES["cross_attention"].owns(name)
            for name, parameter in model.named_parameters()
        )
        self.uneven = crosses and not all(any(o.sides == 2 for o in unit) for unit in units)
        """Whether a step may hold no pairs, and then not reach cross-attention that trains."""
        self.packed = packed_model(model, family)
        dropout.use_bits(model)
        dropout.keep_layers(model)
        check_isolation(self.packed, job.vocabulary.pad)
        if any(objective.reads == "pairs" for objective in objectives):
            check_pairs(self.packed, job.vocabulary.pad)
        auxiliary = [job.teacher.objective] if job.teacher else []
        auxiliary += [self.objective_of(one) for one in readings if one.soft]
        self.mean = MeanTeacher(phase.mean_teacher) if phase.mean_teacher else None
        if self.mean:
            objectives = [self.mean.teach(objective) for objective in objectives]
        self.module = WithObjective(self.packed, *objectives, *auxiliary)
        self.lengths = np.concatenate([reading.train.lengths for reading in readings])
        reads_pairs = any("pairs" in objective.reads for objective in objectives)
        # nobody counts what a pass takes of pairs, two stacks, LoRA, a teacher
        odd = reads_pairs or len(family.lists) > 1 or phase.lora or job.teacher or job.soft_labels
        self.operations = None if odd else throughput.count(model, family)
        self.micro_batch_tokens = job.hardware.at_once

    @property
    def micro_batch_tokens(self) -> int:
        """Return the number of tokens that go through the model at once."""
        return self._at_once

    @micro_batch_tokens.setter
    def micro_batch_tokens(self, tokens: int) -> None:
        self._at_once = tokens
        job, batch = self.job, self.job.phase.batch
        hardware = job.hardware.model_copy(update={"micro_batch_tokens": tokens})
        self.held_out = HeldOut.of(job.readings, job.vocabulary, job.phase, hardware, self.packed)
        self.even = row_of_pass(self.packed, tokens, self.lengths, batch.size, batch.unit)
        streams = [reading.stream for reading in job.readings]
        distilled = streams.index(str(job.distilled)) if job.teacher else None
        batchers = [self.batcher_of(reading) for reading in job.readings]
        also = [[self.batcher_of(entry) for entry in reading.also] for reading in job.readings]
        single = len(batchers) == 1 and distilled is None and not any(also)
        self.batcher = batchers[0] if single else MixtureBatcher(batchers, distilled, also)

    def objective_of(self, reading: Reading) -> Objective:
        """Return the objective that a stream trains on; the looks at its text have hard labels."""
        objective, soft = objective_for(reading.objective, self.job.phase), self.job.soft_labels
        return soft.teach(objective) if soft and reading.soft else objective

    def batcher_of(self, reading: Reading) -> Batcher:
        """Build the batcher of a stream under an objective."""
        job = self.job
        return Batcher(
            reading.train,
            self.objective_of(reading),
            job.vocabulary,
            reading.masking,
            job.hardware.row_tokens,
            self.micro_batch_tokens,
            job.seed,
            f"{job.phase.name}/{reading.label}" if reading.stream else job.phase.name,
            self.even,
        )

    def plan(self, work: Work) -> Plan:
        """Return one stream's own order, or draws from several."""
        phase, readings = work.phase, self.job.readings
        if len(readings) == 1:
            return BatchPlan(self.lengths, phase.batch, work.seed, phase.name)
        alternates = phase.mixture.draw == "alternate"
        return MixturePlan(
            [reading.train.lengths for reading in readings],
            probabilities(readings, phase.mixture),
            phase.batch,
            work.seed,
            phase.name,
            bilingual=[reading.bilingual for reading in readings] if alternates else None,
            bilingual_batch=phase.mixture.bilingual_batch,
        )

    def streams(self, work: Work, steps: int) -> dict[str, dict[str, Any]]:
        """Return the sentences, samples, chance, draws and tokens of each of several streams."""
        plan = self.plan(work)
        if not isinstance(plan, MixturePlan):
            return {}
        counts = plan.drawn(steps)
        rows = zip(self.job.readings, plan.expected, counts, plan.tokens(counts), strict=True)
        return {
            reading.label: {
                "sentences": reading.size,
                "samples": len(reading.train),
                "probability": float(probability),
                "draws": int(draws),
                "tokens": int(tokens),
            }
            for reading, probability, draws, tokens in rows
        }

    def step(self, indices: np.ndarray[Any, Any], epoch: int, rank: int, num_ranks: int) -> Step:
        """Return packed rows with fresh masks."""
        return self.batcher.step(indices, epoch, rank, num_ranks)

    def useful_flops(self, indices: np.ndarray[Any, Any], targets: int) -> float | None:
        """Return the floating-point operations to train on a global batch; none for padding."""
        operations, lengths = self.operations, self.lengths[indices]
        return None if operations is None else operations.training(lengths, targets)

    def look(self, module: nn.Module, accelerator: Accelerator) -> ValidationResult:
        """Return mean nats on the validation text; of several streams each, and as drawn."""
        try:
            loss, metrics = self.held_out.losses(module, accelerator)
        except (RuntimeError, MemoryError) as error:
            if not (problem.can_be_halved(error, accelerator) and problem.halve(self)):
                raise
            return self.look(module, accelerator)
        return ValidationResult(loss, metrics=metrics, tokens=self.held_out.tokens)

    def save(self, folder: Path) -> None:
        """Save a stock checkpoint with the source's own dropout."""
        changed = {key: getattr(self.model.config, key) for key in self.job.kept_config}
        self.model.config.update(self.job.kept_config)
        adapted = self.job.phase.lora is not None
        with (
            in_fp32(self.model, on_cpu=not adapted),
            lora.merged(self.model) if adapted else contextlib.nullcontext(),
        ):
            export.save(self.model, folder)
        self.model.config.update(changed)


MASK_SEED = 0
AT_A_TIME = 256
"""Sentences that are laid out together."""
TOKENS_OF_A_SENTENCE = 32
"""Tokens of a sentence, by which documents are counted where sentences are asked for."""


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
        sums, terms = dict[str, float](), dict[str, float]()
        for label, validators in self.validators.items():
            found = [validator.losses(module, accelerator) for validator in validators]
            means = {term: mean for losses in found for term, mean in losses.items()}
            sums[f"loss/{label}"] = sum(means.values())
            prefix = "loss" if len(self.validators) == 1 else f"loss/{label}"
            terms |= by_term(means, prefix)
        if len(sums) == 1:
            return next(iter(sums.values())), terms
        return float(self.probabilities @ np.array(list(sums.values()))), sums | terms
