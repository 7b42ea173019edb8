"""Parts of a phase of training: its inputs, how far it has come, what it trains, who looks on.

Progress of a phase: the share that is done of its steps, tokens, passes over the text, or time.

Warm-up, cooldown, looks at the validation text and the end are functions of this share, whatever
its unit. Of a budget in time everything counts from the first step on: steps, looks, checkpoints.
The main process' clock counts, which all processes are sent at the end of each step; until then a
step counts as long as the last ones took.

SIGTERM and SIGINT as a wish to stop after the current step.
"""

from __future__ import annotations

import contextlib
import logging
import math
import signal
import statistics
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from lingraft.errors import TrainingError
from lingraft.training.machine import encoder_layers
from lingraft.training.trained import learning_rate_factor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import numpy as np
    from transformers import PreTrainedModel

    from lingraft.models.families import Family
    from lingraft.models.packed import PackedBatch, PackedModel
    from lingraft.recipe import Budget, Hardware, Phase
    from lingraft.training.data import Reading, Step
    from lingraft.training.mixture import Plan
    from lingraft.training.objectives.common import Losses, Objective, TokenIds
    from lingraft.training.objectives.distillation import Teacher
    from lingraft.training.objectives.soft_labels import SoftLabels

logger = logging.getLogger(__name__)


class Stopped(TrainingError):
    """Stop of a run that a signal asked for, after a checkpoint."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.signal_number = signal_number
        self.exit_status = 128 + signal_number


class WithObjective(nn.Module):
    """Model and objectives as one module: a distributed wrapper sees the whole forward pass."""

    def __init__(self, packed: PackedModel, *objectives: Objective) -> None:
        super().__init__()
        self.packed = packed
        self.objectives = {objective.name: objective for objective in objectives}

    def forward(self, batch: PackedBatch) -> Losses:
        """Return the summed loss by term, of the objective that the batch is for."""
        return self.objectives[batch.objective].loss(self.packed, batch)


@dataclass
class State:
    """Progress of a phase; plain data, kept in the checkpoint."""

    fingerprint: str
    step: int = 0
    epoch: int = 0
    index: int = 0
    tokens: int = 0
    sentences: int = 0
    masked: int = 0
    seconds: float = 0.0
    passed: float = 0.0
    """Seconds since the first step, of everything, by the main process' clock."""
    step_seconds: float = 0.0
    """Seconds that the coming step may take."""
    allowed: float = 0.0
    """Seconds that `passed` may come to, of a budget in time; 0 before that is known."""
    cooling: bool = False
    """Whether the cooldown of warm-up, stable, decay has begun."""
    passes: float = 0.0
    """Over the text, before the cooldown."""
    stable_fingerprint: str = ""
    warmed: float = math.inf
    """Share of the phase in which a shorter one had warmed up that it goes on from."""
    looks_since_best: int = 0
    best_step: int = -1
    best: float = math.inf
    """The number that looks are compared by, lower is better."""
    best_loss: float = math.inf
    last_loss: float = math.inf
    stopped: str = ""
    loss_scale: dict[str, Any] = field(default_factory=dict)
    """State of fp16's factor; empty in other formats."""

    def go_on(self, fingerprint: str) -> None:
        """Begin a longer phase where the cooldown of a shorter one began."""
        self.fingerprint, self.stopped, self.cooling, self.allowed = fingerprint, "", False, 0.0
        self.best, self.best_loss, self.best_step, self.looks_since_best = math.inf, math.inf, -1, 0

    @property
    def result(self) -> dict[str, Any]:
        """Return what done.json says of a phase."""
        return {
            "steps": self.step,
            "tokens": self.tokens,
            "sentences": self.sentences,
            "masked": self.masked,
            "seconds": round(self.seconds, 2),
            "tokens_per_second": round(self.tokens / max(self.seconds, 1e-9), 1),
            "best": {"step": self.best_step, "loss": self.best_loss},
            "last_loss": self.last_loss,
            "stopped": self.stopped,
        }


