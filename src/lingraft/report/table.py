"""The one table: what pages, documents, files and terminals show, and how each of them writes it.

`templates/macros.html.j2` writes it as HTML; Markdown, CSV and the terminal are here.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from rich.table import Table as RichTable
from rich.text import Text

from lingraft.report.numbers import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Kind = Literal["number", "text", "long", "bar"]
Role = Literal["", "reference", "total"]

BEST, SECOND = 1, 2
STYLES = {BEST: "bold green", SECOND: "underline"}
WIDE = 6
"""Columns; a table of more is shown in smaller letters."""
NARROW_NAME = 16
"""Characters that the first column of a terminal's table needs at least."""
PART_OF_A_WORD = 10
"""Characters that a column of text needs at least, where it has words as long."""


@dataclass(frozen=True)
class Cell:
    """One cell of a table."""

    text: str
    under: str = ""
    """Its uncertainty, which stands beneath or behind it."""
    rank: int = 0
    """1: best of its column, 2: second best."""
    mark: str = ""
    """A sign behind the number, which a note explains."""
    width: float = 0.0
    """Of a bar, 0 … 100."""

    @property
    def whole(self) -> str:
        """All of it on one line."""
        return f"{self.text}{self.mark} {self.under}".rstrip()


@dataclass(frozen=True)
class Column:
    """What stands over a column, and what is in it."""

    title: str
    kind: Kind = "number"
    """Numbers stand on the right; long text may be broken into lines; a bar is seen on pages."""
    under: str = ""
    lang: str = ""
    """Of the text in it, where it is not English."""

    @property
    def whole(self) -> str:
        """All of it on one line."""
        return f"{self.title} {self.under}".rstrip()


@dataclass(frozen=True)
class Row:
    """One row; the first cell names it."""

    cells: tuple[Cell, ...]
    role: Role = ""
    """A reference is no result but what results are read against."""


@dataclass(frozen=True)
class Table:
    """A table with a title, and notes beneath."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def dense(self) -> bool:
        """Whether pages show it in smaller letters."""
        uncertain = any(cell.under for row in self.rows for cell in row.cells)
        return uncertain or len(self.columns) > WIDE

    @property
    def has_bars(self) -> bool:
        return any(column.kind == "bar" for column in self.columns)

    def column(self, title: str) -> dict[str, Cell]:
        """The cells of a column by the name of their row."""
        at = [column.title for column in self.columns].index(title)
        return {row.cells[0].text: row.cells[at] for row in self.rows}

    def only(self, titles: Iterable[str]) -> Table:
        """The table with those of its columns that have these titles."""
        names = set(titles)
        return self._of([at for at, column in enumerate(self.columns) if column.title in names])

    def filled(self) -> Table:
        """The table without columns that are empty in every row; one with names alone stays."""
        places = [
            at
            for at in range(len(self.columns))
            if any(row.cells[at].text != ABSENT for row in self.rows)
        ]
        return self._of(places) if len(places) > 1 else self

    def _of(self, places: Sequence[int]) -> Table:
        rows = (replace(row, cells=tuple(row.cells[at] for at in places)) for row in self.rows)
        return replace(self, columns=tuple(self.columns[at] for at in places), rows=tuple(rows))


def table(
    title: str,
    head: Iterable[str | Column],
    rows: Iterable[Row | Iterable[str | Cell]],
    notes: Iterable[str] = (),
) -> Table:
    """Make a table.

    Args:
        title: of the table.
        head: a text is the title of a column of numbers, the first of a column of names.
        rows: the cells of each; a text is a cell without uncertainty or marks.
        notes: sentences that stand beneath.
    """
    columns = [
        column if isinstance(column, Column) else Column(column, "number" if at else "text")
        for at, column in enumerate(head)
    ]
    body = (cells if isinstance(cells, Row) else row(*cells) for cells in rows)
    return Table(title, tuple(columns), tuple(body), tuple(notes))


def row(*cells: str | Cell, role: Role = "") -> Row:
    """A row of texts and cells."""
    return Row(tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in cells), role)


# -- Markdown


def _bars_and_stars(text: str) -> str:
    return re.sub(r"([|*])", r"\\\1", text)


def plain(text: str) -> str:
    """Text on one line in which Markdown and HTML mean nothing."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split(" "))
    return re.sub(r"([\\`*_\[\]|<>#])", r"\\\1", line.replace("&", "&amp;"))


def markdown(data: Table, escape: Callable[[str], str] = _bars_and_stars) -> str:
    """A table in Markdown, its notes beneath.

    The best is bold, the second best underlined, references are in italics.

    Args:
        data: the table.
        escape: what is done to every text; `plain` where it comes from outside.
    """
    rules = ("---:" if column.kind == "number" else "---" for column in data.columns)
    lines = [_line(escape(column.whole) for column in data.columns), "|" + "|".join(rules) + "|"]
    lines += [_line(_marked(cell, row.role, escape) for cell in row.cells) for row in data.rows]
    return "\n".join([*lines, *(f"\n{escape(note)}" for note in data.notes)])


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _marked(cell: Cell, role: Role, escape: Callable[[str], str]) -> str:
    before, after = {BEST: ("**", "**"), SECOND: ("<u>", "</u>")}.get(
        cell.rank, ("*", "*") if role == "reference" and cell.text != ABSENT else ("", "")
    )
    return f"{before}{escape(cell.whole)}{after}"


