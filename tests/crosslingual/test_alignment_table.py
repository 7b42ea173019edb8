"""Tables of alignment: which layer is shown, and whether a difference is more than luck."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from lingraft.crosslingual.alignment_table import Counts, Result, SetResult, chosen, rows, tables
from lingraft.crosslingual.by_layer import WHOLE, Reading
from lingraft.crosslingual.links import Gold
from lingraft.stats import Resampling, interval

FACTS = {"tokens": 10, "unknown": 0, "too_long": 0}
SIZES = {"de-en": 80, "ro-en": 40}


def answers(name: str, right: Any) -> SetResult:
    """Ten gold links a sentence; so many of ten answers are right in each."""
    gold = Gold(*[frozenset((word, word) for word in range(10))] * 2)
    found = [
        [(word, word if word < right(at) else word + 1) for word in range(10)]
        for at in range(SIZES[name])
    ]
    return SetResult(Counts.of(found, [gold] * SIZES[name]), FACTS)


def result(label: str, layer: int | None, right: Any) -> Result:
    return Result(label, layer, {name: answers(name, right) for name in SIZES}, layer is None)


def reading(*results: Result, dev: int = 0) -> Reading:
    found = rows(results, list(SIZES), dev, "optimal transport")
    return Reading((one for one in found if one.metric == "aer"), Resampling(500), lower=True)


def noisy(mean: int, seed: int) -> Any:
    drawn = random.Random(seed)
    values = [mean + drawn.choice([-2, -1, 0, 1, 2]) for _ in range(200)]
    return values.__getitem__


def test_a_model_that_finds_three_more_links_in_ten_is_better_beyond_luck() -> None:
    ours = reading(result("one", 1, noisy(4, 0)), result("other", 1, noisy(7, 1)))
    one, other = ours.chosen.values()
    gaps = {name: ours.difference(one, other, name) for name in ours.columns}
    for name in (*SIZES, WHOLE):
        gap = gaps[name]
        assert gap.value == pytest.approx(ours.value(other, name) - ours.value(one, name))
        assert -40 < gap.value < -20
        assert (gap.low or 0) < gap.value < (gap.high or 0) < 0
        assert (gap.p or 1) < 0.05
    back = ours.difference(other, one, WHOLE)
    assert back.value == pytest.approx(-gaps[WHOLE].value)
    assert back.low == pytest.approx(-(gaps[WHOLE].high or 0))


def test_blocks_of_a_rate_have_it_as_their_mean_and_the_interval_of_drawn_sentences() -> None:
    one = result("one", 1, noisy(5, 3))
    row, *_ = rows([one], ["de-en"], 0, "ot")
    worth = [share for share, count in row.blocks or () if count]
    assert 100 * np.mean(worth) == pytest.approx(row.value)
    draws_RB = Resampling(2_000).draws(80, "sentences")
    expected = interval(100 * one.sets["de-en"].counts.error_rates(draws_RB))
    ours = reading(one)
    drawn_R = ours.drawn(("one", 1), "de-en")
    assert drawn_R is not None
    assert interval(drawn_R) == pytest.approx(expected, abs=(expected[1] - expected[0]) / 5)


@pytest.mark.parametrize(
    ("dev", "layers", "choice", "note"),
    [
        (0, (3,), "given", "Layer 3 was given."),
        (9, (3, 4), "dev", "the smallest mean on the first 9 sentences"),
        (0, (3, 4), "the scored sentences", "an oracle"),
    ],
)
def test_what_chose_the_layer_is_said(
    dev: int, layers: tuple[int, ...], choice: str, note: str
) -> None:
    results = [result("one", layer, noisy(4, layer)) for layer in layers]
    found = list(rows(results, list(SIZES), dev, "ot"))
    assert {row.facts["chosen_on"] for row in found} == {choice}
    shown = tables(found, reading(*results, dev=dev), {"diagonal": "by place"}, dev)
    assert note in " ".join(shown[0].notes)
    assert "diagonal: by place." in shown[0].notes


def test_equal_links_differ_by_nothing_and_noise_alone_is_not_told_apart() -> None:
    ours = reading(*(result(name, 1, noisy(5, seed)) for name, seed in (("a", 3), ("b", 3))))
    gap = ours.difference(*ours.chosen.values(), WHOLE)
    assert (gap.value, gap.low, gap.high, gap.p) == (0, 0, 0, 1)
    ours = reading(*(result(name, 1, noisy(5, seed)) for name, seed in (("a", 0), ("b", 1))))
    marks = [ours.difference(*ours.chosen.values(), name).p or 0 for name in ours.columns]
    assert max(marks) > 0.05


def test_of_four_sentences_a_difference_has_neither_interval_nor_p() -> None:
    results = [result("one", 1, lambda _: 4), result("other", 1, lambda _: 7)]
    table = reading(*results, dev=SIZES["ro-en"] - 4).differences("")
    assert table is not None
    cells = {row.cells[0].text: [cell.text for cell in row.cells[2:]] for row in table.rows}
    assert cells["ro-en"] == cells[WHOLE] == ["−30.0", "–", "–"]
    assert "–" not in cells["de-en"]
    assert table.notes == ("Fewer than 10 sentences give neither interval nor p.",)


def test_the_layer_is_the_best_on_the_mean_over_the_sets_and_of_dev_alone() -> None:
    first = Result(
        "m", 1, {"de-en": answers("de-en", lambda _: 9), "ro-en": answers("ro-en", lambda _: 2)}
    )
    second = result("m", 2, lambda _: 6)
    assert chosen([first, second], list(SIZES), 0) == [second]
    good_at_first = result("m", 1, lambda at: 9 if at < 20 else 2)
    good_later = result("m", 2, lambda at: 2 if at < 20 else 9)
    results = [good_at_first, good_later, result("diagonal", None, lambda _: 5)]
    assert chosen(results, list(SIZES), 0)[0] is good_later
    ours = reading(*results, dev=20)
    assert list(ours.chosen.values()) == [("m", 1), ("diagonal", None)]
    assert ours.value(("m", 1), WHOLE) == pytest.approx(80)
    assert [row.n for row in ours.rows[("m", 1), "ro-en"]] == [20]


def test_the_best_of_a_set_is_marked() -> None:
    ours = reading(result("diagonal", None, lambda _: 3), result("m", 0, lambda _: 5))
    main, less = ours.main("", ()), ours.differences("", "m")
    assert [[cell.rank for cell in row.cells[2:]] for row in main.rows] == [[0, 1]] * 3
    assert less is not None
    assert less.rows[0].cells[2].text == "+20.0"
