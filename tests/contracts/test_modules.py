"""What holds for everything that adds parameters: a new entry in MODULES is tested by this."""

import pytest
import torch
from with_module import with_module

from lingraft.errors import UnsupportedModelError
from lingraft.models import loading
from lingraft.models.families import FAMILIES
from lingraft.models.graft import rebuild
from lingraft.models.modules import MODULES, Stack, in_folder, wanted_by
from lingraft.models.parts import part_of
from lingraft.recipe import PARTS, Graft

pytestmark = pytest.mark.parametrize("part", MODULES)
ASKED = {"adapters": 4, "cross_attention": True}


@pytest.fixture
def model(part, tiny_model):
    """A tiny model that has the module, with weights that matter."""
    size = MODULES[part].size(ASKED[part], Stack(FAMILIES["roberta"], 2, 32, 0))
    return with_module(tiny_model("roberta"), "roberta", part, size)


def test_it_is_a_part_that_a_recipe_can_name_and_ask_for(part):
    assert MODULES[part].part == part
    assert part in PARTS
    assert wanted_by(Graft()) == []
    assert wanted_by(Graft(**{part: ASKED[part]})) == [MODULES[part]]


def test_its_tensors_are_those_that_the_stock_model_lacks(part, model, tiny_model):
    ours = set(loading.own_tensors(model, MODULES[part]))
    assert ours == set(dict(model.named_parameters())) - set(tiny_model("roberta").state_dict())
    assert {part_of(name, FAMILIES["roberta"], frozenset({0})) for name in ours} == {part}


def test_it_comes_back_from_disk_with_the_model(part, model, tmp_path):
    assert in_folder(tmp_path) == []
    loading.save(model, tmp_path)
    assert in_folder(tmp_path) == [MODULES[part]]
    assert (tmp_path / "model.safetensors").is_file() is MODULES[part].exportable
    again, info = loading.load(str(tmp_path))
    assert not any(info.values())
    ids = torch.arange(5, 25).reshape(2, 10)
    with torch.no_grad():
        assert torch.equal(again(input_ids=ids).logits, model(input_ids=ids).logits)


def test_a_model_that_has_it_is_not_grafted_onto(part, model):
    with pytest.raises(UnsupportedModelError, match=f"the source has {part}"):
        rebuild(model, FAMILIES["roberta"], [0, 1], config_changes={}, seed=0)
