"""Next steps after a run: going on with it, training it longer, or fine-tuning its model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lingraft.recipe.defaults import FEWEST_TOKENS
from lingraft.report.next_step import NextStep, command

if TYPE_CHECKING:
    from lingraft.report.tables import Line
    from lingraft.report.variants import TrainedModel

MORE = 4
"""Times the budget, at least, where a model has learnt little."""
OWN_TASK = "my-task.toml"
"""A user's own task, in the place of the name of one."""


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
        command("finetune", path / "model", "--task", OWN_TASK, "--data", "data"),
    )
