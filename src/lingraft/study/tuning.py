"""Tasks as a study's last stage: which a cell wants, what they cost, and what a cell has of them.

Nothing here loads torch: the plan and the results need no model.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.errors import RecipeError
from lingraft.evaluation.records import BLOCKS
from lingraft.finetuning import data as task_data
from lingraft.finetuning import outcomes, stage
from lingraft.finetuning.recipe import tasks_of
from lingraft.pipeline.preflight import BYTES_PER_TOKEN
from lingraft.recipe import Training
from lingraft.recipe.methods import METHODS
from lingraft.rundir import fingerprint, read_json, write_json
from lingraft.study.rows import TaskRow
from lingraft.tasks.examples import SpanExample, TextExample, document
from lingraft.tasks.predictions import align
from lingraft.tasks.splits import DEV, TRAIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lingraft.finetuning.outcomes import Outcome
    from lingraft.report.row import Blocks, Score
    from lingraft.rundir import Run
    from lingraft.study.grid import Cell
    from lingraft.study.recipe import Study, StudyTask
    from lingraft.study.rows import Value
    from lingraft.tasks import Data, Task
    from lingraft.tasks.examples import Example

DECISIVE = ("task", "data", "kind", "labels", "metrics", "selection", "spans", "settings")
"""Of what fine-tuning writes down about a seed (`inputs`): what is the same in every cell."""
WANTED = "tasks.json"
"""In a cell's folder: what is to be fine-tuned on."""
LABEL = "cell"
"""What the model is called in the folder of the tasks."""
FEWEST_BLOCKS = 10
"""With fewer there is no interval."""
MACHINE_KEYS = ("cpu", "cores", "threads", "processes", "precision")


@dataclass(frozen=True)
class Work:
    """One fine-tuning, in tokens: an estimate from the length of the text."""

    trained: float
    """At most: patience may stop earlier."""
    read: float
    """Of the splits that are scored, as often as they are."""


@dataclass(frozen=True)
class Tuning:
    """A task as a study fine-tunes on it."""

    section: StudyTask
    task: Task
    """With the settings that are used."""
    fingerprint: str
    """Of everything that decides a result beside the cell and the seed."""
    work: Work

    @property
    def name(self) -> str:
        return self.task.name

    def wanted_by(self, cell: Cell) -> bool:
        """Whether the cell's model is fine-tuned on it."""
        methods, sizes = self.section.methods, self.section.sentences
        size = cell.axes["sentences"]
        return (not methods or cell.axes["method"] in methods) and (
            not sizes or size is None or size in sizes
        )


# -- plans


def prepared(study: Study) -> list[Tuning]:
    """The study's tasks, with their files read.

    Raises:
        LingraftError: a task is not known, or its files are missing or broken.
    """
    return [_prepared(section) for section in study.tasks]


def _prepared(section: StudyTask) -> Tuning:
    for method in section.methods:
        if method not in METHODS:
            raise RecipeError(
                f"tasks: {section.name}: methods names '{method}', which is no method; "
                f"there are {', '.join(METHODS)}"
            )
    recipe = section.finetune(Training(), 0, 1)
    (task,) = tasks_of(recipe, Path())
    data = task_data.load(task, recipe, Path())
    parts = {"task": task.name, "data": task_data.fingerprint_of(data), **task.decisive()}
    return Tuning(section, task, _fingerprint(parts), _work(task, data))


def _fingerprint(inputs: dict[str, Any]) -> str:
    """Of what decides a result beside the cell and the seed; other keys do not count."""
    return fingerprint({key: inputs.get(key) for key in DECISIVE})


def _work(task: Task, data: Data) -> Work:
    settings = task.settings
    tokens = {
        split: sum(_tokens(example, settings.max_length) for example in data.splits[split])
        for split in (TRAIN, *task_data.reported(data))
    }
    looks = settings.epochs * settings.checks_per_epoch
    read = sum(tokens[split] for split in task_data.reported(data)) + looks * tokens[DEV]
    return Work(settings.epochs * tokens[TRAIN], read)


def _tokens(example: Example, longest: int) -> float:
    texts = [example.text]
    if isinstance(example, TextExample) and example.pair:
        texts.append(example.pair)
    count = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts) / BYTES_PER_TOKEN
    whole = isinstance(example, SpanExample)  # a long passage is cut into windows, not cut off
    return 2 + (count if whole else min(count, longest))


def of_cell(tunings: Sequence[Tuning], cell: Cell) -> tuple[Tuning, ...]:
    """The tasks of one cell.

    Raises:
        RecipeError: a task is there twice; results would share a folder.
    """
    wanted = tuple(one for one in tunings if one.wanted_by(cell))
    names = [one.name for one in wanted]
    for name in names:
        if names.count(name) > 1:
            raise RecipeError(
                f"tasks: {name} is there twice for cell {cell.id}; give each its own methods or "
                "sentences, or merge them"
            )
    return wanted


def check_used(tunings: Sequence[Tuning], cells: Iterable[Cell]) -> None:
    """Refuse a task that no cell wants.

    Raises:
        RecipeError: there is one.
    """
    found = list(cells)
    for one in tunings:
        if not any(one.wanted_by(cell) for cell in found):
            raise RecipeError(
                f"tasks: {one.section.name}: no cell has its methods and sentences; "
                "correct them or leave them out"
            )


# -- a cell's process


