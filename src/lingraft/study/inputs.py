"""What decides a cell's result, as fingerprints that are the same on every machine.

Nothing here depends on absolute paths, times of change or the machine: the source's weights and the
text count by their content. A Hub model or data set counts by its name and revision.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.corpus.inputs import texts
from lingraft.errors import RecipeError
from lingraft.finetuning import data as task_data
from lingraft.finetuning.recipe import tasks_of
from lingraft.pipeline.contents import (
    RESOURCES,
    corpus_fingerprint,
    resource_contents,
    source_fingerprint,
)
from lingraft.pretrained.checkpoints import named_tokenizer, named_weights
from lingraft.recipe import Hardware
from lingraft.recipe.embeddings import FROM_OUTSIDE
from lingraft.recipe.methods import as_written
from lingraft.recipe.record import AUTO
from lingraft.recipe.records import METHODS
from lingraft.rundir import FORMAT, fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lingraft.recipe import Recipe
    from lingraft.study.recipe import Study, StudyTask

NOT_DECISIVE = {"name", "baselines", "hardware", "export"}
"""Names, the use of the machine, and what only other things read."""
BY_CONTENT = {"language", "corpus", "streams", "source", "tokenizer", "embeddings"}
"""What counts by the contents of its files."""
SHOWN = "samples"
"""Of [evaluation]: how many texts are shown."""
WITHOUT_RESOURCES = {"random", "random-statistics", "match", "mean", "first-piece"}
"""Initializers that read nothing of [embeddings]."""


def decides(key: str) -> bool:
    """Tell whether a key of a recipe, written with dots, can change a cell's result."""
    return key.partition(".")[0] not in NOT_DECISIVE and key != f"evaluation.{SHOWN}"


def of_corpus(recipe: Recipe) -> str:
    """Return the fingerprint of what the corpus stage makes."""
    return corpus_fingerprint(recipe)


def of_tokenizer(recipe: Recipe) -> str:
    """Return the fingerprint of what the corpus and the tokenizer stage make."""
    source = source_fingerprint(recipe)
    return fingerprint(of_corpus(recipe), source, *named_tokenizer(recipe.tokenizer))


def of_cell(recipe: Recipe) -> str:
    """Return the fingerprint of all that decides what training and evaluation measure.

    Raises:
        DataError: a file that the recipe names is not there.
    """
    leave, section = NOT_DECISIVE | BY_CONTENT, recipe.embeddings.decisive
    plain = as_written(recipe).model_dump(mode="json", exclude_defaults=True, exclude=leave)
    plain["training"] = recipe.training.method
    if "evaluation" in plain:
        plain["evaluation"].pop(SHOWN, None)
        plain["evaluation"]["kept"] = texts(recipe.evaluation.kept)
    for phase in plain.get("phases", ()):
        if "teacher" in (distil := phase.get("distil") or {}):
            distil["teacher"] = named_weights(distil["teacher"])
    embeddings = section.model_dump(mode="json", exclude_defaults=True)
    contents = {}
    if WITHOUT_RESOURCES.issuperset(section.initializers):
        embeddings |= dict.fromkeys(FROM_OUTSIDE)
    else:
        embeddings |= dict.fromkeys(RESOURCES)
        contents = resource_contents(section)
    return fingerprint(FORMAT["study"], of_tokenizer(recipe), plain, embeddings, contents)


def task_jobs(study: Study) -> list[tuple[StudyTask, dict[str, Any]]]:
    """Return what is to be fine-tuned.

    Raises:
        LingraftError: a task or a method is not known, or files are missing or broken.
    """
    found = []
    for section in study.tasks:
        for method in section.methods:
            if method not in (*METHODS, AUTO):
                raise RecipeError(f"tasks: {section.name}: '{method}' in methods is no method")
        recipe = section.finetune(Hardware())
        (task,) = tasks_of(recipe, Path())
        data = task_data.load(task, recipe, Path())
        parts = (task.name, task_data.fingerprint_of(data), task.decisive())
        job = {
            "name": task.name,
            "fingerprint": fingerprint(*parts, []),
            "seeds": list(section.seeds),
        }
        found.append((section, job))
    return found


def tasks_for(
    axes: Mapping[str, Any], recipe: Recipe, jobs: Sequence[tuple[StudyTask, dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Return the jobs of one cell, each with its recipe of `lingraft finetune`.

    Raises:
        RecipeError: a task is there twice; results would share a folder.
    """
    own = []
    for section, job in jobs:
        right_size = axes["sentences"] in (None, *section.sentences) or not section.sentences
        if right_size and axes["method"] in (section.methods or [axes["method"]]):
            table = section.finetune(recipe.hardware).model_dump(mode="json", exclude_none=True)
            own.append(job | {"recipe": table})
    names = [job["name"] for job in own]
    if twice := [name for name in names if names.count(name) > 1]:
        raise RecipeError(f"tasks: {twice[0]} is there twice for a cell; merge them")
    return own
