"""The one table: what pages, documents, files and terminals show, and how each of them writes it.

`templates/page.html.j2` writes it as HTML; Markdown and the terminal are here.
"""

from __future__ import annotations

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
NARROW = 16
"""Characters that a column of names or of long text needs at least on a terminal."""


@dataclass(frozen=True)
class TableCell:
    """A cell of a table."""

    text: str
    under: str = ""
    """Its uncertainty, which stands beneath it, in lines, or behind it."""
    rank: int = 0
    """1: best of its column, 2: second best."""
    mark: str = ""
    """A sign behind the number, which a note explains."""
    width: float = 0.0
    """Width of a bar, 0 … 100."""

    @property
    def whole(self) -> str:
        """Return all of it on one line."""
        under = self.under.replace("\n", " ")
        return f"{self.text}{self.mark} {under}".rstrip()


@dataclass(frozen=True)
class Column:
    """A column: its heading, and the kind of its cells."""

    title: str
    kind: Kind = "number"
    """Numbers stand on the right; long text may be broken into lines; a bar is seen on pages."""
    under: str = ""
    lang: str = ""
    """Language of the text in it, where it is not English."""

    @property
    def whole(self) -> str:
        """Return all of it on one line."""
        return f"{self.title} {self.under}".rstrip()


@dataclass(frozen=True)
class TableRow:
    """A row; the first cell names it."""

    cells: tuple[TableCell, ...]
    role: Role = ""
    """A reference is no result but what results are read against."""


@dataclass(frozen=True)
class Table:
    """A table with a title, and notes beneath."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...] = ()

    @property
    def dense(self) -> bool:
        """Return whether pages show it in smaller letters."""
        uncertain = any(cell.under for row in self.rows for cell in row.cells)
        return uncertain or len(self.columns) > WIDE

    @property
    def has_bars(self) -> bool:
        return any(column.kind == "bar" for column in self.columns)

    def column(self, title: str) -> dict[str, TableCell]:
        """Return the cells of a column by the name of their row."""
        at = [column.title for column in self.columns].index(title)
        return {row.cells[0].text: row.cells[at] for row in self.rows}

    def only(self, titles: Iterable[str]) -> Table:
        """Return the table with those of its columns that have these titles."""
        names = set(titles)
        return self._of([at for at, column in enumerate(self.columns) if column.title in names])

    def filled(self) -> Table:
        """Return the table without columns that are empty; one with names alone stays."""
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
    rows: Iterable[TableRow | Iterable[str | TableCell]],
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
    body = (cells if isinstance(cells, TableRow) else row(*cells) for cells in rows)
    return Table(title, tuple(columns), tuple(body), tuple(notes))


def row(*cells: str | TableCell, role: Role = "") -> TableRow:
    """Make a row of texts and cells."""
    return TableRow(
        tuple(cell if isinstance(cell, TableCell) else TableCell(cell) for cell in cells), role
    )


# -- Markdown


def _bars_and_stars(text: str) -> str:
    return re.sub(r"([|*])", r"\\\1", text)


def plain(text: str) -> str:
    """Return text on one line in which Markdown and HTML mean nothing."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split(" "))
    return re.sub(r"([\\`*_\[\]|<>#])", r"\\\1", line.replace("&", "&amp;"))


def markdown(data: Table, escape: Callable[[str], str] = _bars_and_stars) -> str:
    """Write a table in Markdown, its notes beneath.

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


def _marked(cell: TableCell, role: Role, escape: Callable[[str], str]) -> str:
    before, after = {BEST: ("**", "**"), SECOND: ("<u>", "</u>")}.get(
        cell.rank, ("*", "*") if role == "reference" and cell.text != ABSENT else ("", "")
    )
    return f"{before}{escape(cell.whole)}{after}"


# -- terminal


def terminal(data: Table, width: int, best: str = "*") -> RichTable:
    """Return a table for a terminal, without its notes.

    Where its columns do not fit, it has a line for every cell that is not empty.

    Args:
        data: the table.
        width: characters in a line.
        best: a sign behind the best of a column, for terminals without colours.
    """
    heads = [column.whole for column in data.columns]
    rows = [[_terminal_cell(c, row.role, best) for c in row.cells] for row in data.rows]
    columns = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    foldable = [at == 0 or column.kind == "long" for at, column in enumerate(data.columns)]
    least = (
        min(size, NARROW) if fold else size for size, fold in zip(columns, foldable, strict=True)
    )
    fits = sum(least) + 3 * len(heads) < width
    rich_table = RichTable(title=data.title or None, title_justify="left", show_header=fits)
    if not fits:
        rich_table.add_column(overflow="fold")
        rich_table.add_column(overflow="fold")
    for column, fold in zip(data.columns, foldable, strict=True) if fits else ():
        side: Literal["left", "right"] = "right" if column.kind == "number" else "left"
        rich_table.add_column(column.whole, justify=side, overflow="fold", no_wrap=not fold)
    for cells in rows:
        for pair in [cells] if fits else zip(heads, cells, strict=True):
            if fits or str(pair[1]):
                rich_table.add_row(*pair)
        if not fits:
            rich_table.add_section()
    return rich_table


def _terminal_cell(cell: TableCell, role: Role, best: str) -> Text:
    style = STYLES.get(cell.rank, "italic" if role == "reference" else "")
    return Text(cell.whole + (best if cell.rank == BEST else ""), style=style)
