"""A file that grows in blocks under another name, so that a killed call goes on. No torch here."""

from __future__ import annotations

import contextlib
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from lingraft import rundir
from lingraft.errors import DataError
from lingraft.locks import is_locked_now, lock_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


@dataclass
class _State:
    made_of: str
    size: int = 0
    """Bytes that are whole."""
    counts: dict[str, int] = field(default_factory=dict)


class PartialFile:
    """Until all is done the file is `OUT.partial`, with its state in `OUT.partial.json`.

    Args:
        out: the file.
        read: what it is made of, which it must not replace.
        overwrite: replace a file that is there, and half of another one.

    Raises:
        DataError: `out` is there already, is a folder or one of `read`, or its folder is not there.
    """

    def __init__(self, out: Path, read: Sequence[Path], *, overwrite: bool = False) -> None:
        if any(out.resolve() == path.resolve() for path in read):
            raise DataError(f"{out}: is the text that is read; choose another --out")
        if out.is_dir():
            raise DataError(f"{out}: is a folder; name a file with --out")
        if out.exists() and not overwrite:
            raise DataError(f"{out}: is there already; choose another --out, or --overwrite")
        if not out.parent.is_dir():
            raise DataError(
                f"{out}: there is no folder {out.parent}; make it or choose another --out"
            )
        self.out, self.overwrite = out, overwrite
        self._partial = out.with_name(f"{out.name}.partial")
        self._state_path = out.with_name(f"{out.name}.partial.json")
        self._state = _State("")

    @property
    def counts(self) -> dict[str, int]:
        """What the caller counts of that which is done; kept with it."""
        return self._state.counts

    def begin(self, made_of: str, title: str, **counts: int) -> None:
        """Find what an earlier call left of the same file, or nothing.

        Args:
            made_of: fingerprint of all that the content depends on.
            title: the content and what it depends on, for the message.
            counts: of nothing.

        Raises:
            DataError: half of another file is in the way.
        """
        if self._partial.is_file() and self._state_path.is_file():
            state = _State(**rundir.read_json(self._state_path))
            if state.made_of == made_of and self._partial.stat().st_size >= state.size:
                self._state = state
                return
            if not self.overwrite:
                raise DataError(
                    f"{self._partial}: is half of other {title}; delete it, or choose another --out"
                )
        elif self._partial.exists() and self._partial.stat().st_size and not self.overwrite:
            raise DataError(f"{self._partial}: is in the way; delete it, or choose another --out")
        self._state = _State(made_of, 0, counts)

    @contextlib.contextmanager
    def growing(self) -> Iterator[BinaryIO]:
        """Open the file behind what is whole; at the end it has its own name.

        Only now is anything written, so that a model that cannot be loaded leaves nothing.

        Raises:
            DataError: another process is writing it.
        """
        with lock_file(self._partial) as file:
            size = os.fstat(file.fileno()).st_size  # smaller where another one has finished it
            if not is_locked_now(file) or size < self._state.size:
                raise DataError(
                    f"{self._partial}: another lingraft is writing it; wait for it or stop it"
                )
            rundir.write_record(self._state_path, asdict(self._state))
            file.truncate(self._state.size)
            yield file
            self.keep(file)
        self._partial.replace(self.out)
        self._state_path.unlink()

    def keep(self, file: BinaryIO) -> None:
        """Make what is written whole, with its counts."""
        file.flush()
        os.fsync(file.fileno())
        self._state.size = os.fstat(file.fileno()).st_size
        rundir.write_record(self._state_path, asdict(self._state))
