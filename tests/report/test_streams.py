"""What a report says of several streams: who is better where, and by how much."""

from __future__ import annotations

import math
import random

import pytest

from lingraft.evaluation.records import WordRecord, text_of
from lingraft.report.verdict import PairedBits, paired_bits


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
    found = paired_bits(ours, theirs)
    assert found.words == 197
    measured = (*found.bits, found.difference.low, found.difference.high)
    assert measured == pytest.approx((1, 2, -1, -1), rel=1e-5)  # files hold six digits
    assert PairedBits("de", "xlm", found).outcome == "better"


def test_the_interval_covers_the_true_difference_about_as_often_as_it_says(tmp_path):
    covered = 0
    for seed in range(60):
        noise = random.Random(seed)
        common = [noise.uniform(1, 9) for _ in range(400)]
        ours = words(tmp_path / "a.tsv", lambda i: common[i] + noise.gauss(0.4, 1), number=400)  # noqa: B023
        theirs = words(tmp_path / "b.tsv", lambda i: common[i] + noise.gauss(0, 1), number=400)  # noqa: B023
        gap = paired_bits(ours, theirs).difference
        covered += gap.low <= 0.1 / math.log(2) <= gap.high
    assert 51 <= covered < 60  # of 60 an interval of 95 % misses 3; 51 and fewer come once in 300


def test_words_of_another_text_are_not_compared_and_a_handful_has_no_interval(tmp_path):
    ours = words(tmp_path / "a.tsv", lambda index: 1.0, number=3)
    theirs = words(tmp_path / "b.tsv", lambda index: 1.0, number=3, start=1)
    assert paired_bits(ours, theirs) is None
    assert paired_bits(ours, tmp_path / "none.tsv") is None
    found = paired_bits(ours, words(tmp_path / "b.tsv", lambda index: 2.0, number=3))
    assert found.bits[0] < found.bits[1]
    assert PairedBits("de", "xlm", found).outcome == "unknown"
