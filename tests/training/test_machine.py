import pytest

from lingraft.errors import RecipeError
from lingraft.recipe import Training
from lingraft.training.machine import accelerator_for


def test_fsdp_that_accelerate_was_launched_with_is_refused_in_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(RecipeError, match=r'set training.sharding="fsdp2"') as error:
        accelerator_for(Training(), tmp_path)
    assert "\n" not in str(error.value)
