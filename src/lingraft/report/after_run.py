"""What follows a run: going on with it, training it longer, or fine-tuning its model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lingraft.recipe.defaults import FEWEST_TOKENS
from lingraft.report.next_step import NextStep, command
from lingraft.report.variants import kind_of
from lingraft.tasks import GROUPS, TASKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.report.tables import Line
    from lingraft.report.variants import Variant

MORE = 4
"""Times the budget, at least, where a model has learnt little."""
NER = "panx"
"""A task with training text of its own in most languages."""
OWN_TASK = "my-task.toml"
"""What a user calls a task of their own."""


def after_run(main: Variant, line: Line) -> NextStep:
    """Return the next sensible step after a run.

    Args:
        main: the run's own model.
        line: its numbers.
    """
    evaluation, path = main.result("evaluation"), main.run.path
    if evaluation is None:
        called = str((main.environment or {}).get("command", ""))
        again = command("adapt", path / "recipe.toml", "--out", path, "--update")
        words = [word for word in called.split(" ") if word != "--force"]
        has_command = words[:2] == ["lingraft", "adapt"]
        return NextStep(
            "The run has not ended. This goes on where it was:",
            " ".join(words) if has_command else again,
        )
    if line.too_few:
        where = "streams.0.corpus" if main.recipe.streams else "corpus"
        return NextStep(
            "The test text is too small to judge by. Give more text, or hold more of it out, in a "
            "run of its own:",
            command("adapt", path / "recipe.toml", f"{where}.test=0.2", "--out", f"{path}-test"),
        )
    if main.phases and not line.learnt:
        times = max(MORE, math.ceil(FEWEST_TOKENS / (main.tokens or 1)))
        longer = [
            f"phases.{at}.budget={times * phase.budget.value:.15g} {phase.budget.unit}"
            for at, phase in enumerate(main.recipe.phases)
        ]
        return NextStep(
            f"The model has learnt little. Train it {times} times as long, in a run of its own:",
            command("adapt", path / "recipe.toml", *longer, "--out", f"{path}-longer"),
        )
    if kind_of(evaluation) == "seq2seq":
        task, where = OWN_TASK, f"{OWN_TASK} describes it"
    else:
        task, where = _task(main.recipe.languages)
    return NextStep(
        f"Fine-tune the model on a task ({where}):",
        command("finetune", path / "model", "--task", task, "--data", "data"),
    )


def _task(languages: Sequence[str]) -> tuple[str, str]:
    """A task for the first of the languages that has one, and where its files are named."""
    in_groups = {group.member(code) for group in GROUPS.values() for code in group.languages}
    for language in languages:
        code = language.partition("-")[0]
        own = [name for name in TASKS if code in TASKS[name].languages and name not in in_groups]
        shared = [GROUPS[NER].member(code)] if code in GROUPS[NER].languages else []
        for name in (*own, *shared):
            return name, "lingraft show tasks says where its files come from"
    return OWN_TASK, f"{OWN_TASK} describes it"
