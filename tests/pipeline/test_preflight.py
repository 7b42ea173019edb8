"""`lingraft check` refuses a tokenizer that exists already before any text is read."""

from __future__ import annotations

import shutil

import pytest
import torch
from plain_recipes import plain
from transformers import AutoConfig, AutoModelForMaskedLM

from lingraft.errors import DataError, UnsupportedModelError
from lingraft.models.families import FAMILIES
from lingraft.pipeline import preflight
from lingraft.recipe.methods import read_recipe, recipe_from
from lingraft.rundir import Run
from lingraft.tokenizer import files as tokenizer_files


def planned(run, *assignments):
    """The plan of a finished run's recipe, with the vocabulary that the text gave."""
    size = Run(run).stage("tokenizer").result()["vocab_size"]
    recipe = read_recipe(run / "recipe.toml", [f"tokenizer.vocab_size={size}", *assignments])
    return preflight.check(recipe)


def test_the_plan_names_the_stages_and_counts_the_text(adapted, korean_text):
    plan = planned(adapted("bert"), 'baselines=[{method="scratch"}]')
    stages = "corpus tokenizer graft phase-1 phase-2 evaluation model report"
    assert " ".join(plan.stages) == f"{stages} baseline scratch"
    (file,) = plan.files
    assert file["bytes"] == korean_text.stat().st_size


def small(tiny_source, korean_text, **tables):
    training = {"preset": "xpt2021"}
    return recipe_from(plain(tiny_source("bert"), korean_text, training=training) | tables)


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
    tables = {"source": {"architecture": {"model_type": "modernbert"}}}
    tables |= {"training": {"method": "scratch", "preset": "xpt2021"}}
    recipe = small(tiny_source, korean_text, tokenizer={"algorithm": "unigram"}, **tables)
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
def test_layers_before_no_bias_are_refused(graft, refused, tiny_source, korean_text, norm_bias):
    """Before anything is made: the graft cannot be."""
    recipe = small(tiny_source, korean_text, source=norm_bias, graft=graft)
    if not refused:
        preflight.check(recipe)
        return
    with pytest.raises(UnsupportedModelError, match="the family's record does not fit this model"):
        preflight.check(recipe)


@pytest.mark.parametrize(
    ("key", "value"), [("lexicons", ["./no.tsv"]), ("target_vectors", "./no.tsv")]
)
def test_a_resource_that_is_not_there_is_refused(key, value, tiny_source, korean_text):
    with pytest.raises(DataError, match=r"\./no\.tsv: no such file"):
        preflight.check(small(tiny_source, korean_text, embeddings={key: value}))


def asked(source, text, **tokenizer):
    return recipe_from(plain(source, text, tokenizer=tokenizer))


def refusal(do):
    try:
        do()
    except UnsupportedModelError as error:
        return str(error)
    return ""


def by_check(recipe):
    return refusal(lambda: preflight.check(recipe))


def general(folder, tiny_tokenizer, tmp_path):
    """A tokenizer as lingraft writes it, whose files name every role."""
    tokenizer = tiny_tokenizer(folder)
    state = tokenizer_files.state_of(tokenizer)
    tokenizer_files.save(tokenizer_files.wrapped(state, tokenizer), tmp_path / folder)
    return tmp_path / folder


@pytest.mark.parametrize(
    ("given", "source", "words"),
    [
        ("bert", "roberta", "padding token at id 0, and the source counts positions from 1"),
        ("bert", "t5", "lacks <extra_id_0>"),
        ("gpt2", "bert", "has no pad_token, mask_token"),
    ],
)
def test_what_does_not_suit(
    given, source, words, tiny_source, tiny_tokenizer, korean_text, tmp_path
):
    folder = general(given, tiny_tokenizer, tmp_path)
    recipe = asked(tiny_source(source), korean_text, action="use", model=str(folder))
    assert words in by_check(recipe)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_tokenizer_that_the_run_keeps_is_refused(family, tiny_source, korean_text):
    assert by_check(asked(tiny_source(family), korean_text, action="keep")) == ""
