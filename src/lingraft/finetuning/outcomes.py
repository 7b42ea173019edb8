"""Files that fine-tuning leaves, and how to read them: one folder a model, task and seed.

    OUT/MODEL/TASK/seed-N/
        inputs                      what decides the result
        metrics.jsonl               rows of the training loop
        predictions-SPLIT.jsonl     `tasks.examples`, of the best weights
        examples-SPLIT.jsonl        the examples as they were scored, with the right answers
        scores.json                 what came out
        done.json                   written last (`rundir.Step`)
    OUT/results.jsonl               one row a number, made from all scores.json

Nothing here needs the data, the model or torch.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, ConfigDict

from lingraft.errors import DataError, reading
from lingraft.evaluation.records import BLOCKS
from lingraft.files import begins_with, write_rows
from lingraft.report.row import RESULTS, Blocks, Score, Value, read, write
from lingraft.report.scored import jackknife
from lingraft.rundir import digest, read_json, write_record
from lingraft.tasks import TASKS, examples as saved
from lingraft.tasks.decoding import decode, task_of
from lingraft.tasks.examples import Example, align, document
from lingraft.tasks.splits import DEV
from lingraft.tasks.weighted import on_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingraft.tasks import Task

SCORES = "scores.json"
FINISHED = f"*/*/seed-*/{SCORES}"
ROW = ("model", "data", "metric", "masks")
"""Columns that every row of results.jsonl has."""
OFFICIAL, OWN = "official", "those of its own files"
"""Notes of splits that were not cut: a benchmark's, and of a user's own task."""
MANY = 8
"""Languages; a name has no more of them."""
TOLERANCE = 0.01
"""Points by which a score made anew may differ from the saved one."""
MEND = "delete its folder and fine-tune this seed again"
KINDS: dict[str, Any] = {
    kind.__name__.removesuffix("Example").lower(): kind for kind in get_args(Example)
}
"""Classes of examples, by the `kind` that a line of examples-SPLIT.jsonl names: text, tagged …"""


# -- names of splits and languages


def split_in(split: str, language: str) -> str:
    """Name a split of one of several languages, for scores.json and names of files."""
    return f"{split}-{language}"


def language_of(split: str) -> str:
    """Return the language of `split_in`'s name; empty for a task in one language."""
    return split.partition("-")[2]


def without_language(name: str) -> str:
    """Return the split of `split_in`'s name, or of one in one language."""
    return name.partition("-")[0]


def join_languages(languages: Sequence[str]) -> str:
    """Name the training languages: `en`, `en+de`, or how many there are."""
    return f"{len(languages)}-languages" if len(languages) > MANY else "+".join(languages)


# -- one seed


class Languages(BaseModel):
    """Languages that a training learnt, was chosen by and is scored in (`transfer`)."""

    task: str
    """Without a language."""
    train: tuple[str, ...]
    selection: tuple[str, ...]
    test: tuple[str, ...]
    names: dict[str, str]
    """The task's name in each language, as `lingraft show tasks` has it."""
    definitions: dict[str, dict[str, Any]] = {}
    """Table in each language, of a user's own task."""


class SplitScores(BaseModel):
    """Scores of one split, in percent."""

    n: int
    """Number of examples that were scored."""
    scores: dict[str, float]
    """By metric."""


