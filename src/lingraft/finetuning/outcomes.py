"""Files that fine-tuning leaves, and how to read them: one folder a model, task and seed.

    OUT/MODEL/TASK/seed-N/
        inputs                      what decides the result
        metrics.jsonl               rows of the training loop
        predictions-SPLIT.jsonl     `tasks.examples`, of the best weights
        examples-SPLIT.jsonl        the examples as they were scored, with the right answers
        scores.json                 what came out
        done.json                   written last (`rundir.Step`)
    OUT/results.jsonl               one row a number (`scored`), made from all scores.json

Nothing here needs the data, the model or torch.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError
from lingraft.finetuning.names import learnt, split_in, titled
from lingraft.report.row import RESULTS
from lingraft.rundir import TEMPORARY, begins_with, read_json, read_table, write_record, write_rows
from lingraft.tasks import examples as saved
from lingraft.tasks.examples import (
    ParseExample,
    RelationExample,
    SpanExample,
    TaggedExample,
    TextExample,
    TranslationExample,
)
from lingraft.tasks.splits import DEV

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from lingraft.tasks.examples import Example, Prediction

SCORES = "scores.json"
FINISHED = f"*/*/seed-*/{SCORES}"
MARKS = ("*/*/seed-*/inputs", "*/*/learning-rates/*/inputs")
"""Marks of folders that hold fine-tunings: of seeds, and of the choice of a learning rate."""
ROW, OLD_ROW = ("model", "data", "metric", "masks"), ("model", "task", "seed", "split_note")
"""Columns that every row of results.jsonl has, and had; where all seeds failed there is none."""
OFFICIAL, OWN = "official", "those of its own files"
"""Notes of splits that were not cut: a benchmark's, and of a user's own task."""
KINDS: dict[str, type[Any]] = {
    "text": TextExample,
    "tagged": TaggedExample,
    "relation": RelationExample,
    "parse": ParseExample,
    "span": SpanExample,
    "translation": TranslationExample,
}
"""Classes of examples, by the `kind` that a line of examples-SPLIT.jsonl names."""


@dataclass(frozen=True)
class Languages:
    """Languages that a training learnt, was chosen by and is scored in (`transfer`)."""

    task: str
    """Without a language."""
    train: tuple[str, ...]
    selection: tuple[str, ...]
    select_on: str
    """'mean' where these are all that are tested, else their names."""
    test: tuple[str, ...]
    names: Mapping[str, str]
    """The task's name in each language, as `lingraft show tasks` has it."""
    definitions: Mapping[str, dict[str, Any]]
    """Table in each language, of a user's own task."""

    def title(self, split: str = "") -> str:
        """Return `pawsx en→`, or `pawsx (dev) en→`: the tested language follows."""
        return f"{titled(self.task, split)} {learnt(self.train)}→"


@dataclass(frozen=True)
class Outcome:
    """A model on one task with one seed."""

    folder: Path
    data: Mapping[str, Any]
    """Contents of scores.json."""

    @property
    def model(self) -> str:
        """Return the directory or Hub id that was given."""
        return str(self.data["model"])

    @property
    def model_label(self) -> str:
        return str(self.data["model_label"])

    @property
    def model_fingerprint(self) -> str:
        """Return the fingerprint of the weights that were fine-tuned."""
        return str(self.data["model_fingerprint"])

    @property
    def task(self) -> str:
        return str(self.data["task"])

    @property
    def task_definition(self) -> dict[str, Any] | None:
        """Return the table of a user's own task; None for a benchmark's or where none was saved."""
        return self.data.get("task_definition")

    @property
    def languages(self) -> Languages | None:
        """Return the languages of a task in several; None for a task in one."""
        transfer = self.data.get("transfer")
        if not transfer:
            return None
        lists = {key: tuple(transfer[key]) for key in ("train", "selection", "test")}
        return Languages(
            transfer["task"],
            select_on=transfer["select_on"],
            names=transfer["names"],
            definitions=transfer["definitions"],
            **lists,
        )

    @property
    def seed(self) -> int:
        return int(self.data["seed"])

    @property
    def split_note(self) -> str:
        """Return a note of what the splits are: `OFFICIAL`, `OWN`, or how they were cut."""
        languages = self.languages
        own = self.task_definition or (languages and languages.definitions)
        note = str(self.data["split_note"])
        return OWN if own and note == OFFICIAL else note  # older results had the one word

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of everything that decides the result."""
        return str(self.data["fingerprint"])

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.data["splits"])

    @property
    def signatures(self) -> dict[str, str]:
        """Return how each score that tables show was computed; of translations alone."""
        pairs = (self.data.get("signatures") or {}).items()
        return {key: text for key, text in pairs if key in self.shown}

    @property
    def shown(self) -> tuple[str, ...]:
        """Return the scores that papers report."""
        return tuple(self.data["shown"])

    def n(self, split: str) -> int:
        """Return the number of examples that were scored."""
        return int(self.data["splits"][split]["n"])

    def scores(self, split: str) -> dict[str, float]:
        """Return the scores by metric, in percent."""
        return {key: float(value) for key, value in self.data["splits"][split]["scores"].items()}

    def rules(self, split: str) -> dict[str, dict[str, float]]:
        """Return the scores of rules (`tasks.rules`), by rule and metric; none in older results."""
        return self.data["splits"][split].get("rules", {})

    @property
    def evaluation(self) -> tuple[str, ...]:
        """Return the splits that are reported."""
        return tuple(self.data.get("evaluation", self.splits))

    def chosen_on(self, split: str) -> bool:
        """Return whether a split chose the best weights; a mean of weights is not chosen."""
        if self.data.get("averaged"):
            return False
        languages = self.languages
        codes = languages.selection if languages else ()
        return split in ([split_in(DEV, code) for code in codes] or [DEV])


def is_cut(note: str) -> bool:
    """Return whether a note on splits says that they are not those of the task's files."""
    return note not in (OFFICIAL, OWN)


