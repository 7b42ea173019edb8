"""Scores as functions of weights: those of copies of the examples, and of scikit-learn."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sklearn
from synthetic_results import made_examples, said_of

from lingraft.tasks import TASKS
from lingraft.tasks.metrics import NO_RELATION
from lingraft.tasks.span_metrics import shown_tags
from lingraft.tasks.weighted import on_all

SCORED = {task.kind + " ".join(task.metrics): name for name, task in TASKS.items()}.values()
"""One task of those that are alike."""
ACROSS = ("reference/entity_macro_f1",)
"""Over sentences joined in a row, which copies join anew."""


def drawn(name: str, number: int = 25) -> tuple[Any, list[Any], list[Any], np.ndarray]:
    """A task with examples, predictions and weights of three draws."""
    task, rng = TASKS[name], random.Random(name)
    examples = made_examples(task, number)
    said = [said_of(task, example, 0.6, rng) for example in examples]
    weights = [[rng.choice((0, 0, 1, 2, 3)) for _ in examples] for _ in range(3)]
    return task, examples, said, np.array(weights, dtype=float)


@pytest.mark.parametrize("name", SCORED)
def test_a_weighted_score_is_the_metric_on_copies_of_the_examples(name: str) -> None:
    task, examples, said, weights = drawn(name)
    functions = task.score_functions(examples, said)
    for row in weights:
        chosen = np.repeat(np.arange(len(examples)), row.astype(int)).tolist()
        copies = task.score_functions([examples[i] for i in chosen], [said[i] for i in chosen])
        for key, value in on_all(copies, len(chosen)).items():
            if key not in ACROSS:
                assert functions[key](row[None])[0] == pytest.approx(value, abs=1e-6), key


def weighted_f1(gold: list[Any], said: list[Any], weights: np.ndarray, **options: Any) -> float:
    return 100 * float(
        sklearn.f1_score(gold, said, sample_weight=weights, zero_division=0, **options)
    )


@pytest.mark.parametrize("name", ["klue-ynat", "klue-nli", "glue-cola", "glue-mrpc"])
def test_scores_of_labels_are_scikit_learns(name: str) -> None:
    task, examples, predictions, weights = drawn(name, 200)
    gold, said = ([one.label for one in side] for side in (examples, predictions))
    functions = task.score_functions(examples, predictions)
    for row in weights:
        expected = {
            "accuracy": 100 * sklearn.accuracy_score(gold, said, sample_weight=row),
            "macro_f1": weighted_f1(gold, said, row, average="macro"),
            "matthews": 100 * sklearn.matthews_corrcoef(gold, said, sample_weight=row),
        }
        if "f1" in functions:
            expected["f1"] = weighted_f1(gold, said, row, pos_label=task.labels[1])
        for key, score in functions.items():
            assert score(row[None])[0] == pytest.approx(expected[key]), key


def test_scores_of_relations_are_scikit_learns() -> None:
    task, examples, predictions, weights = drawn("klue-re", 200)
    gold, said = ([one.label for one in side] for side in (examples, predictions))
    table = np.array([one.probabilities for one in predictions])
    functions = task.score_functions(examples, predictions)
    counted = [label for label in task.labels if label not in NO_RELATION]
    for row in weights:
        micro = weighted_f1(gold, said, row, labels=counted, average="micro")
        assert functions["micro_f1"](row[None])[0] == pytest.approx(micro)
        areas = []
        for place, label in enumerate(task.labels):
            right = np.array([one == label for one in gold])
            if row[right].sum():
                curve = sklearn.precision_recall_curve(right, table[:, place], sample_weight=row)
                areas.append(100 * sklearn.auc(curve[1], curve[0]))
        assert functions["auprc"](row[None])[0] == pytest.approx(np.mean(areas))
        absent = len(task.labels) - len(areas)
        assert functions["auprc_skipped_labels"](row[None])[0] == absent
        mean = (sum(areas) + 50 * absent) / len(task.labels)
        assert functions["reference/auprc"](row[None])[0] == pytest.approx(mean)


def test_scores_of_characters_are_scikit_learns() -> None:
    task, examples, predictions, weights = drawn("klue-ner", 60)
    pairs = [shown_tags(*pair) for pair in zip(examples, predictions, strict=True)]
    gold, said = ([tag for tags in side for tag in tags] for side in zip(*pairs, strict=True))
    functions = task.score_functions(examples, predictions)
    for row in weights:
        of_units = np.repeat(row, [len(tags) for tags, _ in pairs])
        there = sorted({tag for tag, weight in zip(gold, of_units, strict=True) if weight})
        for key, labels in (("", there), ("_no_o", [tag for tag in there if tag != "O"])):
            expected = weighted_f1(gold, said, of_units, labels=labels, average="macro")
            assert functions[f"character_macro_f1{key}"](row[None])[0] == pytest.approx(expected)


def test_scores_of_heads_are_scikit_learns() -> None:
    task, examples, predictions, weights = drawn("klue-dp", 60)
    gold, said = ([head for one in side for head in one.heads] for side in (examples, predictions))
    functions = task.score_functions(examples, predictions)
    for row in weights:
        of_words = np.repeat(row, [len(one.words) for one in examples])
        there = sorted({head for head, weight in zip(gold, of_words, strict=True) if weight})
        expected = weighted_f1(gold, said, of_words, labels=there, average="macro")
        assert functions["uas_macro_f1"](row[None])[0] == pytest.approx(expected)
        accuracy = 100 * sklearn.accuracy_score(gold, said, sample_weight=of_words)
        assert functions["uas"](row[None])[0] == pytest.approx(accuracy)


def test_correlations_are_scipys_on_copies() -> None:
    from scipy import stats

    task, examples, predictions, weights = drawn("klue-sts", 200)
    gold, said = (np.array([one.score for one in side]) for side in (examples, predictions))
    functions = TASKS["korsts"].score_functions(examples, predictions)
    functions |= task.score_functions(examples, predictions)
    for row in weights:
        copies = [np.repeat(side, row.astype(int)) for side in (gold, said)]
        for key, theirs in (("pearson", stats.pearsonr), ("spearman", stats.spearmanr)):
            expected = 100 * theirs(*copies).statistic
            assert functions[key](row[None])[0] == pytest.approx(expected), key
