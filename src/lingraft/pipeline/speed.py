"""How fast a phase trains here: first steps on the real model and text, then thrown away.

The loop itself runs, in a folder of its own and from the weights that the phase will start from; no
weight, metric or random number of the run changes.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lingraft.pipeline.jobs import prepared
from lingraft.recipe import Budget, Validation
from lingraft.training.loop import run_phase, train_phase
from lingraft.training.phase import Stopped, Watch
from lingraft.training.problem import MaskedText

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lingraft.pipeline.stages import Context
    from lingraft.recipe import Phase
    from lingraft.training.data import Step

FOLDER = "probe"
"""In the run, while it is measured and probed: what is thrown away then."""
WARM_UP = 3
"""Steps that are not timed: kernels, allocator, caches."""
STEPS = 12
"""Timed steps, at most ..."""
SETTLED = 1.0
"""... but for steps so quick that all of them take fewer seconds."""
MANY = 200
SILENT: dict[str, Any] = {"trackers": (), "checkpoint_steps": None}
"""Of the training section: what is thrown away is neither tracked nor kept."""


class Enough(Exception):
    """The speed is known: the training ends."""


class Stopwatch(Watch):
    """Times steps by a clock, the first ones left out unless a single one takes all the time."""

    endless = True

    def __init__(
        self, device: torch.device, seconds: float, clock: Callable[[], float], *, alone: bool
    ) -> None:
        """Start.

        Args:
            device: is waited for before the clock is read.
            seconds: warm-up and timed steps should not take more together.
            clock: seconds.
            alone: whether no other process takes part; several must end at the same step.
        """
        self.device, self.seconds, self.clock, self.alone = device, seconds, clock, alone
        self.begun = self.first = self.clock()
        self.timed: float | None = None
        self.ended = self.begun
        self.warm = self.steps = self.tokens = 0
        self.enough = False

    def begin(self) -> None:
        if self.enough:  # not at the end of the step before: a signal in it is heeded behind that
            raise Enough
        if self.steps or self.timed is not None:
            return
        if not self.warm:
            self.first = self.now()
        late = self.alone and self.warm and self.now() - self.begun > self.seconds / 2
        if self.warm == WARM_UP or late:
            self.timed = self.now()

    def end(self, indices: Any, step: Step) -> None:
        if self.timed is None:
            self.warm += 1
            if not (self.alone and self.warm == 1 and self.now() - self.first > self.seconds):
                return
            self.timed = self.first
        self.steps += 1
        self.tokens += step.global_tokens
        if not self.alone:
            self.enough = self.steps >= STEPS
        else:
            timed, over = self.now() - self.timed, self.now() - self.begun > self.seconds
            self.enough = over or self.steps >= MANY or (self.steps >= STEPS and timed >= SETTLED)
        if self.enough:
            self.ended = self.now()  # before the trainer is torn down

    def now(self) -> float:
        """Seconds, with the device waited for."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return self.clock()


@dataclass(frozen=True)
class Speed:
    """What training did in the time that was watched."""

    tokens: int
    steps: int
    seconds: float
    tokens_per_epoch: float
    """Of what the phase reads, which may be a share of the text."""

    @property
    def tokens_per_second(self) -> float:
        """Real tokens; padding never counts."""
        return self.tokens / max(self.seconds, 1e-9)

    @property
    def tokens_per_step(self) -> float:
        """On average."""
        return self.tokens / self.steps


@contextlib.contextmanager
def thrown_away(context: Context) -> Iterator[Path]:
    """A folder in the run that is deleted; `/tmp` may be smaller than a model, or main memory."""
    place = context.run.path / FOLDER
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as folder:
        yield Path(folder)


def measure(
    context: Context,
    phase: Phase,
    weights: Path,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> Speed:
    """Train a phase for a moment and time it.

    Args:
        context: the run.
        phase: what trains.
        weights: the checkpoint to start from.
        seconds: that it may take, loading not counted.
        clock: seconds.
    """
    accelerator = context.accelerator
    with thrown_away(context) as folder:
        # no look at the validation text, and no end but the watch's
        long = {"budget": Budget(value=1e9, unit="steps"), "validation": Validation()}
        job, model = prepared(context, phase.model_copy(update=long), weights, folder, "speed")
        job = replace(job, training=job.training.model_copy(update=SILENT))
        problem = MaskedText(job, model.to(accelerator.device))
        alone = accelerator.num_processes == 1
        watch = Stopwatch(accelerator.device, seconds, clock, alone=alone)
        try:
            run_phase(job, problem, model, accelerator, None, watch, problem.trained)
        except Enough:
            pass
        except Stopped as error:
            message = "stopped while the speed was measured; the same command goes on"
            raise Stopped(message, error.signal_number) from None
        assert watch.timed is not None
        duration = watch.ended - watch.timed
    epoch = problem.plan(job).tokens_per_epoch()
    return Speed(watch.tokens, watch.steps, duration, epoch)


def trial(context: Context, phase: Phase, weights: Path, steps: int, sentences: int) -> float:
    """The validation loss of a phase after so few steps, in nats; the whole schedule runs in them.

    Args:
        context: the run.
        phase: with the settings that are tried.
        weights: the checkpoint to start from.
        steps: of the trial.
        sentences: of validation text.
    """
    short = phase.model_copy(
        update={
            "budget": Budget(value=steps, unit="steps"),
            "validation": Validation(every_steps=steps, sentences=sentences),
        }
    )
    with thrown_away(context) as folder:
        job, model = prepared(context, short, weights, folder, "trial")
        job = replace(job, training=job.training.model_copy(update=SILENT))
        result = train_phase(job, model, context.accelerator)
    return float(result["best"]["loss"])
