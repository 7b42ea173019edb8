"""XTREME's tasks without training, which `lingraft retrieve` scores, for the compared models."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError, reading
from lingraft.finetuning.outcomes import RESULTS
from lingraft.tasks import RETRIEVAL_GROUPS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

logger = logging.getLogger(__name__)

PROTOCOLS = {
    "xtreme": "as XTREME counts",
    "metaxlm": "both directions, where XTREME takes one (--parity xtreme)",
    "lingraft": "sentences that repeat count once, where XTREME leaves them out (--parity xtreme)",
}
"""By what rows of results.jsonl call them."""


@dataclass(frozen=True)
class Retrieved:
    """One task in several languages; what `summary_table` asks of it is as of a `Setting`."""

    task: str
    values: dict[str, dict[str, float]] = field(default_factory=dict)
    """By label and language, in percent."""
    read: dict[str, dict[str, None]] = field(default_factory=dict)
    """By label, how they were found."""

    @property
    def number(self) -> str:
        """The key of its score."""
        return RETRIEVAL_GROUPS[self.task].scores[0]

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(self.values)

    @property
    def languages(self) -> tuple[str, ...]:
        """Of all models."""
        return tuple(dict.fromkeys(code for values in self.values.values() for code in values))

    def average(self, label: str, _key: str) -> dict[int, float]:
        """The mean over all languages, as of one seed; empty where the model lacks one of them."""
        values = self.values[label]
        return {0: fmean(values.values())} if len(values) == len(self.languages) else {}

    @property
    def note(self) -> str:
        """How its numbers were found."""
        alike: dict[str, list[str]] = {}
        for label, how in self.read.items():
            alike.setdefault(", ".join(how), []).append(label)
        return f"{self.task}: " + "; ".join(f"{how} ({', '.join(a)})" for how, a in alike.items())


def is_retrieval(folder: Path) -> bool:
    """Whether a folder is `lingraft retrieve`'s --out."""
    return (folder / "retrieve.json").is_file()


def read(folders: Sequence[Path], weights: Mapping[str, str]) -> list[Retrieved]:
    """The scores of the compared models in some folders of `lingraft retrieve`.

    Args:
        folders: its --out, each with results of --task.
        weights: of the compared models, by label; results are theirs by weights, where those are
            known, else by label.

    Raises:
        DataError: a folder has no results of a benchmark or none of these models, a label stands
            for other weights, or two folders say different things.
    """
    results: dict[str, Retrieved] = {}
    for folder in folders:
        strangers: dict[str, None] = {}
        has_owner = False
        for (label, task, language), rows in _reported(folder).items():
            owners = _owners(folder, label, rows[0]["model_weights"], weights)
            if not owners:
                strangers[label] = None
            for owner in owners:
                has_owner = True
                result = results.setdefault(task, Retrieved(task))
                value = fmean(float(row["value"]) for row in rows)
                if result.values.setdefault(owner, {}).setdefault(language, value) != value:
                    raise DataError(
                        f"{folder}: {task} in {language} of {label} is another number in another "
                        "folder; give one of them"
                    )
                result.read.setdefault(owner, {})[_how(rows[0])] = None
        if strangers:
            text = (
                f"{folder}: {', '.join(strangers)} is none of the compared models "
                f"({', '.join(weights)}), by name or weights"
            )
            if not has_owner:
                raise DataError(f"{text}; run lingraft retrieve with --label {next(iter(weights))}")
            logger.warning("%s; left out", text)
    return list(results.values())


def _reported(folder: Path) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """The rows that count, a direction each, by model, task and language."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in _rows(folder / RESULTS):
        task = row.get("task")
        if (
            task in RETRIEVAL_GROUPS
            and row["metric"] == RETRIEVAL_GROUPS[task].scores[0]
            and row.get("split", "test") == "test"
            and row.get("chosen", True)
        ):
            groups.setdefault((row["model"], task, row["language"]), []).append(row)
    if not groups:
        raise DataError(
            f"{folder}: holds no finished results of XTREME's tasks; run lingraft retrieve with "
            f"--task ({' or '.join(RETRIEVAL_GROUPS)}) and --data, without --sentences"
        )
    return groups


def _rows(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    with reading(path, "run lingraft retrieve again, which keeps what it found"):
        lines = path.read_text(encoding="utf-8").split("\n")
        return [json.loads(line) for line in lines if line]


def _owners(folder: Path, label: str, own: str | None, weights: Mapping[str, str]) -> list[str]:
    """The labels of the compared models that a result belongs to."""
    same = [name for name, fingerprint in weights.items() if fingerprint == own]
    if not same and label in weights:
        if own is not None:
            raise DataError(
                f"{folder}: {label} has other weights than the fine-tuned model of that name; run "
                "lingraft retrieve again with that one, or give one of them another --label"
            )
        return [label]
    return same


def _how(row: Mapping[str, Any]) -> str:
    choice = row.get("chosen_on") or row["layer_from"]
    choice = {"test": "on the test pairs themselves, an oracle"}.get(choice, choice)
    return f"{PROTOCOLS[row['protocol']]}, layer {row['layer']} ({choice})"
