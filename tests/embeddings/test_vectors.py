from __future__ import annotations

import os
import struct
import subprocess
import sys

import numpy as np
import pytest
import torch

from lingraft.embeddings import vectors
from lingraft.embeddings.material import Material
from lingraft.embeddings.segmentation import Segmenter
from lingraft.embeddings.vectors import Units, WordVectors, average_over_words, read_word_vectors
from lingraft.errors import DataError, RecipeError
from lingraft.recipe import Embeddings
from lingraft.tokenizer.vocabulary import Vocabulary

LEARN = """
from lingraft.embeddings.vectors import Units, learn
text = Units([["a", "b", "c"], ["b", "c", "d"]] * 20)
for n_grams in (False, True):
    made = learn(text, "words", width=4, seed=3, n_grams=n_grams)
    print(made.words, made.frequencies_W.tolist(), made.vectors_WE.tobytes().hex())
"""


def test_a_file_of_vectors_is_read(tmp_path):
    path = tmp_path / "ko.vec"
    path.write_text("3 2\n집 1 2.5\nNew York -1e-2 0\n개 3 4 \n", encoding="utf-8")
    made = read_word_vectors(path, "embeddings.target_vectors")
    assert made.words == ["집", "New York", "개"]
    assert np.allclose(made.vectors_WE, [[1, 2.5], [-0.01, 0], [3, 4]])
    assert made.frequencies_W.tolist() == [1, 1 / 2, 1 / 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("집 1 2\n", "its first line is not the count .* line first if the file is GloVe's"),
        ("² 2\n집 1 2\n", "its first line is not the count"),
        (f"1 {'9' * 5_000}\n집 1 2\n", "its first line is not the count"),
        ("1 2\n집 1\n", "line 2 is not a word and 2 finite numbers"),
        ("1 2\n집 1 x\n", "line 2 is not a word and 2 finite numbers"),
        ("1 2\n집 1 nan\n", "line 2 is not a word and 2 finite numbers"),
        ("0 2\n", "has no words"),
    ],
)
def test_a_file_that_is_no_word_vectors_is_refused_in_a_line(tmp_path, text, message):
    path = tmp_path / "ko.vec"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message) as error:
        read_word_vectors(path, "embeddings.target_vectors")
    assert "\n" not in str(error.value)


def test_fasttexts_own_format_is_refused_with_what_to_take_instead(tmp_path):
    path = tmp_path / "cc.ko.300.bin"
    path.write_bytes(struct.pack("<ii", 793_712_314, 12) + bytes(100))
    with pytest.raises(DataError, match=r"is a model in a binary format; .* \(\.vec\)") as error:
        read_word_vectors(path, "embeddings.target_vectors")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("rest", [b"", b"caf\xe9 1 2\n"])
def test_a_file_of_vectors_that_lacks_some_is_read_and_says_so(rest, tmp_path, caplog):
    path = tmp_path / "ko.vec"
    path.write_bytes("2 2\n집 1 2\n".encode() + rest)
    assert read_word_vectors(path, "embeddings.target_vectors").words == ["집"]
    assert "has vectors of 1 different words, and its first line speaks of 2" in caplog.text


def test_a_file_of_vectors_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match=r"none\.vec: no such file; embeddings\.source_vectors"):
        read_word_vectors(tmp_path / "none.vec", "embeddings.source_vectors")


def test_a_piece_is_the_mean_of_its_words_weighted_by_frequency(tiny_tokenizer):
    tokenizer = tiny_tokenizer("roberta")
    words = WordVectors(
        ["dogx", "dogyx"], np.array([3.0, 1.0]), np.array([[1, 0], [0, 1]], dtype=np.float32)
    )
    made = average_over_words(words, Segmenter(tokenizer))
    x, y, z = tokenizer.convert_tokens_to_ids(["x", "y", "z"])
    assert made.shape == (320, 2)
    assert made[x].tolist() == pytest.approx([0.75, 0.25])
    assert made[y].tolist() == pytest.approx([0.0, 1.0])
    assert made[z].tolist() == [0.0, 0.0]


def test_units_are_read_again_and_counted():
    text = Units([["a", "b"], [], ["b"]])
    assert list(text) == list(text) == [["a", "b"], [], ["b"]]
    assert text.counts() == {"a": 1, "b": 2}


