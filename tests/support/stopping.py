"""Something that stops a function of this process, or the process, at a chosen call."""

import contextlib
import os
import signal

import pytest
import torch

from lingraft.finetuning.problem import Finetuning


@contextlib.contextmanager
def at_call(number, owner, name, does, counts=lambda *_: True):
    """As a function is called for the time with this number, something else happens before.

    Args:
        number: of the call, from 1, among those that count.
        owner: the function's class or module.
        name: the function's.
        does: what happens.
        counts: asked with a call's arguments whether it counts.

    Yields:
        A list of the arguments of each call that counts, also of one that was not let through.
    """
    inner, calls = getattr(owner, name), []

    def counted(*arguments):
        if counts(*arguments):
            calls.append(arguments)
            if len(calls) == number:
                does()
        return inner(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, counted)
        yield calls


def killed_at(number, owner, name, counts=lambda *_: True):
    """`at_call`, where what happens is that nothing goes on, as by Ctrl-C or a kill."""

    def kill():
        raise KeyboardInterrupt

    return at_call(number, owner, name, kill, counts)


def of_training(batcher, *_):
    """Whether a call of a `Batcher` is for phase-1, not for what it is validated on."""
    return batcher.phase == "phase-1"


def terminated_at(number):
    """SIGTERM for this process as the step of fine-tuning with this number begins: `at_call`."""
    return at_call(number, Finetuning, "step", lambda: os.kill(os.getpid(), signal.SIGTERM))


def assert_same_bits(ours, theirs):
    """Hold two sets of weights equal, bit for bit."""
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
