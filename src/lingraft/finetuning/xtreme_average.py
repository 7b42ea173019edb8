"""XTREME's one number of every task and its averages, of what was fine-tuned and retrieved."""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

from lingraft.errors import DataError
from lingraft.finetuning.compared import AVERAGE
from lingraft.finetuning.outcomes import is_cut
from lingraft.finetuning.score_tables import summary
from lingraft.report import numbers
from lingraft.report.row import RESULTS, read
from lingraft.report.table import Column, row, table
from lingraft.tasks import GROUPS, RETRIEVAL_GROUPS, xtreme

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lingraft.finetuning.compared import BySeed, Comparison
    from lingraft.report.row import Score, Value
    from lingraft.report.table import Table

    Directions = defaultdict[str, defaultdict[str, dict[str, float]]]
    """By label, language and direction."""

logger = logging.getLogger(__name__)

PROTOCOLS = {
    "xtreme": "as XTREME counts",
    "metaxlm": "both directions, where XTREME takes one (--parity xtreme)",
    "lingraft": "sentences that repeat count once, where XTREME leaves them out (--parity xtreme)",
}
"""By what rows of results.jsonl call them."""
WHOLES = {"average of seven": xtreme.SEVEN, "XTREME average": xtreme.NINE}


@dataclass
class Retrieved:
    """Scores of the compared models in one task of retrieval."""

    values: Directions = field(default_factory=lambda: defaultdict(lambda: defaultdict(dict)))
    how: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By how it was found, the labels."""

    def by_language(self, label: str) -> dict[str, float]:
        """Return the mean over the directions, in percent."""
        return {tag: fmean(ways.values()) for tag, ways in self.values[label].items()}

    @property
    def languages(self) -> set[str]:
        return {tag for of_model in self.values.values() for tag in of_model}

    def average(self, label: str) -> BySeed:
        """Return the mean over all languages, as of one seed; empty where one of them lacks."""
        values = self.by_language(label)
        return {0: fmean(values.values())} if values.keys() == self.languages else {}


def summary_table(comparison: Comparison, retrieved: Mapping[str, Retrieved]) -> Table | None:
    """Return a table of XTREME's number of every task, over languages, and of its averages.

    Only of what was trained in the one language that XTREME trains in, and of what needs no
    training. Groups of tasks and the averages of seven and nine tasks are there where all their
    tasks are. None of a single task.
    """
    sizes: dict[str, int] = {}
    values: defaultdict[str, dict[str, BySeed]] = defaultdict(dict)
    notes = ["Of each task the mean over the languages of its one number, as XTREME reports it."]
    for setting in comparison.settings:
        task = setting.task
        if task in xtreme.SEVEN and setting.train == (GROUPS[task].train_language,):
            sizes[task] = len(setting.parts)
            for label in comparison.labels:
                if by_seed := setting.columns(label, setting.key)[AVERAGE]:
                    values[label][task] = by_seed
            if is_cut(setting.first.note):
                notes.append(f"Not the official splits, so not XTREME's number: {task}.")
    for task, result in retrieved.items():
        sizes[task] = len(result.languages)
        for label in result.values:
            values[label][task] = result.average(label)
        notes += [
            f"{task}: {how} ({', '.join(sorted(labels))})" for how, labels in result.how.items()
        ]
    if len(sizes) < 2 and not retrieved:
        return None
    here = [task for task in xtreme.NINE if task in sizes]
    under = {
        task: f"{sizes[task]} of {whole} languages" * (sizes[task] < whole)
        for task in here
        for whole in [len(xtreme.GROUP_OF[task].languages)]
    }
    means = {
        label: {task: fmean(seeds.values()) for task, seeds in of_model.items() if seeds}
        for label, of_model in values.items()
    }
    more = {label: _averages(of_model) for label, of_model in means.items()}
    titles = dict.fromkeys(title for of_model in more.values() for title in of_model)
    columns = [Column(task, under=under[task]) for task in here]
    for title in titles:
        is_partial = any(under[task] for task in WHOLES.get(title, ()))
        columns.append(Column(title, under="not all languages" * is_partial))
    rows = [
        row(
            label,
            *(summary(of_model.get(task, {})) for task in here),
            *(numbers.fixed(more[label].get(title), 1) for title in titles),
        )
        for label, of_model in values.items()
    ]
    if lacking := [task for task in xtreme.NINE if task not in here]:
        notes.append(f"No XTREME average without {', '.join(lacking)}.")
    return table("XTREME, trained in English", ("model", *columns), rows, notes)


def _averages(by_task: Mapping[str, float]) -> dict[str, float]:
    """Average the groups of tasks, of seven and of nine, where all their tasks are there."""
    wholes = {title: xtreme.average(by_task, tasks) for title, tasks in WHOLES.items()}
    known = {title: value for title, value in wholes.items() if value is not None}
    return xtreme.category_averages(by_task) | known


def read_retrievals(folders: Sequence[Path], weights: Mapping[str, str]) -> dict[str, Retrieved]:
    """Read the scores of the compared models, by task, in folders of `lingraft analyze retrieval`.

    Args:
        folders: its --out, each with results of --task.
        weights: of the compared models, by label; results are theirs by weights, where those are
            known, else by label.

    Raises:
        DataError: a folder has no results of a benchmark by one of these models, a label stands
            for other weights, or two folders say different things.
    """
    results: defaultdict[str, Retrieved] = defaultdict(Retrieved)
    for folder in folders:
        left_out, has_owner = set(), False
        for one in filter(_counts, read(folder / RESULTS)):
            task, language = str(one.axes["task"]), str(one.axes["language"])
            owners = _owners(folder, one.model, one.facts.get("weights"), weights)
            has_owner |= bool(owners)
            left_out |= set() if owners else {one.model}
            for owner in owners:
                values = results[task].values[owner][language]
                if values.setdefault(str(one.axes.get("direction")), one.value) != one.value:
                    raise DataError(
                        f"{folder}: {task} in {language} of {one.model} is another number in "
                        "another folder; give one of them"
                    )
                choice = str(one.facts["chosen_on"])
                choice = {"test": "on the test pairs themselves, an oracle"}.get(choice, choice)
                how = (
                    f"{PROTOCOLS[str(one.axes['protocol'])]}, layer {one.axes['layer']} ({choice})"
                )
                results[task].how[how].add(owner)
        if not has_owner:
            raise DataError(
                f"{folder}: holds no finished results of XTREME's tasks by one of the compared "
                f"models ({', '.join(weights)}), by name or weights; run lingraft analyze "
                f"retrieval with --task ({' or '.join(RETRIEVAL_GROUPS)}), --data and "
                "--label, without max_sentences"
            )
        if left_out:
            logger.warning("%s: is none of the compared models, left out: %s",
                           folder, ", ".join(sorted(left_out)))  # fmt: skip
    return dict(results)


def _counts(row: Score) -> bool:
    """Tell whether a row is of the one score of a task, on its test set, at the chosen layer."""
    group = RETRIEVAL_GROUPS.get(str(row.axes.get("task")))
    return row.reported and group is not None and row.metric == group.scores[0]


def _owners(folder: Path, label: str, own: Value, weights: Mapping[str, str]) -> list[str]:
    """Return the labels of the compared models that a result belongs to."""
    same = [name for name, fingerprint in weights.items() if fingerprint == own]
    if same or label not in weights:
        return same
    if own is None:
        return [label]
    raise DataError(
        f"{folder}: {label} has other weights than the fine-tuned model of that name; run "
        "lingraft analyze retrieval again with that one, or give one of them another --label"
    )
