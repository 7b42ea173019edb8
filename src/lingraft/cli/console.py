"""Printing of commands: results on standard output, tables alike."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from lingraft import log

if TYPE_CHECKING:
    from lingraft.report.next_step import NextStep
    from lingraft.report.table import Table

out = log.results_console()


def only_json(value: bool) -> bool:
    """Leave standard output to `json_object` where `value` says so; return it."""
    out.stderr = value
    return value


def line(text: str) -> None:
    """Print a line as it is, however long."""
    out.print(text, soft_wrap=True)


def json_object(data: Any) -> None:
    """Print plain data as JSON: on one line for programs, indented on a terminal."""
    indent = 1 if sys.stdout.isatty() else None
    sys.stdout.write(json.dumps(data, ensure_ascii=False, indent=indent, default=str) + "\n")


def rows(*tables: Table) -> list[dict[str, str]]:
    """Return the rows of tables as plain data, by the titles of their columns."""
    return [
        {column.title: cell.whole for column, cell in zip(table.columns, row.cells, strict=True)}
        for table in tables
        for row in table.rows
    ]


def show(*tables: Table, best: str = "*") -> list[dict[str, str]]:
    """Print tables, each note on a line of its own; return their rows as plain data.

    Args:
        tables: what is printed.
        best: a sign behind the best of a column, for terminals without colours.
    """
    from lingraft.report.table import terminal

    for table in tables:
        out.print(terminal(table, out.width, best))
        for note in table.notes:
            line(note)
    return rows(*tables)


def summary(*facts: tuple[str, object], next_step: NextStep | None = None) -> None:
    """Print the box at the end of a command: what, where, how good, what next.

    Between two rules on a terminal, plain lines elsewhere; no border at the sides, so that a path
    or a command can be copied.

    Args:
        facts: names and values; those without a value are left out.
        next_step: stands last, its command on a line of its own.
    """
    rows = [(name, str(value)) for name, value in facts if value]
    rows += [("next", next_step.text)] if next_step else []
    width = max(len(name) for name, _ in rows) + 2
    if out.is_terminal:
        out.rule()
    for name, value in rows:
        line(f"{name + ':':<{width}}" + value.replace("\n", "\n" + " " * width))
    if out.is_terminal:
        out.rule()
