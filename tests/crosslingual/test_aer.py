"""Error rates against a computation of another kind, on constructed cases and on real gold sets."""

from __future__ import annotations

import json
import lzma
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lingraft.crosslingual import baselines, links
from lingraft.crosslingual.alignment_table import Counts
from lingraft.crosslingual.bitext import SentencePair
from lingraft.crosslingual.links import Gold

ROOT = Path(__file__).parents[2]
PLACES = (
    ROOT / "data",
    *(above / "shared" / "data" for above in (ROOT.parent, ROOT.parent.parent)),
)
DATA = next((p for p in PLACES if (p / "align_gold").is_dir()), PLACES[0]) / "align_gold"
SETS = {
    "awesome-align.enfr.jsonl.xz": 447,
    "awesome-align.jaen.jsonl.xz": 582,
    "awesome-align.roen.jsonl.xz": 248,
    "awesome-align.zhen.jsonl.xz": 450,
    "wpt2005.test.eng-hin.jsonl": 90,
}


def gold(sure: str, possible: str = "") -> Gold:
    own = frozenset(links.parsed(sure))
    return Gold(own, own | frozenset(links.parsed(possible)))


CASES = {
    "all right": (["0-0 1-1"], [gold("0-0 1-1")], 0.0, 1.0, 1.0),
    "possible links cost nothing": (["0-0 1-1 2-2"], [gold("0-0", "1-1 2-2")], 0.0, 1.0, 1.0),
    "nothing predicted": ([""], [gold("0-0 1-1")], 1.0, None, 0.0),
    "all wrong": (["0-1 1-0"], [gold("0-0 1-1")], 1.0, 0.0, 0.0),
    # 1 - (2 + 2) / (3 + 2)
    "one wrong": (["0-0 1-1 1-2"], [gold("0-0 1-1", "2-2")], 0.2, 2 / 3, 1.0),
    # 1 - (1 + 2) / (2 + 2)
    "one sure link missed": (["0-0 2-2"], [gold("0-0 1-1", "2-2")], 0.25, 1.0, 0.5),
    # over the corpus 1 - (1 + 1 + 1 + 1) / (1 + 4 + 1 + 1), not the mean of 0.6 … of sentences
    "over the corpus": (
        ["0-0", "0-0 0-1 0-2 0-3"],
        [gold("0-0"), gold("0-0")],
        1 - 4 / 7,
        2 / 5,
        1.0,
    ),
    "a sentence without links": (["", "0-0"], [gold(""), gold("0-0")], 0.0, 1.0, 1.0),
    "no sure link": (["0-0"], [gold("", "0-0")], 0.0, 1.0, None),
}


@pytest.mark.parametrize("name", CASES)
def test_constructed_cases_have_the_rates_computed_by_hand(name: str) -> None:
    predicted, right, rate, precision, recall = CASES[name]
    counts = Counts.of([links.parsed(line) for line in predicted], right)
    assert counts.error_rate() == pytest.approx(rate, abs=1e-12)
    assert counts.precision() == pytest.approx(precision)
    assert counts.recall() == pytest.approx(recall)


def test_a_resample_is_the_corpus_with_sentences_repeated() -> None:
    drawn = random.Random(5)
    every = [(i, j) for i in range(5) for j in range(5)]
    predicted = [tuple(drawn.sample(every, drawn.randint(0, 6))) for _ in range(9)]
    right = []
    for _ in range(9):
        sure = frozenset(drawn.sample(every, drawn.randint(1, 5)))
        right.append(Gold(sure, sure | frozenset(drawn.sample(every, 3))))
    weights = [2, 0, 1, 3, 0, 0, 1, 1, 1]
    repeated = [place for place, weight in enumerate(weights) for _ in range(weight)]
    rates = Counts.of(predicted, right).error_rates(np.array([weights], dtype=float))
    again = Counts.of([predicted[at] for at in repeated], [right[at] for at in repeated])
    assert rates[0] == pytest.approx(again.error_rate(), abs=1e-12)


def reference(rows: list[Any], predicted: list[str]) -> tuple[Fraction, Fraction, Fraction]:
    """Exact rates from one set of (sentence, word, word) a kind, read without our code."""
    sure, possible, answers = set(), set(), set()
    for number, (row, line) in enumerate(zip(rows, predicted, strict=True)):
        inside = {
            kind: {
                (number, i, j)
                for i, j in row[kind]
                if 0 <= i < len(row["src"]) and 0 <= j < len(row["tgt"])
            }
            for kind in ("sure", "possible")
        }
        sure |= inside["sure"]
        possible |= inside["sure"] | inside["possible"]
        answers |= {(number, *map(int, link.split("-"))) for link in line.split()}
    right, good = answers.intersection(sure), answers.intersection(possible)
    rate = 1 - Fraction(len(right) + len(good), len(answers) + len(sure))
    return rate, Fraction(len(good), len(answers)), Fraction(len(right), len(sure))


@pytest.mark.slow
@pytest.mark.parametrize("file", SETS)
def test_rates_on_real_gold_sets_agree_with_another_computation(file: str) -> None:
    path = DATA / file
    if not path.is_file():
        pytest.skip(f"{path} is not here: gold sets of unclear licence are not part of the code")
    data = path.read_bytes()
    text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode()
    rows = [json.loads(line) for line in text.splitlines()]
    read = links.read("x", path, outside="drop")
    assert len(read.pairs) == len(rows) == SETS[file]
    assert read.outside == (file.startswith("wpt2005"))
    drawn = random.Random(0)
    answers = {
        "diagonal": baselines.diagonal(read.pairs),
        "translation": baselines.word_translation(read.pairs),
        "gold and noise": [
            tuple(
                link
                for link in sorted(one.possible | {(0, 0), (0, 1), (1, 0)})
                if drawn.random() < 0.7
            )
            for one in read.gold
        ],
    }
    for name, found in answers.items():
        counts = Counts.of(found, read.gold)
        expected = reference(rows, [links.pharaoh(own) for own in found])
        measured = (counts.error_rate(), counts.precision(), counts.recall())
        assert measured == pytest.approx(tuple(map(float, expected)), abs=1e-12), name
        assert 0 < measured[0] < 1


def pair(source: str, target: str) -> SentencePair:
    return SentencePair(tuple(source.split()), tuple(target.split()), "here")


def test_the_diagonal_links_words_at_equal_shares() -> None:
    found = baselines.diagonal([pair("a b c", "x y z"), pair("a", "x y z"), pair("a b c d", "x y")])
    assert found[0] == ((0, 0), (1, 1), (2, 2))
    assert found[1] == ((0, 1),)
    swapped = baselines.diagonal([pair("x y z", "a"), pair("x y", "a b c d")])
    assert swapped[0] == ((1, 0),)
    assert sorted(found[2]) == sorted((j, i) for i, j in swapped[1])


def test_translation_probabilities_link_what_stands_together() -> None:
    pairs = [
        pair("das haus", "the house"),
        pair("das buch", "the book"),
        pair("ein buch", "a book"),
        pair("Haus das", "the house"),
    ]
    found = baselines.word_translation(pairs)
    assert set(found[0]) == {(0, 0), (1, 1)}
    assert set(found[3]) == {(0, 1), (1, 0)}
    swapped = baselines.word_translation(
        [SentencePair(one.target, one.source, one.where) for one in pairs]
    )
    assert [sorted((j, i) for i, j in own) for own in swapped] == [sorted(own) for own in found]
