"""lingraft in the process of an application: neither changes the settings of the other."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING

from lingraft.errors import LingraftError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def as_guest() -> Iterator[None]:
    """Work as in a fresh process, and leave the application's settings as they were.

    That is torch's default dtype and device, gradients, autocast and random numbers (else every
    seed of the application would give the same ones afterwards), and how much transformers says.

    Raises:
        KeyboardInterrupt: Ctrl-C stopped the work; no error that an application goes on after.
    """
    import torch
    from transformers.utils import logging as transformers_logging

    has_gpu = torch.cuda.is_initialized()
    with contextlib.ExitStack() as stack:
        if not has_gpu:  # its generators are seeded when it is first used
            stack.callback(_seed_gpus)
        stack.enter_context(
            torch.random.fork_rng(devices=[torch.cuda.current_device()] if has_gpu else [])
        )
        stack.callback(torch.set_default_dtype, torch.get_default_dtype())
        stack.callback(transformers_logging.set_verbosity, transformers_logging.get_verbosity())
        if transformers_logging.is_progress_bar_enabled():
            stack.callback(transformers_logging.enable_progress_bar)
        torch.set_default_dtype(torch.float32)
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                # a cache of cast weights would live until the application's own autocast ends
                stack.enter_context(torch.autocast(kind, enabled=False, cache_enabled=False))
        try:
            yield
        except LingraftError as error:
            if error.exit_status == 128 + signal.SIGINT:
                raise KeyboardInterrupt(str(error)) from error
            raise


def _seed_gpus() -> None:
    import torch

    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(torch.initial_seed())
