"""The one table and what writes it."""

import pytest
from rich.console import Console

from lingraft.report import numbers
from lingraft.report.table import BEST, SECOND, Column, TableCell, markdown, row, table, terminal

MODELS = table(
    "Scores",
    ("model", Column("nsmc", under="accuracy"), "seeds", Column("note", "long")),
    [
        row("a|b", TableCell("90.1", "± 0.1", BEST, "*"), "3", "the first"),
        row("c_d", TableCell("88.0", rank=SECOND), "3", "–"),
        row("none", TableCell("50.0"), "–", "guesses", role="reference"),
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
    left = [[cell.text for cell in one.cells] for one in some.filled().rows]
    assert left == [["x", "1", "–"], ["y", "2", "3"]]
    for other in (table("t", ("model", "a"), []), table("t", ("model", "a"), [row("x", "–")])):
        assert other.filled() == other


def test_the_terminal_has_a_sign_for_the_best():
    text = "\n".join(lines_of(MODELS, 80, best="!"))
    assert "90.1* ± 0.1!" in text
    assert "88.0 " in text


@pytest.mark.parametrize("width", [30, 60, 200])
def test_no_table_is_wider_than_the_terminal_and_none_loses_a_number(width):
    names = [f"score-{n}" for n in range(8)]
    lines = lines_of(table("t", ("model", *names), [("xpt", *(f"{n}.5" for n in range(8)))]), width)
    assert max(map(len, lines)) <= width
    assert all(f"{n}.5" in "\n".join(lines) for n in range(8))
    assert ("score-7" in lines[-2]) is (width < 200)  # a row a score where models are too many


@pytest.mark.parametrize(
    ("show", "value", "text"),
    [
        (lambda value: numbers.fixed(value, 1), -0.31, "−0.3"),
        (lambda value: numbers.fixed(value, 1), -0.01, "0.0"),
        (numbers.significant, 5.071, "5.07"),
        (numbers.significant, 12_345.6, "12,346"),
        (numbers.significant, float("nan"), "–"),
        (numbers.short, 9_400, "9,400"),
        (numbers.short, 88_000, "88 k"),
        (numbers.short, 880_640, "0.88 M"),
        (numbers.short, 2.5e9, "2.5 B"),
        (numbers.percent, 0.0001, "< 0.1 %"),
        (numbers.duration, 200, "3 min 20 s"),
        (numbers.duration, 59.7, "1 min 0 s"),
        (numbers.duration, 3_599.9, "1 h 0 min"),
        (numbers.size, 5_240_000, "5.24 MB"),
    ],
)
def test_numbers_read_as_people_write_them(show, value, text):
    assert show(value).replace(numbers.NO_BREAK, " ") == text


def test_a_difference_has_a_sign_unless_it_is_shown_as_nothing() -> None:
    shown = [numbers.signed(value, 1) for value in (1.25, -0.3, 0.04, -0.04)]
    assert shown == ["+1.2", "−0.3", "0.0", "0.0"]
    assert numbers.between(-0.31, 0.4, 1, sign=True) == "[−0.3, +0.4]"
    assert numbers.between(1, 2, 1) == "[1.0, 2.0]"
    assert numbers.between(None, None, 1) == ""
