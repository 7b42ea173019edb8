"""The text and the shapes that benchmarks make up."""

import itertools

import numpy as np
import pytest
from script_modules import load

from lingraft.errors import RecipeError

pytestmark = pytest.mark.slow
made = load("made_up", "research/benchmarks")
SHORT = made.TextShape(mean=10, longest=32, sentences=64)


def test_made_up_sentences_have_the_lengths_that_were_asked_for():
    tokens = made.made_up(made.TextShape(mean=30, spread=0.6, longest=64, sentences=4_000), 500)
    assert len(tokens) == 4_000
    assert tokens.lengths.max() <= 64
    assert tokens.lengths.mean() == pytest.approx(30, rel=0.06)
    assert tokens.offsets[-1] == len(tokens.ids) == tokens.lengths.sum()


def test_without_spread_all_sentences_are_alike():
    assert set(made.made_up(made.TextShape(spread=0.0, sentences=50), 500).lengths) == {30}


def test_made_up_sentences_stand_between_special_tokens_and_hold_no_other():
    tokens = made.made_up(SHORT, 100)
    special = made.token_ids(100).special
    for row in tokens.rows(range(len(tokens))):
        assert (row[0], row[-1]) == (0, 2)
        assert not np.isin(row[1:-1], special).any()


def test_half_of_the_made_up_tokens_follow_from_the_one_before():
    tokens = made.made_up(made.TextShape(sentences=2_000), 5_000)
    followers = {}
    for row in tokens.rows(range(len(tokens))):
        for before, after in itertools.pairwise(row[1:-1]):
            followers.setdefault(int(before), []).append(int(after))
    often = [after for after in followers.values() if len(after) > 50]
    shares = [np.bincount(after).max() / len(after) for after in often]
    assert np.mean(shares) == pytest.approx(0.5, abs=0.1)


def test_another_seed_gives_another_text():
    first, same, other = (made.made_up(SHORT, 100, seed) for seed in (0, 0, 1))
    assert np.array_equal(first.ids, same.ids)
    assert not np.array_equal(first.ids[:100], other.ids[:100])


@pytest.mark.parametrize(
    "written", ["12", "12x768", "ax768x50000", "2x768x50000", "12x700x50000", "3x64x1"]
)
def test_a_shape_that_is_none_is_refused(written):
    with pytest.raises(RecipeError, match=f"--shape {written}: "):
        made.Shape.parse(written)
