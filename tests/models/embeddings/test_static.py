"""Rows that are made by static vectors: how these are learnt and read, and what FOCUS, OMP and
WECHSEL make of them."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lingraft.corpus.pairs import Pair
from lingraft.errors import DataError
from lingraft.models.embeddings import INITIALIZERS, vectors, wechsel
from lingraft.models.embeddings.common import Combination, Material
from lingraft.models.embeddings.focus import combine_alike, find_anchors, sparsemax, without_row
from lingraft.models.embeddings.omp import combine_sparsely, pursue, shortened
from lingraft.models.embeddings.segmentation import Segmenter
from lingraft.models.embeddings.vectors import WordVectors, average_over_words, read_word_vectors
from lingraft.models.embeddings.wechsel import align, combine_nearest
from lingraft.recipe import Embeddings
from lingraft.tokenizer.vocabulary import Canonical, Vocabulary

LEARN = """
from lingraft.models.embeddings.vectors import learn
text = [["a", "b", "c"], ["b", "c", "d"]] * 20
for n_grams in (False, True):
    made = learn(text, "words", width=4, seed=3, n_grams=n_grams)
    print(made.words, made.frequencies_W.tolist(), made.vectors_WE.tobytes().hex())
"""


def test_a_file_of_vectors_is_read(tmp_path):
    path = tmp_path / "ko.vec"
    path.write_text("4 2\n집 1 2.5\nNew York -1e-2 0\n집 7 7\n개 3 4 \n", encoding="utf-8")
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
    tokenizer, seen, learn = tiny_tokenizer("roberta"), [], vectors.learn
    spy = lambda text, *a, **k: seen.append(text) or learn(text, *a, **k)  # noqa: E731
    monkeypatch.setattr(vectors, "learn", spy)
    text = (["dog dog dog"] * 7 + ["cat cat cat"] * 7) * 200
    units = sum(map(len, tokenizer(text, add_special_tokens=False)["input_ids"]))
    for wanted, every in ((None, 1), (3 * units, 1), (units * 9 // 10, 3), (units // 11, 33)):
        resources = Embeddings(vector_width=7, vector_units=wanted)
        material = Material(tokenizer, tokenizer, lambda: text, resources, 0)
        made = vectors.target_piece_vectors(material)
        assert made.shape == (320, 7)
        learnt = made.any(1).nonzero().flatten().tolist()  # each in the row of its piece
        assert set(map(str, learnt)) == set(chain(*seen[-1])) == set(chain(*seen[0]))
        assert made[learnt].norm(dim=1).tolist() == pytest.approx([1.0] * len(learnt))
        assert sum(map(len, seen[-1])) == pytest.approx(units / every, rel=0.05)


@pytest.mark.parametrize(("units", "epochs"), [(1, 3), (205, 11), (10**6, 20)])
def test_a_text_is_read_as_often_as_makes_so_many_units_within_bounds(units, epochs, monkeypatch):
    asked = {}

    def model(text, **settings):
        asked.update(settings)
        return SimpleNamespace(wv=SimpleNamespace(index_to_key=["a"], vectors=np.ones((1, 4))))

    monkeypatch.setattr(vectors, "require", lambda *_: SimpleNamespace(Word2Vec=model))
    made = vectors.learn([["a"] * 20], "pieces", width=4, seed=2**32 + 5, units=units)
    assert made.frequencies_W.tolist() == [20]
    assert asked["epochs"] == epochs
    known = {"vector_size": 4, "window": 5, "min_count": 10, "negative": 10, "alpha": 0.05}
    assert asked.items() >= (known | {"workers": 1, "seed": 5}).items()
    assert not asked.keys() & {"sg", "min_n"}  # the mean of a window predicts, without n-grams


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([1.0, 0.8, -0.5], [0.6, 0.4, 0.0]),
        ([0.9, 0.6, 0.3], [19 / 30, 1 / 3, 1 / 30]),
        ([3.0, 0.0, 0.0], [1.0, 0.0, 0.0]),
        ([0.2, 0.2, 0.2], [1 / 3, 1 / 3, 1 / 3]),
    ],
)
def test_sparsemax_by_hand(scores, expected):
    assert sparsemax(torch.tensor([scores]))[0].tolist() == pytest.approx(expected, abs=1e-6)


def test_sparsemax_finds_the_threshold_that_sorting_finds():
    scores_BA = torch.randn(
        50, 200, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    sorted_BA = scores_BA.sort(dim=1, descending=True).values
    ranks_A = torch.arange(1, 201)
    sums_BA = sorted_BA.cumsum(dim=1)
    size_B1 = (1 + ranks_A * sorted_BA > sums_BA).sum(dim=1, keepdim=True)
    threshold_B1 = (sums_BA.gather(1, size_B1 - 1) - 1) / size_B1
    expected_BA = (scores_BA - threshold_B1).clamp_min(0)
    made_BA = sparsemax(scores_BA)
    assert torch.allclose(made_BA, expected_BA, atol=1e-12)
    assert torch.allclose(made_BA.sum(dim=1), torch.ones(50, dtype=torch.float64))


def test_a_new_row_is_the_sparsemax_of_its_cosines_by_hand():
    vectors_UE = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, -1.0], [1.0, 0.0]])
    made = combine_alike(vectors_UE, {0: 7, 1: 5, 2: 9}, [3])
    assert made[3].source_ids.tolist() == [5, 7]
    assert made[3].weights.tolist() == pytest.approx([0.4, 0.6])
    (twice,) = combine_alike(vectors_UE, {0: 5, 1: 5, 2: 9}, [3]).values()  # from one row of it
    assert (twice.source_ids.tolist(), twice.weights.tolist()) == ([5], [pytest.approx(1.0)])


def test_anchors_are_matched_and_have_a_vector_and_rows_are_made_of_what_is_neither():
    """Of five pieces: two matched, one of them without a vector; a special token; another."""
    vectors_UE = torch.tensor([[1.0], [0.0], [1.0], [1.0], [0.0]])
    forms = [Canonical(True, b"a"), Canonical(True, b"b"), None, *[Canonical(True, b"c")] * 2]
    target = Vocabulary(5, list("abcde"), forms, {}, frozenset({2}))
    matches = {0: ("exact", 7), 1: ("lower", 8)}
    assert find_anchors(vectors_UE, matches, "focus") == {0: 7}
    assert without_row(vectors_UE, target, matches) == [3]


def unit_tensors(*shape: int, seed: int = 0) -> torch.Tensor:
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return drawn / drawn.norm(dim=1, keepdim=True)


def test_a_sparse_sum_by_hand():
    vectors_UE = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.8, -0.6], [0.6, 0.8]])
    made = combine_sparsely(vectors_UE, {0: 5, 1: 6, 2: 7}, [3], terms=2)
    assert made[3].source_ids.tolist() == [5, 6]
    assert made[3].weights.tolist() == pytest.approx([0.6, 0.8], abs=1e-4)


def test_sparse_sums_are_recovered_exactly():
    anchors_AE = unit_tensors(200, 120)
    drawn = np.random.default_rng(0)
    places = np.array([drawn.choice(200, 3, replace=False) for _ in range(40)])
    true_BA = torch.zeros(40, 200)
    true_BA[torch.arange(40)[:, None], torch.from_numpy(places)] = torch.tensor([0.9, -0.7, 0.5])
    wanted_BE = true_BA @ anchors_AE
    lengths_B1 = wanted_BE.norm(dim=1, keepdim=True)
    places_BK, weights_BK = pursue(wanted_BE / lengths_B1, anchors_AE, 16)
    made_BA = torch.zeros(40, 200).scatter_add_(1, places_BK, weights_BK)
    assert torch.allclose(made_BA * lengths_B1, true_BA, atol=1e-3)


def test_no_anchor_is_taken_twice_and_the_error_only_falls():
    anchors_AE, wanted_BE = unit_tensors(60, 40), unit_tensors(10, 40, seed=1)
    errors = []
    for terms in (1, 2, 4, 8, 16):
        places_BK, weights_BK = pursue(wanted_BE, anchors_AE, terms)
        assert all(len(set(row)) == terms for row in places_BK.tolist())
        rebuilt_BE = (weights_BK[:, None] @ anchors_AE[places_BK])[:, 0]
        errors.append((wanted_BE - rebuilt_BE).norm(dim=1))
    assert all((after < before).all() for before, after in itertools.pairwise(errors))


def test_a_sum_that_is_longer_than_every_row_of_the_source_is_shortened():
    source_VD = torch.tensor([[3.0, 4.0], [0.0, 1.0], [100.0, 0.0]])
    long = Combination(np.array([0, 1]), np.array([2.0, 0.0], dtype=np.float32))
    short = Combination(np.array([0]), np.array([0.5], dtype=np.float32))
    made = shortened({4: long, 6: short}, source_VD, [0, 1])
    assert made[4].weights.tolist() == [1.0, 0.0]
    assert made[6].weights.tolist() == [0.5]


def word_vectors(words: list[str], rows: np.ndarray) -> WordVectors:
    return WordVectors(words, np.ones(len(words)), rows.astype(np.float32))


def turned(width: int, seed: int = 0) -> np.ndarray:
    """A random orthogonal matrix."""
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(width, width)))[0]


def unit_rows(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_the_weights_are_the_softmax_of_the_nearest_cosines_over_a_tenth():
    source_VE = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
    rows = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    made = combine_nearest(rows, source_VE, [1], 2, wechsel.TEMPERATURE)
    assert made[1].source_ids.tolist() == [0, 2]
    expected = torch.tensor([10.0, 8.0]).softmax(0)
    assert made[1].weights.tolist() == pytest.approx(expected.tolist())
    many = combine_nearest(torch.eye(12), torch.eye(12), [3], wechsel.NEIGHBOURS, 0.1)
    assert len(many[3].source_ids) == 10


def test_words_outside_the_lexicon_land_on_their_translations():
    """Three pairs count as they stand, in lower case, with a capital: each kind is needed."""
    rows = unit_rows(np.random.default_rng(1).normal(size=(30, 9)))
    letters = ["s", "t"], ["S", "T"]
    names = [[f"{letters[i >= 20][side]}{i}" for i in range(30)] for side in (0, 1)]
    source = word_vectors(names[0], rows)
    target = word_vectors(names[1], 3 * rows @ turned(9))
    lexicon = [Pair(f"t{i}", f"s{i}") for i in (0, 1, 2, 20, 21, 22)]
    lexicon += [Pair(f"T{i}", f"S{i}") for i in (3, 4, 5)] + [Pair("t1", "unknown")]
    target, source = align(target, source, lexicon)
    assert np.allclose(target.vectors_WE, source.vectors_WE, atol=1e-4)


@pytest.mark.parametrize("wider", ["target", "source"])
def test_the_wider_side_is_reduced_to_the_width_of_the_other(wider):
    rows = np.random.default_rng(1).normal(size=(200, 4))
    rows = unit_rows(rows - rows.mean(axis=0))
    wide = np.concatenate([rows, np.zeros((200, 3))], axis=1) @ turned(7) + 1  # not centred
    sides = {"source": rows, "target": rows @ turned(4), wider: wide}
    words = {side: [f"{side}{i}" for i in range(200)] for side in sides}
    lexicon = [Pair(f"target{i}", f"source{i}") for i in range(100)]
    given = (word_vectors(words[side], sides[side]) for side in ("target", "source"))
    target, source = align(*given, lexicon)
    assert target.vectors_WE.shape == source.vectors_WE.shape == (200, 4)
    assert (target.vectors_WE * source.vectors_WE).sum(axis=1).min() > 0.98


def test_a_lexicon_that_is_the_other_way_round_is_refused_though_it_shares_a_word():
    """WECHSEL's own dictionaries and MUSE's have the source language first."""
    target = word_vectors(["가", "나", "pdf"], np.eye(3))
    source = word_vectors(["the", "dog", "pdf"], np.eye(3))
    lexicon = [Pair("the", "가"), Pair("dog", "나"), Pair("pdf", "pdf")]
    with pytest.raises(DataError, match=r"1 pairs have static .* 3 with swapped columns"):
        align(target, source, lexicon)


def test_a_new_piece_is_made_of_the_pieces_of_its_translation(tmp_path, tiny_tokenizer):
    """One word a side, of the same vector: its row is the mean of the other's pieces."""
    files = {"source": "2 2\nthe 1 0\ndog 0 1\n", "target": "2 2\n가 0 1\n나 1 0\n"}
    files["lexicon"] = "가\tthe\n나\tdog\n"
    paths = {name: str(tmp_path / f"{name}.vec") for name in files}
    for name, text in files.items():
        Path(paths[name]).write_text(text, encoding="utf-8")
    source_tokenizer, target_tokenizer = tiny_tokenizer("roberta"), tiny_tokenizer("xlm-roberta")
    vectors_of = {f"{side}_vectors": paths[side] for side in ("source", "target")}
    resources = Embeddings(lexicons=(paths["lexicon"],), **vectors_of)
    made = INITIALIZERS["wechsel"].function(
        torch.randn(320, 4, generator=torch.Generator().manual_seed(1)),
        Vocabulary.of(source_tokenizer),
        Vocabulary.of(target_tokenizer),
        generator=torch.Generator().manual_seed(0),
        material=Material(source_tokenizer, target_tokenizer, tuple, resources, 0),
    )
    index = target_tokenizer("가", add_special_tokens=False)["input_ids"][-1]
    the = source_tokenizer(" the", add_special_tokens=False)["input_ids"]
    combination = made.provenance.combinations[index]
    weights = dict(zip(combination.source_ids.tolist(), combination.weights.tolist(), strict=True))
    assert sum(weights[i] for i in the) == pytest.approx(1.0, abs=1e-3)
