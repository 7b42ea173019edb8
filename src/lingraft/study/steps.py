"""What a study does with a cell, in order: training with its evaluation, then every task and seed.

A step leaves a folder that says when it is done, and rows of results.jsonl that say how it ended.
Nothing here loads torch: the plan and the results need no model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.errors import RecipeError
from lingraft.finetuning import data as task_data
from lingraft.finetuning import outcomes
from lingraft.finetuning.recipe import sized, tasks_of
from lingraft.pipeline.preflight import BYTES_PER_TOKEN
from lingraft.recipe import Hardware, Recipe
from lingraft.recipe.record import AUTO
from lingraft.recipe.records import METHODS
from lingraft.report import variants
from lingraft.rundir import fingerprint, read_json
from lingraft.study import collect, estimate, studydir
from lingraft.study.rows import EndRow, TaskRow
from lingraft.study.studydir import LABEL, TASKS
from lingraft.tasks.examples import SpanExample, TextExample
from lingraft.tasks.splits import DEV, TRAIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingraft.rundir import Run
    from lingraft.study.collect import Rows
    from lingraft.study.estimate import Cost
    from lingraft.study.grid import Cell
    from lingraft.study.recipe import Study, StudyTask
    from lingraft.study.rows import Outcome, Tuned
    from lingraft.tasks import Data, Task
    from lingraft.tasks.examples import Example

DECISIVE = (
    "task", "data", "kind", "labels", "metrics", "selection", "spans", "settings", "learning_rates",
)  # fmt: skip
"""Of what fine-tuning writes down about a seed (`inputs`): what is the same in every cell."""


@dataclass(frozen=True)
class TrainStep:
    """Graft, train and evaluate."""

    recipe: Recipe
    cost: Cost

    name = "training"

    def is_done(self, run: Run) -> bool:
        """Whether it has ended in a cell's folder."""
        return run.stage("evaluation").done_path.is_file()

    def progress(self, run: Run) -> float:
        """Roughly, the share of it that is done."""
        tokens = studydir.seen_tokens(run, self.cost.phases)
        return min(1.0, tokens / max(self.cost.tokens, 1.0))

    def rows(self, common: dict[str, Any], run: Run) -> Rows:
        """What it left, as rows."""
        return collect.training(common, run)

    def failure(self, common: dict[str, Any], message: str, seconds: float) -> EndRow:
        """The row of a cell that failed."""
        return EndRow(**common, status="failed", message=message, seconds=round(seconds, 2))


@dataclass(frozen=True)
class TaskPlan:
    """A task as a study fine-tunes on it."""

    section: StudyTask
    """Of a learning curve with one of its sizes."""
    task: Task
    """With the settings that are used."""
    fingerprint: str
    """Of everything that decides a result beside the cell and the seed."""
    train_tokens: float
    """Of all epochs: an estimate from the length of the text; patience may stop earlier."""
    read_tokens: float
    """Of the splits that are scored, as often as they are."""

    def is_for(self, cell: Cell) -> bool:
        """Whether the cell's model is fine-tuned on it."""
        methods, sizes = self.section.methods, self.section.sentences
        size = cell.axes["sentences"]
        return (not methods or cell.axes["method"] in methods) and (
            not sizes or size is None or size in sizes
        )


@dataclass(frozen=True)
class TaskStep:
    """Fine-tune the cell's model on a task with one seed."""

    plan: TaskPlan
    seed: int
    cost: Cost
    training: Hardware
    """Of the cell's recipe: how the machine is used."""

    @cached_property
    def name(self) -> str:
        return f"task {self.plan.task.name}, seed {self.seed}"

    def folder(self, run: Run) -> Path:
        """What it leaves, in a cell's folder."""
        return run.path / TASKS / LABEL / self.plan.task.name / f"seed-{self.seed}"

    def is_done(self, run: Run) -> bool:
        """Whether it has ended in a cell's folder, with this very data and these settings."""
        folder = self.folder(run)
        if not (folder / outcomes.SCORES).is_file():
            return False
        inputs = read_json(folder / "inputs")
        return self.plan.fingerprint in (_fingerprint(inputs), self._as_asked(inputs, run))

    def _as_asked(self, inputs: dict[str, Any], run: Run) -> str | None:
        """The fingerprint with the task's own dropout of heads, which a causal model's lacks.

        Fine-tuning leaves it out there (`finetuning.dropout.without_classifiers`).
        """
        dropout, evaluation = self.plan.task.settings.classifier_dropout, run.stage("evaluation")
        asked = "classifier_dropout" in self.plan.section.settings.model_fields_set
        if asked or not evaluation.done_path.is_file():
            return None
        if variants.kind_of(evaluation.result()) != "causal":
            return None
        settings = inputs["settings"] | {"classifier_dropout": dropout}
        return _fingerprint(inputs | {"settings": settings})

    def progress(self, run: Run) -> float:
        """1 or 0."""
        return float(self.is_done(run))

    def rows(self, common: dict[str, Any], run: Run) -> Rows:
        """What it left, as a row."""
        return [collect.fine_tuning(self._common(common), self.folder(run), self.plan.task)]

    def failure(self, common: dict[str, Any], message: str, _: float) -> TaskRow:
        """The row of a fine-tuning that failed."""
        return TaskRow(**self._common(common), status="failed", message=f"{self.name}: {message}")

    def _common(self, common: dict[str, Any]) -> dict[str, Any]:
        plan = self.plan
        return common | {
            "task": plan.task.name, "task_fingerprint": plan.fingerprint, "seed": self.seed,
        }  # fmt: skip


