"""A language joins a finished run: vocabulary, rows, text, and what is said of the old language."""

from __future__ import annotations

import json

import pytest
from safetensors.torch import load_file
from tiny_tokenizers import SIZE, build

from lingraft.errors import RecipeError
from lingraft.recipe.decoding import load
from lingraft.recipe.joining import joined as joined_recipe
from lingraft.recipe.methods import recipe_from
from lingraft.rundir import Run
from lingraft.tokenizer.sizes import sizes_of

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


def test_the_recipe_holds_both_languages_and_the_run_s_model(joined):
    old, new, _ = joined
    recipe = load(new.recipe_path)
    assert [stream["name"] for stream in recipe["streams"]] == ["ko", "da"]
    assert recipe["source"]["model"] == str(old.model_path)
    assert (recipe["tokenizer"]["action"], recipe["tokenizer"]["streams"]) == ("add", ["da"])
    assert recipe["evaluation"]["before"] == ["ko"]
    assert recipe["training"]["method"] == "join"


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
    assert "<h3>Kept or lost</h3>" in report
    assert "Against the source itself in bits per character" in ended.out
    before = (new.stage("evaluation").path / "ko-before-words.tsv").read_text(encoding="utf-8")
    after = (new.stage("evaluation").path / "ko-words.tsv").read_text(encoding="utf-8")
    keys = [[line.split("\t")[0] for line in text.splitlines()] for text in (before, after)]
    assert keys[0] == keys[1]
    assert before != after


def test_the_source_s_figures_are_those_of_the_old_run(joined):
    old, new, _ = joined
    theirs = old.stage("evaluation").result()["words"]["bits_per_character"]
    ours = new.stage("evaluation").result()["before"]["ko"]["bits_per_character"]
    assert ours == pytest.approx(theirs, rel=1e-4)


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


def test_each_language_gets_as_many_pieces_whenever_it_joins():
    def stream(code: str) -> dict[str, object]:
        return {"name": code, "language": code, "corpus": {"text": [f"{code}.txt"]}}

    run = recipe_from(
        {
            "source": {"model": "m"},
            "tokenizer": {"vocab_size": 6000},
            "streams": [*map(stream, ("de", "fr", "ja"))],
        }
    )
    sizes = []
    for languages in (["ko"], ["es", "it"], ["sw"]):
        plain = joined_recipe(run, "model", [*map(stream, languages)])
        sizes.append(plain["tokenizer"]["vocab_size"])
        run = recipe_from(plain)
    assert sizes == [2000, 4000, 2000]


@pytest.mark.parametrize(
    ("section", "size"),
    [
        ({"action": "keep"}, SIZE),
        ({"action": "trim"}, SIZE),
        ({"action": "use", "model": "g"}, SIZE),
        ({"action": "extend", "new_pieces": 700}, 700),
        ({"vocab_size": 600}, 600),
        ({"vocab_size": 40}, 40),
    ],
)
def test_a_vocabulary_that_was_not_trained_counts_by_its_pieces(section, size, tmp_path):
    saved = build("roberta")
    saved.save_pretrained(tmp_path)
    assert len(saved) == SIZE
    stream = {"name": "ko", "language": "ko", "corpus": {"text": ["ko.txt"]}}
    run = recipe_from({"source": {"model": "m"}, "tokenizer": section, "streams": [stream]})
    pieces, fewest = sizes_of(run, tmp_path)
    new = [stream | {"name": "sw", "language": "sw"}]
    plain = joined_recipe(run, "model", new, pieces=pieces, fewest=fewest)
    assert plain["tokenizer"]["vocab_size"] == size


@pytest.mark.parametrize("code", ["ko", "KO", "kor", "ko-Kore"])
def test_a_language_of_the_run_does_not_join_it_again_however_it_is_spelt(code):
    stream = {"name": "ko", "language": "ko", "corpus": {"text": ["ko.txt"]}}
    run = recipe_from({"source": {"model": "m"}, "streams": [stream]})
    with pytest.raises(RecipeError, match=f"the run has the language {code} already"):
        joined_recipe(run, "model", [stream | {"name": "new", "language": code}])


def test_the_code_around_the_old_language_s_sentences_stays():
    theirs = recipe_from(
        {
            "language": "ko",
            "corpus": {"text": ["ko.txt"]},
            "source": {"model": "mbart"},
            "tokenizer": {"language_code": "xx_XX"},
        }
    )
    danish = [{"name": "da", "language": "da", "corpus": {"text": ["da.txt"]}}]
    recipe = recipe_from(joined_recipe(theirs, "run/model", danish, masked=False))
    assert recipe.tokenizer.language_code == "xx_XX"
