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

    The rate is the mean since this process began.
    """

    def __init__(self, title: str, total: float | None, unit: str, bar: Progress | None) -> None:
        self.what, self.total, self.unit = title, total, unit
        self.started = self.last_line = time.monotonic()
        self.count = self.before = 0.0
        self.bar = bar
        self.task = bar.add_task(title, total=total, rate="", note="") if bar else None

    def start_at(self, count: float) -> None:
        """Say how much was done before this process began, so that the rate is this one's own."""
        self.started, self.before = time.monotonic(), count
        self.update(count)

    def update(self, count: float, note: str = "") -> None:
        """Report the amount done so far, and a short note such as the current loss."""
        self.count, now = count, time.monotonic()
        if count < self.before:  # what was killed goes on from its last checkpoint
            self.started, self.before = now, count
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
        """Return the mean rate, and the time that is left by it where that is known."""
        rate = (self.count - self.before) / max(now - self.started, 1e-9)
        left = ""
        if self.total and rate > 0:
            left = f"{duration(max(self.total - self.count, 0.0) / rate)} left, "
        return left.rstrip(", ") if self.unit == "seconds" else f"{left}{rate:,.1f} {self.unit}/s"

    def line(self, now: float, note: str) -> str:
        """Return one line for a log file: count, share, time left, rate."""
        of_all = f" {self.unit}"
        if self.total:
            of_all = f"/{self.total:,.0f} {self.unit} ({self.count / self.total:.0%})"
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
        rich.TextColumn("{task.fields[rate]}", markup=False),
        rich.TextColumn("{task.fields[note]}", markup=False),
    ]
    with rich.Progress(*columns, console=console, transient=False) as bar:
        yield Ticker(title, total, unit, bar)