def tell(folder: Path, told: Mapping[str, Any]) -> bool:
    """Let a seed that is done show what `Cell.told` says; False where that was not measured."""
    path, told = folder / SCORES, json.loads(json.dumps(told))
    if not path.is_file():  # it diverged
        return True
    scores = read_json(path)
    for split in told["evaluation"]:
        if not set(told["shown"]).issubset(scores["splits"].get(split, {}).get("scores", ())):
            return False
    if scores != scores | told:
        write_record(path, scores | told)
    return True


def metric_name(key: str) -> str:
    """Return a score's key as people read it; those of a benchmark's own code say so."""
    return key.replace("reference/", "reference ").replace("_", " ")


ALSO_CHOSE = "the split that is reported also chose the best weights, so its scores are rather high"
"""Note for tasks without a test set."""


def told(rules: Mapping[str, Mapping[str, float]], metrics: Iterable[str]) -> str:
    """Describe each rule's results in the scores that tables show; empty without rules."""
    keys = list(metrics)
    return "; ".join(
        ", ".join(f"{metric_name(key)} {scores[key]:.1f}" for key in keys) + f" ({rule})"
        for rule, scores in rules.items()
    )


def outcomes(folder: Path) -> list[Outcome]:
    """Read all finished seeds below a folder, ordered by model, task and seed.

    Raises:
        DataError: there is none, or a scores.json is broken.
    """
    keys = ("model_label", "task", "seed", "splits")
    results = [Outcome(path.parent, read_table(path, *keys)) for path in folder.glob(FINISHED)]
    if not results:
        raise DataError(f"{folder}: holds no results of lingraft finetune; run it with --out there")
    return sorted(results, key=lambda outcome: (outcome.model_label, outcome.task, outcome.seed))


def predictions(outcome: Outcome, split: str) -> list[Prediction]:
    """Read the predictions of the best weights for a split.

    Raises:
        DataError: the file is missing or broken.
    """
    return saved.load(existing(outcome.folder / f"predictions-{split}.jsonl"))


def examples(outcome: Outcome, split: str) -> list[Example]:
    """Read the examples of a split as they were scored.

    Raises:
        DataError: the file is missing or broken.
    """
    return load_examples(existing(outcome.folder / f"examples-{split}.jsonl"))


def existing(path: Path) -> Path:
    """Return the path of a file that a finished seed must have, or raise DataError."""
    if not path.is_file():
        raise DataError(f"{path}: is missing; delete the folder and fine-tune this seed again")
    return path


def save_examples(path: Path, examples: Iterable[Example]) -> None:
    """Write one JSON object a line; the file appears when it is complete."""
    names = {kind: name for name, kind in KINDS.items()}
    write_rows(path, ({"kind": names[type(example)]} | asdict(example) for example in examples))


def load_examples(path: Path) -> list[Example]:
    """Read what `save_examples` wrote.

    Raises:
        DataError: a line is not an example.
    """
    wrong = "is not a saved example; delete the folder and fine-tune this seed again"
    return saved.load_lines(path, _example, wrong)


def _example(fields: dict[str, Any]) -> Example:
    return saved.built(KINDS[fields.pop("kind")], fields)


def check_out(folder: Path) -> None:
    """Refuse a folder of other things: results.jsonl is made anew from all seeds.

    Raises:
        DataError: it holds something, but no seed and no results of fine-tuning, or another
            command's results.jsonl.
    """
    results = folder / RESULTS
    if results.is_file() and not begins_with(results, ROW) and not is_older(results):
        raise DataError(f"{results}: is no results file of lingraft finetune; choose another --out")
    files = (path for path in folder.rglob("*") if path.is_file() and not _is_passing(path))
    marks = (mark for pattern in MARKS for mark in folder.glob(pattern))
    if not results.is_file() and any(files) and not any(marks):
        raise DataError(
            f"{folder}: is not empty and holds no results of lingraft finetune; "
            "choose another --out"
        )


def is_older(path: Path) -> bool:
    """Return whether a results file is from before there was one row for all fine-tunings."""
    return begins_with(path, OLD_ROW)


def _is_passing(path: Path) -> bool:
    """Return whether a file may be what a killed call left before its first seed began."""
    return path.name == ".lock" or TEMPORARY.fullmatch(path.name) is not None
