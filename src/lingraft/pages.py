"""Recognition of pages that lingraft wrote, so that no other file is overwritten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MARK = b'<meta name="generator" content="lingraft">'
"""In the first lines of every page of ours."""
HEAD_BYTES = 4_096


def is_page(path: Path) -> bool:
    """Return whether this is a page that lingraft wrote, or an empty file, which nobody misses."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    return not head or MARK in head


def check_target(page: Path, beside: Sequence[str] = ()) -> None:
    """Refuse to write over what is no page of ours, nor came with one.

    Args:
        page: to be written.
        beside: endings of files that are written with it, such as '.md'.

    Raises:
        DataError: it is a folder or a file that lingraft did not write, or there is no page yet but
            a file beside it.
    """
    if page.is_dir():
        raise DataError(f"--out {page}: is a folder; name a file")
    if page.is_file() and not is_page(page):
        raise DataError(f"{page}: is no page of lingraft; name another file with --out")
    for path in map(page.with_suffix, beside):
        if path.exists() and not page.is_file():
            raise DataError(
                f"{path}: is there already and would be replaced; name another page with --out"
            )
