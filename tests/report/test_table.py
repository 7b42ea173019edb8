"""The one table and what writes it."""

import pytest
from rich.console import Console

from lingraft.report.table import (
    BEST,
    SECOND,
    Cell,
    Column,
    markdown,
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


def test_the_terminal_has_a_sign_for_the_best():
    text = "\n".join(lines_of(MODELS, 80, best="!"))
    assert "90.1* ± 0.1!" in text
    assert "88.0 " in text


@pytest.mark.parametrize("width", [30, 60, 200])
def test_no_table_is_wider_than_the_terminal_and_none_loses_a_number(width):
    names = [f"score-{n}" for n in range(8)]
    made = table("t", ("model", *names), [("xpt", *(f"{n}.5" for n in range(8)))])
    lines = lines_of(made, width)
    assert max(map(len, lines)) <= width
    assert all(f"{n}.5" in "\n".join(lines) for n in range(8))
    assert ("score-7" in lines[-2]) is (width < 200)  # a row a score where models are too many
