import pytest

from lingraft.errors import RecipeError
from lingraft.recipe import Hardware
from lingraft.training.machine import accelerator_for


@pytest.mark.parametrize("library", ["FSDP", "DEEPSPEED"])
def test_what_accelerate_would_divide_itself_is_refused_in_one_line(library, monkeypatch, tmp_path):
    monkeypatch.setenv(f"ACCELERATE_USE_{library}", "true")
    with pytest.raises(RecipeError, match=r'set hardware.sharding="fsdp2"') as error:
        accelerator_for(Hardware(), tmp_path)
    assert "\n" not in str(error.value)


def test_what_accelerate_was_set_up_for_elsewhere_changes_no_gradient(
    monkeypatch, one_process, tmp_path
):
    monkeypatch.setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4")
    monkeypatch.setenv("ACCELERATE_DYNAMO_BACKEND", "INDUCTOR")
    with one_process():
        accelerator = accelerator_for(Hardware(), tmp_path)
        assert accelerator.gradient_accumulation_steps == 1
        assert accelerator.state.dynamo_plugin.backend == "NO"
