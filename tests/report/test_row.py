"""The one results file."""

from __future__ import annotations

import math

import pytest

from lingraft.errors import DataError
from lingraft.report import row
from lingraft.report.row import Score


def score(value: float, metric: str = "loss", inputs: str = "f", **fields: object) -> Score:
    return Score.model_validate(
        {"model": "xpt-s0", "metric": metric, "value": value, "inputs": inputs} | fields
    )


def test_rows_come_back_as_they_were_written(tmp_path):
    path = tmp_path / "new" / "results.jsonl"
    path.parent.mkdir()
    words = ((math.nan, 4.0), (0.0, 0.0))
    rows = [
        score(1.5, n=3, masks="m", blocks=((1.0, 2.0),), points=((0.0, 9.5),), reported=False),
        score(2.5, "한국어\u2028", axes={"seed": 0, "x": None}, facts={"cpu": "x"}),
        score(math.nan, "bits", words=words),
    ]
    row.write(path, rows)
    found = row.read(path)
    assert found[:2] == rows[:2]
    assert b"NaN" not in path.read_bytes()
    assert math.isnan(found[2].value)
    assert math.isnan(found[2].words[0][0])
    assert found[2].words[1] == (0.0, 0.0)


def test_a_later_row_of_one_key_stands_for_the_earlier_and_all_others_stay(tmp_path):
    path = tmp_path / "results.jsonl"
    row.merge(path, [score(1.0), score(2.0, "exact"), score(3.0, inputs="g")])
    row.merge(path, [score(9.0), score(4.0, data="korsts", split="test", seed=1)])
    assert [one.value for one in row.read(path)] == [9.0, 2.0, 3.0, 4.0]


def test_a_line_that_a_kill_cut_is_left_out_and_the_next_rows_take_its_place(tmp_path):
    path = tmp_path / "results.jsonl"
    row.write(path, [score(1.0)])
    before = path.stat().st_size
    row.write(path, [score(1.0), score(2.0, "한국어")])
    data = path.read_bytes()
    for length in range(before + 1, len(data) - 1):
        path.write_bytes(data[:length])
        assert row.read(path) == [score(1.0)]
    row.merge(path, [score(3.0, "exact")])
    assert row.read(path) == [score(1.0), score(3.0, "exact")]
    path.write_bytes(b"")
    assert row.read(path) == []


@pytest.mark.parametrize("line", ["mine", '{"model": "a", "task": "b", "value": 1}'])
def test_a_broken_line_and_a_file_of_before_or_of_another_program_are_told_by_the_line(
    tmp_path, line
):
    path = tmp_path / "results.jsonl"
    row.write(path, [score(1.0)])
    whole = path.read_text()
    path.write_text(f"{whole}{line}\n{whole}")
    with pytest.raises(DataError, match=r"results\.jsonl, line 2: is no row of results of this"):
        row.merge(path, [score(2.0)])
    assert path.read_text() == f"{whole}{line}\n{whole}"  # nothing is lost
    with pytest.raises(DataError, match="is missing"):
        row.read(tmp_path / "no.jsonl")
