"""Signals of the command line: Ctrl-C while it loads its modules, and SIGTERM from then on.

Ctrl-C ends it at once, without a traceback. This is imported before anything that takes long;
`cli.main` takes the handler back.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator


def _end(number: int, _: object) -> NoReturn:
    os._exit(128 + number)


def is_command() -> bool:
    """Return whether this process was started as `lingraft` or `python -m lingraft`."""
    if sys.argv[:1] == ["-m"]:  # while Python looks for the module
        return ("-m", "lingraft") in zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
    return Path((sys.argv or [""])[0]).name == "lingraft"


def loaded() -> None:
    """Give Ctrl-C back to Python's KeyboardInterrupt."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def terminable() -> Iterator[list[int]]:
    """Take SIGTERM as Ctrl-C, where nothing else handles it; a second one ends the process at once.

    Not of several processes: when one has failed, torchrun ends the others by it.

    Yields:
        The signals that came.
    """
    received, process = list[int](), os.getpid()

    def stop(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        if os.getpid() != process:  # a fork, which ends as it would have
            os.kill(os.getpid(), number)
            return
        received.append(number)
        # a terminal's Ctrl-C reaches the workers, too; else their pool would wait for them
        if (multiprocessing := sys.modules.get("multiprocessing")) is not None:
            for worker in multiprocessing.active_children():
                worker.terminate()
        raise KeyboardInterrupt

    in_main = threading.current_thread() is threading.main_thread()
    alone = int(os.environ.get("WORLD_SIZE", "1")) == 1
    if not (in_main and alone and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL):
        yield received
        return
    signal.signal(signal.SIGTERM, stop)
    try:
        yield received
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


if is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _end)
