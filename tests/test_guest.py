"""lingraft called by an application: neither changes the settings of the other."""

import contextlib
import os
import signal

import pytest
import torch
from plain_recipes import plain
from transformers.utils import logging as transformers_logging

import lingraft
from lingraft.guest import as_guest
from lingraft.training import loop


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


APPLICATIONS = {
    "float64": lambda: default_dtype(torch.float64),
    "another device": lambda: torch.device("meta"),
    "no gradients": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
}


def trained():
    """The weights of a map after two steps in mixed precision, as the loop trains."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(layer.parameters(), 0.1)
        for _ in range(2):
            with torch.autocast("cpu", torch.bfloat16):
                loss = layer(torch.ones(2, 4)).float().square().sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return layer.weight.detach()


@pytest.mark.parametrize("name", APPLICATIONS)
def test_the_application_s_settings_change_no_weight(name):
    expected = trained()
    with APPLICATIONS[name]():
        settings = (torch.get_default_dtype, torch.get_default_device, torch.is_grad_enabled)
        before = [read() for read in settings]
        with as_guest():
            weights = trained()
        assert before == [read() for read in settings]
    assert weights.dtype == expected.dtype
    assert torch.equal(weights, expected)


@pytest.fixture
def recipe(korean_text, tiny_source):
    training = {"method": "xpt-sp", "preset": "xpt2021", "budget": "1 steps"}
    tables = {"tokenizer": {"vocab_size": 300}, "training": training | {"batch": {"size": 4}}}
    return plain(tiny_source("bert"), korean_text, **tables)


def test_a_run_leaves_the_application_s_random_numbers_and_logs(recipe, korean_text, tmp_path):
    level = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_info()
    transformers_logging.enable_progress_bar()
    try:
        for work in (
            lambda: lingraft.adapt(recipe, tmp_path / "run"),
            lambda: lingraft.Run(tmp_path / "run").model(),
            lambda: lingraft.graft(tmp_path / "run" / "model", tmp_path / "run/model", init="mean"),
            lambda: lingraft.evaluate(tmp_path / "run" / "model", korean_text, max_sentences=5),
        ):
            with default_dtype(torch.float64):
                numbers = torch.get_rng_state()
                work()
                assert torch.equal(torch.get_rng_state(), numbers)
            assert transformers_logging.get_verbosity() == transformers_logging.INFO
            assert transformers_logging.is_progress_bar_enabled()
    finally:
        transformers_logging.set_verbosity(level)
        if not bars:
            transformers_logging.disable_progress_bar()


def test_ctrl_c_is_no_error_that_an_application_catches(recipe, tmp_path, monkeypatch):
    step = loop._Trainer.take_step

    def interrupted(*arguments):
        step(*arguments)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(loop._Trainer, "take_step", interrupted)
    with pytest.raises(KeyboardInterrupt, match="a checkpoint is written"):
        lingraft.adapt(recipe, tmp_path / "run", settings=["training.budget='3 steps'"])
