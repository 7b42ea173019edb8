"""Work beside training while a GPU computes: the next batch, and writing checkpoints.

On a CPU both would take cores from training, so there everything happens in turn. Nothing that is
computed depends on it.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import Self

    from accelerate import Accelerator

    from lingraft.training.data import Position, Step
    from lingraft.training.mixture import Plan
    from lingraft.training.problem import Problem

T = TypeVar("T")
Coming = tuple["Position", Any, "Step"]
"""The position behind a step, examples of its global batch, and this process' share of it."""


def has_time(device: torch.device) -> bool:
    """Return whether the processor waits while a device computes."""
    return device.type != "cpu"


def one_ahead(items: Iterator[T]) -> Generator[T]:
    """Give the items of an endless iterator; a thread makes the next one meanwhile.

    What goes wrong there is raised here. Closing it waits for the item that is being made.
    """
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items)
        while True:
            item = coming.result()
            coming = thread.submit(next, items)
            yield item


def steps(
    problem: Problem, plan: Plan, position: Position, accelerator: Accelerator
) -> Generator[Coming]:
    """Give what each step of a phase reads from a position on, where there is time one ahead."""

    def in_turn() -> Generator[Coming]:
        epoch, here = position.epoch, (accelerator.process_index, accelerator.num_processes)
        for following, indices in plan.after(position):
            step = problem.step(indices, epoch, *here)
            if accelerator.device.type == "cuda":
                step = replace(step, micro_batches=list(map(pinned, step.micro_batches)))
            yield following, indices, step
            epoch = following.epoch

    return one_ahead(in_turn()) if has_time(accelerator.device) else in_turn()


def pinned(batch: Any) -> Any:
    """Copy a batch's tensors to memory that a GPU reads while the processor goes on."""
    if isinstance(batch, torch.Tensor):
        return batch.pin_memory()
    if isinstance(batch, dict):
        return {key: pinned(value) for key, value in batch.items()}
    if is_dataclass(batch) and not isinstance(batch, type):
        return replace(batch, **{key: pinned(value) for key, value in vars(batch).items()})
    return batch


def sent(batch: Any, device: torch.device) -> Any:
    """Move a batch to a device; to a GPU without waiting for what it does."""
    return (pinned(batch) if device.type == "cuda" else batch).to(device)


class Writer:
    """Writer of one thing at a time: at once, or in a thread."""

    def __init__(self, *, threaded: bool) -> None:
        self.thread = ThreadPoolExecutor(1) if threaded else None
        self.pending: Future[None] | None = None

    def start(self, write: Callable[..., None], *arguments: Any) -> None:
        """Write, when what was started before is there."""
        self.wait()
        if self.thread is None:
            write(*arguments)
        else:
            self.pending = self.thread.submit(write, *arguments)

    def wait(self) -> None:
        """Wait for what was started; raise here what went wrong there."""
        pending, self.pending = self.pending, None
        if pending is not None:
            pending.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait; an error of the thread does not take the place of one that is raised already."""
        if self.thread is not None:
            self.thread.shutdown()
        if kind is None:
            self.wait()
