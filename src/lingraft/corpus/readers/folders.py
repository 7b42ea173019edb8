"""What lies in a folder of text, and what is said of that which is not read."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from lingraft.corpus.readers.lines import COMPRESSED, reading_errors
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable

ABOUT = re.compile(
    r"((?i:readme|licen[cs]e|changelog|copying|notice)|SOURCES?)([._-].*)?"
    r"\.(?i:txt|md|markdown|html?)"
)
"""Names of files that say what the others are; `source.txt` may be text of a source language."""
FINISHED = "corpus.json"
"""Marks the folder of a corpus that `lingraft data clean` made; its shards lie in folders below."""
FINISHED_HEAD = b'{\n "fingerprint": "'
"""How that file begins."""
PLAN = Path("work", "plan.json")
"""Lies in the folder of a corpus that is being made."""
LOCK = ".lock"


def is_finished(folder: Path) -> bool:
    """Whether `lingraft data clean` made a folder; a text may be called corpus.json too."""
    path = folder / FINISHED
    if not path.is_file():
        return False
    with reading_errors(path), path.open("rb") as file:
        return file.read(len(FINISHED_HEAD)) == FINISHED_HEAD


def is_half_made(folder: Path) -> bool:
    """Whether `lingraft data clean` has begun a corpus in a folder, and not ended it."""
    return (folder / LOCK).is_file() and (folder / PLAN).is_file() and not is_finished(folder)


def is_ours(folder: Path) -> bool:
    """Whether a folder is a run or a corpus of lingraft: what was made of text."""
    is_run = (folder / LOCK).is_file() and (folder / "recipe.toml").is_file()
    return is_run or is_half_made(folder) or is_finished(folder)


def walk(folder: Path) -> list[Path]:
    """All that lies in a folder and below, sorted; hidden files and folders are left out.

    Links to folders, and folders of lingraft, stand there themselves, and not what they hold.

    Raises:
        DataError: a folder cannot be read.
    """

    def stop(error: OSError) -> None:
        raise DataError(f"{error.filename}: cannot be read: {error.strerror}")

    paths = []
    for parent, folders, files in os.walk(folder, onerror=stop):
        if is_ours(Path(parent)):
            folders.clear()
            paths += [Path(parent)]
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        links = [name for name in folders if Path(parent, name).is_symlink()]
        paths += [Path(parent, name) for name in (*links, *files) if not name.startswith(".")]
    return sorted(paths)


def is_about(path: Path) -> bool:
    """Whether a file says what the others of its folder are."""
    name = path.stem if is_packed(path) else path.name
    return ABOUT.fullmatch(name) is not None


def is_packed(path: Path) -> bool:
    """Whether a file's suffix is that of a compression."""
    return path.suffix.lower() in COMPRESSED


def ending(path: Path) -> str:
    """How a file's name ends, with the suffix of its compression: '.jsonl.gz'."""
    return "".join(path.suffixes[-2 if is_packed(path) else -1 :])


def kinds(paths: Iterable[Path]) -> str:
    """Say how many paths there are of each kind: '3 .csv, 1 folder or broken link'."""
    names = (ending(one) or one.name if one.is_file() else "folder or broken link" for one in paths)
    return ", ".join(f"{count:,} {name}" for name, count in Counter(names).most_common(8))
