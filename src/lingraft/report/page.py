"""The skeleton of every page: one HTML file that needs nothing else, from `templates/`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import jinja2

if TYPE_CHECKING:
    from lingraft.report.next_step import NextStep


@functools.cache
def environment(*, autoescape: bool = True) -> jinja2.Environment:
    """The templates, compiled once a process; those of pages escape what they show."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("lingraft.report"),
        autoescape=autoescape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render(
    template: str,
    *,
    title: str,
    verdict: str,
    next_step: NextStep | None,
    facts: list[tuple[str, str]],
    made_from: str,
    **sections: Any,
) -> str:
    """A page.

    Args:
        template: NAME of templates/NAME.html.j2, which fills the skeleton page.html.j2.
        title: heading of the page.
        verdict: what the page says, in a sentence or two.
        next_step: what to do with it; None where nothing follows.
        facts: names and values that stand at the top.
        made_from: the files that hold all that the page shows.
        sections: what the template shows.
    """
    context = {"title": title, "verdict": verdict, "next_step": next_step, "facts": facts}
    context["made_from"] = made_from
    return environment().get_template(f"{template}.html.j2").render(context | sections)