class Outcome(BaseModel):
    """A model on one task with one seed: what scores.json holds."""

    model_config = ConfigDict(extra="allow", frozen=True, protected_namespaces=())

    folder: Path
    model_label: str
    model_fingerprint: str
    """Fingerprint of the weights that were fine-tuned."""
    task: str
    seed: int
    splits: dict[str, SplitScores]
    evaluation: tuple[str, ...]
    """Splits that are reported."""
    shown: tuple[str, ...]
    """Scores that papers report."""
    split_note: str
    """Note of what the splits are: `OFFICIAL`, `OWN`, or how they were cut."""
    fingerprint: str
    """Fingerprint of everything that decides the result."""
    task_definition: dict[str, Any] | None = None
    """Table of a user's own task."""
    transfer: Languages | None = None
    signatures: dict[str, str] = {}
    """Signature of each score, which says how it was computed; of translations alone."""
    averaged: tuple[int, ...] = ()
    """Steps whose weights the result is the mean of."""
    selection: str = ""
    settings: dict[str, Any] = {}
    best: dict[str, float] = {}
    train_examples: int = 0
    seconds: float = 0.0
    plug_in: dict[str, Any] | None = None

    def scores(self, split: str) -> dict[str, float]:
        """Return the scores by metric, in percent."""
        return self.splits[split].scores

    def is_chosen_on(self, split: str) -> bool:
        """Return whether a split chose the best weights; a mean of weights is not chosen."""
        codes = self.transfer.selection if self.transfer else ()
        return not self.averaged and split in ([split_in(DEV, code) for code in codes] or [DEV])

    def write(self) -> None:
        """Write scores.json."""
        write_record(self.folder / SCORES, self.model_dump(exclude={"folder"}))


def read_outcome(folder: Path) -> Outcome:
    """Read the scores of a finished seed.

    Raises:
        DataError: they are missing or broken.
    """
    data = read_json(folder / SCORES)
    with reading(folder / SCORES, MEND):
        return Outcome(**data | {"folder": folder})


def outcomes(folder: Path) -> list[Outcome]:
    """Read all finished seeds below a folder, ordered by model, task and seed.

    Raises:
        DataError: there is none, or a scores.json is broken.
    """
    results = [read_outcome(path.parent) for path in folder.glob(FINISHED)]
    if not results:
        raise DataError(f"{folder}: holds no results of lingraft finetune; run it with --out there")
    return sorted(results, key=lambda outcome: (outcome.model_label, outcome.task, outcome.seed))


def predictions(outcome: Outcome, split: str) -> list[saved.Prediction]:
    """Read the predictions of the best weights for a split."""
    path = outcome.folder / f"predictions-{split}.jsonl"
    with reading(path, MEND):
        return saved.load(path)


def examples(outcome: Outcome, split: str) -> list[Example]:
    """Read the examples of a split as they were scored."""
    return load_examples(outcome.folder / f"examples-{split}.jsonl")


def save_examples(path: Path, examples: Iterable[Example]) -> None:
    """Write one JSON object a line; the file appears when it is complete."""
    names = {kind: name for name, kind in KINDS.items()}
    write_rows(path, ({"kind": names[type(one)]} | asdict(one) for one in examples))


def load_examples(path: Path) -> list[Example]:
    """Read what `save_examples` wrote.

    Raises:
        DataError: the file is missing, or a line is not an example.
    """
    with reading(path, MEND):
        return saved.load_lines(path, _example, f"is not a saved example; {MEND}")


def _example(fields: dict[str, Any]) -> Example:
    return saved.built(KINDS[fields.pop("kind")], fields)


def check_out(folder: Path) -> None:
    """Refuse a folder with another command's results.jsonl, which is made anew from all seeds.

    Raises:
        DataError: it has one.
    """
    path = folder / RESULTS
    if path.is_file() and not begins_with(path, ROW):
        raise DataError(f"{path}: is no results file of lingraft finetune; choose another --out")


# -- rows of results.jsonl


def rows_of(outcome: Outcome, place: str = "") -> list[Score]:
    """Return all scores of a seed; those that papers report with blocks.

    Args:
        outcome: of the seed.
        place: of the seed in the folder of the results.

    Raises:
        DataError: examples or predictions are missing, or the task is not known.
    """
    languages = outcome.transfer
    facts: dict[str, Any] = {
        "weights": outcome.model_fingerprint,
        "splits": outcome.split_note,
        "dev": outcome.best.get("score"),
        "learning_rate": outcome.settings.get("learning_rate"),
        "train_examples": outcome.train_examples or None,
        "seconds": round(outcome.seconds, 2),
        "place": place,
    }
    rows = []
    for split, found in outcome.splits.items():
        axes: dict[str, Value] = {}
        name = outcome.task
        if languages is not None:
            tag = language_of(split)
            name = languages.names.get(tag, f"{languages.task}-{tag}")
            axes = {"task": languages.task, "train": "+".join(languages.train), "language": tag}
        shown = outcome.shown if split in outcome.evaluation else ()
        blocks = _blocks(outcome, split) if shown else {}
        masks = digest(outcome.folder / f"examples-{split}.jsonl")[:16]
        rows += [
            Score(
                model=outcome.model_label,
                data=name,
                split=without_language(split) if languages else split,
                metric=metric,
                value=value,
                n=found.n,
                seed=outcome.seed,
                masks=masks,
                reported=metric in shown,
                inputs=outcome.fingerprint,
                axes=axes,
                facts={key: value for key, value in facts.items() if value not in (None, "")},
                blocks=blocks.get(metric),
            )
            for metric, value in found.scores.items()
        ]
    return rows


