"""Progress of a phase: the share that is done of its steps, tokens, passes over the text, or time.

Warm-up, cooldown, looks at the validation text and the end are functions of this share, whatever
its unit. Of a budget in time everything counts from the first step on: steps, looks, checkpoints.
The main process' clock counts, which all processes are sent at the end of each step; until then a
step counts as long as the last ones took.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from typing import TYPE_CHECKING

from lingraft.training.trained import learning_rate_factor

if TYPE_CHECKING:
    from lingraft.recipe import Budget, Phase
    from lingraft.training.mixture import Plan
    from lingraft.training.phase import State

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
