"""Names of files and folders as users write them."""

from __future__ import annotations

import os
from pathlib import Path


def path_of(name: str | Path) -> Path:
    """A name as a path, with `~` for the home of a user.

    Of a user who is not there it stays as it is, and so names nothing: `Path.expanduser` raises.
    """
    return Path(os.path.expanduser(name))  # noqa: PTH111
