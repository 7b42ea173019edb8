"""Find the files of text in a folder."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from lingraft.corpus.readers.lines import COMPRESSED, reading_errors

if TYPE_CHECKING:
    from collections.abc import Iterable

ABOUT = re.compile(
    r"((?i:readme|licen[cs]e|changelog|copying|notice)|SOURCES?)([._-].*)?\.(?i:txt|html?)"
)
"""Names of files that say what the others are; `source.txt` may be text of a source language."""
FINISHED = "corpus.json"
"""Marks the folder of a corpus that `lingraft data clean` made; its shards lie in folders below."""
FINISHED_HEAD = b'{\n "fingerprint": "'


def is_finished(folder: Path) -> bool:
    """Return whether `lingraft data clean` made a folder; a text may be called corpus.json too."""
    path = folder / FINISHED
    if not path.is_file():
        return False
    with reading_errors(path), path.open("rb") as file:
        return file.read(len(FINISHED_HEAD)) == FINISHED_HEAD


def walk(folder: Path) -> list[Path]:
    """Return all files in a folder and below, sorted, but for hidden ones.

    What lingraft made (a run, a corpus) holds text that is held out, so it is left out.

    Raises:
        DataError: a folder cannot be read.
    """

    def stop(error: OSError) -> None:
        raise error

    paths: list[Path] = []
    with reading_errors(folder):
        for parent, folders, files in os.walk(folder, onerror=stop):
            if ".lock" in files or is_finished(Path(parent)):
                folders.clear()
                continue
            folders[:] = [name for name in folders if not name.startswith(".")]
            paths += [Path(parent, name) for name in files if not name.startswith(".")]
    return sorted(filter(Path.is_file, paths))  # no broken link, no pipe


def is_about(path: Path) -> bool:
    """Return whether a file says what the others of its folder are."""
    packed = path.suffix.lower() in COMPRESSED
    return ABOUT.fullmatch(path.stem if packed else path.name) is not None


def ending(path: Path) -> str:
    """Return how a file's name ends, with the suffix of its compression: '.jsonl.gz'."""
    return "".join(path.suffixes[-2 if path.suffix.lower() in COMPRESSED else -1 :])


def kinds(paths: Iterable[Path]) -> str:
    """Say how many files there are of each kind: '3 .csv, 1 Makefile'."""
    counts = Counter(ending(path) or path.name for path in paths)
    return ", ".join(f"{count:,} {name}" for name, count in counts.most_common(8))