@pytest.mark.slow
def test_vectors_are_the_same_in_every_process(capsys):
    exec(LEARN)
    here = capsys.readouterr().out
    salted = os.environ | {"PYTHONHASHSEED": "123"}
    command = [sys.executable, "-c", LEARN]
    there = subprocess.run(command, env=salted, capture_output=True, check=True, text=True).stdout
    assert here == there
    assert len(here.splitlines()) == 2


def test_units_that_are_used_alike_get_like_vectors():
    drawn = np.random.default_rng(0)
    text = []
    for _ in range(10_000):
        animal, number = drawn.choice(["dog", "cat"]), drawn.choice(["one", "two"])
        text.append(["the", animal, "barks"] if drawn.random() < 0.5 else ["give", number, "more"])
    made = vectors.learn(Units(text), "words", width=8, seed=0)
    row = dict(zip(made.words, vectors.unit_length(torch.from_numpy(made.vectors_WE)), strict=True))
    assert row["dog"] @ row["cat"] > row["dog"] @ row["one"] + 0.2
    assert row["one"] @ row["two"] > row["one"] @ row["cat"] + 0.2


def test_rare_pieces_get_no_vector(tiny_tokenizer):
    tokenizer = tiny_tokenizer("roberta")
    text = ["dog cat"] * 10 + ["zzz"] * 3
    material = Material(tokenizer, tokenizer, lambda: text, Embeddings(), 0)
    made = vectors.target_piece_vectors(material)
    seen = set(tokenizer("dog cat", add_special_tokens=False)["input_ids"])
    assert set(made.any(dim=1).nonzero().flatten().tolist()) == seen
    assert torch.allclose(made[list(seen)].norm(dim=1), torch.ones(len(seen)))


def test_pieces_are_learnt_from_about_so_many_units_spread_over_the_text(
    tiny_tokenizer, monkeypatch
):
    """A third of the units in each of three readings; the end of the text is among them."""
    tokenizer, seen = tiny_tokenizer("roberta"), []
    learn = vectors.learn
    monkeypatch.setattr(
        vectors, "learn", lambda text, *a, **k: seen.append(text) or learn(text, *a, **k)
    )
    text = (["dog dog dog"] * 7 + ["cat cat cat"] * 7) * 200
    units = sum(map(len, tokenizer(text, add_special_tokens=False)["input_ids"]))
    for wanted, every in ((None, 1), (3 * units, 1), (units * 9 // 10, 3), (units // 11, 33)):
        resources = Embeddings(vector_width=7, vector_units=wanted)
        material = Material(tokenizer, tokenizer, lambda: text, resources, 0)
        assert vectors.target_piece_vectors(material).shape[1] == 7
        assert len(seen[-1].ids) == pytest.approx(units / every, rel=0.05)
        assert set(seen[-1].names) == set(seen[0].names)


def test_vectors_of_the_source_are_learnt_from_its_text(tmp_path, tiny_tokenizer):
    path = tmp_path / "en.txt"
    path.write_text("The dog, the cat!\n" * 10, encoding="utf-8")
    tokenizer = tiny_tokenizer("roberta")
    resources = Embeddings(source_text=(str(path),))
    material = Material(tokenizer, tokenizer, tuple, resources, 0)
    made = vectors.source_word_vectors(material, "wechsel")
    assert dict(zip(made.words, made.frequencies_W.tolist(), strict=True)) == {
        "The": 10,
        "the": 10,
        "dog": 10,
        "cat": 10,
    }


def test_text_that_is_too_short_is_refused():
    with pytest.raises(DataError, match=r"no words that occur 10 times.* it has 2 in all"):
        vectors.learn(Units([["a", "b"]]), "words", width=4, seed=0)


def test_the_extra_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(RecipeError, match=r'pip install "lingraft\[vectors\]"') as error:
        vectors.learn(Units([["a"] * 10]), "words", width=4, seed=0)
    assert "\n" not in str(error.value)


def test_half_a_character_has_a_vector_from_the_words_it_is_in(tmp_path, tiny_tokenizer):
    tokenizer = tiny_tokenizer("roberta")
    path = tmp_path / "ko.vec"
    path.write_text("1 2\n뷁 0 2\n", encoding="utf-8")
    resources = Embeddings(target_vectors=str(path))
    made = vectors.target_piece_vectors(Material(tokenizer, tokenizer, tuple, resources, 0))
    vocabulary = Vocabulary.of(tokenizer)
    ids = [vocabulary.canonical[i].text for i in made.any(dim=1).nonzero().flatten().tolist()]
    assert all(len(text) < 3 for text in ids)
    assert len(ids) >= 2
