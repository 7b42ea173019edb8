"""A full disk: one sentence everywhere, nothing half-made, and a study that stops at once."""

import contextlib
import errno
import os
import resource

import pytest
import torch

from lingraft.training import checkpoint


def full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextlib.contextmanager
def largest_file(size):
    """Files of this process cannot grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def rubbish(folder):
    return [str(path) for name in ("*partial*", "*.tmp") for path in folder.rglob(name)]


# -- what is said


# -- what is left


def test_a_checkpoint_that_does_not_fit_leaves_nothing(tmp_path, tiny_model, monkeypatch):
    monkeypatch.setattr(checkpoint, "write_json", full)
    model = tiny_model("bert")
    with pytest.raises(OSError, match="No space left"):
        checkpoint.save(tmp_path, 1, model, torch.optim.AdamW(model.parameters()), {})
    assert list(tmp_path.iterdir()) == []


def test_fine_tuning_that_does_not_fit_is_one_line_and_leaves_nothing(
    tiny_source, tmp_path, command
):
    data = "text,label\n" + "".join(f"text {n},{'ab'[n % 2]}\n" for n in range(6))
    (tmp_path / "mood.csv").write_text(data)
    (tmp_path / "dev.csv").write_text(data.replace("text ", "other "))
    table = 'name = "mood"\nkind = "classification"\nmetrics = ["accuracy"]\n'
    table += 'files = { train = "mood.csv", dev = "dev.csv" }\nepochs = 1\n'
    (tmp_path / "mood.toml").write_text(table)
    out = tmp_path / "out"
    words = ("finetune", tiny_source("bert"), "--task", tmp_path / "mood.toml", "--seeds", 1)
    with largest_file(50_000):
        ended = command("--quiet", *words, "--out", out)
    assert ended.status == 1
    assert "make room, then run the same command again" in ended.err
    assert ended.err.count("\n") == 1
    assert not rubbish(out)
    assert command(*words, "--out", out).status == 0
