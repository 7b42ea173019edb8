"""The errors that lingraft raises on purpose. Each message is one line that says what to do."""

import contextlib
import errno
import re
from collections.abc import Iterator
from pathlib import Path


class LingraftError(Exception):
    """Base of every error that a user can cause and mend."""

    exit_status = 1
    """Exit status of the command line."""

    def __str__(self) -> str:
        """Return the message on one line, whatever names and values of the user stand in it."""
        return " ".join(super().__str__().splitlines())


class RecipeError(LingraftError, ValueError):
    """A recipe (or a command line) asks for something that cannot be done as written."""


class DataError(LingraftError, ValueError):
    """Text, a tokenizer or a run on disk is not what it should be."""


class UnsupportedModelError(LingraftError, ValueError):
    """The source model is of a kind, or in a state, that lingraft cannot graft onto."""


class TrainingError(LingraftError, RuntimeError):
    """Training cannot go on (the loss is not finite, say); names the last good checkpoint."""


@contextlib.contextmanager
def reading(path: Path, mend: str) -> Iterator[None]:
    """Say what of a file of ours is wrong, and what to do.

    Raises:
        DataError: the file is missing or broken.
    """
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: is missing; {mend}") from None
    except LingraftError:  # says it already
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"{path}: is broken ({error}); {mend}") from None


@contextlib.contextmanager
def writing(place: Path, mend: str) -> Iterator[None]:
    """Name what cannot be written, and what to do.

    Args:
        place: a file or folder, for errors that name none.
        mend: what to do.

    Raises:
        DataError: in place of the operating system's error.
    """
    try:
        yield
    except OSError as error:
        where = error.filename or place
        raise DataError(f"{where}: cannot be written: {error.strerror or error}; {mend}") from None


NO_MEMORY = re.compile(
    "DefaultCPUAllocator|could not create a primitive|annot allocate memory|"
    "CUBLAS_STATUS_ALLOC_FAILED|CUDA error: out of memory"
)
"""Words of torch and oneDNN where memory is full; torch has a class for its own GPU allocator."""


def is_memory_full(error: BaseException) -> bool:
    """Return whether an error says that memory is full; torch's class for GPUs is not asked."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError) and bool(NO_MEMORY.search(str(error)))


def explain(error: OSError, path: object = None) -> str:
    """Return what the operating system refused, on one line.

    Args:
        error: not one of ours.
        path: named where the error names no file.
    """
    where = error.filename or path
    mend = "nothing half-made was kept: mend that and run the same command again"
    return (f"{where}: " if where else "") + f"{error.strerror or error}; {mend}"
