"""The next sensible step behind a result: why, and the command that takes it."""

from __future__ import annotations

import shlex
from typing import NamedTuple


class NextStep(NamedTuple):
    """Command to run next, and why."""

    why: str
    command: str

    @property
    def text(self) -> str:
        """Return both on one line each, for a terminal."""
        return f"{self.why}\n{self.command}"


def command(*words: object) -> str:
    """Return a command as a shell reads it."""
    return shlex.join(["lingraft", *map(str, words)])