@dataclass(frozen=True, kw_only=True)
class Work:
    """Settings of where and how a phase runs, whatever it learns."""

    phase: Phase
    hardware: Hardware
    seed: int
    folder: Path
    metrics_path: Path
    fingerprint: str
    average_last: int = 0
    """Keep the weights at so many last looks (`checkpoint`)."""
    decay_all: bool = False
    """Weight decay on biases and normalisation weights too."""
    stable_fingerprint: str = ""
    """Fingerprint of what the phase is made from but for its budget: what the cooldown begins with
    is kept for a longer phase of the same; none where nothing is to be kept."""
    allow: Callable[[float, int], float] | None = None
    """Seconds that a phase with a budget in time may take from now on, by the seconds and tokens of
    a look at the validation text."""
    clock: Callable[[], float] = time.monotonic
    on_row: Callable[[dict[str, Any]], None] | None = None
    """Told, on the main process, of each row that is written to `metrics_path`."""


@dataclass(frozen=True, kw_only=True)
class Job(Work):
    """A phase of masked language modelling: what it trains on, fixed for the phase."""

    family: Family
    itl_layers: frozenset[int]
    new_rows: tuple[bool, ...] | None = None
    """[V] whether the vocabulary stage added a piece; None where no phase asks for rows."""
    readings: tuple[Reading, ...]
    vocabulary: TokenIds
    teacher: Teacher | None = None
    """Whose sentence states the phase draws its own to, on the stream `distilled`."""
    distilled: str | None = None
    soft_labels: SoftLabels | None = None
    """The source's probabilities, for the readings that learn by them."""
    kept_config: dict[str, Any] = field(default_factory=dict)
    """Configuration values that training changed (dropout) and saving puts back."""


def lighten(model: nn.Module) -> int:
    """Keep the frozen matrices of linear maps in bf16, where that rounds nothing.

    Under autocast these maps compute in bf16 whatever their weights are kept in, so that not a bit
    of the result changes; models that were published in bf16 take half of the memory.

    Returns:
        How many numbers are kept so.
    """
    count = 0
    for layer in encoder_layers(model):
        for part in layer.modules():
            if not isinstance(part, nn.Linear | Conv1D) or part.weight.requires_grad:
                continue
            halved = part.weight.detach().bfloat16()
            if torch.equal(halved.float(), part.weight.detach()):
                part.weight.data = halved
                count += halved.numel()
    return count


@contextlib.contextmanager
def in_fp32(model: nn.Module, *, on_cpu: bool = True) -> Iterator[None]:
    """Keep all weights in fp32 for a while.

    Args:
        model: some of its matrices may be in bf16.
        on_cpu: these come to the CPU, which has room; else they stay where they are, to be
            computed with.
    """
    halved = {p: p.data for p in model.parameters() if p.dtype == torch.bfloat16}
    for parameter, data in halved.items():
        parameter.data = (data.cpu() if on_cpu else data).float()
    try:
        yield
    finally:
        for parameter, data in halved.items():
            parameter.data = data


def recompute_activations(model: PreTrainedModel) -> None:
    """Let each layer keep only its input in training and compute the rest again.

    Activation checkpointing (Chen et al. 2016), without reentrant autograd: frozen parts may stand
    below. Dropout draws the same again, so the gradients are those of the plain backward pass.
    """
    model.activation_checkpointing_enable({"use_reentrant": False})
    # It gives the embeddings' output a gradient, for reentrant autograd; where the embeddings are
    # frozen, that would cost a backward pass through frozen layers.
    model.disable_input_require_grads()


class StepCallback:
    """Observer of every step; this one does nothing. It may end the training by its own error."""

    def begin(self) -> None:
        """Take note that a step begins."""

    def end(self, indices: np.ndarray[Any, Any], step: Step) -> None:
        """Take note that a step is done, with everything that belongs to it.

        Args:
            indices: examples of the global batch.
            step: this process' share of it.
        """


LOOKS = 10
"""At the validation text, in a phase."""
FIRST_STEP = 0.01
"""Share of a phase's time that its first step is taken to need, before one is timed."""
WINDOW = 9
"""Last steps whose median says how long the coming one takes."""


def expected_steps(budget: Budget, plan: Plan) -> float:
    """Return the optimizer steps of a whole phase (for budgets in tokens: nearly; in time: NaN)."""
    per_epoch = plan.steps_per_epoch()
    if budget.seconds is not None:
        return math.nan
    if budget.unit == "steps":
        return budget.value
    if budget.unit == "epochs":
        # the last batch of a pass is a step, too, however little is left for it
        return max(1.0, round(budget.value * math.ceil(per_epoch)))
    return max(1.0, budget.value / plan.tokens_per_epoch() * per_epoch)


