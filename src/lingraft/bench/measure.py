"""Measuring one phase of training, or evaluation, by the code that trains and evaluates.

Windows of steps are timed whole; how a step divides is measured in further steps, with the device
waited for at each part. The ceiling is measured before and after, in the same process.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from lingraft.bench.subject import spread
from lingraft.evaluation.intrinsic import MaskedText as HiddenText
from lingraft.evaluation.intrinsic import mask_text, measure
from lingraft.evaluation.scorer import Scorer
from lingraft.models.parts import trained_parts
from lingraft.recipe import Masking
from lingraft.training import compiling, throughput
from lingraft.training.accumulation import accumulate
from lingraft.training.data import Position, Reading
from lingraft.training.machine import accelerator_for, environment
from lingraft.training.optim import clip, optimiser_for
from lingraft.training.phase import Job
from lingraft.training.problem import MaskedText

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from accelerate import Accelerator
    from torch import nn
    from transformers import PreTrainedModel

    from lingraft.bench.subject import Subject
    from lingraft.evaluation.scorer import Item
    from lingraft.training.data import Step
    from lingraft.training.throughput import Ceiling

EVALUATION = "evaluation"
PARTS_OF_A_STEP = ("data", "forward", "backward", "optimiser")


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    warmup: int = 5
    """Steps before the first window: kernels, allocator, caches."""
    steps: int = 10
    """Optimiser steps in a window."""
    windows: int = 5
    evaluated: int = 512
    """Sentences in a window of evaluation."""
    ceiling_seconds: float = throughput.CEILING_SECONDS
    ceiling_rows: int = throughput.ROWS


@dataclass
class Window:
    """What went through the model between two looks at the clock."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    tokens: int = 0
    sentences: int = 0
    targets: int = 0
    flops: float = 0.0


class Clock:
    """Wall and processor time, with the device waited for."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def now(self) -> tuple[float, float]:
        """Wall and processor seconds."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter(), time.process_time()


class Training:
    """A phase in the state in which the loop steps."""

    def __init__(self, subject: Subject, index: int, accelerator: Accelerator) -> None:
        model, family, itl = subject.model()
        model = model.to(accelerator.device)
        tokens, vocabulary = subject.text(rows(model))
        self.phase = subject.phases[index]
        nowhere = Path(os.devnull)  # the loop writes; nothing here does
        job = Job(
            phase=self.phase,
            training=subject.training,
            seed=subject.recipe.seed,
            folder=nowhere,
            metrics_path=nowhere,
            fingerprint="",
            family=family,
            itl_layers=itl,
            readings=(Reading("", tokens, tokens, self.phase.objective, self.phase.masking),),
            vocabulary=vocabulary,
        )
        self.accelerator = accelerator
        self.model = model
        self.problem = MaskedText(job, model)
        self.optimiser = optimiser_for(model.parameters(), self.phase.optimiser)
        self.module: nn.Module
        compiling.compile_layers(self.problem.module, subject.training)
        self.module, self.stepper = accelerator.prepare(self.problem.module, self.optimiser)
        self.batches = self.problem.plan(job).after(Position())
        self.epoch = 0
        self.slots = self.real = 0

    def step(self, lap: Callable[[str], None] = lambda done: None) -> Window:
        """One optimiser step as the loop takes it; `lap` is told each part that is done."""
        following, indices = next(self.batches)
        step = self.problem.step(indices, self.epoch, 0, 1)
        self.epoch = following.epoch
        self.module.train()
        lap("data")
        accumulate(step, self.module, self.accelerator, lap)
        if self.phase.optimiser.max_gradient_norm:
            clip(self.model.parameters(), self.phase.optimiser.max_gradient_norm)
        self.stepper.step()
        self.stepper.zero_grad(set_to_none=True)
        lap("optimiser")
        self.slots += sum(batch.input_ids_NT.numel() for batch in step.micro_batches)
        self.real += step.global_tokens
        return self.window(indices, step)

    def window(self, indices: Any, step: Step) -> Window:
        """What a step is worth."""
        flops = self.problem.useful_flops(indices, step.global_targets)
        return Window(0, 0, step.global_tokens, len(indices), step.global_targets, flops)

    def executed(self) -> tuple[float, float]:
        """Operations that a step executes by torch's counter, and the useful ones, both a token."""
        with FlopCounterMode(display=False) as counter:
            made = self.step()
        return counter.get_total_flops() / made.tokens, made.flops / made.tokens

    def divided(self, steps: int, clock: Clock) -> dict[str, float]:
        """Seconds of a step by its parts, the mean over some steps."""
        totals = dict.fromkeys(PARTS_OF_A_STEP, 0.0)
        last = [clock.now()[0]]

        def lap(done: str) -> None:
            now = clock.now()[0]
            totals[done] += now - last[0]
            last[0] = now

        for _ in range(steps):
            last[0] = clock.now()[0]
            self.step(lap)
        return {name: seconds / steps for name, seconds in totals.items()}


