"""What tells a page of ours from another file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MARK = b'<meta name="generator" content="lingraft">'
"""In the first lines of every page of ours."""
HEAD_BYTES = 4_096


def is_page(path: Path) -> bool:
    """Whether this is a page that lingraft wrote, or an empty file, which nobody misses."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    return not head or MARK in head
