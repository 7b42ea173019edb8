"""The results file."""

from __future__ import annotations

import math

import pytest

from lingraft.errors import DataError
from lingraft.study import rows
from lingraft.study.rows import CurveRow, EndRow, MetricRow

COMMON = {"study": "s", "cell": "xpt-s0", "axes": {"method": "xpt", "sentences": None, "seed": 0}}


def metric(value, name="loss", fingerprint="f"):
    return MetricRow(
        **COMMON, fingerprint=fingerprint, metric=name, value=value, n=3, seed=0, tokens=9,
        seconds=1.0, masks="m", blocks=((1.0, 2.0),),
    )  # fmt: skip


def end(status="done", fingerprint="f", **fields):
    return EndRow(**COMMON, fingerprint=fingerprint, status=status, seconds=1.0, **fields)


CURVE = CurveRow(**COMMON, fingerprint="f", phase="phase-1", split="valid", points=((0, 9.5),))


def test_rows_come_back_as_they_were_written(tmp_path):
    path = tmp_path / "new" / "results.jsonl"
    written = [
        metric(1.5),
        CURVE,
        end(message="한국어\u2028\u0085", machine={"device": "cpu", "cores": 2}),
    ]
    append(path, written[:1])
    append(path, written[1:])
    assert rows.read(path) == written


def append(path, written):
    rows.append(path, map(rows.line, written))


@pytest.mark.parametrize("length", [1, 40, 70_000])
def test_half_a_line_that_a_kill_left_is_taken_away_by_the_next_rows(tmp_path, length):
    path = tmp_path / "results.jsonl"
    append(path, [metric(1.0)])
    with path.open("ab") as file:
        file.write(b"{" * length)
    assert rows.read(path) == [metric(1.0)]
    append(path, [metric(2.0)])
    assert rows.read(path) == [metric(1.0), metric(2.0)]


def test_a_score_that_is_no_number_comes_back_as_none(tmp_path):
    path = tmp_path / "results.jsonl"
    append(path, [metric(math.nan), end()])
    assert b"NaN" not in path.read_bytes()
    assert math.isnan(rows.read(path)[0].value)


def test_a_whole_row_without_its_line_end_is_kept(tmp_path):
    path = tmp_path / "results.jsonl"
    append(path, [metric(1.0), end()])
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    append(path, [metric(2.0)])
    assert rows.read(path) == [metric(1.0), end(), metric(2.0)]


def test_a_line_that_a_kill_cut_within_a_character_is_left_out(tmp_path):
    path = tmp_path / "results.jsonl"
    append(path, [metric(1.0)])
    before = path.stat().st_size
    append(path, [end(message="한국어")])
    data = path.read_bytes()
    for length in range(before + 1, len(data) - 1):
        path.write_bytes(data[:length])
        assert rows.read(path) == [metric(1.0)]
    path.write_bytes(data + b"\n")
    assert len(rows.read(path)) == 2


def test_another_encoding_is_a_data_error(tmp_path):
    path = tmp_path / "results.jsonl"
    append(path, [metric(1.0), metric(2.0)])
    path.write_text(path.read_text(), encoding="utf-16")
    with pytest.raises(DataError, match=r"results\.jsonl: is no results file"):
        rows.read(path)


def test_half_a_line_alone_is_taken_away_too(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_bytes(b'{"study"')
    append(path, [end()])
    assert rows.read(path) == [end()]


def test_a_broken_line_in_the_middle_is_told_by_its_number(tmp_path):
    path = tmp_path / "results.jsonl"
    append(path, [metric(1.0)])
    path.write_text('{"kind": "metric"}\n' + path.read_text())
    with pytest.raises(DataError, match=r"results\.jsonl, line 1: metric\.study: "):
        rows.read(path)


def test_where_a_file_was_put_behind_half_a_line_the_line_is_told_and_what_to_do(tmp_path):
    path = tmp_path / "results.jsonl"
    append(path, [metric(1.0), end()])
    whole = path.read_text()
    path.write_text(whole[:20] + whole)
    with pytest.raises(DataError, match=r"line 1: is broken: Invalid JSON.*; mend the line, or"):
        rows.read(path)


@pytest.mark.parametrize("line", ["5", "[]", '"x"', "mine", '{"a": 1}', '{"kind": "x"}'])
def test_a_file_of_another_program_is_named(tmp_path, line):
    path = tmp_path / "results.jsonl"
    for text in (line, f"{line}\n{line}\n"):
        path.write_text(text)
        with pytest.raises(DataError, match="is no results file of lingraft study"):
            rows.read(path)


def test_an_empty_file_has_no_rows(tmp_path):
    (tmp_path / "results.jsonl").write_bytes(b"")
    assert rows.read(tmp_path / "results.jsonl") == []


def test_a_missing_file_says_what_makes_it(tmp_path):
    with pytest.raises(DataError, match="is missing; lingraft study run makes it"):
        rows.read(tmp_path / "results.jsonl")


def test_numbers_of_an_attempt_that_was_killed_are_replaced_by_the_next(tmp_path):
    found = [metric(1.0), metric(5.0, "exact"), metric(2.0), metric(6.0, "exact"), end()]
    assert rows.latest(found)["f"].rows == (metric(2.0), metric(6.0, "exact"))


def test_an_attempt_that_did_not_end_counts_for_nothing():
    assert rows.latest([metric(1.0)]) == {}


def test_the_last_attempt_that_was_done_counts():
    found = [metric(1.0), end(), metric(2.0), end(), end("failed", message="late")]
    outcome = rows.latest(found)["f"]
    assert outcome.rows == (metric(2.0),)
    assert outcome.end.status == "done"


def test_a_cell_that_only_failed_is_known_with_its_message_but_not_finished():
    last = end("failed", message="second")
    found = [end("failed", message="first"), metric(1.0), last]
    assert rows.latest(found) == {"f": rows.Outcome((), last)}


def test_cells_are_told_apart_by_their_fingerprint():
    found = [metric(1.0), metric(2.0, fingerprint="g"), end(fingerprint="g"), end()]
    numbers = {name: outcome.rows for name, outcome in rows.latest(found).items()}
    assert numbers == {"f": (metric(1.0),), "g": (metric(2.0, fingerprint="g"),)}


def test_words_whose_bits_are_no_numbers_come_back_and_leave_the_file_readable(tmp_path):
    path = tmp_path / "results.jsonl"
    words = ((math.nan, 4.0), (0.0, 0.0))
    append(path, [metric(math.nan, "bits_per_character").model_copy(update={"words": words})])
    (row,) = rows.read(path)
    assert math.isnan(row.words[0][0])
    assert (row.words[0][1], row.words[1]) == (4.0, (0.0, 0.0))
