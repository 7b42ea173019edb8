from pathlib import Path

import pytest
from rich.console import Console
from synthetic_study import cell_rows, study_rows

from lingraft.report import numbers, table
from lingraft.study import terminal
from lingraft.study.results import collect

PAGE = Path("out/report.html")


def wide_rows():
    """A study of five axes, two of which change together and one of which stays."""
    return [
        row
        for at, name in enumerate(("mean", "random", "focus", "omp"))
        for layers in (0, 1)
        for seed in (0, 1)
        for row in cell_rows(
            "xpt", 1_000, seed, 3 + at / 10 + layers,
            **{
                "graft.inserted_before": layers, "graft.inserted_after": layers,
                "tokenizer.kind": "replace" if at else "extend", "embeddings.init": name,
                "training.replay": '{ "en" = 0.1 }' if layers else '{ "en" = 0.3 }',
            },
        )
    ]  # fmt: skip


@pytest.fixture(scope="module")
def wide():
    return collect(wide_rows())


def screen(results, width):
    """The lines that a terminal shows, and the tables."""
    console = Console(width=width)
    tables = list(terminal.shown(results, width, PAGE))
    with console.capture() as captured:
        for made in tables:
            console.print(table.terminal(made, width))
    return captured.get().splitlines(), tables


@pytest.mark.parametrize("width", [80, 120])
def test_a_wide_study_fits_and_no_word_or_number_is_broken(width, wide):
    lines, (made,) = screen(wide, width)
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    assert {"init", "PPL", "hits@1", "bits/char"} <= set(words)
    assert words.count("inserted_before/after") == 8
    for row in made.rows:
        for cell in row.cells[1:]:
            assert cell.text in words or f"{cell.text}*" in words
    # a head, at most three lines a row
    assert len(lines) <= 5 + 3 * len(made.rows)


def test_what_is_the_same_in_all_rows_stands_above_once(wide):
    lines, (made,) = screen(wide, 120)
    assert made.title.replace(numbers.NO_BREAK, " ") == (
        "1,000 sentences; all rows: XPT, seeds 2, tokens 2 M, parameters 6.39 M, trained 2.6 M"
    )
    assert "seeds" not in [column.title for column in made.columns]
    assert sum("6.39" in line for line in lines) == 1


def test_a_part_that_all_labels_share_is_said_above_and_a_differing_one_stays():
    rows = [row for row in wide_rows() if row.axes["graft.inserted_before"] == 0]
    axes = {key: value for key, value in rows[0].axes.items() if "." in key}
    other = cell_rows("xpt", 4_000, 0, 3.0, **axes | {"graft.inserted_before": 1})
    lines, (small, _) = screen(collect(rows + other), 120)
    assert "inserted_before 0" in small.title
    assert all("inserted_before" not in row.cells[0].text for row in small.rows)
    assert any("init focus" in line for line in lines)


def test_more_columns_are_shown_where_there_is_room_and_a_note_says_where_the_others_are(wide):
    (narrow,), (broad,), (whole,) = (screen(wide, width)[1] for width in (60, 90, 200))
    counts = [len(made.columns) for made in (narrow, broad, whole)]
    assert counts == sorted(set(counts))
    assert "PPL" in [column.title for column in narrow.columns]
    assert narrow.notes[-1].startswith("Left out at 60 characters a line: ")
    assert "hits@10" in narrow.notes[-1]
    assert narrow.notes[-1].endswith(f"All columns: {PAGE}")
    assert not any("Left out" in note for note in whole.notes)


def test_the_columns_that_give_way_first_are_the_costs_and_last_the_headline(wide):
    (narrow,) = screen(wide, 48)[1]
    assert [column.title for column in narrow.columns[:2]] == ["method", "PPL"]
    assert len(narrow.columns) < 4


def test_uncertainties_stand_beneath_where_that_saves_a_column(wide):
    lines, (made,) = screen(wide, 80)
    deviations = [row.cells[1].under for row in made.rows if not row.role]
    assert all(deviations)
    assert any(line.split("│")[2].strip() == deviations[0] for line in lines if "│" in line)


def test_what_the_floor_does_not_share_is_not_said_of_all_rows():
    floor = cell_rows("untrained", None, 0, 9.0)
    (made,) = screen(
        collect([*cell_rows("xpt", 1_000, 0, 3.0), *cell_rows("scratch", 1_000, 0, 3.0), *floor]),
        200,
    )[1]
    shown = {row.cells[0].text: [cell.text for cell in row.cells] for row in made.rows}
    titles = [column.title for column in made.columns]
    assert "PPL" in titles
    at = titles.index("PPL")
    assert shown["untrained"][at] != shown["XPT"][at] == shown["scratch"][at]
    assert "PPL" not in made.title


def test_references_and_single_rows_keep_their_columns():
    rows = study_rows(methods=["xpt"], sizes=(1_000,))
    (made,) = screen(collect(rows), 200)[1]
    assert "all rows" not in made.title
    assert [row.cells[0].text for row in made.rows] == ["XPT", "unigrams"]
    assert "seeds" in [column.title for column in made.columns]
