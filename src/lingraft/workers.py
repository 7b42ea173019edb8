"""Worker processes that end with the process that started them, however it ends.

A worker watches once it has imported this module, so nothing heavy belongs here: numpy and
transformers take seconds on a busy machine, in which a worker would not notice. Beside them stand
the refusal of several processes where one is needed, and what jobs of a cluster must not inherit.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import connection
from typing import TYPE_CHECKING, Any

from lingraft.errors import RecipeError

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
