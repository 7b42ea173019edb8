"""The recipe of `lingraft finetune`: models, tasks, seeds, and what differs from the papers."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from lingraft.devices import Device
from lingraft.errors import RecipeError
from lingraft.log import counted
from lingraft.paths import path_of
from lingraft.recipe import Batch, Budget, Optimizer, Phase, Schedule, Validation
from lingraft.recipe.base import Names, Section
from lingraft.recipe.decoding import checked, load, override
from lingraft.tasks import GROUPS, TASKS, names
from lingraft.tasks.definition import task_in
from lingraft.tasks.settings import Changes, Count, changed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.tasks.settings import Settings
    from lingraft.tasks.task import Kind, Task

MAX_SEEDS = 10_000
HUB = "hub"
"""As the folder of a task's files: the Hugging Face Hub."""
MEAN = "mean"
"""As the languages that choose the best weights: all that are tested."""
ALONE = ("all", MEAN)
"""Names that stand for several languages."""
OF_ONE_KIND: dict[Kind, tuple[str, ...]] = {
    "span": ("doc_stride", "max_query", "max_answer", "null_threshold"),
    "translation": ("label_smoothing", "beams"),
}
"""Settings that other kinds of tasks have no use for."""


class Cut(Section):
    """Shares into which the one labelled split at hand is cut, where official ones are missing."""

    train: Annotated[float, Field(gt=0, lt=1)] | None = None
    """None trains on the official training set, and cuts the development set in dev and test."""
    dev: Annotated[float, Field(gt=0, lt=1)]
    """Decides which weights are kept."""
    test: Annotated[float, Field(gt=0, lt=1)] | None = None
    """None reports dev."""
    seed: int = 0
    """Decides which example goes where."""

    @model_validator(mode="after")
    def _whole(self) -> Cut:
        if self.train is None and self.test is None:
            raise ValueError("the shares are of train and dev, of all three, or of dev and test")
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


class PlugIn(Section):
    """Settings of fine-tuning with cross-attention plugged in (docs/guides/translation.md)."""

    stop_gradient: bool = False
    """No gradient through the partner's states; the paper does not say."""
    teacher: str | None = None
    """A fine-tuned model (`keep_models`) that tags translations without tags."""


