"""The one training loop: any model, any set of trained parts, any objective.

A step sums each term of the loss over its micro-batches and processes and divides once by the
number of tokens that the term predicts in the global batch. Frozen parts have no gradient and no
optimizer state. A phase can be stopped at any moment and goes on from its last checkpoint to the
same weights.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import math
import signal
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from accelerate import DistributedDataParallelKwargs

from lingraft.errors import TrainingError
from lingraft.files import json_line
from lingraft.log import progress
from lingraft.rundir import fingerprint
from lingraft.training import beside, checkpoint, sharding
from lingraft.training.data import Position
from lingraft.training.machine import LossScale, compile_layers
from lingraft.training.phase import (
    Progress,
    State,
    StepCallback,
    Stopped,
    StopRequest,
    expected_steps,
)
from lingraft.training.problem import by_term, gradients
from lingraft.training.throughput import Speedometer, matrix_product_ceiling
from lingraft.training.trained import Trained, clip

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import torch
    from accelerate import Accelerator

    from lingraft.log import Ticker
    from lingraft.training.beside import Coming
    from lingraft.training.phase import Work
    from lingraft.training.problem import Problem, ValidationResult

logger = logging.getLogger(__name__)
LARGE = 1 << 22
"""Parameters of a model after which it is worth some tenths of a second to look for garbage."""


def run_phase(
    work: Work, problem: Problem, accelerator: Accelerator, callback: StepCallback | None = None
) -> dict[str, Any]:
    """Train on any problem, from the phase's last checkpoint where there is one.

    Args:
        work: settings, and where to write.
        problem: what is learnt; its model is changed in place.
        accelerator: device, processes, precision.
        callback: is told of every step.

    Returns:
        Plain data for done.json. What `problem.save` wrote of the best weights is in
        `work.folder/best`.

    Raises:
        TrainingError: the loss is not finite.
        Stopped: SIGTERM or SIGINT came; a checkpoint was written.
    """
    accelerator.ddp_handler = DistributedDataParallelKwargs(  # gradients once, not twice
        gradient_as_bucket_view=True, find_unused_parameters=problem.uneven
    )
    try:
        return _Trainer(work, problem, accelerator, callback or StepCallback()).run()
    finally:
        accelerator.free_memory()  # it holds all that it prepared; it collects, then lets go
        if sum(parameter.numel() for parameter in problem.model.parameters()) >= LARGE:
            gc.collect()  # of the optimizer's moments too: a trainer is in cycles


class _Trainer:
    """State of a running phase."""

    def __init__(
        self, work: Work, problem: Problem, accelerator: Accelerator, callback: StepCallback
    ) -> None:
        self.job, self.problem, self.accelerator = work, problem, accelerator
        self.model, self.callback, phase = problem.model, callback, work.phase
        self.trained = problem.trained or Trained(problem.model)
        self.optimizer = self.trained.optimizer(phase.optimizer, decay_all=work.decay_all)
        self.state = State(work.fingerprint, stable_fingerprint=work.stable_fingerprint)
        self.scale, self.began = LossScale(accelerator), 0.0
        self.last_checkpoint = self.resume()
        self.plan = problem.plan(work)
        steps = expected_steps(phase.budget, self.plan)
        self.progress = Progress(phase, steps)
        epochs = steps / self.plan.steps_per_epoch()
        tokens = epochs * self.plan.tokens_per_epoch() if problem.even else 0.0
        module, hardware = problem.module, work.hardware
        self.compiled = compile_layers(module, hardware, tokens)
        prepared = sharding.prepare(module, self.optimizer, hardware, accelerator)
        self.module, self.stepper = prepared
        self.checkpoint_time = time.monotonic()
        self.has_time = beside.has_time(accelerator.device)
        self.writer = beside.Writer(threaded=self.has_time)
        self.stop = StopRequest()
        self.speed = Speedometer(self.ceiling)

    def begin(self) -> None:
        """Start the phase's clock; say how long a budget in time is, by a look that is timed."""
        state, allow = self.state, self.job.allow
        if goes_on := state.fingerprint != self.job.fingerprint:
            state.go_on(self.job.fingerprint)
        if self.progress.unit == "seconds" and not state.allowed:
            assert allow is not None
            if self.compiled:  # it compiles, too
                self.problem.look(self.module, self.accelerator)
            started = self.job.clock()
            validation = self.problem.look(self.module, self.accelerator)
            (took,) = sharding.largest([self.clock_since(started)], self.accelerator)
            if state.step == 0:
                self.write_validation(validation)
            state.allowed = state.passed + allow(took, validation.tokens)
        self.progress.begin(state, goes_on=goes_on)
        self.began = self.job.clock() - state.passed

    def clock_since(self, began: float) -> float:
        """Return the seconds of the main process' clock, of which all learn by `largest`."""
        return self.job.clock() - began if self.accelerator.is_main_process else 0.0

    def run(self) -> dict[str, Any]:
        phase, state = self.job.phase, self.state
        here, accelerator = Position(state.epoch, state.index), self.accelerator
        with self.stop.listening(), self.writer:
            self.begin()
            total = self.progress.total
            coming = contextlib.closing(beside.steps(self.problem, self.plan, here, accelerator))
            with progress(phase.name, total, self.progress.unit) as ticker, coming as steps:
                ticker.start_at(self.done)
                ended = False
                while not (ended or state.stopped):
                    before = state.passed
                    self.take_step(steps, ticker)
                    ended = self.progress.ended(state)
                    if self.progress.look_due(state) or ended:
                        mean = self.problem.mean
                        with mean.in_place() if mean else contextlib.nullcontext():
                            self.validate(ended)
                    self.checkpoint_if_due(before)
        return self.result()

    @property
    def done(self) -> float:
        """Return steps, tokens or seconds."""
        state = self.state
        return {"steps": state.step, "tokens": state.tokens}.get(self.progress.unit, state.passed)

    def take_step(self, steps: Iterator[Coming], ticker: Ticker) -> None:
        """Take one optimizer step; a GPU's number is read only where it is logged."""
        state, accelerator, phase = self.state, self.accelerator, self.job.phase
        started = time.monotonic()
        self.callback.begin()
        following, indices, step = next(steps)
        middle = self.progress.middle(state, step.global_tokens)
        if self.progress.cools(middle) and not state.cooling:
            self.keep_stable()
        step = sharding.level(step, self.module, accelerator)
        seed = fingerprint(self.job.seed, phase.name, state.step, accelerator.process_index)
        self.module.train()
        place = indices, state.epoch, int(seed, 16) % 2**63
        if mean := self.problem.mean:
            mean.begin(self.optimizer, self.trained, middle)
        step, totals = gradients(step, place, self.problem, self.module, accelerator)
        logged = (state.step + 1) % self.job.hardware.log_steps == 0 or state.step == 0
        self.trained.collect()
        self.scale.take_out(self.optimizer)
        norm = None
        if logged or phase.optimizer.max_gradient_norm or self.scale.scaler:
            norm = clip(self.trained.parameters(), phase.optimizer.max_gradient_norm)
        self.scale.note(norm)
        factor = self.progress.factor(middle)
        self.trained.set_rate(self.optimizer, factor)
        self.stepper.step()
        if mean:
            mean.update(state.step + 1, middle)
        self.stepper.zero_grad(set_to_none=True)
        state.step += 1
        state.tokens += step.global_tokens
        state.sentences += step.global_sentences
        state.masked += step.global_targets
        state.passed += state.step_seconds  # until the clock is known
        state.epoch, state.index = following.epoch, following.index
        means = totals.means(self.accelerator) if logged else None  # waits for a GPU to be done
        state.seconds += time.monotonic() - started
        self.speed.add(step.global_tokens, self.problem.useful_flops(indices, step.global_targets))
        if means is not None:
            self.log_step(means, phase.optimizer.learning_rate * factor, norm)
        ticker.update(self.done, f"loss {state.last_loss:.3f}{self.speed.shown}")
        self.callback.end(indices, step)

    def log_step(self, means: dict[str, float], rate: float, norm: torch.Tensor | None) -> None:
        """Write a train row; stop where the loss is not finite."""
        state = self.state
        loss = sum(means.values())
        gradient_norm, more = self.scale.row(float(norm) if norm is not None else None)
        if not math.isfinite(loss) or not math.isfinite(gradient_norm or 0.0):
            raise self.diverged(f"loss {loss}, gradient norm {gradient_norm}")
        state.last_loss = loss
        self.speed.read()
        self.write(
            {
                "kind": "train",
                "phase": self.job.phase.name,
                "step": state.step,
                "tokens": state.tokens,
                "loss": loss,
                **by_term(means),
                "learning_rate": rate,
                "gradient_norm": gradient_norm,
                **more,
                "tokens_per_second": round(self.speed.tokens_per_second, 1),
                "mfu": round(self.speed.mfu, 4) if self.speed.mfu is not None else None,
            }
        )

    def ceiling(self) -> float:
        """Measure operations a second of the fastest matrix product, on all processes' devices."""
        ceiling = matrix_product_ceiling(self.accelerator.device, self.accelerator.mixed_precision)
        return ceiling * self.accelerator.num_processes

    def diverged(self, value: str) -> TrainingError:
        """Return the error that stops a run whose numbers are not finite."""
        phase = self.job.phase
        clip = "" if phase.optimizer.max_gradient_norm else " or set optimizer.max_gradient_norm"
        return TrainingError(
            f"phase '{phase.name}': {value} at step {self.state.step}; the last good checkpoint is "
            f"{self.last_checkpoint or 'none'}; lower the learning rate{clip}, and run again with "
            "--update; the phase then starts afresh"
        )

    def write_validation(self, validation: ValidationResult) -> None:
        """Write the row of a look at the validation text."""
        row = {"kind": "valid", "phase": self.job.phase.name, "step": self.state.step}
        row |= {"tokens": self.state.tokens, "loss": validation.loss}
        self.write(row | validation.metrics)

    def validate(self, ended: bool) -> None:
        """Validate; keep the best weights; stop when patience is at its end."""
        state, name = self.state, self.job.phase.name
        patience = self.job.phase.validation.patience
        validation = self.problem.look(self.module, self.accelerator)
        self.write_validation(validation)
        if not math.isfinite(validation.loss):
            raise self.diverged(f"validation loss {validation.loss}")
        if self.job.average_last:
            main, last = self.accelerator.is_main_process, self.job.average_last
            checkpoint.keep_look(self.job.folder, self.model, state.step, last, main=main)
        if validation.to_minimise < state.best:
            state.best, state.best_loss = validation.to_minimise, validation.loss
            state.best_step, state.looks_since_best = state.step, 0
            with sharding.gathered(self.module, self.accelerator):
                if self.accelerator.is_main_process:
                    checkpoint.save_best(self.job.folder, self.problem.save)
        else:
            state.looks_since_best += 1
        logger.info(
            "%s: step %d, %s tokens%s, validation loss %.4f%s",
            name,
            state.step,
            f"{state.tokens:,}",
            self.speed.shown,
            validation.loss,
            " (best)" if state.best_step == state.step else "",
        )
        if ended:
            state.stopped = "budget"
        elif patience and state.looks_since_best >= patience:
            state.stopped = "patience"
            logger.info("%s: nothing better in %d looks, the phase ends", name, patience)
        self.speed.restart()

    def result(self) -> dict[str, Any]:
        """Return plain data for done.json."""
        more = self.scale.row(None)[1]
        return self.state.result | {"trainable_parameters": self.problem.trainable} | more

    # -- checkpoints

    def resume(self) -> Path | None:
        """Go on from the last checkpoint made from the same inputs."""
        path = checkpoint.latest(self.job.folder)
        if path is None:
            return None
        state = checkpoint.load(path, self.model, self.optimizer)
        self.trained.refresh()
        self.state = State(**state)
        self.scale.resume(self.state.loss_scale)
        logger.info("%s: goes on from step %d", self.job.phase.name, self.state.step)
        return path

    def checkpoint_if_due(self, before: float) -> None:
        """Write a checkpoint when it is time, or when a signal asks the run to stop.

        Args:
            before: seconds of the phase when the step began; the clock of now is agreed upon, too.
        """
        hardware, state = self.job.hardware, self.state
        due = bool(hardware.checkpoint_steps) and state.step % (hardware.checkpoint_steps or 1) == 0
        due = due or time.monotonic() - self.checkpoint_time >= hardware.checkpoint_minutes * 60
        numbers = [due, self.stop.number is not None, self.clock_since(self.began)]
        is_due, signalled, passed = sharding.largest(numbers, self.accelerator)
        self.progress.set_clock(state, before, passed)
        if not (is_due or signalled) or (state.stopped and not signalled):
            return
        self.save()
        self.checkpoint_time = time.monotonic()
        if signalled or not self.has_time:
            self.writer.wait()
            self.accelerator.wait_for_everyone()
        if signalled:
            number = self.stop.number or int(signal.SIGTERM)
            raise Stopped(
                f"stopped by {signal.Signals(number).name} at step {state.step} "
                f"of phase '{self.job.phase.name}'; a checkpoint is written, "
                "the same command goes on",
                number,
            )

    def save(self, *, stable: bool = False) -> None:
        """Write a checkpoint, or what the cooldown begins with."""
        state = self.state
        trained = (parameter for parameter in self.model.parameters() if parameter.requires_grad)
        if not sharding.all_finite(trained, self.accelerator):
            # Between two logged steps; written, it would replace a good checkpoint.
            raise self.diverged("weights that are not finite")
        state.loss_scale = self.scale.state
        self.last_checkpoint = checkpoint.save(
            self.job.folder,
            state.step,
            self.model,
            self.optimizer,
            asdict(state),
            main=self.accelerator.is_main_process,
            writer=self.writer,
            stable=stable,
        )

    def keep_stable(self) -> None:
        """Keep what the cooldown begins with, for a longer phase, where the disk has room."""
        self.state.cooling = True
        self.state.passes = self.state.step / math.ceil(self.plan.steps_per_epoch())
        if self.job.stable_fingerprint:
            room = checkpoint.has_room(self.job.folder, self.model)
            (too_small,) = sharding.largest([not room], self.accelerator)
            if not too_small:
                self.save(stable=True)

    def write(self, row: dict[str, Any]) -> None:
        """Append a row to metrics.jsonl, and tell who listens."""
        if not self.accelerator.is_main_process:
            return
        with self.job.metrics_path.open("a", encoding="utf-8") as file:
            file.write(json_line(row))
        if self.job.on_row is not None:
            self.job.on_row(row)
