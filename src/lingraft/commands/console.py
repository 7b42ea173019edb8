"""How commands print: results on standard output, tables alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft import log

if TYPE_CHECKING:
    from lingraft.report.table import Table

out = log.results_console()


def line(text: str) -> None:
    """Print a line as it is, however long."""
    out.print(text, soft_wrap=True)


def show(table: Table, best: str = "*") -> None:
    """Print a table, and each of its notes on a line of its own.

    Args:
        table: what is printed.
        best: a sign behind the best of a column, for terminals without colours.
    """
    from lingraft.report.table import terminal

    out.print(terminal(table, out.width, best))
    for note in table.notes:
        line(note)
