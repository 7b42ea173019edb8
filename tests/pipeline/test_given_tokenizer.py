"""`lingraft adapt --tokenizer`: a run with a tokenizer that exists already."""

from __future__ import annotations

import json
import tomllib

import pytest
from transformers import AutoModelForMaskedLM, AutoTokenizer


@pytest.fixture(scope="module")
def made(command, adapted, shorthand, tiny_tokenizer, tmp_path_factory):
    """A RoBERTa with another run's byte-level vocabulary: its arguments, and how it ended."""
    folder = tmp_path_factory.mktemp("given")
    given = AutoTokenizer.from_pretrained(adapted("roberta") / "model")
    given.add_tokens(["한글날"])
    given.save_pretrained(folder / "tokenizer")
    words = [str(word) for word in shorthand(folder / "run")]
    words.remove("tokenizer.vocab_size=300")
    arguments = (*words, "--tokenizer", folder / "tokenizer")
    return folder, arguments, command(*arguments)


def test_the_model_has_the_tokenizer_that_was_given(made):
    folder, _, finished = made
    assert finished.status == 0, finished.err
    theirs = AutoTokenizer.from_pretrained(folder / "tokenizer")
    ours = AutoTokenizer.from_pretrained(folder / "run" / "model")
    assert ours.get_vocab() == theirs.get_vocab()
    text = "한글날 문서를 열고"
    assert ours(text).input_ids == theirs(text).input_ids
    model = AutoModelForMaskedLM.from_pretrained(folder / "run" / "model")
    assert model.get_input_embeddings().weight.shape[0] == len(theirs)


def test_run_and_card_say_so_and_the_plan_knew_the_size(made, command):
    folder, _, _ = made
    recipe = tomllib.loads((folder / "run" / "recipe.toml").read_text("utf-8"))
    size = len(AutoTokenizer.from_pretrained(folder / "tokenizer"))
    assert recipe["tokenizer"]["action"] == "use"
    assert recipe["tokenizer"]["vocab_size"] == size
    card = (folder / "run" / "model" / "README.md").read_text("utf-8")
    assert str(folder) not in card
    checked = command("check", folder / "run" / "recipe.toml")
    assert checked.status == 0, checked.err
    stage = json.loads((folder / "run" / "graft" / "done.json").read_text("utf-8"))
    assert f"{stage['result']['parameters']['total']:,}" in checked.out
