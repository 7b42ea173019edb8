"""The next sensible step behind a result: why, and the command that takes it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

from lingraft.report.variants import kind_of
from lingraft.tasks import GROUPS, TASKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.report.tables import Line
    from lingraft.report.variants import Variant

MORE = 4
"""Times the budget, where a model has learnt little."""
NER = "panx"
"""A task with training text of its own in most languages."""
OWN_TASK = "my-task.toml"
"""What a user calls a task of their own."""


class NextStep(NamedTuple):
    """What to do next."""

    why: str
    command: str

    @property
    def text(self) -> str:
        """Both on one line, for a terminal."""
        return f"{self.why}\n{self.command}"


def command(*words: object) -> str:
    """A command as a shell reads it."""
    return shlex.join(["lingraft", *map(str, words)])


def after_run(main: Variant, line: Line) -> NextStep:
    """What follows a run: going on with it, training it longer, or fine-tuning its model.

    Args:
        main: the run's own model.
        line: its numbers.
    """
    evaluation, path = main.result("evaluation"), main.run.path
    if evaluation is None:
        called = str((main.environment or {}).get("command", ""))
        again = command("adapt", path / "recipe.toml", "--out", path, "--resume")
        known = called.startswith("lingraft adapt ")
        return NextStep(
            "The run has not ended. This goes on where it was:", called if known else again
        )
    if main.phases and not line.learnt:
        return NextStep(
            f"The model has learnt little. Change what the report proposes, or train it {MORE} "
            "times as long, in a run of its own:",
            command("adapt", path / "recipe.toml", *_longer(main), "--out", f"{path}-longer"),
        )
    if kind_of(evaluation) == "seq2seq":
        task, where = OWN_TASK, f"{OWN_TASK} describes it"
    else:
        task, where = _task(main.recipe.languages)
    return NextStep(
        f"Fine-tune the model on a task ({where}):",
        command("finetune", path / "model", "--task", task, "--data", "data"),
    )


def _longer(main: Variant) -> list[str]:
    """The options that multiply a run's budget."""
    method = main.recipe.method
    if method.budget is not None:
        return ["--set", f"method.budget.value={MORE * method.budget.value:g}"]
    phases = enumerate(main.recipe.phases)
    values = [(at, f"{MORE * phase.budget.value:.15g}") for at, phase in phases]
    return [word for at, value in values for word in ("--set", f"phases.{at}.budget.value={value}")]


def _task(languages: Sequence[str]) -> tuple[str, str]:
    """A task for the first of the languages that has one, and where its files are named."""
    in_groups = {group.member(code) for group in GROUPS.values() for code in group.languages}
    for language in languages:
        code = language.partition("-")[0]
        own = [name for name in TASKS if code in TASKS[name].languages and name not in in_groups]
        shared = [GROUPS[NER].member(code)] if code in GROUPS[NER].languages else []
        for name in (*own, *shared):
            return name, "`lingraft list tasks` says where its files come from"
    return OWN_TASK, f"{OWN_TASK} describes it"
