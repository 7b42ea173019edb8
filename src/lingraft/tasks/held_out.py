"""Tasks that a model will be judged by, as texts that its corpus must not hold.

A corpus that is made for a model with tasks leaves their texts out: `decontaminated` is what turns
the tasks into `corpus.decontaminate`. Texts are taken from the examples that `lingraft.tasks`
reads, since in the files themselves they may stand a character a line, or with marks in them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from lingraft.errors import DataError, RecipeError, writing
from lingraft.files import path_of, write_text
from lingraft.tasks import GROUPS, RETRIEVAL_GROUPS, RETRIEVALS, TASKS, Retrieval, find, sentences
from lingraft.tasks.decoding import task_in
from lingraft.tasks.splits import TRAIN, read_split

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.recipe import Corpus
    from lingraft.tasks import Task


def tasks_of(names: Sequence[str]) -> list[Task | Retrieval]:
    """Return the tasks of these names: of `lingraft show tasks`, or TOML files of a user's own.

    `xnli-ru` is a task in one language, `xnli` in all of its languages.

    Raises:
        RecipeError: there is no such task, or its file is not valid.
    """
    records: dict[str, Task | Retrieval] = {**TASKS, **RETRIEVALS}
    groups = GROUPS | RETRIEVAL_GROUPS
    tasks: list[Task | Retrieval] = []
    for name in dict.fromkeys(names):
        if name.endswith(".toml"):
            tasks.append(task_in(path_of(name)))
        elif name in records:
            tasks.append(records[name])
        elif name in groups:
            group = groups[name]
            tasks += [records[group.member(language)] for language in group.languages]
        else:
            raise RecipeError(f"--task: no task '{name}'; see `lingraft show tasks`")
    return tasks


def decontaminated(
    section: Corpus, tasks: Sequence[Task | Retrieval], data: Path | None, folder: Path
) -> Corpus:
    """Return the settings of a corpus that shall not hold the texts of these tasks.

    Args:
        section: the corpus.
        tasks: what the model will be judged by; none leaves the section as it is.
        data: the directory of the tasks' files; not needed for a user's own tasks.
        folder: gets TASK.json with the texts of each; a file that would not change is left alone.

    Returns:
        The section with these files added to `decontaminate`, as absolute paths.

    Raises:
        DataError: a task's files are missing or broken, or the texts cannot be written.
        RecipeError: two tasks have one name.
    """
    paths = []
    for task in tasks:
        path = folder / f"{task.name}.json"  # a user who takes OUT/*/*.jsonl must not get it
        if str(path.absolute()) in paths:
            raise RecipeError(f"--task: two tasks are called '{task.name}'; rename one of them")
        rows = json.dumps(texts(task, data), ensure_ascii=False, indent=0) + "\n"
        with writing(path, "choose another --out"):
            folder.mkdir(parents=True, exist_ok=True)
            if not path.is_file() or path.read_text(encoding="utf-8") != rows:
                write_text(path, rows)
        paths.append(str(path.absolute()))
    names = tuple(name for name in section.decontaminate if name not in paths)
    return section.model_copy(update={"decontaminate": (*names, *paths)})


def texts(task: Task | Retrieval, data: Path | None) -> list[str]:
    """Return every text of a task that a model is judged on, each once.

    That is all splits but the one for training; where that is the only one there is, a part of it
    will be the test, so it counts. Of a user's own task all files that it names must be there.

    Raises:
        DataError: files are missing or broken.
    """
    if data is None and task.folders:
        raise DataError(f"--task {task.name}: name its files' directory with --data")
    if isinstance(task, Retrieval):
        sides = [sentences.read(task, data or Path(), split) for split in task.evaluation]
        both = (text for side in sides for text in (*side.source.values(), *side.target.values()))
        return list(dict.fromkeys(both))
    named = [name for name in task.splits if name != TRAIN] if task.is_own else []
    by_split = find(task, data or Path(), named)
    held_out = [name for name in by_split if name != TRAIN] or list(by_split)
    found = (
        getattr(example, field, None)
        for name in held_out
        for example in read_split(task, name, by_split[name], unanswered=True)
        for field in ("text", "pair", "question", "translation")
    )
    return list(dict.fromkeys(filter(None, found)))
