"""Fine-tuning in this process that is told to stop at a step."""

import contextlib
import os
import signal

import pytest

from lingraft.finetuning.problem import Finetuning


@contextlib.contextmanager
def terminated_at(number):
    """SIGTERM for this process as the step with this number, counted from here, begins.

    Yields:
        A list with an entry for each step that was taken, or begun.
    """
    step, calls = Finetuning.step, []

    def counted(self, *arguments):
        calls.append(1)
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Finetuning, "step", counted)
        yield calls
