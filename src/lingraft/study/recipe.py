"""A study file: a base recipe, what is set in every cell, axes of one grid or several, tasks.

Everything that decides a cell's result, as fingerprints that are the same on every machine.

Nothing here depends on absolute paths, times of change or the machine: the source's weights and the
text count by their content. A Hub model or data set counts by its name and revision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import tomli_w
from pydantic import BeforeValidator, Field

from lingraft.corpus.inputs import texts
from lingraft.errors import RecipeError
from lingraft.files import path_of
from lingraft.finetuning.recipe import HUB, MAX_SEEDS, TaskOptions
from lingraft.pipeline import fingerprints
from lingraft.pretrained.checkpoints import named_tokenizer
from lingraft.recipe import Section
from lingraft.recipe.base import FROM_OUTSIDE
from lingraft.recipe.decoding import checked, load
from lingraft.recipe.methods import as_written
from lingraft.rundir import FORMAT, fingerprint
from lingraft.tasks.definition import Count

if TYPE_CHECKING:
    from pathlib import Path

    from lingraft.recipe import Recipe


Axis = Annotated[tuple[Any, ...], Field(strict=False, min_length=1)]


class Rule(Section):
    """Settings for some of the cells."""

    when: Annotated[dict[str, Any], Field(min_length=1)]
    """Values of axes; a cell matches that has all of them."""
    set: Annotated[dict[str, Any], Field(min_length=1)]
    """Dotted paths of the recipe, and their values."""


def _seeds(value: Any) -> Any:
    """Return a number of seeds as the seeds; anything else as it is."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return tuple(range(min(value, MAX_SEEDS + 1))) if whole else value


class StudyTask(TaskOptions):
    """A task that models are fine-tuned on once they have been evaluated.

    Its paths are relative to the study's file.
    """

    name: str
    """`lingraft show tasks`, or the TOML file of a user's own, relative to the study's file."""
    seeds: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...],
        BeforeValidator(_seeds),
        Field(strict=False, min_length=1, max_length=MAX_SEEDS),
    ] = (0, 1, 2)
    """Seeds of fine-tuning: a list, or how many, counted from 0."""
    methods: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Only in cells of these methods; empty takes all."""
    sentences: Annotated[tuple[Count, ...], Field(strict=False)] = ()
    """Only in cells of these sizes, and those that have none; empty takes all."""


class Study(Section):
    """Many runs of one recipe side by side."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] = "study"
    """Names the study: letters, digits, '.', '_' and '-'."""
    base: str | dict[str, Any]
    """A recipe: a path, relative to the study's file, or the recipe itself as a table. Its
    [[phases]] and [[baselines]] are left out: each cell's method fills in the phases."""
    keep: Literal["final", "none"] = "final"
    """Weights that stay on disk once a cell has been evaluated: of the last phase, or none."""
    set: dict[str, Any] = {}
    """Dotted paths of the recipe and their values, in every cell."""
    grids: Annotated[tuple[dict[str, Axis], ...], Field(strict=False, min_length=1)]
    """Axes and their values; a grid is all combinations, a study the union of its grids. `method`
    is training.method, `sentences` training.max_train_sentences, `finetune.KEY` a key of
    fine-tuning (finetune.learning_rate), whose cells share the trained model; anything else a
    dotted path."""
    rules: Annotated[tuple[Rule, ...], Field(strict=False)] = ()
    """Applied in order, after `set` and before the axes."""
    tasks: Annotated[tuple[StudyTask, ...], Field(strict=False)] = ()
    """Tasks that the cells' models are fine-tuned on, in this order."""
    select: dict[str, Literal["dev"]] = {}
    """Axes of which tables show the best value alone, such as "training.learning_rate" = "dev": the
    one whose models have the lowest loss on the validation text, mean over the seeds; of
    finetune.KEY for each task the one with the highest score on its development set. What tables
    show of it is measured on the test set."""


def read_study(path: Path) -> Study:
    """Read a study file; its paths become good from the current folder.

    Raises:
        RecipeError: whatever is wrong with it, on one line.
    """
    data = load(path)
    if isinstance(data.get("base"), str):
        data["base"] = str(path.parent / data["base"])
    study = checked(Study, data, str(path))
    for key in study.select:
        if not any(key in grid for grid in study.grids):
            raise RecipeError(f"{path}: select: {key} is an axis of no grid")
        if key.startswith(("tokenizer.", "source.")):
            raise RecipeError(f"{path}: select: {key}: losses by other tokens do not compare")
    tasks = tuple(_placed(task, path.parent) for task in study.tasks)
    return study.model_copy(update={"tasks": tasks})


def _placed(task: StudyTask, folder: Path) -> StudyTask:
    """Return the task with its paths seen from the current folder."""
    changes = {}
    if task.data not in (None, HUB):
        changes["data"] = str(folder / path_of(str(task.data)))
    if task.name.endswith(".toml"):
        changes["name"] = str(folder / path_of(task.name))
    return task.model_copy(update=changes)


def to_toml(study: Study) -> str:
    """Return the study as TOML, every value written out."""
    return tomli_w.dumps(study.model_dump(mode="json", exclude_none=True))


NOT_DECISIVE = {"name", "baselines", "hardware", "export"}
"""Names, the use of the machine, and what only other things read."""
BY_CONTENT = {"language", "corpus", "streams", "source", "tokenizer", "embeddings"}
"""Sections that count by the contents of their files."""
WITHOUT_RESOURCES = {"random", "random-statistics", "match", "mean", "first-piece"}
"""Initializers that read nothing of [embeddings]."""


def shared(recipe: Recipe) -> dict[str, str]:
    """Return the fingerprints of what the corpus and the tokenizer stage make, by stage."""
    corpus = fingerprints.corpus_fingerprint(recipe)
    source = fingerprints.source_fingerprint(recipe)
    tokenizer = fingerprint(corpus, source, *named_tokenizer(recipe.tokenizer))
    return {"corpus": corpus, "tokenizer": tokenizer}


def of_cell(recipe: Recipe, tokenizer: str) -> str:
    """Return the fingerprint of all that decides what training and evaluation measure.

    Args:
        recipe: of the cell.
        tokenizer: the fingerprint of its tokenizer, from `shared`.

    Raises:
        DataError: a file that the recipe names is not there.
    """
    leave, section = NOT_DECISIVE | BY_CONTENT, recipe.embeddings.decisive
    plain = as_written(recipe).model_dump(mode="json", exclude_defaults=True, exclude=leave)
    plain["training"] = recipe.training.method
    if "evaluation" in plain:
        plain["evaluation"].pop("samples", None)  # how many texts are shown
        plain["evaluation"]["kept"] = texts(recipe.evaluation.kept)
        if prompts := recipe.evaluation.prompts:
            plain["evaluation"]["prompts"] = texts([prompts])
    embeddings = section.model_dump(mode="json", exclude_defaults=True)
    contents = {}
    if WITHOUT_RESOURCES.issuperset(section.initializers):
        embeddings |= dict.fromkeys(FROM_OUTSIDE)
    else:
        embeddings |= dict.fromkeys(fingerprints.RESOURCES)
        contents = fingerprints.resource_contents(section)
    return fingerprint(FORMAT["study"], tokenizer, plain, embeddings, contents)