def rows(model: PreTrainedModel) -> int:
    """Rows of a model's vocabulary."""
    return len(model.get_input_embeddings().get_parameter("weight"))


class TimedScorer:
    """A scorer that knows how long it computed, the scoring of its logits left out."""

    def __init__(self, scorer: Scorer, clock: Clock) -> None:
        self.scorer, self.clock, self.seconds = scorer, clock, 0.0

    def logits(self, items: Sequence[Item]) -> Iterator[tuple[Any, torch.Tensor]]:
        """As `Scorer.logits`."""
        portions = self.scorer.logits(items)
        while True:
            started = self.clock.now()[0]
            portion = next(portions, None)
            self.seconds += self.clock.now()[0] - started
            if portion is None:
                return
            yield portion


def timed(windows: int, one: Callable[[], Window], clock: Clock) -> list[Window]:
    """Time some windows."""
    found = []
    for _ in range(windows):
        wall, cpu = clock.now()
        window = one()
        ended_wall, ended_cpu = clock.now()
        window.seconds, window.cpu_seconds = ended_wall - wall, ended_cpu - cpu
        found.append(window)
    return found


def together(parts: Sequence[Window]) -> Window:
    """The sum of some windows."""
    total = Window()
    for part in parts:
        for name, value in asdict(part).items():
            setattr(total, name, getattr(total, name) + value)
    return total


def measured(subject: Subject, what: str, effort: Effort, command: str = "") -> dict[str, Any]:
    """Measure one thing.

    Args:
        subject: model, phases, text.
        what: the name of a phase, or 'evaluation'.
        effort: how long.
        command: how it was called, for the record.

    Returns:
        Plain data: speeds with minimum, median and maximum over the windows, the parts of a step in
        seconds, operations a token, MFU (None where the ceiling was measured too low: other work
        went on), memory in bytes, and the machine.
    """
    accelerator = accelerator_for(subject.training, Path())
    clock = Clock(accelerator.device)
    load = [os.getloadavg()[0]]
    result = (
        _evaluation(subject, effort, accelerator, clock)
        if what == EVALUATION
        else _training(subject, what, effort, accelerator, clock)
    )
    load.append(os.getloadavg()[0])
    return {
        "model": subject.name,
        "what": what,
        **result,
        "effort": asdict(effort),
        "load_average": load,
        "machine": environment(accelerator, command),
    }


def _training(
    subject: Subject, what: str, effort: Effort, accelerator: Accelerator, clock: Clock
) -> dict[str, Any]:
    index = next(i for i, phase in enumerate(subject.phases) if phase.name == what)
    training = Training(subject, index, accelerator)
    ceilings = [_ceiling(training.model, accelerator, effort)]
    for _ in range(effort.warmup):
        training.step()
    training.slots = training.real = 0
    windows = timed(
        effort.windows,
        lambda: together([training.step() for _ in range(effort.steps)]),
        clock,
    )
    fill = training.real / training.slots
    peak = peak_memory(accelerator.device)
    divided = training.divided(effort.steps, clock)
    executed, useful = training.executed()
    ceilings.append(_ceiling(training.model, accelerator, effort))
    parts = sorted(trained_parts(training.phase.train, what))
    return {
        "train": parts,
        "trainable_parameters": training.problem.trainable,
        "batch": training.phase.batch.model_dump(),
        "training": subject.training.model_dump(mode="json"),
        **_speeds(windows, ceilings),
        "fill": fill,
        "step_seconds": divided,
        "flops_per_token": {"useful": useful, "executed": executed},
        "peak_memory_bytes": peak,
    }


