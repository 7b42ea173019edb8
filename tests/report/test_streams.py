"""What a report says of several streams: who is better where, and by how much."""

from __future__ import annotations

import math
import random

import pytest

from lingraft.evaluation.records import WordRecord, text_of
from lingraft.report.streams import paired_bits


def words(path, nats, *, number=200, start=0, dropped=()):
    """A words.tsv: a word in each of many sentences, of four characters and so many nats each."""
    drawn = random.Random(0)
    keys = [f"{drawn.getrandbits(64):016x}:0-4" for _ in range(start + number)][start:]
    found = [
        WordRecord(key, 4, 0 if index in dropped else 2, 1, nats(index))
        for index, key in enumerate(keys)
    ]
    path.write_text(text_of(found), encoding="utf-8")
    return path


def test_bits_per_character_are_over_the_words_that_both_can_score(tmp_path):
    ours = words(tmp_path / "a.tsv", lambda index: 4 * math.log(2), dropped={0, 1})
    theirs = words(tmp_path / "b.tsv", lambda index: 8 * math.log(2), dropped={1, 2})
    pair = paired_bits(ours, theirs, "de", "xlm")
    assert pair.words == 197
    measured = (pair.ours, pair.theirs, pair.difference, pair.low, pair.high)
    assert measured == pytest.approx((1, 2, -1, -1, -1), rel=1e-5)  # files hold six digits
    assert pair.outcome == "better"


def test_a_difference_that_is_all_noise_is_not_called_better(tmp_path):
    noise = random.Random(1)
    ours = words(tmp_path / "a.tsv", lambda index: noise.uniform(1, 9))
    theirs = words(tmp_path / "b.tsv", lambda index: noise.uniform(1, 9))
    pair = paired_bits(ours, theirs, "de", "xlm")
    assert pair.low < pair.difference < pair.high
    assert pair.low < 0 < pair.high
    assert pair.outcome == "not clearly different"


def test_the_interval_covers_the_true_difference_about_as_often_as_it_says(tmp_path):
    covered = 0
    for seed in range(60):
        noise = random.Random(seed)
        common = [noise.uniform(1, 9) for _ in range(400)]
        ours = words(tmp_path / "a.tsv", lambda i: common[i] + noise.gauss(0.4, 1), number=400)  # noqa: B023
        theirs = words(tmp_path / "b.tsv", lambda i: common[i] + noise.gauss(0, 1), number=400)  # noqa: B023
        pair = paired_bits(ours, theirs, "de", "xlm")
        covered += pair.low <= 0.1 / math.log(2) <= pair.high
    assert 51 <= covered < 60  # of 60 an interval of 95 % misses 3; 51 and fewer come once in 300


def test_words_of_another_text_are_not_compared(tmp_path):
    ours = words(tmp_path / "a.tsv", lambda index: 1.0)
    theirs = words(tmp_path / "b.tsv", lambda index: 1.0, start=1)
    assert paired_bits(ours, theirs, "de", "xlm") is None
    assert paired_bits(ours, tmp_path / "none.tsv", "de", "xlm") is None


def test_a_handful_of_words_has_no_interval(tmp_path):
    ours = words(tmp_path / "a.tsv", lambda index: 1.0, number=3)
    theirs = words(tmp_path / "b.tsv", lambda index: 2.0, number=3)
    pair = paired_bits(ours, theirs, "de", "xlm")
    assert (pair.low, pair.high, pair.outcome) == (None, None, "not known")
    assert pair.ours < pair.theirs