class Finetune(TaskOptions):
    """A call: every model on every task, with every seed."""

    models: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    """Pretrained checkpoints with their tokenizers: directories, Hub ids or names of `lingraft show
    models`."""
    labels: Names = ()
    """Names of the models in tables, in their order; None names them after their folders."""
    restore_source: bool = False
    """The one model is the folder of a run: fine-tune its source and, after each phase, its model
    with and without the inserted layers, with the run's vocabulary and with the source's."""
    tasks: Names = ()
    """`lingraft show tasks`, or TOML files of a user's own."""
    train_languages: Names = ()
    """Train in these languages together, or in 'all', and score in others; the tasks are then those
    that exist in several languages, without the language in their names."""
    test_languages: Names = ()
    """Score in these; 'all' and none are those whose files are here."""
    selection_languages: Names = ()
    """Choose the best weights by the mean over these; none are those that are trained on, 'mean'
    those that are tested."""
    plug: Literal["out", "in"] = "out"
    """Leave cross-attention out, or read every example with its translation through it."""
    plug_in: PlugIn = PlugIn()
    seeds: Annotated[int, Field(ge=1, le=MAX_SEEDS)] = 10
    """Number of seeds; they are counted from `first_seed`."""
    first_seed: Annotated[int, Field(ge=0)] = 0
    keep_models: bool = False
    """Keep the best weights of every seed."""
    device: Device = "auto"
    precision: Literal["auto", "bf16", "fp16", "fp32"] = "auto"
    micro_batch_tokens: Annotated[int, Field(ge=16)] = 4_096
    """Tokens, padding included, that go through the model at once."""

    @model_validator(mode="after")
    def _sound(self) -> Finetune:
        self._check_models()
        self._check_languages()
        if self.plug == "out" and self.plug_in != PlugIn():
            raise ValueError("plug_in is for models that are plugged in; say so (plug=in)")
        if not self.tasks:
            raise ValueError("tasks names none; give one, such as klue-nli (lingraft show tasks)")
        return self

    def _check_models(self) -> None:
        if self.restore_source and (len(self.models) > 1 or self.labels):
            raise ValueError("restore_source takes the folder of one run, and no labels")
        if self.labels and len(self.labels) != len(self.models):
            raise ValueError(
                f"labels has {counted(len(self.labels), 'name')} for "
                f"{counted(len(self.models), 'model')}; "
                "give one a model, in their order"
            )
        folders = [label.casefold() for label in self.model_labels]  # on a Mac Base is base
        twice = sorted({folder for folder in folders if folders.count(folder) > 1})
        if twice:
            raise ValueError(
                f"two models would be called '{twice[0]}'; name them with labels (--label A B)"
            )
        for label in self.labels:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", label):
                raise ValueError(
                    f"label '{label}' names a folder: letters, digits, '.', '_', '+' and '-'"
                )

    def _check_languages(self) -> None:
        for key in ("train_languages", "test_languages", "selection_languages"):
            names = getattr(self, key)
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{key} has {twice[0]!r} twice; name each language once")
            if len(names) > 1 and (alone := set(ALONE) & set(names)):
                raise ValueError(f"{key}: '{min(alone)}' stands for several; name no more with it")
            if names and not self.is_transfer:
                raise ValueError(
                    f"{key} is for training in other languages: name them with train_languages "
                    "(--train-language en)"
                )

    @property
    def is_transfer(self) -> bool:
        """Return whether tasks are trained in some languages and scored in others."""
        return bool(self.train_languages)

    @property
    def model_labels(self) -> tuple[str, ...]:
        return self.labels or tuple(label_of(model) for model in self.models)


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
        assignments: `learning_rate=1e-5` for the settings, `first_seed=3` for the recipe.

    Raises:
        RecipeError: the first thing that is wrong, on one line.
    """
    data = load(path)
    if set(data) != {"finetune"}:
        raise RecipeError(
            f"{path}: has {', '.join(sorted(data)) or 'nothing'} at the top; "
            "a recipe for lingraft finetune has the table [finetune] alone"
        )
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
    near = difflib.get_close_matches(key, [*Finetune.model_fields, *Changes.model_fields], 1)
    own = key in Finetune.model_fields or (near and near[0] in Finetune.model_fields)
    return assignment if own and key not in Changes.model_fields else f"settings.{assignment}"


def tasks_of(recipe: Finetune, base: Path) -> list[Task]:
    """Return the tasks, with the settings that are to be used.

    Args:
        recipe: names them.
        base: the folder that the files of a user's own tasks are relative to.

    Raises:
        RecipeError: an unknown task, or two of one name.
    """
    tasks = [_named(name, base) for name in recipe.tasks]
    check_distinct([task.name for task in tasks])
    check_known(tasks, recipe)
    return [with_settings(task, recipe) for task in tasks]


def check_distinct(names: Sequence[str]) -> None:
    """Refuse tasks of one name.

    Raises:
        RecipeError: there are such.
    """
    for name in names:
        if names.count(name) > 1:
            raise RecipeError(f"tasks: {name} is there twice; results would share a folder")


def check_known(tasks: Sequence[Task], recipe: TaskOptions) -> None:
    """Make sure that one of the tasks knows the paper, and each setting of a single kind of task.

    Raises:
        RecipeError: none does.
    """
    kinds, paper = {task.kind for task in tasks}, recipe.paper
    for kind, keys in OF_ONE_KIND.items():
        for key in keys if kind not in kinds else ():
            if key in recipe.settings.model_fields_set:
                raise RecipeError(
                    f"settings.{key}: is for tasks of the kind {kind}, and there is none; leave "
                    "it out"
                )
    if paper and not any(paper in task.alternatives for task in tasks):
        papers = sorted({name for task in tasks for name in task.alternatives})
        raise RecipeError(
            f"paper: none of the tasks knows the settings {paper!r}; "
            f"they know {', '.join(papers) or 'none but their own'}"
        )


def with_settings(task: Task, recipe: Finetune) -> Task:
    """Return the task with the settings that a recipe wants."""
    return replace(
        task,
        settings=settings_of(task, recipe.settings, recipe.paper),
        spans=task.spans and changed(task.spans, recipe.settings),
    )


def _named(name: str, base: Path) -> Task:
    if name.endswith(".toml"):
        path = base / path_of(name)
        if "languages" in load(path):
            raise RecipeError(
                f"tasks: {name} is in several languages; say in which to train (--train-language)"
            )
        return task_in(path)
    if name in GROUPS:
        member = GROUPS[name].member(GROUPS[name].train_language)
        raise RecipeError(
            f"tasks: {name} is in {len(GROUPS[name].languages)} languages; name one of them, as "
            f"{member}, or one to train in and score the others (--train-language)"
        )
    if name not in TASKS:
        raise RecipeError(
            f"tasks: no task {name!r}; there are {', '.join(names())}, "
            "or give the TOML file of your own (docs/reference/tasks.md)"
        )
    return TASKS[name]


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
    unit: Literal["sentences", "tokens"] = "sentences"
    if settings.batch_unit == "tokens":
        unit = "tokens"
    return Phase(
        name=name,
        train=("all",),
        budget=budget,
        batch=Batch(size=settings.batch, unit=unit),
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