Step = TrainStep | TaskStep


def ends(
    steps: Sequence[Step], outcome: Outcome | None, tuned: Tuned
) -> dict[str, EndRow | TaskRow]:
    """The rows that say how a cell's steps ended, by name and in their order.

    Args:
        steps: of a cell.
        outcome: of its training.
        tuned: of its fine-tunings.
    """
    rows = {
        step.name: tuned.get((step.plan.fingerprint, step.seed))
        if isinstance(step, TaskStep)
        else (outcome.end if outcome else None)
        for step in steps
    }
    return {name: row for name, row in rows.items() if row is not None}


def jobs(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Steps as plain data for a cell's process; the seeds of a task together."""
    training = [{"step": "train"} for step in steps if isinstance(step, TrainStep)]
    tasks: dict[str, dict[str, Any]] = {}
    for step in steps:
        if isinstance(step, TaskStep):
            recipe = step.plan.section.finetune(step.training)
            table = recipe.model_dump(mode="json", exclude_none=True)
            job = {"step": "finetune", "recipe": table, "seeds": []}
            tasks.setdefault(step.plan.task.name, job)["seeds"].append(step.seed)
    return [*training, *tasks.values()]


def task_plans(study: Study) -> list[TaskPlan]:
    """The study's tasks, with their files read.

    Raises:
        LingraftError: a task is not known, or its files are missing or broken.
    """
    return [plan for section in study.tasks for plan in _plans_of(section)]


def _plans_of(section: StudyTask) -> Iterable[TaskPlan]:
    methods = (*METHODS, AUTO)
    for method in section.methods:
        if method not in methods:
            raise RecipeError(
                f"tasks: {section.name}: methods names '{method}', which is no method; "
                f"there are {', '.join(methods)}"
            )
    recipe = section.finetune(Hardware())
    (task,) = tasks_of(recipe, Path())
    for subtask, sized_recipe in sized(task, recipe):
        own = section
        if recipe.train_sizes:
            own = section.model_copy(update={"train_sizes": (sized_recipe.train_examples,)})
        data = task_data.load(task, sized_recipe, Path())
        inputs = {"task": subtask.name, "data": task_data.fingerprint_of(data), **task.decisive()}
        if recipe.learning_rates:
            inputs["learning_rates"] = list(recipe.learning_rates)
        yield TaskPlan(own, subtask, _fingerprint(inputs), *_tokens(task, data))


def _fingerprint(inputs: dict[str, Any]) -> str:
    """Of what decides a result beside the cell and the seed; other keys do not count."""
    return fingerprint({key: inputs[key] for key in DECISIVE if key in inputs})


def _tokens(task: Task, data: Data) -> tuple[float, float]:
    """Tokens that are trained on, and tokens that are scored."""
    settings = task.settings
    scored = task_data.reported(data)
    tokens = {
        split: sum(_length(example, settings.max_length) for example in data.splits[split])
        for split in (TRAIN, *scored)
    }
    epochs: float = settings.epochs
    checks: float = settings.epochs * settings.checks_per_epoch
    inputs = tokens[TRAIN] if settings.batch_unit == "tokens" else len(data.splits[TRAIN])
    if settings.steps:
        epochs, checks = settings.steps * settings.batch / inputs, 10
    if settings.check_every:
        checks = epochs * inputs / settings.batch / settings.check_every
    return (epochs * tokens[TRAIN], sum(tokens[split] for split in scored) + checks * tokens[DEV])


def _length(example: Example, longest: int) -> float:
    texts = [example.text]
    if isinstance(example, TextExample) and example.pair:
        texts.append(example.pair)
    count = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts) / BYTES_PER_TOKEN
    whole = isinstance(example, SpanExample)  # a long passage is cut into windows, not cut off
    return 2 + (count if whole else min(count, longest))


def steps_of(study: Study, cell: Cell, plans: Sequence[TaskPlan], cost: Cost) -> tuple[Step, ...]:
    """All steps of a cell.

    Args:
        study: that it belongs to.
        cell: one of its cells.
        plans: of all the study's tasks.
        cost: of the cell's training.
    """
    training = cell.recipe.hardware
    return (
        TrainStep(cell.recipe, cost),
        *(
            TaskStep(plan, seed, estimate.fine_tuning(cost, plan), training)
            for plan in tasks_for(cell, plans)
            for seed in plan.section.seeds
        ),
    )


def tasks_for(cell: Cell, plans: Sequence[TaskPlan]) -> list[TaskPlan]:
    """The tasks of one cell.

    Raises:
        RecipeError: a task is there twice; results would share a folder.
    """
    own = [plan for plan in plans if plan.is_for(cell)]
    names = [plan.task.name for plan in own]
    for name in names:
        if names.count(name) > 1:
            raise RecipeError(
                f"tasks: {name} is there twice for cell {cell.id}; give each its own methods or "
                "sentences, or merge them"
            )
    return own


def check_used(plans: Sequence[TaskPlan], cells: Iterable[Cell]) -> None:
    """Refuse a task that is for no cell.

    Raises:
        RecipeError: there is one.
    """
    cells = list(cells)
    for plan in plans:
        if not any(plan.is_for(cell) for cell in cells):
            raise RecipeError(
                f"tasks: {plan.section.name}: no cell has its methods and sentences; "
                "correct them or leave them out"
            )
