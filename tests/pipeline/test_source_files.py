"""Sizes of a target from headers of files whose tensors are named in several ways."""

import pytest

from lingraft.models import export
from lingraft.models.families import FAMILIES
from lingraft.models.graft import untie
from lingraft.pipeline.rows import tied_now
from lingraft.pipeline.source_files import (
    depth_and_width,
    grafted_sizes,
    is_tied,
    named_as_in,
)
from lingraft.recipe.methods import recipe_from


def shapes_of(family, tiny_model, **changes):
    state = tiny_model(family, **changes).state_dict()
    return {name: tuple(tensor.shape) for name, tensor in state.items()}


def test_a_checkpoint_of_the_body_alone_with_its_masks_is_sized_as_the_model(tiny_model):
    """OpenAI's GPT-2: no 'transformer.', no head, a mask [1, 1, T, T] in each layer."""
    record, whole = FAMILIES["gpt2"], shapes_of("gpt2", tiny_model)
    stored = {n.removeprefix("transformer."): s for n, s in whole.items() if n != "lm_head.weight"}
    stored |= {f"h.{layer}.attn.bias": (1, 1, 128, 128) for layer in range(2)}
    named = named_as_in(record, stored)
    assert named == {name: shape for name, shape in whole.items() if name != "lm_head.weight"}
    plain = {"language": "ko", "source": {"model": "x"}, "corpus": {"text": ["ko.txt"]}}
    recipe = recipe_from(plain | {"graft": {"layers_every": 1}})
    assert grafted_sizes(named, record, recipe) == grafted_sizes(whole, record, recipe)


def test_tensors_that_checkpoints_name_otherwise_get_the_models_names(tiny_model):
    whole = shapes_of("gpt_neox", tiny_model)
    stored = {name.replace("lm_head.", "embed_out."): shape for name, shape in whole.items()}
    stored["gpt_neox.layers.0.attention.masked_bias"] = ()
    assert named_as_in(FAMILIES["gpt_neox"], stored) == whole


@pytest.mark.parametrize(
    ("family", "config", "tied"),
    [
        ("llama", {}, False),
        ("llama", {"tie_word_embeddings": True}, True),
        ("bert", {}, True),
        ("bert", {"tie_word_embeddings": False}, False),
    ],
)
def test_a_head_is_tied_as_config_json_says_or_as_a_causal_model_stores_it(
    family, config, tied, tiny_model
):
    shapes = shapes_of(family, tiny_model, tie_word_embeddings=False)
    assert is_tied(config, FAMILIES[family], shapes) == tied


@pytest.mark.parametrize("suffix", ["safetensors", "bin"])
@pytest.mark.parametrize("family", ["t5", "mt5"])
def test_a_run_knows_a_head_of_its_own_by_the_files_of_the_source(
    family, suffix, tiny_model, tmp_path
):
    model = tiny_model(family, tie_word_embeddings=False)
    untie(model)  # as T5 1.1's and mT5's on the Hub; transformers 5 says that they are tied
    export.write_model(model, tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / f"model.{suffix}")
    plain = {"language": "ko", "source": {"model": str(tmp_path)}, "corpus": {"text": ["ko.txt"]}}
    assert not tied_now(recipe_from(plain))


@pytest.mark.parametrize("depth", [{}, {"num_decoder_layers": None}, {"num_decoder_layers": 2}])
def test_a_t5_decoder_whose_depth_is_left_open_is_as_deep_as_the_encoder(depth):
    plain = {"language": "ko", "source": {"model": "x"}, "corpus": {"text": ["ko.txt"]}}
    config = {"d_model": 32, "num_layers": 2} | depth
    found = depth_and_width(config, FAMILIES["t5"], recipe_from(plain))
    assert found == (8, 32)  # with a layer before and behind in both
