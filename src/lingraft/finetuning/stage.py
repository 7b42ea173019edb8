"""Tasks as the last stage of a study's cell: its scores in the form of the study's rows."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from lingraft.evaluation.records import BLOCKS
from lingraft.finetuning import outcomes
from lingraft.report.row import Score
from lingraft.tasks.examples import RelationExample, TextExample, document
from lingraft.tasks.predictions import LabelPrediction

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lingraft.finetuning.outcomes import Outcome
    from lingraft.finetuning.recipe import Finetune
    from lingraft.report.row import Blocks
    from lingraft.tasks.examples import Example
    from lingraft.tasks.predictions import Prediction

FOLDER = "tasks"
"""Of a run: what its tasks leave."""
ACCURACY = "accuracy"


def finetune_cell(
    run: Path, weights: Path, recipe: Finetune, base: Path, *, keep_models: bool = False
) -> list[Score]:
    """Fine-tune a cell's model on tasks; what is done already is kept.

    Args:
        run: the cell's folder; results go to its folder `tasks`.
        weights: the cell's checkpoint with its tokenizer, which stands in for `recipe.models`.
        recipe: tasks, data, seeds and settings.
        base: the folder that the recipe's paths are relative to.
        keep_models: leave the best weights of every seed in place.

    Returns:
        All scores on the splits that the tasks report, by task and seed.

    Raises:
        LingraftError: whatever the user can mend, on one line.
    """
    from lingraft.finetuning.run import Options, finetune  # loads torch; `rows_of` needs none

    chosen = recipe.model_copy(update={"models": (str(weights.resolve()),), "labels": ("cell",)})
    options = Options(resume=True, keep_models=keep_models, command="lingraft study")
    return [
        row for outcome in finetune(chosen, run / FOLDER, options, base) for row in rows_of(outcome)
    ]


def rows_of(outcome: Outcome) -> list[Score]:
    """The scores of a seed on the splits that its task reports.

    Of several splits (GLUE's MNLI) the later ones have their name in the metric.
    """
    found = []
    for place, split in enumerate(outcome.evaluation):
        examples = outcomes.examples(outcome, split)
        said = outcomes.predictions(outcome, split)
        name = outcome.task if place == 0 else f"{outcome.task}/{split}"
        marks = _fingerprint(examples)
        for score, value in outcome.scores(split).items():
            blocks = accuracy_blocks(examples, said) if score == ACCURACY else None
            metric = f"task/{name}/{score}"
            row = Score(metric=metric, value=value, n=len(examples), masks=marks, blocks=blocks)
            found.append(row)
    return found


def accuracy_blocks(examples: Sequence[Example], predictions: Sequence[Prediction]) -> Blocks:
    """Right answers and examples by block of the test text, those of one document together."""
    blocks = [[0.0, 0.0] for _ in range(BLOCKS)]
    for example, prediction in zip(examples, predictions, strict=True):
        assert isinstance(example, TextExample | RelationExample)
        assert isinstance(prediction, LabelPrediction)
        block = blocks[block_of(document(example))]
        block[0] += float(example.label == prediction.label)
        block[1] += 1.0
    return tuple((right, count) for right, count in blocks)


def block_of(text: str) -> int:
    """The block that a document falls into, by its hash."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
    return int(digest.hexdigest(), 16) * BLOCKS >> 64


def _fingerprint(examples: Sequence[Example]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for example in examples:
        digest.update(f"{example.id}\n{example.text}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
