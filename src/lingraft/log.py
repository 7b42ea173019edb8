"""Logging for the command line, and one progress object for every long task.

Library code logs through `logging.getLogger(__name__)` and never prints; `cli.py` calls `set_up`.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress

logger = logging.getLogger(__name__)

LINE_EVERY_SECONDS = 30.0
ROOMY = 100
"""Characters of a terminal that has room for the time so far beside a bar, rates and a loss."""
WINDOW_SECONDS = 60.0
"""Seconds of the moving mean of a rate, at least."""
LONGEST_LEFT = 100 * 86_400.0
"""Seconds beyond which an estimate of the time left says nothing."""
FEWEST_SAMPLES = 10
"""Moments that the rate is taken over at least: steps may be slow, and looks lie between some."""
SAMPLES = 200
"""Moments of a task that a rate is taken from, at most."""
PAGE_WIDTH = 140
"""Characters in a line of results that go to a file."""
# Names of tasks, labels, models and files are printed as they are: [/] in one is no mark-up.
console = Console(stderr=True, markup=False, emoji=False)


def results_console() -> Console:
    """Return the console of a command's results: standard output, text as it is, no mark-up."""
    width = None if sys.stdout.isatty() else PAGE_WIDTH
    return Console(width=width, highlight=False, markup=False, emoji=False)


def set_up(*, verbose: bool = False, quiet: bool = False) -> None:
    """Send lingraft's log to standard error: one line a fact, no other library's chatter."""
    level = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO
    handler: logging.Handler
    if console.is_terminal:
        from rich.logging import RichHandler

        handler = RichHandler(console=console, show_path=False, show_level=False, markup=False)
        handler.setFormatter(logging.Formatter("%(message)s"))
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    root = logging.getLogger("lingraft")
    root.handlers[:] = [handler]
    root.setLevel(level)
    root.propagate = False


def duration(seconds: float) -> str:
    """Return a time as people say it: 0.8 s, 45 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def counted(number: int, thing: str) -> str:
    """Say how many there are: 1 model, 2 models."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


class Ticker:
    """Progress of one task: a bar with rate and time left on a terminal, else a line every 30 s.

    The rate is a moving mean, over the last minute or the last half of the time so far, and ten
    moments at least: a slow start is forgotten, and a short stop changes the estimate little.
    """

    def __init__(self, title: str, total: float | None, unit: str, bar: Progress | None) -> None:
        self.what, self.total, self.unit = title, total, unit
        self.started = self.last_line = time.monotonic()
        self.count = 0.0
        self.seen = [(self.started, 0.0)]
        """When how much was done, the first of them where the moving mean begins."""
        self.bar = bar
        self.task = bar.add_task(title, total=total, rate="", note="") if bar else None

    def start_at(self, count: float) -> None:
        """Say how much was done before this process began, so that the rate is this one's own."""
        self.seen = [(time.monotonic(), count)]
        self.update(count)

    def update(self, count: float, note: str = "") -> None:
        """Report the amount done so far, and a short note such as the current loss."""
        self.count, now = count, time.monotonic()
        if count < self.seen[0][1]:  # what was killed goes on from its last checkpoint
            self.seen = [(now, count)]
        if now - self.seen[-1][0] >= (now - self.started) / SAMPLES:
            self.seen.append((now, count))
            window = max(WINDOW_SECONDS, (now - self.started) / 2)
            while len(self.seen) > FEWEST_SAMPLES and self.seen[1][0] <= now - window:
                self.seen.pop(0)
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, completed=count, rate=self.speed(now), note=note)
            return
        if now - self.last_line >= LINE_EVERY_SECONDS:
            self.last_line = now
            logger.info("%s", self.line(now, note))

    def advance(self, amount: float = 1.0) -> None:
        """Report that `amount` more is done."""
        self.update(self.count + amount)

    def speed(self, now: float) -> str:
        """Return the rate's moving mean, and the time that is left by it where that is known."""
        since, before = self.seen[0]
        rate = (self.count - before) / max(now - since, 1e-9)
        left = ""
        if self.total and rate > 0:
            seconds = max(self.total - self.count, 0.0) / rate
            left = f"{duration(seconds)} left, " if seconds < LONGEST_LEFT else ""
        return left.rstrip(", ") if self.unit == "seconds" else f"{left}{rate:,.1f} {self.unit}/s"

    def line(self, now: float, note: str) -> str:
        """Return one line for a log file: count, share, time left, rate."""
        of_all = (
            f"/{self.total:,.0f} {self.unit} ({self.count / self.total:.0%})"
            if (self.total)
            else f" {self.unit}"
        )
        parts = (f"{self.what}: {self.count:,.0f}{of_all}", self.speed(now), note)
        return ", ".join(filter(None, parts))


@contextlib.contextmanager
def progress(title: str, total: float | None, unit: str) -> Iterator[Ticker]:
    """Show the progress of `title`; `total` in `unit`s, None where it is not known."""
    if not (console.is_terminal and logging.getLogger("lingraft").isEnabledFor(logging.INFO)):
        yield Ticker(title, total, unit, None)
        return
    from rich import progress as rich

    columns = [
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        rich.TaskProgressColumn(),
        rich.MofNCompleteColumn(),
        *([rich.TimeElapsedColumn()] if console.width >= ROOMY else []),
        rich.TextColumn("{task.fields[rate]}", markup=False),
        rich.TextColumn("{task.fields[note]}", markup=False),
    ]
    with rich.Progress(*columns, console=console, transient=False) as bar:
        yield Ticker(title, total, unit, bar)