class Progress:
    """The share of a phase that is done, and what follows from it."""

    def __init__(self, phase: Phase, steps: float) -> None:
        """Take the phase's budget; one in time has its `total` from `begin` on.

        Args:
            phase: its budget, schedule and looks.
            steps: that it takes (`expected_steps`).
        """
        budget, self.schedule = phase.budget, phase.schedule
        in_time = budget.seconds is not None
        self.unit = "seconds" if in_time else "tokens" if budget.unit == "tokens" else "steps"
        self.total = {"seconds": math.nan, "tokens": budget.value, "steps": steps}[self.unit]
        self.look_every = phase.validation.every_steps
        if self.look_every is None and not in_time:
            self.look_every = max(1, round(steps / LOOKS))
        self.looked, self.durations = 0, deque[float](maxlen=WINDOW)
        self.warmup = phase.schedule.warmup
        if self.warmup >= 1:
            self.warmup = min(1.0, self.warmup / steps)

    def begin(self, state: State, *, goes_on: bool) -> None:
        """Start where a state is.

        Args:
            state: knows what the phase may take, where its budget is in time.
            goes_on: whether a shorter phase led to the state, so that there is no more warm-up.
        """
        if self.unit == "seconds":
            self.total = state.allowed
            state.step_seconds = state.step_seconds or FIRST_STEP * self.total
        if goes_on:
            state.warmed = self.share(state)
        self.warmup = min(self.warmup, state.warmed)
        self.looked = int(LOOKS * self.share(state))

    def share(self, state: State, steps: float = 0.0, tokens: float = 0.0) -> float:
        """Return the share that is done after so many more steps and tokens; 1 is the end."""
        seconds = state.passed + steps * state.step_seconds
        done = {"steps": state.step + steps, "tokens": state.tokens + tokens, "seconds": seconds}
        return done[self.unit] / self.total

    def middle(self, state: State, tokens: int) -> float:
        """Return the share at the middle of a coming step of so many tokens."""
        middle = self.share(state, 0.5, tokens / 2)
        # less than half a batch may be left
        return middle if middle < 1 else (1 + self.share(state)) / 2

    def factor(self, middle: float) -> float:
        """Return the learning rate of a step as a share of its peak."""
        return learning_rate_factor(middle, self.schedule, self.warmup)

    def cools(self, middle: float) -> bool:
        """Return whether a step belongs to the cooldown of warm-up, stable, decay."""
        after = self.schedule.shape == "wsd" and middle >= self.warmup
        return after and self.factor(middle) < 1

    def ended(self, state: State) -> bool:
        """Return whether the phase is over: in time where half a step more would not fit."""
        return self.share(state, 0.5 if self.unit == "seconds" else 0.0) >= 1

    def look_due(self, state: State) -> bool:
        """Return whether it is time to look at the validation text."""
        if self.look_every is not None:
            return state.step % self.look_every == 0
        before, self.looked = self.looked, max(self.looked, int(LOOKS * self.share(state)))
        return self.looked > before

    def set_clock(self, state: State, before: float, passed: float) -> None:
        """Put the seconds of a state right, behind a step that began at `before`."""
        self.durations.append(passed - before)
        state.passed, state.step_seconds = passed, statistics.median(self.durations)


class StopRequest:
    """Request of a signal to stop the run, and the signal's number."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._previous: dict[int, Any] = {}

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Take SIGTERM and SIGINT as a wish to stop; a second one of a kind acts as usual.

        Outside the main thread, where Python handles no signals, nothing changes.
        """
        if threading.current_thread() is threading.main_thread():
            for wish in (signal.SIGTERM, signal.SIGINT):
                self._previous[wish] = signal.signal(wish, self._receive)
        try:
            yield
        finally:
            for number, handler in self._previous.items():
                signal.signal(number, handler)

    def _receive(self, number: int, _: object) -> None:
        self.number = number
        signal.signal(number, self._previous[number])
        logger.warning(
            "%s received: stopping after this step, with a checkpoint", signal.Signals(number).name
        )
