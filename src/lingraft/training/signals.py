"""SIGTERM and SIGINT as a wish to stop after the current step."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = logging.getLogger(__name__)


class StopRequest:
    """Request of a signal to stop the run, and the signal's number."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._previous: dict[int, Any] = {}

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Take SIGTERM and SIGINT as a wish to stop; a second one of a kind acts as usual.

        Outside the main thread, where Python handles no signals, nothing changes.
        """
        if threading.current_thread() is threading.main_thread():
            for wish in (signal.SIGTERM, signal.SIGINT):
                self._previous[wish] = signal.signal(wish, self._receive)
        try:
            yield
        finally:
            for number, handler in self._previous.items():
                signal.signal(number, handler)

    def _receive(self, number: int, _: object) -> None:
        self.number = number
        signal.signal(number, self._previous[number])
        logger.warning(
            "%s received: stopping after this step, with a checkpoint", signal.Signals(number).name
        )
