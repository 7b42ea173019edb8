"""The one page: a verdict, and under it a list of tables, figures and texts.

It is one HTML file that needs nothing else, from `templates/page.html.j2`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Literal, NamedTuple

import jinja2

from lingraft.report.figure import Figure, as_link
from lingraft.report.table import Table, shown_as_csv

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingraft.report.next_step import NextStep


class Heading(NamedTuple):
    """Begins a section, or a part of one."""

    text: str
    level: int = 2


class Text(NamedTuple):
    """A paragraph; `Markup` is written as it is."""

    text: str
    kind: Literal["", "note", "absent", "strong", "code", "item", "sentence"] = ""
    lang: str = ""
    """Language of the text, where it is not English."""


class Folded(NamedTuple):
    """Parts of a page that are seen when they are asked for."""

    title: str
    parts: Sequence[Part]


Part = Heading | Text | Table | Figure | Folded


def section(title: str, *parts: Part | None, level: int = 2) -> list[Part]:
    """Put a heading over those of the parts that are there; nothing over none.

    A table without rows is none.
    """
    kept = [part for part in parts if part and not (isinstance(part, Table) and not part.rows)]
    return [Heading(title, level), *kept] if kept else []


def page(
    title: str,
    verdict: str,
    parts: Iterable[Part],
    *,
    facts: Iterable[tuple[str, str]] = (),
    next_step: NextStep | None = None,
    made_from: str,
) -> str:
    """Write a page.

    Args:
        title: its heading.
        verdict: what it says, in a sentence or two.
        parts: beneath each other.
        facts: names and values at the top.
        next_step: what to do now; None where nothing follows.
        made_from: the files that hold all that it shows.
    """
    text = _template().render(
        title=title, verdict=verdict, parts=tuple(parts), facts=facts, next_step=next_step,
        made_from=made_from,
    )  # fmt: skip
    return text.lstrip()  # macros leave empty lines


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lingraft.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["what"] = lambda part: type(part).__name__
    environment.filters["csv"] = lambda table: as_link(shown_as_csv(table))
    return environment.get_template("page.html.j2")
