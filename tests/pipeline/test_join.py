"""A language joins a finished run: vocabulary, rows, text, and what is said of the old language."""

from __future__ import annotations

import json

import pytest
from safetensors.torch import load_file

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
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def joined(command, adapted, danish, tmp_path_factory):
    """The old run and the one in which Danish has joined its Korean."""
    old, out = adapted("roberta"), tmp_path_factory.mktemp("joined") / "run"
    sizes = ("--budget", "4steps", "tokenizer.vocab_size=400", "training.batch={size=8}")
    ended = command("adapt", "--join", old, "--text", f"da={danish}", "--out", out, *sizes)
    assert ended.status == 0, ended.err
    return Run(old), Run(out), ended


def test_old_pieces_keep_their_ids_and_rows_bit_for_bit_until_training(joined):
    old, new, _ = joined
    pieces = [
        json.loads((run / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
        for run in (old.model_path, new.model_path)
    ]
    assert pieces[0].items() <= pieces[1].items()
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
    known, pieces = (
        json.loads((run / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
        for run in (old.model_path, new.model_path)
    )
    added = pieces.keys() - known.keys()
    assert "Ġhund" in added
    letters = set("".join(WORDS).encode().decode("latin-1")) | set("Ġ.") | {"Ã", "¦", "¸", "¥"}
    assert set("".join(added)) <= letters


def test_both_languages_are_drawn_and_the_old_one_is_judged_before_and_after(joined):
    _, new, ended = joined
    drawn = new.stage("phase-1").result()["streams"]
    assert all(stream["draws"] > 0 for stream in drawn.values())
    result = new.stage("evaluation").result()
    assert list(result["before"]) == ["ko"]
    assert result["before"]["ko"]["words"] > 0
    report = (new.path / "report.html").read_text(encoding="utf-8")
    assert "Bits per character by stream</caption>" in report
    assert "beside the source, of 1 stream" in ended.out
    before = (new.stage("evaluation").path / "ko-before-words.tsv").read_text(encoding="utf-8")
    after = (new.stage("evaluation").path / "ko-words.tsv").read_text(encoding="utf-8")
    keys = [[line.split("\t")[0] for line in text.splitlines()] for text in (before, after)]
    assert keys[0] == keys[1]
    assert before != after


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "bart"])
def test_a_language_joins_a_model_of_another_kind(family, command, adapted, danish, tmp_path):
    sizes = ("--budget", "2steps", "tokenizer.vocab_size=400", "training.batch={size=8}")
    texts = ("--text", f"da={danish}", "--out", tmp_path / "run")
    ended = command("adapt", "--join", adapted(family), *texts, *sizes)
    assert ended.status == 0, ended.err
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
    plain = joined_recipe(run, "model", new, pieces=320)
    assert plain["tokenizer"]["vocab_size"] == size
