"""A bit that changes in what lingraft has written is found before anything is made of it."""

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


def flip(path):
    """Change one bit in the middle of a file, where a number is."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "state.json"])
def test_a_changed_bit_of_a_checkpoint_is_one_line(name, tiny_model, tmp_path):
    model = tiny_model("bert")
    optimizer = Trained(model).optimizer(Optimizer(learning_rate=0.01))
    model(input_ids=torch.arange(8)[None]).logits.square().mean().backward()
    optimizer.step()
    path = checkpoint.save(tmp_path, 5, model, optimizer, {"step": 5})
    assert checkpoint.load(path, model, optimizer) == {"step": 5}
    flip(path / name)
    with pytest.raises(DataError, match=f"{name}: is not what was written"):
        checkpoint.load(path, model, optimizer)


def test_a_changed_bit_of_a_look_is_one_line(tiny_model, tmp_path):
    model = tiny_model("bert")
    for step in (1, 2, 3):
        checkpoint.keep_look(tmp_path, model, step, 2)
    assert checkpoint.put_mean(tmp_path, model) == [2, 3]
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
