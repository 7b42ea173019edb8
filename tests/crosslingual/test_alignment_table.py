"""Tables of alignment: which layer is shown, and whether a difference is more than luck."""

from __future__ import annotations

import random
from typing import Any

import pytest

from lingraft.crosslingual.alignment_table import MEAN, Counts, Reading, Result, SetResult
from lingraft.crosslingual.links import Gold
from lingraft.stats import Resampling

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


def reading(dev: int = 0) -> Reading:
    return Reading(list(SIZES), dev, Resampling(500), "optimal transport")


def noisy(mean: int, seed: int) -> Any:
    drawn = random.Random(seed)
    values = [mean + drawn.choice([-2, -1, 0, 1, 2]) for _ in range(200)]
    return values.__getitem__


def test_a_model_that_finds_three_more_links_in_ten_is_better_beyond_luck() -> None:
    one, other = result("one", 1, noisy(4, 0)), result("other", 1, noisy(7, 1))
    ours = reading()
    gaps = {name: ours.difference(one, other, name) for name in ours.columns}
    for name in (*SIZES, MEAN):
        gap = gaps[name]
        assert gap.value == pytest.approx(ours.value(other, name) - ours.value(one, name))
        assert -40 < gap.value < -20
        assert gap.low is not None
        assert gap.high is not None
        assert gap.low < gap.value < gap.high < 0
        assert gap.p is not None
        assert gap.p < 0.05
    back = ours.difference(other, one, MEAN)
    assert back.value == pytest.approx(-gaps[MEAN].value)
    assert back.low == pytest.approx(-(gaps[MEAN].high or 0))


@pytest.mark.parametrize(
    ("dev", "layers", "choice", "note"),
    [
        (0, (3,), "given", "Layer 3 was given."),
        (9, (3,), "given", "was given; without the first 9 sentences of every set"),
        (0, (3, 4), "the scored sentences", "an oracle"),
        (9, (3, 4), "dev", "the smallest mean on the first 9 sentences"),
    ],
)
def test_what_chose_the_layer_is_said(
    dev: int, layers: tuple[int, ...], choice: str, note: str
) -> None:
    results = [result("one", layer, noisy(4, layer)) for layer in layers]
    ours = reading(dev)
    assert {row.facts["chosen_on"] for row in ours.rows(results)} == {choice}
    assert note in ours.tables(results, {})[0].notes[1]


def test_equal_links_differ_by_nothing() -> None:
    gap = reading().difference(result("a", 1, noisy(5, 3)), result("b", 2, noisy(5, 3)), MEAN)
    assert (gap.value, gap.low, gap.high, gap.p) == (0, 0, 0, 1)


def test_of_four_sentences_a_difference_has_neither_interval_nor_p() -> None:
    one, other = result("one", 1, lambda _: 4), result("other", 1, lambda _: 7)
    few = reading(dev=SIZES["ro-en"] - 4)
    table = few.tables([one, other], {})[1]
    cells = {row.cells[0].text: [cell.text for cell in row.cells[2:]] for row in table.rows}
    assert cells["ro-en"] == cells[MEAN] == ["−30.0", "–", "–"]
    assert "–" not in cells["de-en"]
    assert table.notes == ("Fewer than 10 sentences give neither interval nor p.",)


def test_models_that_differ_by_noise_alone_are_not_told_apart() -> None:
    one, other = result("one", 1, noisy(5, 0)), result("other", 1, noisy(5, 1))
    marks = [reading().difference(one, other, name).p or 0 for name in reading().columns]
    assert max(marks) > 0.05


def test_the_layer_is_the_best_on_the_mean_over_the_sets_not_on_one() -> None:
    first = Result(
        "m", 1, {"de-en": answers("de-en", lambda _: 9), "ro-en": answers("ro-en", lambda _: 2)}
    )
    second = result("m", 2, lambda _: 6)
    (chosen,) = reading().chosen([first, second])
    assert chosen is second


def test_dev_alone_chooses_the_layer() -> None:
    good_at_first = result("m", 1, lambda at: 9 if at < 20 else 2)
    good_later = result("m", 2, lambda at: 2 if at < 20 else 9)
    results = [good_at_first, good_later, result("diagonal", None, lambda _: 5)]
    assert reading().chosen(results)[0] is good_later
    chosen = reading(dev=20).chosen(results)
    assert [one.layer for one in chosen] == [1, None]
    assert reading(dev=20).value(chosen[0], MEAN) == pytest.approx(80)
    rows = list(reading(dev=20).rows(results))
    assert {row.n for row in rows if row.data == "ro-en"} == {20}
    assert {row.axes.get("layer") for row in rows if row.reported} == {1, None}


def test_the_best_of_a_column_is_marked_and_baselines_are_references() -> None:
    results = [result("diagonal", None, lambda _: 3), result("m", 0, lambda _: 5)]
    main, differences = reading().tables(results, {"diagonal": "by place"})
    assert [row.role for row in main.rows] == ["reference", ""]
    assert [row.cells[2].rank for row in main.rows] == [0, 1]
    assert differences.rows[0].cells[2].text == "+20.0"
    assert any("diagonal: by place." in note for note in main.notes)
    against = reading().tables(results, {}, "diagonal")[1]
    assert against.rows[0].cells[2].text == "−20.0"
