"""The recipe of `lingraft finetune`: models, tasks, seeds, and what differs from the papers."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from lingraft.devices import Device
from lingraft.errors import RecipeError
from lingraft.files import check_folder_name, path_of
from lingraft.recipe import Batch, Budget, Optimizer, Phase, Schedule, Validation
from lingraft.recipe.base import Names, Section
from lingraft.recipe.decoding import checked, load, override
from lingraft.tasks import TASKS
from lingraft.tasks.decoding import task_in
from lingraft.tasks.definition import Changes, Count, changed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.tasks.definition import Settings
    from lingraft.tasks.task import Task

MAX_SEEDS = 10_000
HUB = "hub"
"""As the folder of a task's files: the Hugging Face Hub."""
MEAN = "mean"
"""As the languages that choose the best weights: all that are tested."""
Share = Annotated[float, Field(gt=0, lt=1)]


class Cut(Section):
    """Shares into which the one labelled split at hand is cut, where official ones are missing."""

    train: Share | None = None
    """None trains on the official training set, and cuts the development set in dev and test."""
    dev: Share
    """Decides which weights are kept."""
    test: Share | None = None
    """None reports dev."""

    @model_validator(mode="after")
    def _whole(self) -> Cut:
        total = sum(self.shares.values())
        if abs(total - 1) > 1e-9:
            raise ValueError(f"the shares sum to {total:g}; they must sum to 1")
        return self

    @property
    def shares(self) -> dict[str, float]:
        shares = {"train": self.train, "dev": self.dev, "test": self.test}
        return {name: share for name, share in shares.items() if share is not None}


class TaskOptions(Section):
    """Examples of a task that are learnt, and the settings for them."""

    data: str | None = None
    """The directory that holds the tasks' files, or 'hub' for the Hugging Face Hub."""
    cut: Cut | None = None
    train_examples: Count | None = None
    """Train on this many examples only; smaller sets are contained in larger ones."""
    paper: str | None = None
    """Other settings that a task knows by this name, such as 'roberta2019'."""
    settings: Changes = Changes()
    """Changes to the tasks' own settings."""


class Finetune(TaskOptions):
    """A call: every model on every task, with every seed."""

    models: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    """Pretrained checkpoints with their tokenizers: directories, Hub ids or names of `lingraft show
    models`."""
    labels: Names = ()
    """Names of the models in tables and folders, in their order; none takes their folders'."""
    restore_source: bool = False
    """The one model is the folder of a run: fine-tune its source and, after each phase, its model
    with and without the inserted layers, with the run's vocabulary and with the source's."""
    tasks: Annotated[Names, Field(min_length=1)]
    """`lingraft show tasks`, or TOML files of a user's own."""
    train_languages: Names = ()
    """Train in these languages together, or in 'all', and score in others; the tasks are then those
    that exist in several languages, without the language in their names."""
    test_languages: Names = ()
    """Score in these; none are those whose files are here."""
    selection_languages: Names = ()
    """Choose the best weights by the mean over these; none are those that are trained on, 'mean'
    those that are tested."""
    plug: Literal["out", "in"] = "out"
    """Leave cross-attention out, or read every example with its translation through it."""
    teacher: str | None = None
    """A fine-tuned model (`keep_models`) that tags translations without tags, with plug=in."""
    seeds: Annotated[int, Field(ge=1, le=MAX_SEEDS)] = 10
    """Number of seeds."""
    keep_models: bool = False
    """Keep the best weights of every seed."""
    device: Device = "auto"
    precision: Literal["auto", "bf16", "fp16", "fp32"] = "auto"
    micro_batch_tokens: Annotated[int, Field(ge=16)] = 4_096
    """Tokens, padding included, that go through the model at once."""

    @model_validator(mode="after")
    def _sound(self) -> Finetune:
        if self.restore_source and (len(self.models) > 1 or self.labels):
            raise ValueError("restore_source takes the folder of one run, and no labels")
        labels_of(self.models, self.labels)
        if not self.is_transfer and (self.test_languages or self.selection_languages):
            raise ValueError(
                "test_languages and selection_languages are for training in other languages: name "
                "them with train_languages (--train-language en)"
            )
        return self

    @property
    def is_transfer(self) -> bool:
        """Return whether tasks are trained in some languages and scored in others."""
        return bool(self.train_languages)

    @property
    def model_labels(self) -> tuple[str, ...]:
        return labels_of(self.models, self.labels)


def labels_of(models: Sequence[str], labels: Sequence[str]) -> tuple[str, ...]:
    """Return what tables and folders call models: their labels, or else their folders' names.

    Raises:
        RecipeError: labels are too many or too few or no names of folders, or two are the same.
    """
    if labels and len(labels) != len(models):
        raise RecipeError(f"{len(labels)} labels for {len(models)} models; give one a model")
    for label in labels:
        check_folder_name(label, "label")
    found = tuple(labels or map(label_of, models))
    if len({*map(str.casefold, found)}) < len(found):  # on a Mac Base is base
        raise RecipeError("two models have one name; name them with labels (--label A B)")
    return found


