"""The one table and what writes it."""

import csv
import sys

import pytest
from rich.console import Console

from lingraft.commands import console
from lingraft.report.table import (
    BEST,
    SECOND,
    Cell,
    Column,
    comma_separated,
    markdown,
    plain,
    row,
    table,
    terminal,
)

MODELS = table(
    "Scores",
    ("model", Column("nsmc", under="accuracy"), "seeds", Column("note", "long")),
    [
        row("a|b", Cell("90.1", "± 0.1", BEST, "*"), "3", "the first"),
        row("c_d", Cell("88.0", rank=SECOND), "3", "–"),
        row("none", Cell("50.0"), "–", "guesses", role="reference"),
    ],
    ["* p < 0.05."],
)


def lines_of(made, width, best="*"):
    screen = Console(width=width)
    with screen.capture() as captured:
        screen.print(terminal(made, width, best))
    return captured.get().splitlines()


def test_markdown_has_the_best_bold_the_second_underlined_and_references_in_italics():
    assert markdown(MODELS).splitlines() == [
        "| model | nsmc accuracy | seeds | note |",
        "|---|---:|---:|---|",
        "| a\\|b | **90.1\\* ± 0.1** | 3 | the first |",
        "| c_d | <u>88.0</u> | 3 | – |",
        "| *none* | *50.0* | – | *guesses* |",
        "",
        "\\* p < 0.05.",
    ]


def test_a_column_that_is_empty_in_every_row_is_left_out_and_others_stay():
    some = table("t", ("model", "a", "b", "c"), [row("x", "1", "–", "–"), row("y", "2", "–", "3")])
    assert [column.title for column in some.filled().columns] == ["model", "a", "c"]
    assert [[cell.text for cell in one.cells] for one in some.filled().rows] == [
        ["x", "1", "–"],
        ["y", "2", "3"],
    ]
    for other in (table("t", ("model", "a"), []), table("t", ("model", "a"), [row("x", "–")])):
        assert other.filled() == other


def test_markdown_of_texts_from_outside_means_nothing():
    made = table("t", ("a", "b"), [("<b>", "[x](y)")])
    assert markdown(made, plain).splitlines()[-1] == "| \\<b\\> | \\[x\\](y) |"


def test_a_csv_has_what_it_is_given():
    text = comma_separated(("a", "b"), [("x, y", 0.1234567890123)])
    assert list(csv.reader(text.splitlines())) == [["a", "b"], ["x, y", "0.1234567890123"]]


@pytest.mark.parametrize("rows", [1, 2, 9])
@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_no_number_is_cut_off_beside_text(rows, width):
    head = ("phase", Column("trains", "long"), "parameters", "budget", "rate", "tokens (estimate)")
    cells = ("phase-1", "embeddings, itl", "126,123,456", "150,000 steps", "0.001", "1,234,567,890")
    lines = lines_of(table("", head, [cells] * rows), width)
    if rows < 9:
        for text in (*cells, "tokens (estimate)"):
            assert sum(line.count(text) for line in lines) >= (rows if text in cells else 1)
    columns = zip(*(line.split("│")[1:-1] for line in lines if "│" in line), strict=True)
    whole = "|".join("".join(part.strip() for part in column) for column in columns)
    assert whole.count("126,123,456") == whole.count("1,234,567,890") == rows


@pytest.mark.parametrize("width", [40, 80])
def test_a_table_of_text_that_would_be_scraps_of_words_has_a_line_for_every_cell(width):
    head = ("name", *(f"column-{n}" for n in range(8)))
    made = table("t", [Column(n, "long") for n in head], [("a", *["unbreakable"] * 7, "")] * 2)
    lines = lines_of(made, width)
    assert sum("│ unbreakable" in line for line in lines) == 14
    assert sum("column-6" in line for line in lines) == 2
    assert "column-7" not in "".join(lines)  # it is empty
    assert "column-7" in "".join(lines_of(made, 200)[:3])


def test_the_terminal_has_a_sign_for_the_best():
    text = "\n".join(lines_of(MODELS, 80, best="!"))
    assert "90.1* ± 0.1!" in text
    assert "88.0 " in text


def test_a_json_object_is_a_line_for_programs_and_indented_for_people(capsys, monkeypatch):
    console.json_object({"a": {"b": "가"}})
    assert capsys.readouterr().out == '{"a": {"b": "가"}}\n'
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    console.json_object({"a": {"b": "가"}})
    assert capsys.readouterr().out.splitlines()[1:3] == [' "a": {', '  "b": "가"']


def test_a_command_prints_every_note_on_a_line_of_its_own(capsys):
    long = "A note that is longer than a line of the terminal is wide. " * 5
    console.show(table("t", ("a", "b"), [("x", "1")], [long.strip(), "Another."]))
    assert capsys.readouterr().out.splitlines()[-2:] == [long.strip(), "Another."]


@pytest.mark.parametrize("width", [30, 60, 200])
def test_no_table_is_wider_than_the_terminal_and_none_loses_a_number(width):
    names = [f"score-{n}" for n in range(8)]
    made = table("t", ("model", *names), [("xpt", *(f"{n}.5" for n in range(8)))])
    lines = lines_of(made, width)
    assert max(map(len, lines)) <= width
    assert all(f"{n}.5" in "\n".join(lines) for n in range(8))
    assert ("score-7" in lines[-2]) is (width < 200)  # a row a score where models are too many


def test_some_columns_can_be_taken():
    made = MODELS.only(("model", "seeds"))
    assert [column.title for column in made.columns] == ["model", "seeds"]
    assert made.column("seeds")["c_d"].text == "3"
    assert made.rows[2].role == "reference"
