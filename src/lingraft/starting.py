"""Ctrl-C while the command line loads its modules: it ends at once, without a traceback.

Imported before anything that takes long; `cli.main` takes the handler back.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn


def _end(number: int, _: object) -> NoReturn:
    os._exit(128 + number)


def is_command() -> bool:
    """Whether this process was started as `lingraft` or `python -m lingraft`, not to import it."""
    if sys.argv[:1] == ["-m"]:  # while Python looks for the module
        return ("-m", "lingraft") in zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
    return Path((sys.argv or [""])[0]).name == "lingraft"


def loaded() -> None:
    """From here on Ctrl-C is Python's KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _end)
