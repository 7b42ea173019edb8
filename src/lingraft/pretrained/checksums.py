"""Checksums of weights that lingraft has written, compared whenever they are loaded. No torch here.

CRC-32 finds every change of a few bits and all but one in four thousand million others, at some
gigabytes a second.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from lingraft.errors import DataError
from lingraft.paths import use_umask
from lingraft.rundir import read_json, write_json

if TYPE_CHECKING:
    from pathlib import Path

FILE = "checksums.json"
PATTERNS = ("*.safetensors", "*.pt", "state.json")
CHUNK = 1 << 22


def write(folder: Path, changed: Path | None = None) -> None:
    """Write the checksums of a folder's weights and states, once they are whole.

    Args:
        folder: of a checkpoint.
        changed: the only file that is another than when they were last written; None is all.
    """
    use_umask(folder)
    known = read_json(folder / FILE) if changed and (folder / FILE).is_file() else {}
    files = [path for pattern in PATTERNS for path in sorted(folder.glob(pattern))]
    sums = {p.name: known.get(p.name) if p != changed else None for p in files}
    write_json(folder / FILE, {name: sums[name] or _sum(folder / name) for name in sums})


def check(folder: Path, mend: str) -> None:
    """Refuse a folder with a file that is not what was written; others are as they are.

    Args:
        folder: of a checkpoint; one without checksums is not lingraft's, or older than they are.
        mend: what to do.

    Raises:
        DataError: a file is missing or has another content.
    """
    if not (folder / FILE).is_file():
        return
    for name, written in read_json(folder / FILE).items():
        path = folder / name
        if not path.is_file() or _sum(path) != written:
            raise DataError(
                f"{path}: is not what was written there (damaged, or changed since); {mend}"
            )


def _sum(path: Path) -> str:
    total = 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            total = zlib.crc32(chunk, total)
    return f"{total:08x}"
