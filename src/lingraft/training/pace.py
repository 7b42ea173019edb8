"""How far a phase is, as a share of its budget; and how a phase keeps a time that was promised.

The number of tokens of a phase is fixed before its first step, so that its schedule knows where it
ends. Where the machine turns out to be slower than it was measured, the phase gets shorter: after a
look at the validation text what is left is cut to what the time allows. From there the share that
is done rises faster, so the learning rate stays where it is and then falls in a steeper line, to
end at the schedule's end. Where the machine turns out to be faster, the phase gets longer in the
same way, early: later most of the schedule is over, and tokens at its end teach little. What was
cut comes back for longer, where the machine was slow for a while only.

Every change is written to `pace.json` before the next step. A phase that goes on from a checkpoint
reads the changes that were made and makes no more: its steps are those of the straight run,
whatever the clock says. The promise is then one in tokens.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from lingraft.errors import RecipeError
from lingraft.rundir import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from accelerate import Accelerator

    from lingraft.recipe import Budget
    from lingraft.training.data import Plan

FILE = "pace.json"
TOLERANCE = 0.03
"""Of the phase's time: a smaller delay is left alone, it may pass."""
WINDOW = 3
"""Looks back, to which the speed is taken."""
SPARE, EARLY = 0.07, 0.45
"""Of the phase's time: where it would end earlier than by this, it gets longer than it was planned,
as long as no greater share of it is done ..."""
SPARE_CUT, LATE = 0.05, 0.7
"""... and the same where what was cut comes back; in both cases ..."""
HELD_BACK = 0.03
"""... by what the time allows but for this share of what is left."""
LEAST_TRAINING = 0.2
"""Of a promise that is left for training, at least."""
LEAST = 0.01
"""Of the phase's budget, for the last stretch: the schedule must come to its end."""


def check_left(whole: float | None, left: float) -> None:
    """Refuse to go on where too little of a promised time is left for training.

    Args:
        whole: seconds that the run may take; None where its budget is not in time.
        left: seconds, without what comes after training as far as that is known.

    Raises:
        RecipeError: it is too little.
    """
    if whole is None or left >= LEAST_TRAINING * whole:
        return
    needed = (whole - left) / (1 - LEAST_TRAINING)
    raise RecipeError(
        f"method.budget: {whole / 60:g} minutes are too few here: reading the text, the "
        "vocabulary, the graft and the evaluation leave no time to train; give at least "
        f"{math.ceil(needed / 60):,} minutes (--minutes, with --resume: what is done is kept), or "
        "less text"
    )


def expected_steps(budget: Budget, plan: Plan) -> float:
    """Optimiser steps of a whole phase (for budgets in tokens: nearly)."""
    per_epoch = plan.steps_per_epoch()
    if budget.unit == "steps":
        return budget.value
    if budget.unit == "epochs":
        # the last batch of a pass is a step, too, however little is left for it
        return max(1.0, round(budget.value * math.ceil(per_epoch)))
    return max(1.0, budget.value / plan.tokens_per_epoch() * per_epoch)


@dataclass(frozen=True)
class Deadline:
    """When a phase must end."""

    at: float
    """Seconds on the clock."""
    clock: Callable[[], float] = time.monotonic


class Pace:
    """The share of a phase that so many steps or tokens are."""

    def __init__(
        self, budget: Budget, steps: float, folder: Path, deadline: Deadline | None = None
    ) -> None:
        """Read the cuts that were made.

        Args:
            budget: the phase's.
            steps: that it takes (`expected_steps`).
            folder: the phase's.
            deadline: None where no time was promised.
        """
        self.unit = "tokens" if budget.unit == "tokens" else "steps"
        self.total = total = budget.value if budget.unit == "tokens" else steps
        self.path, self.deadline = folder / FILE, deadline
        self.changes: list[tuple[float, float]] = []
        """What was done at a change, and the total from then on."""
        self.pieces = [(0.0, 0.0, total)]
        """What was done at a piece's start, the share that was, and the total from then on."""
        if self.path.is_file():
            for done, end in read_json(self.path):
                self._change(done, end)
            self.deadline = None  # it goes on: what was promised in time is now one in tokens
        self.began = deadline.clock() if deadline else 0.0
        self.looks: list[tuple[float, float]] = []
        """What was done at each look, and when."""

    @property
    def end(self) -> float:
        """The total as it is now."""
        return self.pieces[-1][2]

    def share(self, done: float) -> float:
        """Share of the phase, 1 and above at its end.

        Args:
            done: tokens, or steps.
        """
        start, share, end = next(piece for piece in reversed(self.pieces) if piece[0] <= done)
        return share + (1.0 - share) * (done - start) / (end - start)

    def look(self, done: float, accelerator: Accelerator) -> float | None:
        """After a look at the validation text: change the phase where it would miss its time.

        The speed is that between the last looks; what is slow once at the start (kernels,
        allocator, caches) does not count, each look does.

        Returns:
            The new total; None where nothing was changed.
        """
        if self.deadline is None:
            return None
        total = self.affordable(done, self.deadline.clock())
        if accelerator.num_processes > 1:  # the first process' clock counts
            local = total if accelerator.is_main_process and total is not None else 0.0
            tensor = torch.tensor([local], dtype=torch.float64, device=accelerator.device)
            total = float(accelerator.reduce(tensor, reduction="sum")[0]) or None
        if total is None:
            return None
        self._change(done, total)
        if accelerator.is_main_process:
            write_json(self.path, self.changes)
        return total

    def affordable(self, done: float, now: float) -> float | None:
        """The total that the time allows; None where the phase ends about when it should."""
        assert self.deadline is not None
        done_before, then = self.looks[-WINDOW:][0] if self.looks else (done, now)
        self.looks.append((done, now))
        if done <= done_before or now <= then:
            return None
        speed = (done - done_before) / (now - then)
        late = now + (self.end - done) / speed - self.deadline.at
        whole = self.deadline.at - self.began
        if -late > SPARE_CUT * whole and (most := self.most(done, -late / whole)) > self.end:
            return min(most, done + speed * (self.deadline.at - now) * (1 - HELD_BACK))
        if late <= TOLERANCE * whole:
            return None
        left = max(speed * (self.deadline.at - now), LEAST * self.total)
        return done + left if done + left < self.end else None

    def most(self, done: float, spare: float) -> float:
        """The total up to which the phase may get longer; its own where it may not.

        Args:
            done: tokens, or steps.
            spare: share of the phase's time by which it would end too early.
        """
        share = self.share(done)
        if spare > SPARE and share <= EARLY:
            return math.inf
        return max(end for _, _, end in self.pieces) if share <= LATE else self.end

    def _change(self, done: float, end: float) -> None:
        self.pieces.append((done, self.share(done), end))
        self.changes.append((done, end))
