"""A thing to read, and what a reader gives of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - pydantic reads the annotations
from typing import TypeAlias

from lingraft.corpus.readers.layout import Layout  # noqa: TC001
from lingraft.corpus.readers.lines import kind

Row: TypeAlias = tuple[object, str]
"""Name of a document or None, and its text."""


@dataclass(frozen=True)
class Source:
    """Thing to read: a file, a part of one, or a Hub dataset (then `path` is None).

    Attributes:
        name: as the user knows it.
        path: the file.
        span: of a part of a file, the byte at which it begins and the one at which the next part
            does; None is the whole. Only what `plan` cuts can have one.
        layout: of a .txt file; None where nobody has looked at it.
    """

    name: str
    path: Path | None
    span: tuple[int, int] | None = None
    layout: Layout | None = None

    @property
    def format(self) -> str:
        """Return the suffix without the compression's, or 'hub'."""
        return kind(self.path) if self.path is not None else "hub"

    @property
    def is_beginning(self) -> bool:
        """Return whether the file's first byte is read; what it says holds for the other parts."""
        return not (self.span and self.span[0])
