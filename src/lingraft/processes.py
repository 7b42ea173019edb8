"""Worker processes that end with the process that started them, however it ends.

A worker watches once it has imported this module, so nothing heavy belongs here: numpy and
transformers take seconds on a busy machine, in which a worker would not notice. Beside them stand
the refusal of several processes where one is needed, and what jobs of a cluster must not inherit.

Locks on files, by which a second process keeps away; they go with the process that has them.

OpenMP's threads: how many, and how they wait. Must be said before torch loads its library.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import multiprocessing
import os
import re
import signal
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import connection
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from lingraft.errors import DataError, RecipeError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future


class Pool(ProcessPoolExecutor):
    """A pool whose workers start with Ctrl-C held back, until `end_with_parent` runs in them."""

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """Give a task to a worker, which may start here."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(*args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def pool(processes: int) -> Pool:
    """Return a pool of fresh processes, not forked ones: this process may hold library threads."""
    fresh = multiprocessing.get_context("spawn")
    return Pool(processes, mp_context=fresh, initializer=end_with_parent)


def end_with_parent() -> None:
    """End this worker when the process that started it is killed, and on Ctrl-C without a word.

    Else it would wait for ever for its next task. A thread watches, rather than Linux's
    PR_SET_PDEATHSIG, which also ends a worker when only the thread that started it has ended.
    Ctrl-C reaches the workers, too; only the process that started them says something.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def check_one_process(command: str, advice: str) -> None:
    """Refuse what only one process can do.

    Raises:
        RecipeError: torchrun or accelerate launch started several.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise RecipeError(f"{command}: works in one process; {advice}")


SECRET = re.compile(r"TOKEN(?!IZERS)|KEY|SECRET|PASSWORD")
"""In the names of environment variables that are secret."""


@contextlib.contextmanager
def secrets_withheld() -> Iterator[None]:
    """Take secrets out of the environment, which schedulers copy to machines and into logs."""
    held = {name: value for name, value in os.environ.items() if SECRET.search(name.upper())}
    for name in held:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ |= held


def lock_file(path: Path) -> BinaryIO:
    """Open a file to lock, with what it holds; make it where there is none.

    Raises:
        DataError: it is a symbolic link, through which another file would be changed.
    """
    try:
        return open(
            path, "ab", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o666)
        )
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise DataError(f"{path}: is a symbolic link, which is not followed; delete it") from None


def is_locked_now(file: IO[Any]) -> bool:
    """Lock an open file for as long as it stays open; False where another process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


@contextlib.contextmanager
def growing(out: Path, made_of: str, block: int = 1) -> Iterator[tuple[BinaryIO, int]]:
    """Write lines under another name, `OUT.FINGERPRINT.partial`; a call that is killed goes on.

    Args:
        out: the file, which has its name at the end.
        made_of: fingerprint of all that the lines depend on.
        block: lines that belong together.

    Yields:
        The file, open behind the lines that an earlier call of the same left, and their number.

    Raises:
        DataError: another process is writing it.
    """
    partial = out.with_name(f"{out.name}.{made_of}.partial")
    with lock_file(partial) as file:
        if not is_locked_now(file) or not _is_at(partial, file):  # another one has finished it
            raise DataError(f"{partial}: another lingraft is writing it; wait for it or stop it")
        with partial.open("rb") as kept:
            lengths = [len(line) for line in kept if line.endswith(b"\n")]
        count = len(lengths) - len(lengths) % block
        file.truncate(sum(lengths[:count]))
        yield file, count
        file.flush()
        os.fsync(file.fileno())
        partial.replace(out)


def _is_at(path: Path, file: BinaryIO) -> bool:
    return path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno()))


COUNT = "OMP_NUM_THREADS"
WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
"""Variables that a user may have set: OpenMP's own, GNU's, and that of LLVM and Intel."""
QUOTA = "/sys/fs/cgroup/cpu.max"
"""Quota of a container: microseconds of processor time in so many microseconds, or "max"."""
limited = False
"""Whether the number of threads is `stay_within_quota`'s, not the user's."""


def wait_passively() -> None:
    """Let threads that wait sleep, where the user has not chosen and torch is not loaded yet.

    By default they spin. On a machine with other work a spinning thread takes the core from the one
    that it waits for. No number changes.
    """
    if "torch" not in sys.modules and not any(name in os.environ for name in WAITING):
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"


def stay_within_quota() -> None:
    """Start no more threads than a container's quota gives cores; otherwise as `wait_passively`.

    torch starts one for each core that it sees, and in a container with `--cpus 4` or a limit of
    Kubernetes it sees all of the machine's: they use the quota up and all are stopped together.
    """
    global limited
    if "torch" not in sys.modules and COUNT not in os.environ and cores() < visible_cores():
        os.environ[COUNT] = str(cores())
        limited = True


def leave_to_jobs() -> None:
    """Take this machine's quota out of what jobs of a cluster inherit: theirs is another."""
    if limited:
        os.environ.pop(COUNT, None)


def visible_cores() -> int:
    """Return the number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cores() -> int:
    """Return how many of the cores this process may use at a time, in whole ones."""
    try:
        time, period = map(int, Path(QUOTA).read_text(encoding="ascii").split())
    except (OSError, ValueError):  # no container, or "max"
        return visible_cores()
    return max(1, min(visible_cores(), time // period))
