"""Parts of a test set, by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from synthetic_results import write_model, write_run

from lingraft.comparison.breakdowns import breakdowns, distance_class, span_errors
from lingraft.comparison.collect import collect
from lingraft.tasks import TASKS
from lingraft.tasks.examples import TextExample
from lingraft.tasks.predictions import ScorePrediction

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ("O B-PS I-PS O O O", {"right": 1}),
        ("O B-LC I-LC O O O", {"type": 1}),
        ("O B-PS I-PS I-PS O O", {"boundary": 1}),
        ("O B-LC O O O O", {"boundary and type": 1}),
        ("O O O O O O", {"missed": 1}),
        ("O B-PS I-PS O B-DT I-DT", {"right": 1, "spurious": 1}),
        ("O O O O B-DT I-DT", {"missed": 1, "spurious": 1}),
    ],
)
def test_what_becomes_of_an_entity_is_told_apart(said: str, outcome: dict[str, int]) -> None:
    assert span_errors(["O", "B-PS", "I-PS", "O", "O", "O"], said.split()) == outcome


@pytest.mark.parametrize(
    ("head", "word", "name"),
    [(0, 5, "root"), (6, 5, "1"), (3, 5, "2"), (8, 5, "3–5"), (15, 5, "6–10"), (16, 5, "over 10")],
)
def test_the_distance_to_the_head_has_a_class(head: int, word: int, name: str) -> None:
    assert distance_class(head, word) == name


def test_residuals_are_by_gold_score(tmp_path: Path) -> None:
    task = TASKS["korsts"]
    gold, said = (0.0, 0.5, 5.0, 4.5), (1.0, 0.5, 4.0, 4.0)
    examples = [TextExample(str(i), "a", "b", None, one) for i, one in enumerate(gold)]
    predictions = [ScorePrediction(str(i), one) for i, one in enumerate(said)]
    write_run(tmp_path, "xpt", task, 0, examples, predictions)
    part = collect([tmp_path]).parts[0]
    bias = next(one for one in breakdowns(part) if one.name == "residuals")
    cells = bias.measure(part, predictions)
    assert {name: (cell.n, cell.value) for name, cell in cells.items()} == {
        "0.0–1.0": (2, 0.5),
        "4.0–5.0": (2, -0.75),
    }


def test_quarters_by_length_hold_all_examples_in_order(tmp_path: Path) -> None:
    write_model(tmp_path, "xpt", 0.5, ["nsmc"], seeds=(0,), n=41)
    part = collect([tmp_path]).parts[0]
    (by_length,) = (one for one in breakdowns(part) if one.name == "length")
    cells = by_length.measure(part, part.runs["xpt"][0].predictions(part.examples))
    lows = [int(name.split("–")[0]) for name in cells]
    assert (sum(cell.n for cell in cells.values()), lows) == (41, sorted(lows))
    right = sum(cell.n * cell.value for cell in cells.values())
    assert right / 41 == pytest.approx(part.runs["xpt"][0].scores["accuracy"])
