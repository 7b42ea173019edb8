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
from rich.logging import RichHandler
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Task

logger = logging.getLogger(__name__)

LINE_EVERY_SECONDS = 30.0
PAGE_WIDTH = 140
"""Characters in a line of results that go to a file."""
# Names of tasks, labels, models and files are printed as they are: [/] in one is no mark-up.
console = Console(stderr=True, markup=False, emoji=False)


def results_console() -> Console:
    """What prints a command's results on standard output; every text as it is, no mark-up."""
    width = None if sys.stdout.isatty() else PAGE_WIDTH
    return Console(width=width, highlight=False, markup=False, emoji=False)


def set_up(*, verbose: bool = False, quiet: bool = False) -> None:
    """Send lingraft's log to standard error: one line a fact, no other library's chatter."""
    level = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO
    handler: logging.Handler
    if console.is_terminal:
        handler = RichHandler(console=console, show_path=False, show_level=False, markup=False)
        handler.setFormatter(logging.Formatter("%(message)s"))
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    root = logging.getLogger("lingraft")
    root.handlers[:] = [handler]
    root.setLevel(level)
    root.propagate = False


class Ticker:
    """Progress of one task: a bar with rate and ETA on a terminal, else a line every 30 s."""

    def __init__(self, what: str, total: float | None, unit: str, bar: Progress | None) -> None:
        self.what, self.total, self.unit = what, total, unit
        self.started = self.last_line = time.monotonic()
        self.start_count = self.count = 0.0
        self.bar = bar
        self.task = bar.add_task(what, total=total, note="") if bar else None

    def start_at(self, count: float) -> None:
        """Say how much was done before this process began, so that the rate is this one's own."""
        self.start_count = self.count = count
        self.update(count)

    def update(self, count: float, note: str = "") -> None:
        """Report the amount done so far, and a short note such as the current loss."""
        self.count = count
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, completed=count, note=note)
            return
        now = time.monotonic()
        if now - self.last_line >= LINE_EVERY_SECONDS:
            self.last_line = now
            logger.info("%s", self.line(now, note))

    def advance(self, amount: float = 1.0, note: str = "") -> None:
        """Report that `amount` more is done."""
        self.update(self.count + amount, note)

    def line(self, now: float, note: str) -> str:
        """One line for a log file: count, share, rate, time left."""
        rate = (self.count - self.start_count) / max(now - self.started, 1e-9)
        text = f"{self.what}: {self.count:,.0f}"
        if self.total:
            left = (self.total - self.count) / rate if rate > 0 else float("inf")
            text += f"/{self.total:,.0f} {self.unit} ({self.count / self.total:.0%})"
            text += f", {left:,.0f} s left" if left != float("inf") else ""
        else:
            text += f" {self.unit}"
        return f"{text}, {rate:,.1f} {self.unit}/s" + (f", {note}" if note else "")


class RateColumn(ProgressColumn):
    """Units per second."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> str:
        """The rate so far; nothing before it is known."""
        speed = task.finished_speed or task.speed
        return f"{speed:,.1f} {self.unit}/s" if speed else ""


@contextlib.contextmanager
def progress(what: str, total: float | None, unit: str) -> Iterator[Ticker]:
    """Show the progress of `what`; `total` in `unit`s, None where it is not known."""
    if not (console.is_terminal and logging.getLogger("lingraft").isEnabledFor(logging.INFO)):
        yield Ticker(what, total, unit, None)
        return
    columns = [
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
    ]
    columns += [
        RateColumn(unit),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    ]
    with Progress(*columns, console=console, transient=False) as bar:
        yield Ticker(what, total, unit, bar)
