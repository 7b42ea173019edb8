"""Files that appear whole or not at all, JSON among them, and what a killed process leaves.

Names of files and folders as users write them.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import json
import math
import os
import re
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from lingraft.errors import DataError, RecipeError, is_memory_full

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


TEMPORARY = re.compile(r"\..+\.(\d+)\.partial")
"""Names of the temporary files of `replacing`, with the number of the process."""


def write_text(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old or the new content, never half of it."""
    with replacing(path) as partial, partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def clear_temporary(folder: Path, beginning: str = "") -> None:
    """Delete what `replacing` left in a folder when its process was killed.

    Files of a process that lives are its own: a killed study's cells may still end their work.

    Args:
        folder: with the files.
        beginning: of the names of the files that were to be written.
    """
    for path in folder.glob(f".{glob.escape(beginning)}*"):
        match = TEMPORARY.fullmatch(path.name)
        if match and not _lives(int(match[1])):
            path.unlink(missing_ok=True)


def _lives(number: int) -> bool:
    """Return whether another process has this number; with ours, an earlier one left the file."""
    if number == os.getpid():
        return False
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def check_free(folder: Path, mend: str = "choose another --out, or delete it") -> None:
    """Refuse to write into a folder that holds something; `mend` says what to do.

    Raises:
        DataError: it does, or is a file.
    """
    stays = not folder.is_dir() or not all(TEMPORARY.fullmatch(p.name) for p in folder.iterdir())
    if folder.exists() and stays:
        raise DataError(f"{folder}: is there already; {mend}")


def remove(path: Path) -> None:
    """Delete a file, a link or a folder with all that it holds."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def removed_on_failure(folder: Path) -> Iterator[None]:
    """Delete a folder that is being filled if that fails."""
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a file beside `path` that gets its name at the end, and goes if there is none."""
    clear_temporary(path.parent, f"{path.name}.")
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        # writing names no file, and opening the partial one
        if error.filename is None or Path(error.filename) == partial:
            error.filename = str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)


def check_output(out: Path, read: Sequence[Path], *, force: bool = False) -> None:
    """Refuse a file that cannot be written, or must not be.

    Args:
        out: the file.
        read: what it is made of.
        force: replace a file that is there.

    Raises:
        DataError: `out` is there already, or one of `read`.
    """
    if any(out.resolve() == path.resolve() for path in read):
        raise DataError(f"{out}: is the text that is read; choose another --out")
    if out.is_dir() or (out.exists() and not force):
        raise DataError(f"{out}: is there already; choose another --out, or --force")


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name the file where a library writes: safetensors, torch and tokenizers raise no OSError.

    Raises:
        DataError: in place of what they raise when the disk is full, say.
    """
    try:
        yield
    except Exception as error:  # tokenizers has no class of its own for what the system refuses
        # "(os error …)" stands in the messages of libraries written in Rust.
        is_refused = isinstance(error, SafetensorError | RuntimeError) or "(os error " in str(error)
        if isinstance(error, DataError) or not is_refused or is_memory_full(error):
            raise
        raise DataError(
            f"{path}: cannot be written ({' '.join(str(error).split())[:200]}); "
            "make room, then run the same command again"
        ) from error


def write_json(path: Path, data: Any) -> None:
    """Write plain data as JSON, atomically."""
    write_text(path, json.dumps(data, ensure_ascii=False, indent=1) + "\n")


def json_line(row: dict[str, Any]) -> str:
    """Return a row as a line of JSON; a number that is not finite becomes null."""
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError:
        return json.dumps(_finite(row), ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write one JSON object a line, atomically."""
    write_text(path, "".join(map(json_line, rows)))


def begins_with(path: Path, keys: Iterable[str]) -> bool:
    """Tell whether the first line of a file is a row that has these keys, or there is no line."""
    with path.open("rb") as file:
        line = file.readline()
    try:
        row = json.loads(line) if line else dict.fromkeys(keys)
    except ValueError:
        return False
    return isinstance(row, dict) and row.keys() >= set(keys)


MARK = b'<meta name="generator" content="lingraft">'
"""In the first lines of every page of ours."""
HEAD_BYTES = 4_096


def check_target(page: Path) -> None:
    """Refuse to write over what is no page of lingraft.

    Raises:
        DataError: it is a folder or a file that lingraft did not write.
    """
    is_ours = page.is_file() and MARK in page.read_bytes()[:HEAD_BYTES]
    if page.exists() and not is_ours:
        raise DataError(f"{page}: is no page of lingraft; name another file with --out")


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


def check_folder_name(name: str, option: str) -> None:
    """Refuse what cannot be the name of a folder of results.

    Raises:
        RecipeError: it cannot.
    """
    if not re.fullmatch(r"\w[\w.+-]*", name):
        raise RecipeError(
            f"{option} '{name}': names a folder: letters, digits, '.', '_', '+' and '-'"
        )


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
