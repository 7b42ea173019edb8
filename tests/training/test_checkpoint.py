"""Checkpoints; a bit that changes in what lingraft has written is found before anything is made of
it."""

import stat

import pytest
import torch

from lingraft.errors import DataError
from lingraft.models import export
from lingraft.models.source import load_model
from lingraft.pretrained import checkpoints
from lingraft.recipe import Optimizer
from lingraft.training import checkpoint
from lingraft.training.trained import Trained


@pytest.fixture
def trained(tiny_model):
    """A model and an optimizer that has taken a step."""
    model = tiny_model("bert")
    optimizer = Trained(model).optimizer(Optimizer(learning_rate=0.01))
    model(input_ids=torch.arange(8)[None]).logits.square().mean().backward()
    optimizer.step()
    return model, optimizer


def test_a_checkpoint_gives_weights_moments_and_state_back(trained, tiny_model, tmp_path):
    model, optimizer = trained
    path = checkpoint.save(tmp_path, 7, model, optimizer, {"step": 7, "best_loss": float("inf")})
    other = tiny_model("bert")
    fresh = Trained(other).optimizer(Optimizer())
    assert checkpoint.load(path, other, fresh) == {"step": 7, "best_loss": float("inf")}
    for ours, theirs in zip(other.parameters(), model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
        moments, expected = fresh.state[ours], optimizer.state[theirs]
        assert moments.keys() == expected.keys()
        assert all(torch.equal(moments[key], expected[key]) for key in moments)


def test_only_the_newest_checkpoint_is_kept_and_half_written_ones_are_ignored(trained, tmp_path):
    (tmp_path / "best").mkdir()
    for step in (5, 10, 12):
        whole = checkpoint.save(tmp_path, step, *trained, {"step": step})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["best", "checkpoint-00000012"]
    (tmp_path / "partial-00000019").mkdir()
    (tmp_path / "partial-00000019" / "state.json").write_text("{}")
    (tmp_path / "checkpoint-00000018").mkdir()
    assert checkpoint.latest(tmp_path) == whole == tmp_path / "checkpoint-00000012"


def test_a_failure_while_writing_leaves_the_older_checkpoint(trained, tmp_path, monkeypatch):
    whole = checkpoint.save(tmp_path, 5, *trained, {"step": 5})

    def broken(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(checkpoint.torch, "save", broken)
    with pytest.raises(OSError, match="no space left"):
        checkpoint.save(tmp_path, 6, *trained, {"step": 6})
    assert checkpoint.latest(tmp_path) == whole
    monkeypatch.undo()
    assert checkpoint.load(whole, *trained) == {"step": 5}
    assert checkpoint.save(tmp_path, 6, *trained, {}).name == "checkpoint-00000006"


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt"])
def test_a_broken_checkpoint_is_a_data_error_that_names_it(name, trained, tmp_path):
    path = checkpoint.save(tmp_path, 5, *trained, {})
    (path / name).write_bytes((path / name).read_bytes()[:100])
    (path / checkpoints.FILE).unlink()  # as of a version that wrote none
    with pytest.raises(DataError, match="checkpoint-00000005: checkpoint cannot be read") as caught:
        checkpoint.load(path, *trained)
    assert "delete the folder to start the phase again" in str(caught.value)


def flip(path):
    """Change one bit in the middle of a file, where a number is."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "state.json"])
def test_a_changed_bit_of_a_checkpoint_is_one_line(name, trained, tmp_path):
    path = checkpoint.save(tmp_path, 5, *trained, {"step": 5})
    assert checkpoint.load(path, *trained) == {"step": 5}
    flip(path / name)
    with pytest.raises(DataError, match=f"{name}: is not what was written"):
        checkpoint.load(path, *trained)


def test_looks_have_their_mean_and_a_changed_bit_of_one_is_one_line(tiny_model, tmp_path):
    model = tiny_model("bert")
    for step in (1, 2, 3):
        for parameter in model.parameters():
            parameter.data.fill_(step)
        checkpoint.keep_look(tmp_path, model, step, 2)
    assert checkpoint.put_mean(tmp_path, model) == [2, 3]
    assert all((parameter == 2.5).all() for parameter in model.parameters())
    flip(tmp_path / "looks" / "step-00000003.safetensors")
    with pytest.raises(DataError, match="is not what was written"):
        checkpoint.put_mean(tmp_path, model)


def test_a_changed_bit_of_a_model_is_one_line(tiny_model, tmp_path):
    export.write_model(tiny_model("bert"), tmp_path)
    load_model(str(tmp_path))
    flip(tmp_path / "model.safetensors")
    with pytest.raises(DataError, match="is not what was written"):
        load_model(str(tmp_path))
    (tmp_path / checkpoints.FILE).unlink()
    load_model(str(tmp_path))


def test_weights_can_be_read_by_whom_the_umask_lets(tiny_model, tmp_path):
    export.write_model(tiny_model("bert"), tmp_path)
    (tmp_path / "usual").touch()
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {stat.S_IMODE((tmp_path / "usual").stat().st_mode)}
