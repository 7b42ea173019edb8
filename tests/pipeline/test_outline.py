"""What is counted of a target without weights is what the built and grafted model has."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from lingraft.models.families import FAMILIES
from lingraft.models.graft import is_tied, untie
from lingraft.models.parts import translation_layers
from lingraft.models.source import load_model, load_shapes
from lingraft.pipeline import grafting, stages
from lingraft.pipeline.model_kinds import for_model_kind
from lingraft.pipeline.preflight import outline, shapes_of
from lingraft.recipe.methods import recipe_from
from lingraft.tokenizer import extension
from lingraft.training.problem import select_trained

TEXT = ["나는 학교에 가서 친구를 만나고 집에 와서 책을 읽었다", "오늘은 2024년, 365일"] * 9
TEXT += ["a house"] * 9


def phase(name, *train):
    return {"name": name, "train": train, "budget": "1 steps"}


METHODS = {
    "layers around, vocabulary replaced": {
        "training": {"method": "xpt", "preset": "xpt2021"},
        "tokenizer": {"algorithm": "source", "vocab_size": 320},
        "graft": {"inserted_before": 1, "inserted_after": 1},
    },
    "layers between, vocabulary kept": {
        "tokenizer": {"action": "keep"},
        "graft": {"inserted_before": 0, "inserted_after": 0, "inserted_every": 1},
        "phases": [
            phase("rows", "embeddings.old", "inserted"),
            phase("maps", "embeddings") | {"lora": {"rank": 2, "parts": ["layers[-1]"]}},
        ],
    },
}
MORE = {
    "pieces added, new rows": {
        "tokenizer": {"action": "append", "vocab_size": 320},
        "phases": [phase("rows", "embeddings.new")],
    },
    "adapters": {"training": {"method": "adapters"}, "tokenizer": {"action": "keep"}},
    "cross-attention": {"graft": {"cross_attention": True}, "tokenizer": {"action": "keep"}},
}
CASES = [(family, method) for method in METHODS for family in FAMILIES]
CASES += [("bert", method) for method in MORE] + [("gemma3_text", "pieces added, new rows")]


def recipe_for(folder, tables):
    data = {"language": "ko", "source": {"model": str(folder)}, "corpus": {"text": ["ko.txt"]}}
    family = FAMILIES[json.loads((folder / "config.json").read_text())["model_type"]]
    return for_model_kind(recipe_from(data | tables), family)


@pytest.mark.parametrize(("family", "method"), CASES)
def test_counts_are_those_of_the_built_model(family, method, tiny_source, tmp_path):
    record = FAMILIES[family]
    tables = (METHODS | MORE)[method]
    if record.own_pattern and "algorithm" in tables["tokenizer"]:
        tables = tables | {"tokenizer": {"action": "replace", "vocab_size": 450}}
    recipe = recipe_for(tiny_source(family), tables)
    theirs = stages.source_tokenizer(recipe)
    pad, _ = stages.position_settings(recipe)
    how = {"pad_id": pad, "seed": 0, "causal": record.kind == "causal"}
    ours, counts = extension.make(recipe.tokenizer, theirs, lambda: TEXT, **how)
    made = counts["added"] if counts else len(ours)
    section = recipe.tokenizer.model_copy(update={"vocab_size": made})
    recipe = recipe.model_copy(update={"tokenizer": section})
    result = grafting.Grafting(recipe, theirs, ours, lambda: TEXT, len).run(tmp_path)
    said = outline(recipe, shapes_of(recipe.source, recipe.tokenizer.vocab_size))
    assert said.by_part == result["parameters"]["by_part"]
    assert sum(said.by_part.values()) == result["parameters"]["total"]
    new_V = torch.arange(said.rows) >= said.old_rows
    for phase in recipe.phases:
        real = load_model(str(tmp_path / "model")).model
        itl = translation_layers(real.config, record, recipe.graft.places)
        trained = select_trained(real, record, phase, itl, lambda new=new_V: new)
        assert said.trainable(phase) == trained.count


@pytest.mark.parametrize("differ", [True, False])
def test_a_head_that_is_stored_is_tied_where_it_equals_the_embeddings(differ, tiny_model, tmp_path):
    """As T5 1.1's and mT5's on the Hub, which transformers 5 calls tied."""
    model = tiny_model("mt5", tie_word_embeddings=False)
    untie(model)
    model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    tensors["lm_head.weight"] = tensors["shared.weight"] + differ
    save_file(tensors, path, {"format": "pt"})
    config = json.loads((tmp_path / "config.json").read_text())
    config["tie_word_embeddings"] = not differ
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert is_tied(load_model(str(tmp_path)).model) is not differ
    assert is_tied(load_shapes(tmp_path).model) is not differ
