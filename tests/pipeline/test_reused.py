"""`lingraft check` refuses a tokenizer that exists already as the run would, by its files alone."""

from __future__ import annotations

import json
import shutil

import pytest

from lingraft.errors import UnsupportedModelError
from lingraft.models.families import FAMILIES
from lingraft.pipeline import preflight, stages
from lingraft.recipe.methods import recipe_from
from lingraft.tokenizer import extension
from lingraft.tokenizer import files as tokenizer_files

GIVEN = ("bert", "roberta", "t5", "mbart", "llama", "gpt2")
SOURCES = ("bert", "roberta", "t5", "mbart", "qwen2", "gpt2")


def asked(source, text, **tokenizer):
    return recipe_from(
        {
            "language": "ko",
            "source": {"model": str(source)},
            "corpus": {"text": [str(text)]},
            "tokenizer": tokenizer,
        }
    )


def refusal(do):
    try:
        do()
    except UnsupportedModelError as error:
        return str(error)
    return ""


def by_check(recipe):
    return refusal(lambda: preflight.check_inputs(recipe))


def by_the_run(recipe):
    pad_id, _ = stages.position_settings(recipe)
    theirs = stages.source_tokenizer(recipe)
    causal = stages.family_now(recipe).kind == "causal"
    options = {"pad_id": pad_id, "seed": 0, "causal": causal}
    lines = ["가나다 abc"]
    return refusal(lambda: extension.make(recipe.tokenizer, theirs, lambda: lines, **options))


def general(folder, tiny_tokenizer, tmp_path):
    """A tokenizer as lingraft writes it, whose files name every role."""
    tokenizer = tiny_tokenizer(folder)
    state = tokenizer_files.state_of(tokenizer)
    tokenizer_files.save(tokenizer_files.wrapped(state, tokenizer), tmp_path / folder)
    return tmp_path / folder


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("given", GIVEN)
def test_a_tokenizer_that_is_given_is_refused_in_the_same_words(
    given, source, tiny_source, tiny_tokenizer, korean_text, tmp_path
):
    folder = general(given, tiny_tokenizer, tmp_path)
    recipe = asked(tiny_source(source), korean_text, kind="given", model=str(folder))
    assert by_check(recipe) == by_the_run(recipe)


@pytest.mark.parametrize(
    ("given", "source", "words"),
    [
        ("bert", "roberta", "padding token at id 0, and the source counts positions from 1"),
        ("bert", "t5", "lacks <extra_id_0>"),
        ("gpt2", "bert", "has no pad_token, mask_token"),
        ("gpt2", "qwen2", "lacks <|im_start|>"),
    ],
)
def test_what_does_not_suit(
    given, source, words, tiny_source, tiny_tokenizer, korean_text, tmp_path
):
    folder = general(given, tiny_tokenizer, tmp_path)
    recipe = asked(tiny_source(source), korean_text, kind="given", model=str(folder))
    assert words in by_check(recipe)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_tokenizer_that_the_run_keeps_is_refused(family, tiny_source, korean_text):
    recipe = asked(tiny_source(family), korean_text, kind="keep")
    assert by_check(recipe) == by_the_run(recipe) == ""


def test_a_source_with_another_padding_id_than_its_tokenizer(tiny_source, korean_text, tmp_path):
    folder = shutil.copytree(tiny_source("roberta"), tmp_path / "source")
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pad_token_id": 2}))
    recipe = asked(folder, korean_text, kind="keep")
    assert by_check(recipe) == by_the_run(recipe)
    assert "need the padding token at id 2, but its tokenizer has it at 1" in by_check(recipe)


def test_a_mask_token_that_no_file_names(tiny_source, tiny_tokenizer, korean_text, tmp_path):
    folder = general("bert", tiny_tokenizer, tmp_path)
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text("utf-8"))
    del settings["mask_token"]
    path.write_text(json.dumps(settings), "utf-8")
    recipe = asked(tiny_source("bert"), korean_text, kind="given", model=str(folder))
    assert by_check(recipe) == by_the_run(recipe)
    assert f"tokenizer '{folder}' has no mask_token" in by_check(recipe)


def test_a_tokenizer_that_puts_nothing_around_a_sentence(
    tiny_source, tiny_tokenizer, korean_text, tmp_path
):
    folder = general("roberta", tiny_tokenizer, tmp_path)
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"post_processor": None}))
    recipe = asked(tiny_source("roberta"), korean_text, kind="given", model=str(folder))
    assert by_check(recipe) == by_the_run(recipe)
