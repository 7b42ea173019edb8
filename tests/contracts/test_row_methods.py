"""What holds for every method that trains rows, layers or blocks, on an encoder and on decoders."""

from __future__ import annotations

import functools

import pytest
import torch
from papers import papers

import lingraft
from lingraft.errors import RecipeError
from lingraft.models.families import FAMILIES
from lingraft.models.graft import is_tied
from lingraft.models.parts import translation_layers
from lingraft.models.selection import Layout, Selection
from lingraft.models.source import load_model
from lingraft.pipeline.grafted import added_rows
from lingraft.pipeline.model_kinds import for_model_kind
from lingraft.recipe.decoding import load
from lingraft.recipe.methods import recipe_from

METHODS = ("blocks", "eeve", "two-by-two", "in-place", "chinese-llama")
TIED = ("modernbert", "gpt2")
CASES = [
    (family, method)
    for place, method in enumerate(METHODS)
    for family in (TIED[place % 2], "mistral")
]
"""Every method on a tied source, and on one with a head of its own."""
SMALL = {
    "language": "ko",
    "hardware": {"precision": "fp32", "row_tokens": 32},
    "evaluation": {"max_sentences": 4, "max_words": 2, "samples": 1},
}
TRAINED = {"budget": {"value": 8}, "batch": {"size": 4}, "learning_rate": 0.01, "warmup": 0}
CHANGED = {
    "blocks": {"graft": {"inserted_every": 1}},  # of two layers
    "eeve": {"tokenizer": {"new_pieces": 40}},
    "two-by-two": {"tokenizer": {"new_pieces": 40}},
    "in-place": {"tokenizer": {"new_pieces": 40}},
    "chinese-llama": {"tokenizer": {"vocab_size": 400}},
}


@pytest.fixture(scope="module")
def run_of(tmp_path_factory, tiny_source, korean_text):
    """A finished run of eight steps."""

    @functools.cache
    def run(family, method):
        tables = {"tokenizer": {}} | CHANGED[method]
        tables["tokenizer"] = {"max_tokens": 32} | tables["tokenizer"]
        tables |= {"source": {"model": str(tiny_source(family))}}
        tables |= {"corpus": {"text": [str(korean_text)]}, "training": TRAINED | papers(method)}
        return lingraft.adapt(SMALL | tables, tmp_path_factory.mktemp(method) / family)

    return run


def tensors(model):
    return dict(model.named_parameters())


@pytest.mark.parametrize(
    ("family", "method"),
    [pytest.param(*case, marks=[pytest.mark.slow] * (case[0] == "mistral")) for case in CASES],
)
def test_phases_move_what_they_name_and_not_one_bit_of_other_rows_and_layers(
    family, method, run_of
):
    run = run_of(family, method)
    recipe = recipe_from(load(run.recipe_path))
    added = torch.tensor(added_rows(run.stage("graft").path))
    names = [phase.name for phase in recipe.phases]
    for index, phase in enumerate(recipe.phases):
        before = load_model(str(run.weights(names[:index]))).model
        after = tensors(load_model(str(run.weights(names[: index + 1]))).model)
        record = FAMILIES[family]
        itl = translation_layers(before.config, record, recipe.graft.places)
        depth = int(getattr(before.config, record.depth_key))
        selection = Selection(phase, Layout(record, itl, (depth,), is_tied(before)))
        for name, tensor in tensors(before).items():
            kinds = {piece.rows for piece in selection.pieces(name)}
            same = tensor == after[name]
            if not kinds and not (tensor.dim() == 2 and selection.adapts(name)):
                assert bool(same.all()), f"{phase.name}: {name} moved"
            elif kinds == {"new"}:
                assert torch.equal(~same.flatten(1).all(1), added), f"{phase.name}: {name}"
            else:
                assert not bool(same.all()), f"{phase.name}: {name} did not move"


def test_eeve_has_seven_phases_and_four_where_the_head_is_tied(run_of):
    names = {}
    for family in ("gpt2", "mistral"):
        recipe = recipe_from(load(run_of(family, "eeve").recipe_path))
        names[family] = [phase.name[-1] for phase in recipe.phases]
    assert names == {"gpt2": ["3", "4", "6", "7"], "mistral": list("1234567")}


@pytest.mark.slow
def test_a_tied_head_is_known_where_rules_decide_and_in_baselines(
    tmp_path, tiny_source, korean_text
):
    asked = {"method": "in-place", "preset": "auto", "budget": {"value": 8, "unit": "steps"}}
    tables = {"training": asked, "baselines": [{"method": "eeve"}]} | CHANGED["in-place"]
    tables |= {"source": {"model": str(tiny_source("gpt2"))}}
    tables |= {"corpus": {"text": [str(korean_text)]}}
    run = lingraft.adapt(SMALL | tables, tmp_path / "run")
    trained = [
        [(phase.name[-1], *phase.train) for phase in recipe_from(load(path)).phases]
        for path in (run.recipe_path, run.path / "baselines/eeve/recipe.toml")
    ]
    assert trained == [
        [("1", "embeddings.new"), ("2", "all")],
        [("3", "embeddings.new"), ("4", "embeddings.rows"), ("6", "all"), ("7", "body")],
    ]


def test_a_method_for_another_kind_of_model_is_refused(tiny_source, korean_text):
    recipe = recipe_from(
        SMALL
        | {"source": {"model": "m"}, "corpus": {"text": ["ko.txt"]}, "training": {"method": "veco"}}
    )
    with pytest.raises(RecipeError, match="method 'veco' is for masked language models, and not"):
        for_model_kind(recipe, FAMILIES["llama"])


def test_a_causal_model_has_no_share_of_masked_tokens():
    tables = {
        "source": {"model": "m"},
        "training": {"method": "xpt-sp", "preset": "xpt2021", "masking_rate": 0.4},
    }
    recipe = recipe_from(SMALL | {"corpus": {"text": ["ko.txt"]}} | tables)
    with pytest.raises(RecipeError, match=r"training\.masking_rate: is not for causal"):
        for_model_kind(recipe, FAMILIES["llama"])
    assert for_model_kind(recipe, FAMILIES["roberta"]).phases[0].masking.rate == 0.4