def _evaluation(
    subject: Subject, effort: Effort, accelerator: Accelerator, clock: Clock
) -> dict[str, Any]:
    model, family, itl = subject.model()
    tokens, vocabulary = subject.text(rows(model))
    scorer = Scorer(model, vocabulary.pad, subject.training.precision)
    operations = throughput.count(model, family, itl)
    ceilings = [_ceiling(model, accelerator, effort)]
    chosen = np.arange(min(effort.evaluated, len(tokens)))
    hidden = mask_text(tokens.rows(chosen), vocabulary, "bench", Masking(), 0)
    few = HiddenText(hidden.items[: max(1, len(chosen) // 4)], "", hidden.scheme)
    measure(scorer, few)
    forward: list[float] = []
    flops = operations.forward(tokens.lengths[chosen], hidden.positions)

    def one() -> Window:
        watched = TimedScorer(scorer, clock)
        measure(watched, hidden)  # type: ignore[arg-type]  # it asks for logits alone
        forward.append(watched.seconds)
        read = int(tokens.lengths[chosen].sum())
        return Window(0, 0, read, len(chosen), hidden.positions, flops)

    windows = timed(effort.windows, one, clock)
    ceilings.append(_ceiling(model, accelerator, effort))
    whole = spread([window.seconds for window in windows])["median"]
    passes = spread(forward)["median"]
    return {
        **_speeds(windows, ceilings),
        "step_seconds": {"forward": passes, "scores": max(0.0, whole - passes)},
        "flops_per_token": {"useful": flops / windows[0].tokens},
        "peak_memory_bytes": peak_memory(accelerator.device),
    }


def _ceiling(model: Any, accelerator: Accelerator, effort: Effort) -> Ceiling:
    return throughput.matrix_product_ceiling(
        accelerator.device,
        accelerator.mixed_precision == "bf16",
        int(model.config.hidden_size),
        effort.ceiling_seconds,
        effort.ceiling_rows,
    )


def _speeds(windows: Sequence[Window], ceilings: Sequence[Ceiling]) -> dict[str, Any]:
    best = max(ceilings, key=lambda ceiling: ceiling.flops_per_second)
    flops = [window.flops / window.seconds for window in windows]
    total = together(windows)
    return {
        "tokens_per_second": spread([w.tokens / w.seconds for w in windows]),
        "tokens_per_cpu_second": spread([w.tokens / max(w.cpu_seconds, 1e-9) for w in windows]),
        "sentences_per_second": total.sentences / total.seconds,
        "targets_per_second": total.targets / total.seconds,
        "flops_per_second": spread(flops),
        "ceiling": asdict(best) | {"measured": [one.flops_per_second for one in ceilings]},
        "mfu": (
            spread([speed / best.flops_per_second for speed in flops])
            if max(flops) <= best.flops_per_second
            else None
        ),
        "mfu_of_datasheet": (
            spread([speed / best.datasheet for speed in flops]) if best.datasheet else None
        ),
    }


def peak_memory(device: torch.device) -> int | None:
    """The most bytes that this process has held: on the GPU, else in memory; None if not known.

    On Linux that is the high-water mark of this program, never of the one that started it.
    """
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    status = Path("/proc/self/status")
    if status.is_file():
        marks = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        return int(marks[0].split()[1]) * 1024 if marks else None
    if sys.platform == "darwin":
        import resource

        return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return None
