"""The one page: a verdict, and under it a list of tables, figures and texts.

It is one HTML file that needs nothing else, from `templates/page.html.j2`.

The next sensible step behind a result: why, and the command that takes it.

Next steps after a run: going on with it, training it longer, or fine-tuning its model.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Literal, NamedTuple

import jinja2

from lingraft.recipe.defaults import FEWEST_TOKENS
from lingraft.report.figure import Figure
from lingraft.report.next_step import NextStep, command
from lingraft.report.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingraft.report.tables import Line
    from lingraft.report.variants import TrainedModel


class Heading(NamedTuple):
    """Begins a section, or a part of one."""

    text: str
    level: int = 2


class PageText(NamedTuple):
    """A paragraph; `Markup` is written as it is."""

    text: str
    kind: Literal["", "note", "absent", "strong", "code", "item", "sentence"] = ""
    lang: str = ""
    """Language of the text, where it is not English."""


class Folded(NamedTuple):
    """Parts of a page that are seen when they are asked for."""

    title: str
    parts: Sequence[Part]


Part = Heading | PageText | Table | Figure | Folded


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
    return environment.get_template("page.html.j2")


MORE = 4
"""Times the budget, at least, where a model has learnt little."""


def after_run(main: TrainedModel, line: Line) -> NextStep:
    """Return the next sensible step after a run.

    Args:
        main: the run's own model.
        line: its numbers.
    """
    path = main.run.path
    again = ("adapt", path / "recipe.toml")
    if main.result("evaluation") is None:
        return NextStep(
            "The run has not ended. This goes on where it was:",
            command(*again, "--out", path, "--update"),
        )
    if line.too_few:
        where = "streams.0.corpus" if main.recipe.streams else "corpus"
        return NextStep(
            "The test text is too small to judge by. Hold more of it out, in a run of its own:",
            command(*again, f"{where}.test=0.2", "--out", f"{path}-test"),
        )
    if main.phases and not line.has_learnt:
        times = max(MORE, math.ceil(FEWEST_TOKENS / (main.tokens or 1)))
        longer = [
            f"phases.{at}.budget={times * phase.budget.value:.15g} {phase.budget.unit}"
            for at, phase in enumerate(main.recipe.phases)
        ]
        return NextStep(
            f"The model has learnt little. Train it {times} times as long, in a run of its own:",
            command(*again, *longer, "--out", f"{path}-longer"),
        )
    return NextStep(
        "Fine-tune the model on a task (lingraft show tasks lists them):",
        command("finetune", path / "model", "--task", "my-task.toml", "--data", "data"),
    )