def write_results(folder: Path) -> None:
    """Bring results.jsonl to all finished seeds; without one there is none."""
    if any(folder.glob(FINISHED)):
        write(folder / RESULTS, (row for _, rows in read_results(folder) for row in rows))
    else:
        (folder / RESULTS).unlink(missing_ok=True)


def read_results(folder: Path) -> list[tuple[Outcome, list[Score]]]:
    """Return all finished seeds with their rows; those of results.jsonl that are still theirs.

    Raises:
        DataError: no seed is finished, or a file is broken.
    """
    path, known = folder / RESULTS, defaultdict[tuple[Value, str], list[Score]](list)
    for row in read(path) if path.is_file() else ():
        known[row.facts.get("place"), row.inputs].append(row)
    results = []
    for outcome in outcomes(folder):
        place = str(outcome.folder.relative_to(folder))
        own = known.get((place, outcome.fingerprint), [])
        # a seed that was trained anew from equal inputs has other scores, or took another time
        values = [value for found in outcome.splits.values() for value in found.scores.values()]
        is_its = [row.value for row in own] == values and all(
            row.facts.get("seconds") == round(outcome.seconds, 2) for row in own
        )
        results.append((outcome, own if is_its else rows_of(outcome, place)))
    return results


def task_in(outcome: Outcome, split: str) -> Task:
    """Return a benchmark's task, or the user's own as the results have it; in its language.

    Raises:
        LingraftError: it is not known, or its saved definition is broken.
    """
    name, definition = outcome.task, outcome.task_definition
    if languages := outcome.transfer:
        language = language_of(split)
        name = languages.names.get(language, name)
        definition = languages.definitions.get(language)
    if definition is not None:
        return task_of(decode(dict(definition)), Path())
    if name not in TASKS:
        raise DataError(f"{outcome.folder}: lingraft has no task {name}; fine-tune it again")
    return TASKS[name]


def block_of(example: Example) -> int:
    """Return the block that an example falls into, by the hash of its document."""
    text = document(example).encode("utf-8", "surrogatepass")
    return int(hashlib.blake2b(text, digest_size=8).hexdigest(), 16) * BLOCKS >> 64


def _blocks(outcome: Outcome, split: str) -> dict[str, Blocks]:
    """Return blocks of a split that is reported, by score.

    Raises:
        DataError: predictions are missing, of another kind than the task, or do not give the saved
            scores.
    """
    task, saved = task_in(outcome, split), outcome.scores(split)
    gold, predicted = examples(outcome, split), predictions(outcome, split)
    functions = task.score_functions(gold, align(gold, predicted))
    shown = {key: functions[key] for key in outcome.shown if key in functions}
    for key, value in on_all(shown, len(gold)).items():
        if key not in saved or abs(value - saved[key]) > TOLERANCE:
            raise DataError(
                f"{outcome.folder}: the saved predictions give {key} {value:.2f}, scores.json says "
                f"{saved.get(key)}; {MEND}"
            )
    return jackknife([block_of(one) for one in gold], shown, saved)


# -- as people read them


ALSO_CHOSE = "the split that is reported also chose the best weights, so its scores are rather high"
"""Note for tasks without a test set."""


def is_cut(note: str) -> bool:
    """Return whether a note on splits says that they are not those of the task's files."""
    return note not in (OFFICIAL, OWN)


def metric_name(key: str) -> str:
    """Return a score's key as people read it; those of a benchmark's own code say so."""
    return key.replace("reference/", "reference ").replace("_", " ")
