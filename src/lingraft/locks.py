"""Locks on files, by which a second process keeps away; they go with the process that has them."""

from __future__ import annotations

import contextlib
import errno
import fcntl  # of Linux and macOS: on Windows lingraft runs in WSL
import os
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def lock_file(path: Path) -> BinaryIO:
    """Open a file to lock, with what it holds; make it where there is none.

    Raises:
        DataError: it is a symbolic link, through which another file would be changed.
    """
    try:
        return open(
            path, "ab", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o666)
        )
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise DataError(f"{path}: is a symbolic link, which is not followed; delete it") from None


def is_locked_now(file: IO[Any]) -> bool:
    """Lock an open file for as long as it stays open; False where another process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


@contextlib.contextmanager
def growing(out: Path, made_of: str, block: int = 1) -> Iterator[tuple[BinaryIO, int]]:
    """Write lines under another name, `OUT.FINGERPRINT.partial`; a call that is killed goes on.

    Args:
        out: the file, which has its name at the end.
        made_of: fingerprint of all that the lines depend on.
        block: lines that belong together.

    Yields:
        The file, open behind the lines that an earlier call of the same left, and their number.

    Raises:
        DataError: another process is writing it.
    """
    partial = out.with_name(f"{out.name}.{made_of}.partial")
    with lock_file(partial) as file:
        if not is_locked_now(file) or not _is_at(partial, file):  # another one has finished it
            raise DataError(f"{partial}: another lingraft is writing it; wait for it or stop it")
        with partial.open("rb") as kept:
            lengths = [len(line) for line in kept if line.endswith(b"\n")]
        count = len(lengths) - len(lengths) % block
        file.truncate(sum(lengths[:count]))
        yield file, count
        file.flush()
        os.fsync(file.fileno())
        partial.replace(out)


def _is_at(path: Path, file: BinaryIO) -> bool:
    return path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno()))
