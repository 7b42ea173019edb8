"""The skeleton of every page: one HTML file that needs nothing else, from `templates/`."""

from __future__ import annotations

import functools
from typing import Any

import jinja2


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


def render(template: str, **context: Any) -> str:
    """A page.

    Args:
        template: NAME of templates/NAME.html.j2, which fills the skeleton page.html.j2.
        context: what the template shows; of every page `title`, its heading, `verdict`, what it
            says in a sentence or two, `next_step`, what to do with it (None where nothing follows),
            `facts`, names and values at the top, and `made_from`, the files that hold all that it
            shows.

    Raises:
        jinja2.UndefinedError: the template shows something that is not given.
    """
    return environment().get_template(f"{template}.html.j2").render(context)
