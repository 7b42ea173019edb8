"""Measuring one phase of training, or evaluation, by the code that trains and evaluates.

The training loop runs and is watched: windows of steps are timed whole; how a step divides is
measured in further steps, with the device waited for at each part. The ceiling is measured before
and after, in the same process.
"""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from lingraft.bench.memory import peak_bytes
from lingraft.bench.subject import spread
from lingraft.errors import RecipeError
from lingraft.evaluation.intrinsic import MaskedText as HiddenText
from lingraft.evaluation.intrinsic import mask_text, measure
from lingraft.evaluation.scorer import Scorer
from lingraft.objectives import objective_for
from lingraft.recipe import Budget, Masking
from lingraft.training import throughput
from lingraft.training.data import Reading
from lingraft.training.loop import run_phase
from lingraft.training.machine import accelerator_for, environment
from lingraft.training.phase import Job, Stopped, Watch
from lingraft.training.problem import MaskedText

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from accelerate import Accelerator
    from transformers import PreTrainedModel

    from lingraft.bench.subject import Subject
    from lingraft.evaluation.scorer import Item
    from lingraft.recipe import Phase
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

    @property
    def stages(self) -> list[str]:
        """What each step of training is for."""
        timed = ["window"] * (self.windows * self.steps)
        return ["warm-up"] * self.warmup + timed + ["parts"] * self.steps + ["operations"]


def now(device: torch.device) -> tuple[float, float]:
    """Wall and processor seconds, with the device waited for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter(), time.process_time()


class Window:
    """What went through the model between two looks at the clock; it begins when it is made."""

    def __init__(self, device: torch.device) -> None:
        self.tokens = self.sentences = self.targets = 0
        self.flops = self.seconds = self.cpu_seconds = 0.0
        self.device = device
        self.begun = now(device)

    def add(self, tokens: int, sentences: int, targets: int, flops: float) -> None:
        """Count what went through."""
        self.tokens += tokens
        self.sentences += sentences
        self.targets += targets
        self.flops += flops

    def close(self) -> None:
        """Look at the clock again."""
        wall, cpu = now(self.device)
        self.seconds, self.cpu_seconds = wall - self.begun[0], cpu - self.begun[1]


class Finished(Exception):
    """Enough steps were watched: the training ends."""


class Meter(Watch):
    """Lets steps warm up, times windows, divides further steps and counts one by torch's counter.

    The device is waited for around windows, and at each part of the steps that are divided.
    """

    def __init__(self, problem: MaskedText, effort: Effort, device: torch.device) -> None:
        self.problem, self.effort, self.device = problem, effort, device
        self.stages = iter(effort.stages)
        self.stage = ""
        self.windows: list[Window] = []
        self.timed = self.slots = 0
        self.peak: int | None = None
        """Bytes, as of the last window."""
        self.last = 0.0
        self.parts = dict.fromkeys(PARTS_OF_A_STEP, 0.0)
        """Seconds of all steps that are divided."""
        self.counter, self.counting = FlopCounterMode(display=False), contextlib.ExitStack()
        self.flops_per_token: dict[str, float] = {}

    def begin(self) -> None:
        self.stage = next(self.stages, "")
        if not self.stage:
            raise Finished
        if self.stage == "window" and self.timed % self.effort.steps == 0:
            self.windows.append(Window(self.device))
        elif self.stage == "parts":
            self.last = now(self.device)[0]
        elif self.stage == "operations":
            self.counting.enter_context(self.counter)

    def part(self, name: str) -> None:
        if self.stage == "parts":
            before, self.last = self.last, now(self.device)[0]
            self.parts[name] += self.last - before

    def end(self, indices: Any, step: Step) -> None:
        flops = self.problem.useful_flops(indices, step.global_targets)
        if self.stage == "window":
            self.windows[-1].add(step.global_tokens, len(indices), step.global_targets, flops)
            self.slots += sum(batch.input_ids_NT.numel() for batch in step.micro_batches)
            self.timed += 1
            if self.timed % self.effort.steps == 0:
                self.windows[-1].close()
                self.peak = peak_memory(self.device)
        elif self.stage == "operations":
            self.counting.close()
            counts = {"useful": flops, "executed": self.counter.get_total_flops()}
            self.flops_per_token = {k: value / step.global_tokens for k, value in counts.items()}


def rows(model: PreTrainedModel) -> int:
    """Rows of a model's vocabulary."""
    return len(model.get_input_embeddings().get_parameter("weight"))


