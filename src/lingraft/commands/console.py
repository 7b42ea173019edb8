"""What commands print their results with: standard output, and tables."""

from __future__ import annotations

from rich.table import Table

from lingraft import log

out = log.results_console()


def table(*words: str, numbers: tuple[str, ...] = (), title: str | None = None) -> Table:
    """An empty table; columns of numbers stand to the right."""
    made = Table(*words, title=title)
    for heading in numbers:
        made.add_column(heading, justify="right")
    return made
