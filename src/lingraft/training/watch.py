"""What may look on while the loop trains: a benchmark's clock, say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from lingraft.training.data import Step


class Watch:
    """Told of every step; this one does nothing. It may end the training by an error of its own."""

    def begin(self) -> None:
        """A step begins."""

    def part(self, name: str) -> None:
        """A part of it is done: 'data', 'forward', 'backward' or 'optimiser'."""

    def end(self, indices: np.ndarray[Any, Any], step: Step) -> None:
        """It is done, with everything that belongs to it.

        Args:
            indices: examples of the global batch.
            step: this process' share of it.
        """