class TimedScorer:
    """A scorer that knows how long it computed, the scoring of its logits left out."""

    def __init__(self, scorer: Scorer, device: torch.device) -> None:
        self.scorer, self.device, self.seconds = scorer, device, 0.0

    def logits(self, items: Sequence[Item]) -> Iterator[tuple[Any, torch.Tensor]]:
        """As `Scorer.logits`."""
        portions = self.scorer.logits(items)
        while True:
            started = now(self.device)[0]
            portion = next(portions, None)
            self.seconds += now(self.device)[0] - started
            if portion is None:
                return
            yield portion


def measured(subject: Subject, name: str, effort: Effort, command: str = "") -> dict[str, Any]:
    """Measure one thing.

    Args:
        subject: model, phases, text.
        name: the name of a phase, or 'evaluation'.
        effort: how long.
        command: how it was called, for the record.

    Returns:
        Plain data: speeds with minimum, median and maximum over the windows, the parts of a step in
        seconds, operations a token, MFU (None where the ceiling was measured too low: other work
        went on), memory in bytes, and the machine.

    Raises:
        LingraftError: model or text cannot be used, or a signal came.
    """
    accelerator = accelerator_for(subject.recipe.training, Path())
    load = [os.getloadavg()[0]]
    result = (
        _evaluation(subject, effort, accelerator)
        if name == EVALUATION
        else _training(subject, name, effort, accelerator)
    )
    load.append(os.getloadavg()[0])
    return {
        "model": subject.name,
        "what": name,
        **result,
        "effort": asdict(effort),
        "load_average": load,
        "machine": environment(accelerator, command),
    }


def check_counted(phase: Phase) -> None:
    """Refuse a phase whose operations nobody counts.

    Raises:
        RecipeError: it reads pairs, or has LoRA or a teacher.
    """
    objective = objective_for(phase.objective, phase)
    if objective.kind != "masked":
        raise RecipeError(
            f"phase '{phase.name}': {phase.objective} is not for masked language models, and bench "
            "measures no others"
        )
    if "pairs" in objective.reads or phase.lora or phase.distil:
        reason = "reads pairs" if "pairs" in objective.reads else "has a teacher"
        reason = "has LoRA" if phase.lora else reason
        raise RecipeError(
            f"phase '{phase.name}': {reason}, and bench counts the operations of neither pairs nor "
            "LoRA nor a teacher; measure another phase (--phase), or read the speed in a run's log"
        )


def _training(
    subject: Subject, phase_name: str, effort: Effort, accelerator: Accelerator
) -> dict[str, Any]:
    phase = next(phase for phase in subject.recipe.phases if phase.name == phase_name)
    check_counted(phase)
    model, family, itl = subject.model()
    tokens, vocabulary = subject.text(rows(model))
    steps = len(effort.stages) + 1  # its end is never reached: nothing is validated or saved
    validation = phase.validation.model_copy(update={"every_steps": steps})
    longer = {"budget": Budget(value=steps), "validation": validation}
    training = subject.recipe.training.model_copy(
        update={"trackers": (), "checkpoint_steps": None, "checkpoint_minutes": math.inf}
    )
    with tempfile.TemporaryDirectory() as folder:
        job = Job(
            phase=phase.model_copy(update=longer),
            training=training,
            seed=subject.recipe.seed,
            folder=Path(folder),
            metrics_path=Path(folder) / "metrics.jsonl",
            fingerprint="",
            family=family,
            itl_layers=itl,
            new_rows=subject.new_rows(phase),
            readings=(Reading("", tokens, tokens, phase.objective, phase.masking),),
            vocabulary=vocabulary,
        )
        problem = MaskedText(job, model.to(accelerator.device))
        meter = Meter(problem, effort, accelerator.device)
        ceilings = [_ceiling(model, accelerator, effort)]
        try:
            run_phase(job, problem, model, accelerator, watch=meter)
        except Finished:
            pass
        except Stopped as error:
            raise Stopped("bench: stopped before all was measured", error.signal_number) from None
    ceilings.append(_ceiling(model, accelerator, effort))
    return {
        "train": sorted(phase.trained),
        "trainable_parameters": problem.trainable,
        "batch": phase.batch.model_dump(),
        "training": subject.recipe.training.model_dump(mode="json"),
        **_speeds(meter.windows, ceilings),
        "fill": sum(window.tokens for window in meter.windows) / meter.slots,
        "step_seconds": {name: seconds / effort.steps for name, seconds in meter.parts.items()},
        "flops_per_token": meter.flops_per_token,
        "peak_memory_bytes": meter.peak,
    }


