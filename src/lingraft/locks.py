"""Locks on files, by which a second process keeps away; they go with the process that has them."""

from __future__ import annotations

import fcntl
from typing import IO, Any

from lingraft.errors import DataError


def is_locked_now(file: IO[Any]) -> bool:
    """Lock an open file for as long as it stays open; False where another process has it.

    Raises:
        DataError: the file system has no locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        raise DataError(
            f"{file.name}: this file system has no locks ({error.strerror}), which keep a second "
            "lingraft away; choose a folder on another one, or mount it with them (Lustre: flock)"
        ) from None
    return True
