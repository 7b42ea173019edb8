"""Scores as functions of weights are the metrics themselves."""

from __future__ import annotations

import random

import numpy as np
import pytest
from synthetic_results import made_examples, said_of

from lingraft.comparison.weighted import weighted
from lingraft.errors import DataError
from lingraft.tasks import TASKS
from lingraft.tasks.predictions import LabelPrediction

SCORED = {
    (task.kind, task.metrics, key): (name, key)
    for name, task in TASKS.items()
    for key in task.shown
}.values()
"""One task of those that are alike."""
MORE = [
    ("klue-ynat", "accuracy"),
    ("glue-cola", "accuracy"),
    ("klue-ner", "character_macro_f1_no_o"),
    ("klue-ner", "entity_f1"),
    ("klue-dp", "las_macro_f1"),
    ("klue-dp", "uas_macro_f1"),
    ("klue-dp", "reference/las_micro_f1"),
    ("klue-re", "reference/auprc"),
]


@pytest.mark.parametrize(("name", "key"), [*SCORED, *MORE])
def test_a_weighted_score_is_the_metric_on_copies_of_the_examples(name: str, key: str) -> None:
    task, rng = TASKS[name], random.Random(name + key)
    examples = made_examples(task, 25)
    said = [said_of(task, example, 0.6, rng) for example in examples]
    weights = np.array([[rng.choice((0, 0, 1, 2, 3)) for _ in examples] for _ in range(3)], float)
    found = weighted(task, key, examples, said)(weights)
    for row, value in zip(weights.astype(int), found, strict=True):
        chosen = np.repeat(np.arange(len(examples)), row).tolist()
        copies = [examples[i] for i in chosen], [said[i] for i in chosen]
        assert value == pytest.approx(task.score_aligned(*copies)[key], abs=1e-6)


def test_a_constant_prediction_correlates_with_nothing() -> None:
    task, rng = TASKS["klue-sts"], random.Random(0)
    examples = made_examples(task, 10)
    said = [said_of(task, examples[0], 1.0, rng)] * 10
    assert weighted(task, "pearson", examples, said)(np.ones((1, 10))) == [0.0]


def test_predictions_that_do_not_give_the_saved_score_are_refused() -> None:
    task = TASKS["nsmc"]
    examples = made_examples(task, 4)
    said = [LabelPrediction(one.id, one.label) for one in examples]
    weighted(task, "accuracy", examples, said, 100.0)
    with pytest.raises(DataError, match=r"give accuracy 100.00, scores.json says 75.00"):
        weighted(task, "accuracy", examples, said, 75.0)