def _evaluation(subject: Subject, effort: Effort, accelerator: Accelerator) -> dict[str, Any]:
    model, family, itl = subject.model()
    tokens, vocabulary = subject.text(rows(model))
    scorer = Scorer(model, vocabulary.pad, subject.recipe.training.precision)
    operations = throughput.count(model, family, itl)
    ceilings = [_ceiling(model, accelerator, effort)]
    indices = np.arange(min(effort.evaluated, len(tokens)))
    lengths = tokens.lengths[indices]
    hidden = mask_text(tokens.rows(indices), vocabulary, "bench", Masking(), 0)
    few = HiddenText(hidden.items[: max(1, len(indices) // 4)], "", hidden.scheme)
    measure(scorer, few)
    flops = operations.forward(lengths, hidden.positions)
    timed = TimedScorer(scorer, accelerator.device)
    windows, forward = [], []
    for _ in range(effort.windows):
        timed.seconds = 0.0
        window = Window(accelerator.device)
        measure(timed, hidden)  # type: ignore[arg-type]  # it asks for logits alone
        window.add(int(lengths.sum()), len(indices), hidden.positions, flops)
        window.close()
        windows.append(window)
        forward.append(timed.seconds)
    peak = peak_memory(accelerator.device)
    ceilings.append(_ceiling(model, accelerator, effort))
    whole = spread([window.seconds for window in windows])["median"]
    passes = spread(forward)["median"]
    return {
        **_speeds(windows, ceilings),
        "step_seconds": {"forward": passes, "scores": max(0.0, whole - passes)},
        "flops_per_token": {"useful": flops / windows[0].tokens},
        "peak_memory_bytes": peak,
    }


def _ceiling(model: Any, accelerator: Accelerator, effort: Effort) -> Ceiling:
    """The fastest product; on a GPU its matrices leave no trace in the peak of memory."""
    ceiling = throughput.matrix_product_ceiling(
        accelerator.device,
        accelerator.mixed_precision,
        int(model.config.hidden_size),
        effort.ceiling_seconds,
        effort.ceiling_rows,
    )
    if accelerator.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(accelerator.device)
    return ceiling


def _speeds(windows: Sequence[Window], ceilings: Sequence[Ceiling]) -> dict[str, Any]:
    best = max(ceilings, key=lambda ceiling: ceiling.flops_per_second)
    flops = [window.flops / window.seconds for window in windows]
    seconds = sum(window.seconds for window in windows)
    is_ceiling = max(flops) <= best.flops_per_second
    return {
        "tokens_per_second": spread([w.tokens / w.seconds for w in windows]),
        "tokens_per_cpu_second": spread([w.tokens / max(w.cpu_seconds, 1e-9) for w in windows]),
        "sentences_per_second": sum(w.sentences for w in windows) / seconds,
        "targets_per_second": sum(w.targets for w in windows) / seconds,
        "flops_per_second": spread(flops),
        "ceiling": asdict(best) | {"measured": [c.flops_per_second for c in ceilings]},
        "mfu": spread([speed / best.flops_per_second for speed in flops]) if is_ceiling else None,
        "mfu_of_datasheet": (
            spread([speed / best.datasheet for speed in flops]) if best.datasheet else None
        ),
    }


def peak_memory(device: torch.device) -> int | None:
    """The most bytes that this process has held: on the GPU, else in memory; None if not known."""
    on_gpu = device.type == "cuda"
    return int(torch.cuda.max_memory_allocated(device)) if on_gpu else peak_bytes()