def label_of(model: str) -> str:
    """Return a model's name: the last part of its id, of RUN/model the run's name."""
    parts = [part for part in Path(model).resolve().parts if part != "/"] or ["model"]
    if "/" in model and not Path(model).exists():
        parts = model.split("/")
    name = parts[-2] if parts[-1] in ("model", "best") and len(parts) > 1 else parts[-1]
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", name).strip("-.") or "model"


def read_finetune(path: Path, assignments: Sequence[str] = ()) -> tuple[Finetune, Path]:
    """Read a file's recipe ([finetune] and its tables), and the folder that its paths start from.

    Args:
        path: TOML.
        assignments: `learning_rate=1e-5` for the settings, `seeds=3` for the recipe.

    Raises:
        RecipeError: the first thing that is wrong, on one line.
    """
    data = load(path)
    if set(data) != {"finetune"}:
        raise RecipeError(f"{path}: a recipe for lingraft finetune has the table [finetune] alone")
    return decode_finetune(data["finetune"], assignments, str(path)), path.resolve().parent


def decode_finetune(
    data: dict[str, Any], assignments: Sequence[str] = (), where: str = "command line"
) -> Finetune:
    """Check plain data and freeze it.

    Raises:
        RecipeError: the first thing that is wrong, on one line.
    """
    return checked(Finetune, override(data, map(_placed, assignments)), where)


def _placed(assignment: str) -> str:
    """Return an assignment by its whole path: what is no key of the recipe is a setting's."""
    key = re.split(r"[.=]", assignment.strip(), maxsplit=1)[0]
    return assignment if key in Finetune.model_fields else f"settings.{assignment}"


def tasks_of(recipe: Finetune, base: Path) -> list[Task]:
    """Return the tasks, with the settings that are to be used.

    Args:
        recipe: names them.
        base: the folder that the files of a user's own tasks are relative to.

    Raises:
        RecipeError: an unknown task, or two of one name.
    """
    tasks = [_named(name, base) for name in recipe.tasks]
    check_names([task.name for task in tasks])
    return with_settings(tasks, recipe)


def check_names(names: Sequence[str]) -> None:
    """Refuse tasks of one name, whose results would share a folder.

    Raises:
        RecipeError: there are such.
    """
    if len({*names}) < len(names):
        raise RecipeError(f"tasks: one is there twice in {', '.join(names)}; name each once")


def with_settings(tasks: Sequence[Task], recipe: TaskOptions) -> list[Task]:
    """Return the tasks with the settings that a recipe wants.

    Raises:
        RecipeError: none of them knows the recipe's paper.
    """
    if recipe.paper and not any(recipe.paper in task.alternatives for task in tasks):
        known = sorted({name for task in tasks for name in task.alternatives})
        raise RecipeError(
            f"paper: no task knows the settings {recipe.paper!r}; they know {', '.join(known)}"
        )
    return [
        replace(
            task,
            settings=settings_of(task, recipe.settings, recipe.paper),
            spans=task.spans and changed(task.spans, recipe.settings),
        )
        for task in tasks
    ]


def _named(name: str, base: Path) -> Task:
    if name.endswith(".toml") and "languages" not in load(base / path_of(name)):
        return task_in(base / path_of(name))
    if name in TASKS:
        return TASKS[name]
    raise RecipeError(
        f"tasks: no task {name!r} in one language; see lingraft show tasks, give the TOML file of "
        "your own, or a language to train in (--train-language en)"
    )


def settings_of(task: Task, changes: Changes, paper: str | None = None) -> Settings:
    """Return a task's settings, or those of another paper where it has them, with the changes."""
    origin = task.alternatives.get(paper or "", task.settings)
    settings = changed(origin, changes)
    differing = [name for name, value in settings if value != getattr(origin, name)]
    if not differing or not settings.source:
        return settings
    source = f"{settings.source}; changed: {', '.join(differing)}"
    return settings.model_copy(update={"source": source})


def phase_of(settings: Settings, name: str, steps_per_epoch: float) -> Phase:
    """Return a task's settings as a phase of the training loop.

    Args:
        settings: the task's.
        name: of the phase.
        steps_per_epoch: optimizer steps of a pass over the training examples.
    """
    budget = Budget(value=settings.epochs, unit="epochs")
    every: int | None = max(1, round(steps_per_epoch / settings.checks_per_epoch))
    if settings.steps:
        budget, every = Budget(value=settings.steps, unit="steps"), None
    return Phase(
        name=name,
        train=("all",),
        budget=budget,
        batch=Batch(
            size=settings.batch, unit="tokens" if settings.batch_unit == "tokens" else "sentences"
        ),
        optimizer=Optimizer(
            learning_rate=settings.learning_rate,
            betas=settings.betas,
            epsilon=settings.eps,
            weight_decay=settings.weight_decay,
            max_gradient_norm=settings.clip,
        ),
        schedule=Schedule(shape=settings.schedule, warmup=settings.warmup),
        validation=Validation(
            every_steps=settings.check_every or every, patience=settings.patience
        ),
    )
