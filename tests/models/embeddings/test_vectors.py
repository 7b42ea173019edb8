from __future__ import annotations

import os
import subprocess
import sys
from itertools import chain

import numpy as np
import pytest

from lingraft.errors import DataError
from lingraft.models.embeddings import vectors
from lingraft.models.embeddings.common import Material
from lingraft.models.embeddings.segmentation import Segmenter
from lingraft.models.embeddings.vectors import WordVectors, average_over_words, read_word_vectors
from lingraft.recipe import Embeddings

LEARN = """
from lingraft.models.embeddings.vectors import learn
text = [["a", "b", "c"], ["b", "c", "d"]] * 20
for n_grams in (False, True):
    made = learn(text, "words", width=4, seed=3, n_grams=n_grams)
    print(made.words, made.frequencies_W.tolist(), made.vectors_WE.tobytes().hex())
"""


def test_a_file_of_vectors_is_read(tmp_path):
    path = tmp_path / "ko.vec"
    path.write_text("3 2\n집 1 2.5\nNew York -1e-2 0\n개 3 4 \n", encoding="utf-8")
    made = read_word_vectors(path)
    assert made.words == ["집", "New York", "개"]
    assert np.allclose(made.vectors_WE, [[1, 2.5], [-0.01, 0], [3, 4]])
    assert made.frequencies_W.tolist() == [1, 1 / 2, 1 / 3]


@pytest.mark.parametrize(
    "text", ["집 1 2\n", "1 2\n집 1\n", "1 2\n집 1 x\n", "1 2\n집 1 nan\n", "0 2\n"]
)
def test_a_file_that_is_no_word_vectors_is_refused_in_a_line(tmp_path, text):
    path = tmp_path / "ko.vec"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"ko\.vec: .*give vectors in word2vec's text form"):
        read_word_vectors(path)


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


@pytest.mark.slow
def test_vectors_are_the_same_in_every_process(capsys):
    exec(LEARN)
    here = capsys.readouterr().out
    salted = os.environ | {"PYTHONHASHSEED": "123"}
    command = [sys.executable, "-c", LEARN]
    there = subprocess.run(command, env=salted, capture_output=True, check=True, text=True).stdout
    assert here == there
    assert len(here.splitlines()) == 2


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
        assert sum(map(len, seen[-1])) == pytest.approx(units / every, rel=0.05)
        assert set(chain(*seen[-1])) == set(chain(*seen[0]))