# -- CSV


def comma_separated(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A CSV file: values to full precision, which tables round; None is an empty cell."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return file.getvalue()


def shown_as_csv(data: Table) -> str:
    """A CSV file of a table's cells as they are shown."""
    head = [column.whole for column in data.columns]
    return comma_separated(head, ([cell.whole for cell in line.cells] for line in data.rows))


# -- terminal


def terminal(data: Table, width: int, best: str = "*") -> RichTable:
    """A table for a terminal, without its notes.

    Where its columns do not fit, uncertainties stand beneath the numbers; where they do not fit
    then, or only with numbers cut off beside folded text, it is swapped. One of text and many rows
    is folded everywhere instead, for then it would not fit swapped. One of text alone that would
    be of scraps of words has a line for every cell.

    Args:
        data: the table.
        width: characters in a line.
        best: a sign behind the best of a column, for terminals without colours.
    """
    columns = data.columns
    if all(column.kind == "long" for column in columns) and not _has_room(data, width):
        return _line_by_line(data, best)
    numbers = all(column.kind == "number" for column in columns[1:])
    stacked = numbers and not fits(data, width) and fits(data, width, stacked=True)
    cut = not numbers and not _folds(data, width)
    swapped = not stacked and not fits(data, width) if numbers else cut and len(data.rows) < WIDE
    grid = _grid(data, best, stacked=stacked)
    if swapped:
        grid = [list(cells) for cells in zip(*grid, strict=True)]
    rich_table = RichTable(title=data.title or None, title_justify="left")
    for at, heading in enumerate(grid[0]):
        number = at > 0 if swapped else columns[at].kind == "number"
        whole = not swapped and not cut and (number or (at == 0 and not numbers))
        rich_table.add_column(
            heading, justify="right" if number else "left", overflow="fold", no_wrap=whole
        )
    for cells in grid[1:]:
        rich_table.add_row(*cells)
    return rich_table


def fits(data: Table, width: int, name: int = NARROW_NAME, *, stacked: bool = False) -> bool:
    """Whether a terminal's line holds every column.

    Args:
        data: the table.
        width: characters in a line.
        name: characters that the first column needs at least, where it has as many.
        stacked: whether uncertainties stand beneath the numbers.
    """
    columns = zip(*_grid(data, "*", stacked=stacked), strict=True)
    widths = [max(len(line) for cell in c for line in cell.plain.split("\n")) + 3 for c in columns]
    return sum(widths[1:]) + min(widths[0], name) < width


def _folds(data: Table, width: int) -> bool:
    """Whether a terminal's line holds every number, and the first column, beside folded text."""
    kinds = [column.kind for column in data.columns]
    if "number" not in kinds[1:]:
        return True
    columns = [max(len(cell.plain) for cell in c) for c in zip(*_grid(data, "*"), strict=True)]
    least = [
        size if at == 0 or kind == "number" else min(size, NARROW_NAME)
        for at, (size, kind) in enumerate(zip(columns, kinds, strict=True))
    ]
    return sum(least) + 3 * len(least) < width


def _has_room(data: Table, width: int) -> bool:
    """Whether a terminal's line holds the first column, and a part of a word in each other."""
    first, *others = zip(*_grid(data, "*"), strict=True)
    words = [max(len(w) for cell in c for w in cell.plain.split() or [""]) for c in others]
    least = [max(len(cell.plain) for cell in first), *(min(w, PART_OF_A_WORD) for w in words)]
    return sum(least) + 3 * len(least) < width


def _line_by_line(data: Table, best: str) -> RichTable:
    """A table of two columns: of every row, what stands in each column that is not empty."""
    heading, *rows = _grid(data, best)
    rich_table = RichTable(title=data.title or None, title_justify="left", show_header=False)
    rich_table.add_column(no_wrap=True)
    rich_table.add_column(overflow="fold")
    for cells in rows:
        for title, cell in zip(heading, cells, strict=True):
            if cell.plain:
                rich_table.add_row(title, cell)
        rich_table.add_section()
    return rich_table


def _grid(data: Table, best: str, *, stacked: bool = False) -> list[list[Text]]:
    """The heading and the rows."""
    rows = ([_terminal_cell(c, row.role, best, stacked=stacked) for c in row.cells]
            for row in data.rows)  # fmt: skip
    return [[Text(column.whole) for column in data.columns], *rows]


def _terminal_cell(cell: Cell, role: Role, best: str, *, stacked: bool) -> Text:
    style = STYLES.get(cell.rank, "italic" if role == "reference" else "")
    sign = best if cell.rank == BEST else ""
    if stacked and cell.under:
        return Text(f"{cell.text}{cell.mark}{sign}\n{cell.under}", style=style)
    return Text(cell.whole + sign, style=style)
