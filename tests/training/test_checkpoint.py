import pytest
import torch

from lingraft.errors import DataError
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


def test_only_the_newest_checkpoint_is_kept(trained, tmp_path):
    (tmp_path / "best").mkdir()
    for step in (5, 10, 12):
        checkpoint.save(tmp_path, step, *trained, {"step": step})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["best", "checkpoint-00000012"]
    assert checkpoint.latest(tmp_path) == tmp_path / "checkpoint-00000012"


def test_half_written_checkpoints_are_ignored(trained, tmp_path):
    whole = checkpoint.save(tmp_path, 5, *trained, {"step": 5})
    (tmp_path / "partial-00000009").mkdir()
    (tmp_path / "partial-00000009" / "state.json").write_text("{}")
    (tmp_path / "checkpoint-00000008").mkdir()
    assert checkpoint.latest(tmp_path) == whole


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
