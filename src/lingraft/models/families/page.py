"""The table of docs/families.md. No torch here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.models.families import FAMILIES, REFUSED

if TYPE_CHECKING:
    from collections.abc import Sequence

HEADINGS = ("family", "kind", "positions", "silent layers", "4.57", "notes")


def markdown() -> str:
    """What a record says that a user should know, a row a family; and what is refused."""
    rows = [
        (
            f"`{name}`",
            family.kind,
            family.kind_of_positions,
            "yes" if family.identity else "no",
            "yes" if family.older else "no class",
            family.note,
        )
        for name, family in FAMILIES.items()
    ]
    refused = [(f"`{name}`", reason) for name, reason in REFUSED.items()]
    return f"{_table(HEADINGS, rows)}\n\n{_table(('refused', 'why'), refused)}"


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