def ask(run: Run, cell: Cell, missing: Sequence[tuple[Tuning, int]]) -> None:
    """Write down what a cell's process is to fine-tune on.

    Args:
        run: the cell's folder.
        cell: whose recipe says how the machine is used.
        missing: tasks and seeds, seeds of a task together.
    """
    seeds: dict[str, list[int]] = {}
    sections = {one.name: one.section for one, _ in missing}
    for one, seed in missing:
        seeds.setdefault(one.name, []).append(seed)
    write_json(
        run.path / WANTED,
        [
            sections[name]
            .finetune(cell.recipe.training, first, count)
            .model_dump(mode="json", exclude_none=True)
            for name, numbers in seeds.items()
            for first, count in _stretches(numbers)
        ],
    )


def _stretches(seeds: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Runs of successive numbers: the first of each and how many there are."""
    ordered = sorted(seeds)
    start = 0
    for end in range(1, len(ordered) + 1):
        if end == len(ordered) or ordered[end] != ordered[end - 1] + 1:
            yield ordered[start], end - start
            start = end


# -- what a cell has


def _folder(run: Run, tuning: Tuning, seed: int) -> Path:
    return run.path / stage.FOLDER / LABEL / tuning.name / f"seed-{seed}"


def finished(run: Run, tuning: Tuning, seed: int) -> bool:
    """Whether a fine-tuning that belongs to this task has ended in this folder."""
    folder = _folder(run, tuning, seed)
    if not (folder / outcomes.SCORES).is_file():
        return False
    return _fingerprint(read_json(folder / "inputs")) == tuning.fingerprint


def row(common: dict[str, Any], run: Run, tuning: Tuning, seed: int) -> TaskRow:
    """The row of a fine-tuning that is finished."""
    folder = _folder(run, tuning, seed)
    outcome = outcomes.Outcome(folder, read_json(folder / outcomes.SCORES))
    used = outcome.data["machine"]
    machine: dict[str, Value] = {
        "device": ", ".join(dict.fromkeys(map(str, used.get("devices", ())))),
        **{key: used[key] for key in MACHINE_KEYS if key in used},
    }
    return TaskRow(
        **common,
        task=tuning.name,
        task_fingerprint=tuning.fingerprint,
        seed=seed,
        status="done",
        scores=_scores(outcome, tuning.task),
        shown=_shown(outcome, tuning.task),
        splits=outcome.split_note,
        rules=_rules(outcome, tuning.task),
        train_examples=int(outcome.data["train_examples"]),
        seconds=round(float(outcome.data["seconds"]), 2),
        machine=machine,
    )


def failed(common: dict[str, Any], tuning: Tuning, seed: int, message: str) -> TaskRow:
    """The row of a fine-tuning that failed."""
    return TaskRow(
        **common,
        task=tuning.name,
        task_fingerprint=tuning.fingerprint,
        seed=seed,
        status="failed",
        message=message,
    )


def metric(task: str, evaluation: Sequence[str], split: str, score: str) -> str:
    """A score's name in the rows, as `stage.rows_of` gives it."""
    name = task if split == evaluation[0] else f"{task}/{split}"
    return f"task/{name}/{score}"


def _shown(outcome: Outcome, task: Task) -> tuple[str, ...]:
    """The metrics that papers report."""
    return tuple(
        metric(outcome.task, outcome.evaluation, split, name)
        for split in outcome.evaluation
        for name in task.shown
    )


def _rules(outcome: Outcome, task: Task) -> dict[str, dict[str, float]]:
    found = outcome.rules(outcome.evaluation[0])
    return {rule: {key: scores[key] for key in task.shown} for rule, scores in found.items()}


def _scores(outcome: Outcome, task: Task) -> tuple[Score, ...]:
    """All scores; those that papers report with blocks, which are most of a row's length."""
    blocks: dict[str, Blocks] = {}
    for split in outcome.evaluation:
        if set(task.shown) - {stage.ACCURACY}:
            for name, of_blocks in _jackknife(outcome, task, split).items():
                blocks[metric(outcome.task, outcome.evaluation, split, name)] = of_blocks
    shown = _shown(outcome, task)
    return tuple(
        one.model_copy(
            update={
                "blocks": (one.blocks or blocks.get(one.metric)) if one.metric in shown else None
            }
        )
        for one in stage.rows_of(outcome)
    )


def _jackknife(outcome: Outcome, task: Task, split: str) -> dict[str, Blocks]:
    """Values of blocks of the test set whose mean is the score, for scores that are no means.

    Resampling them stands for resampling the examples and scoring anew (Efron & Tibshirani 1993,
    An Introduction to the Bootstrap, chapter 11): a block is worth as much more than the mean as
    the score loses without it. Shares, not per cent.
    """
    examples = outcomes.examples(outcome, split)
    said = align(examples, outcomes.predictions(outcome, split))
    places = [stage.block_of(document(example)) for example in examples]
    present = sorted(set(places))
    if len(present) < FEWEST_BLOCKS:
        return {}
    without = []
    for block in present:
        kept = [index for index, place in enumerate(places) if place != block]
        without.append(task.score_aligned([examples[i] for i in kept], [said[i] for i in kept]))
    found = {}
    for name, value in outcome.scores(split).items():
        left = [scores.get(name) for scores in without]
        if any(one is None for one in left):
            continue
        numbers = [float(one) for one in left if one is not None]
        mean, times = sum(numbers) / len(numbers), len(numbers) - 1
        worth = dict(zip(present, (value + times * (mean - one) for one in numbers), strict=True))
        found[name] = tuple(
            (round(worth[block] / 100, 9), 1.0) if block in worth else (0.0, 0.0)
            for block in range(BLOCKS)
        )
    return found
