"""Names of files and folders as users write them."""

from __future__ import annotations

import functools
import os
import stat
from pathlib import Path


def not_utf8(name: str) -> str | None:
    """Say that the bytes of a name are not UTF-8, or not read as such; None of all others."""
    if (shown := as_shown(name)) == name:
        return None
    return f"{shown}: the name is not UTF-8; rename it, or set LC_ALL=C.UTF-8"


def as_shown(name: str) -> str:
    """Return a name with a mark for each byte that is not UTF-8, half of a surrogate pair in it."""
    return name.encode("utf-8", "replace").decode()


def path_of(name: str | Path) -> Path:
    """Return a name as a path, with `~` for the home of a user.

    Of a user who is not there it stays as it is, and so names nothing: `Path.expanduser` raises.
    """
    return Path(os.path.expanduser(name))  # noqa: PTH111


def use_umask(folder: Path) -> None:
    """Give what safetensors writes for its owner alone the permissions of every new file."""
    for file in folder.rglob("*.safetensors"):
        if stat.S_IMODE(file.stat().st_mode) == 0o600:
            file.chmod(0o666 & ~_umask())


@functools.cache
def _umask() -> int:
    """Return the process' umask, which can be read only by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
