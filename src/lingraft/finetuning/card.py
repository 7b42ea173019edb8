"""The model card of a fine-tuned model that is kept: README.md beside its weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.finetuning.outcomes import ALSO_CHOSE, OFFICIAL, Outcome, metric_name
from lingraft.report.card import card, languages_in_metadata
from lingraft.report.page import Text, section
from lingraft.report.table import plain, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lingraft.finetuning.cells import Cell
    from lingraft.tasks.task import Kind

HUB_TASKS: dict[Kind, str] = {
    "classification": "text-classification",
    "pair": "text-classification",
    "regression": "text-classification",
    "relation": "text-classification",
    "tagging": "token-classification",
    "parsing": "token-classification",
    "span": "question-answering",
    "translation": "translation",
}
"""The Hub's name of what a kind of task is."""


def task_card(cell: Cell, scores: Mapping[str, Any]) -> str:
    """Write the card, with the scores of this seed in its `model-index`.

    Args:
        cell: the model and the task.
        scores: what scores.json holds.
    """
    from huggingface_hub import EvalResult  # a second's import

    task, pipeline_tag = cell.task, HUB_TASKS[cell.task.kind]
    title = f"{cell.shown} on {task.name}"
    measured = [
        (split, metric_name(key), round(float(scores["splits"][split]["scores"][key]), 4))
        for split in scores["evaluation"]
        for key in task.shown
    ]
    outcome = Outcome(Path(), scores)
    note = outcome.split_note
    splits = "The splits are the official ones." if note == OFFICIAL else f"The splits: {note}."
    settings = {key: value for key, value in scores["settings"].items() if value is not None}
    rows = [(split, name, f"{value:.1f}") for split, name, value in measured]
    signed = (f"{metric_name(key)}: {text}" for key, text in outcome.signatures.items())
    loads = PLUGGED if cell.plug_in else PARSER if task.kind == "parsing" else STOCK
    made = f"{plain(cell.label)}, fine-tuned on {plain(task.title)} with seed {scores['seed']}."
    seed = "Of this seed alone; another seed gives other scores."
    return card(
        title,
        [
            Text(f"{made} {loads}"),
            *section(
                "Scores",
                table("", ("split", "score", "%"), rows, signed),
                Text(f"{seed} {plain(splits)} {_chosen(outcome)}"),
            ),
            *section("Settings", Text(", ".join(f"{k} {value}" for k, value in settings.items()))),
            *section("Limits", Text(LIMITS)),
        ],
        **languages_in_metadata(cell.transfer.test if cell.transfer else task.languages),
        library_name="lingraft" if cell.plug_in else "transformers",
        pipeline_tag=pipeline_tag,
        tags=["lingraft", pipeline_tag],
        model_name=title,
        eval_results=[
            EvalResult(
                task_type=pipeline_tag,
                dataset_type=task.name,
                dataset_name=task.title,
                dataset_split=split,
                metric_type=name,
                metric_name=name,
                metric_value=value,
            )
            for split, name, value in measured
        ],
    )


def _chosen(outcome: Outcome) -> str:
    """Return what the development set decided."""
    if outcome.data["averaged"]:
        return "The weights are the mean of those at the last checks."
    also = f"; {ALSO_CHOSE}" if any(map(outcome.chosen_on, outcome.evaluation)) else ""
    return f"The best weights were chosen on the development set{also}."


STOCK = "It is a plain Hugging Face checkpoint with its own tokenizer; transformers loads it."
PARSER = "Its encoder is a plain Hugging Face checkpoint; the parser loads with lingraft alone."
PLUGGED = "It has cross-attention that is plugged in, so it loads with lingraft alone."
LIMITS = (
    "It knows the kind of text that the task has. Errors and prejudices of the data and of the "
    "model that it was made from, it has too. It has not been tested for harmful bias."
)
