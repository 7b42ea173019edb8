"""A language joins a finished run: vocabulary, rows, text, and what is said of the old language.

`lingraft adapt --tokenizer`: a run with a tokenizer that exists already.
"""

from __future__ import annotations

import json
import tomllib

import pytest
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM, AutoTokenizer

from lingraft.errors import RecipeError
from lingraft.recipe.baselines import joined as joined_recipe
from lingraft.recipe.methods import recipe_from
from lingraft.rundir import Run

WORDS = ("hus", "træ", "hund", "går", "løber", "ser", "den", "grønne", "gamle", "lille")


@pytest.fixture(scope="module")
def danish(tmp_path_factory):
    import random

    drawn = random.Random(0)
    lines = [" ".join(drawn.choices(WORDS, k=drawn.randint(4, 9))) + ".\n" for _ in range(120)]
    path = tmp_path_factory.mktemp("danish") / "da.txt"
    path.write_text("".join(lines), "utf-8")
    return path


@pytest.fixture(scope="module")
def joined(command, adapted, danish, tmp_path_factory):
    """The old run and the one in which Danish has joined its Korean."""
    old, out = adapted("roberta"), tmp_path_factory.mktemp("joined") / "run"
    sizes = ("--budget", "4steps", "tokenizer.vocab_size=400", "training.batch={size=8}")
    ended = command("adapt", "--join", old, "--text", f"da={danish}", "--out", out, *sizes).well()
    return Run(old), Run(out), ended


def vocabulary(run):
    return json.loads((run.model_path / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]


def test_old_pieces_keep_their_ids_and_rows_bit_for_bit_until_training(joined):
    old, new, _ = joined
    assert vocabulary(old).items() <= vocabulary(new).items()
    before = load_file(old.model_path / "model.safetensors")
    after = load_file(new.stage("graft").path / "model" / "model.safetensors")
    size = len(before["roberta.embeddings.word_embeddings.weight"])
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        assert after[name][: len(tensor)].equal(tensor), name
    rows = after["roberta.embeddings.word_embeddings.weight"]
    assert len(rows) > size
    trained = load_file(new.model_path / "model.safetensors")
    assert not trained["roberta.embeddings.word_embeddings.weight"][:size].equal(rows[:size])


def test_new_pieces_come_from_the_new_language_alone(joined):
    old, new, _ = joined
    added = vocabulary(new).keys() - vocabulary(old).keys()
    assert "Ġhund" in added
    letters = set("".join(WORDS).encode().decode("latin-1")) | set("Ġ.") | {"Ã", "¦", "¸", "¥"}
    assert set("".join(added)) <= letters


def test_both_languages_are_drawn_and_the_old_one_is_judged_before_and_after(joined):
    _, new, ended = joined
    assert all(stream["draws"] > 0 for stream in new.stage("phase-1").result()["streams"].values())
    result = new.stage("evaluation").result()
    assert list(result["before"]) == ["ko"]
    assert result["before"]["ko"]["words"] > 0
    assert "Bits per character by stream</caption>" in (new.path / "report.html").read_text("utf-8")
    assert "beside the source, of 1 stream" in ended.out
    before = (new.stage("evaluation").path / "ko-before-words.tsv").read_text("utf-8")
    after = (new.stage("evaluation").path / "ko-words.tsv").read_text("utf-8")
    keys = [[line.split("\t")[0] for line in text.splitlines()] for text in (before, after)]
    assert keys[0] == keys[1]
    assert before != after


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "bart"])
def test_a_language_joins_a_model_of_another_kind(family, command, adapted, danish, tmp_path):
    sizes = ("--budget", "2steps", "tokenizer.vocab_size=400", "training.batch={size=8}")
    texts = ("--text", f"da={danish}", "--out", tmp_path / "run")
    command("adapt", "--join", adapted(family), *texts, *sizes).well()
    result = Run(tmp_path / "run").stage("evaluation").result()
    assert list(result["streams"]) == ["ko", "da"]
    assert ("untouched" in result) == (family == "llama")


@pytest.mark.parametrize("code", ["KO", "ko-Kore"])
def test_a_language_of_the_run_does_not_join_it_again_however_it_is_spelt(code):
    stream = {"name": "ko", "language": "ko", "corpus": {"text": ["ko.txt"]}}
    run = recipe_from({"source": {"model": "m"}, "streams": [stream]})
    with pytest.raises(RecipeError, match="a language that the run has not yet"):
        joined_recipe(run, "model", [stream | {"name": "new", "language": code}])


@pytest.mark.parametrize(
    ("section", "size"),
    [
        ({"action": "keep"}, 320),
        ({"action": "trim"}, 320),
        ({"action": "use", "model": "g"}, 320),
        ({"action": "extend", "new_pieces": 700}, 700),
        ({"vocab_size": 600}, 600),
    ],
)
def test_a_vocabulary_that_was_not_trained_counts_by_its_pieces(section, size):
    stream = {"name": "ko", "language": "ko", "corpus": {"text": ["ko.txt"]}}
    run = recipe_from({"source": {"model": "m"}, "tokenizer": section, "streams": [stream]})
    new = [stream | {"name": "sw", "language": "sw"}]
    assert joined_recipe(run, "model", new, pieces=320)["tokenizer"]["vocab_size"] == size


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
    assert str(folder) not in (folder / "run" / "model" / "README.md").read_text("utf-8")
    checked = command("check", folder / "run" / "recipe.toml").well()
    stage = json.loads((folder / "run" / "graft" / "done.json").read_text("utf-8"))
    assert f"{stage['result']['parameters']['total']:,}" in checked.out
