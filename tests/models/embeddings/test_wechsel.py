from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from lingraft.corpus.pairs import Pair
from lingraft.errors import DataError
from lingraft.models.embeddings import INITIALIZERS
from lingraft.models.embeddings.common import Material
from lingraft.models.embeddings.vectors import WordVectors
from lingraft.models.embeddings.wechsel import align, combine_nearest, procrustes
from lingraft.recipe import Embeddings
from lingraft.tokenizer.vocabulary import Vocabulary


def word_vectors(words: list[str], rows: np.ndarray) -> WordVectors:
    return WordVectors(words, np.ones(len(words)), rows.astype(np.float32))


def turned(width: int, seed: int = 0) -> np.ndarray:
    """A random orthogonal matrix."""
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(width, width)))[0]


def unit_rows(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_the_weights_are_the_softmax_of_the_nearest_cosines_over_a_tenth():
    source_VE = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
    made = combine_nearest(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), source_VE, [1], 2, 0.1)
    assert made[1].source_ids.tolist() == [0, 2]
    first, second = math.exp(10.0), math.exp(8.0)
    expected = [first / (first + second), second / (first + second)]
    assert made[1].weights.tolist() == pytest.approx(expected)


def test_the_turn_between_two_spaces_is_found():
    rows, turn = np.random.default_rng(1).normal(size=(30, 5)), turned(5)
    assert np.allclose(procrustes(rows, rows @ turn), turn, atol=1e-5)


def test_words_outside_the_lexicon_land_on_their_translations():
    rows = unit_rows(np.random.default_rng(1).normal(size=(30, 5)))
    source = word_vectors([f"s{i}" for i in range(30)], rows)
    target = word_vectors([f"t{i}" for i in range(30)], 3 * rows @ turned(5))
    lexicon = [Pair(f"t{i}", f"s{i}") for i in range(10)] + [Pair("t1", "unknown")]
    target, source = align(target, source, lexicon)
    assert np.allclose(target.vectors_WE, source.vectors_WE, atol=1e-4)


@pytest.mark.parametrize("wider", ["target", "source"])
def test_the_wider_side_is_reduced_to_the_width_of_the_other(wider):
    rows = np.random.default_rng(1).normal(size=(200, 4))
    rows = unit_rows(rows - rows.mean(axis=0))
    wide = (np.concatenate([rows, np.zeros((200, 3))], axis=1) @ turned(7)).astype(np.float32)
    sides = {"source": rows, "target": rows @ turned(4), wider: wide}
    words = {side: [f"{side}{i}" for i in range(200)] for side in sides}
    lexicon = [Pair(f"target{i}", f"source{i}") for i in range(100)]
    target, source = align(
        word_vectors(words["target"], sides["target"]),
        word_vectors(words["source"], sides["source"]),
        lexicon,
    )
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
    (tmp_path / "source.vec").write_text("2 2\nthe 1 0\ndog 0 1\n", encoding="utf-8")
    (tmp_path / "target.vec").write_text("2 2\n가 0 1\n나 1 0\n", encoding="utf-8")
    (tmp_path / "lexicon.tsv").write_text("가\tthe\n나\tdog\n", encoding="utf-8")
    source_tokenizer, target_tokenizer = tiny_tokenizer("roberta"), tiny_tokenizer("xlm-roberta")
    source, target = Vocabulary.of(source_tokenizer), Vocabulary.of(target_tokenizer)
    source_VD = torch.randn(320, 4, generator=torch.Generator().manual_seed(1))
    resources = Embeddings(
        lexicons=(str(tmp_path / "lexicon.tsv"),),
        source_vectors=str(tmp_path / "source.vec"),
        target_vectors=str(tmp_path / "target.vec"),
    )
    made = INITIALIZERS["wechsel"].function(
        source_VD,
        source,
        target,
        generator=torch.Generator().manual_seed(0),
        material=Material(source_tokenizer, target_tokenizer, tuple, resources, 0),
    )
    index = target_tokenizer("가", add_special_tokens=False)["input_ids"][-1]
    the = source_tokenizer(" the", add_special_tokens=False)["input_ids"]
    combination = made.provenance.combinations[index]
    weights = dict(zip(combination.source_ids.tolist(), combination.weights.tolist(), strict=True))
    assert sum(weights[i] for i in the) == pytest.approx(1.0, abs=1e-3)
