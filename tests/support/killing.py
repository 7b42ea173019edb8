"""Runs the command line in a process that is killed at a chosen moment (test_kill_and_resume)."""

from __future__ import annotations

import os
import pkgutil
import signal
import sys
from pathlib import Path


def signal_at(place, call, about, number):
    """Send this process a signal when a function is called for the `call`-th time.

    Args:
        place: `module:Class.function`.
        call: counted from 1, over the calls that count.
        about: only calls whose arguments' text holds this count.
        number: the signal.
    """
    owner, _, name = place.rpartition("." if "." in place.partition(":")[2] else ":")
    owner = pkgutil.resolve_name(owner)
    inner, calls = getattr(owner, name), 0

    def counted(*arguments, **options):
        nonlocal calls
        calls += about in repr(arguments)
        if calls == call and about in repr(arguments):
            os.kill(os.getpid(), number)
        return inner(*arguments, **options)

    setattr(owner, name, counted)


def run(arguments, errors, moment=None, number=signal.SIGKILL):
    """Be `lingraft ARGUMENTS`; what it says goes to the file `errors`."""
    from lingraft.cli.app import main

    sys.argv = ["lingraft", *arguments]
    with Path(errors).open("w", encoding="utf-8", buffering=1) as file:
        sys.stdout = sys.stderr = file
        if moment:
            signal_at(*moment, number)
        main()


if __name__ == "forked":
    run(*globals()["JOB"])
