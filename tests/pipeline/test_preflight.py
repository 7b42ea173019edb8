from __future__ import annotations

import shutil

import pytest
import torch
from transformers import AutoConfig, AutoModelForMaskedLM

from lingraft.errors import DataError, UnsupportedModelError
from lingraft.pipeline import preflight
from lingraft.recipe.methods import read_recipe, recipe_from
from lingraft.rundir import Run


def planned(run, *assignments):
    """The plan of a finished run's recipe, with the vocabulary that the text gave."""
    size = Run(run).stage("tokenizer").result()["vocab_size"]
    recipe = read_recipe(run / "recipe.toml", [f"tokenizer.vocab_size={size}", *assignments])
    return preflight.check(recipe)


@pytest.mark.parametrize("family", ["roberta", "t5"])
def test_trainable_parameters_are_those_of_the_phases(family, adapted):
    run = adapted(family)
    said = [phase["trainable"] for phase in planned(run).phases]
    done = [Run(run).stage(f"phase-{number}").result() for number in (1, 2)]
    assert said == [result["trainable_parameters"] for result in done]


def test_the_plan_names_the_stages_and_counts_the_text(adapted, korean_text):
    plan = planned(adapted("bert"), 'baselines=[{method="scratch"}]')
    assert plan.stages == [
        "corpus", "tokenizer", "graft", "phase-1", "phase-2", "evaluation", "model", "report",
        "baseline scratch",
    ]  # fmt: skip
    (file,) = plan.files
    assert file["bytes"] == korean_text.stat().st_size


def small(tiny_source, korean_text, **tables):
    data = {
        "language": "ko",
        "source": {"model": str(tiny_source("bert"))},
        "corpus": {"text": [str(korean_text)]},
        "training": {"preset": "xpt2021"},
    }
    return recipe_from(data | tables)


def test_a_hub_model_that_is_not_here_is_noted_and_not_downloaded(tiny_source, korean_text):
    recipe = small(tiny_source, korean_text, source={"model": "nobody/has-this-model"})
    plan = preflight.check(recipe)
    assert plan.parameters is None
    assert plan.phases[0]["trainable"] is None
    assert plan.notes == [
        "source 'nobody/has-this-model' is not on this machine; its size is known once it is "
        "downloaded (check downloads nothing)"
    ]


def test_an_architecture_has_the_size_of_the_model_that_is_built_of_it(tiny_source, korean_text):
    recipe = small(
        tiny_source,
        korean_text,
        source={"architecture": {"model_type": "modernbert"}},
        training={"method": "scratch", "preset": "xpt2021"},
        tokenizer={"algorithm": "unigram"},
    )
    plan = preflight.check(recipe)
    config = AutoConfig.for_model("modernbert", vocab_size=recipe.tokenizer.vocab_size)
    config.pad_token_id, config.num_hidden_layers = 1, config.num_hidden_layers + 2
    config.layer_types = [config.layer_types[0]] * config.num_hidden_layers
    with torch.device("meta"):
        expected = AutoModelForMaskedLM.from_config(config).num_parameters()
    assert plan.parameters == expected


@pytest.fixture
def norm_bias(tiny_source, tiny_model, tmp_path):
    """A source whose first layer lacks the bias of a norm."""
    folder = shutil.copytree(tiny_source("modernbert"), tmp_path / "source")
    tiny_model("modernbert", norm_bias=True).save_pretrained(folder)
    return {"model": str(folder)}


@pytest.mark.parametrize(
    ("graft", "refused"),
    [
        ({"inserted_before": 1}, True),
        ({"inserted_before": 0, "inserted_every": 1, "inserted_init": "copy"}, True),
        ({"inserted_before": 0, "inserted_every": 1}, False),
        ({"inserted_before": 1, "source_weights": "random"}, False),
    ],
    ids=str,
)
def test_a_layer_before_one_without_the_bias_of_a_norm_is_refused(
    graft, refused, tiny_source, korean_text, norm_bias
):
    """Before anything is made: the graft cannot be."""
    recipe = small(tiny_source, korean_text, source=norm_bias, graft=graft)
    if not refused:
        preflight.check(recipe)
        return
    with pytest.raises(UnsupportedModelError, match="the family's record does not fit this model"):
        preflight.check(recipe)


@pytest.mark.parametrize(
    ("key", "value"),
    [("lexicons", ["./no.tsv"]), ("target_vectors", "./no.tsv")],
)
def test_a_resource_that_is_not_there_is_refused(key, value, tiny_source, korean_text):
    with pytest.raises(DataError, match=r"\./no\.tsv: no such file"):
        preflight.check(small(tiny_source, korean_text, embeddings={key: value}))
