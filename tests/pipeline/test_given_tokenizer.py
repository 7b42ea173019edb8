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
    assert f"{size} pieces, taken over from a local tokenizer" in card
    assert str(folder) not in card
    checked = command("check", folder / "run" / "recipe.toml")
    assert checked.status == 0, checked.err
    stage = json.loads((folder / "run" / "graft" / "done.json").read_text("utf-8"))
    assert f"{stage['result']['parameters']['total']:,}" in checked.out


def test_the_same_command_does_nothing_again_and_another_tokenizer_is_noticed(made, command):
    folder, arguments, _ = made
    again = command(*arguments)
    assert again.status == 0, again.err
    assert "tokenizer: done in" not in again.err + again.out
    path = folder / "tokenizer" / "tokenizer.json"
    before = path.read_text("utf-8")
    path.write_text(before.replace("한글날", "한글월"), "utf-8")
    try:
        other = command(*arguments)
    finally:
        path.write_text(before, "utf-8")
    assert other.status != 0
    assert "(tokenizer differs in: contents of files" in other.err


def test_a_tokenizer_and_a_size_do_not_go_together(command, shorthand, tmp_path):
    finished = command(*shorthand(tmp_path / "run"), "--tokenizer", tmp_path)
    assert finished.status == 1
    assert "vocab_size: is of a vocabulary that is trained" in finished.err
    assert not (tmp_path / "run").exists()
