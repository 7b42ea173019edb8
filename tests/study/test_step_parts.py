"""Tasks as the last stage of a study: fingerprints, costs, and blocks of scores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from lingraft.finetuning import outcomes
from lingraft.study import collect, estimate, grid, identity, steps
from lingraft.study.recipe import decode
from lingraft.tasks import TASKS
from lingraft.tasks.examples import LabelPrediction, ScorePrediction, TextExample, save

OFFICIAL = Path(__file__).parents[1] / "tasks" / "official"
BASE = {
    "language": "ko",
    "source": {"architecture": {"model_type": "roberta", "hidden_size": 32}},
    "corpus": {"text": ["ko.txt"]},
    "tokenizer": {"algorithm": "unigram", "vocab_size": 300},
    "training": {
        "method": "scratch",
        "preset": "xpt2021",
        "budget": {"value": 4},
        "batch": {"size": 8},
    },
}


@pytest.mark.parametrize("tasks", [[], [{"name": "korsts", "data": str(OFFICIAL)}]])
def test_fingerprints_of_cells_are_those_of_before_there_were_tasks(tasks, tmp_path, monkeypatch):
    """A change of these makes all committed results stale."""
    (tmp_path / "ko.txt").write_text("나는 학교에 간다.\n오늘은 날씨가 좋다.\n")
    monkeypatch.chdir(tmp_path)
    axes = {"method": ["scratch"], "sentences": [100, 200], "seed": [0]}
    study = decode({"name": "fixed", "base": BASE, "grids": [axes], "tasks": tasks})
    found = [identity.cell(cell.recipe) for cell in grid.cells(study)]
    assert found == ["181d91bd6f81371d", "04974b40bf3ff7e2"]
    assert [plan.fingerprint for plan in steps.task_plans(study)] == ["c44b4079669903f0"][
        : len(tasks)
    ]


# -- costs


def test_what_is_left_of_a_cell_is_the_sum_of_its_steps():
    training = estimate.Cost(100.0, 1e6, 1_000, 600)
    section = SimpleNamespace(learning_rates=(), seeds=(0, 1))
    plan = SimpleNamespace(train_tokens=10.0, read_tokens=5.0, section=section)
    tuning = estimate.fine_tuning(training, plan)
    left = estimate.total([tuning, tuning])
    assert (left.tokens, left.flops) == (30, 2 * 600 * (6 * 10 + 2 * 5))
    both = estimate.total([training, tuning, tuning])
    assert (both.tokens, both.flops) == (130, 1e6 + left.flops)
    section.learning_rates = (1e-4, 3e-4)
    assert estimate.fine_tuning(training, plan).tokens == 2 * tuning.tokens
    unknown = estimate.Cost(100.0, None)
    assert estimate.total([unknown, estimate.fine_tuning(unknown, plan)]).flops is None


# -- blocks of scores that are no means


def regression(tmp_path, size=400):
    """A finished fine-tuning of KorSTS with noisy predictions: its outcome and the two sides."""
    draw = np.random.default_rng(3)
    gold = draw.uniform(0, 5, size)
    said = gold + draw.normal(0, 1.5, size)
    examples = [TextExample(str(i), f"문장 {i}", "짝", None, float(g)) for i, g in enumerate(gold)]
    found = [ScorePrediction(str(i), float(s)) for i, s in enumerate(said)]
    outcomes.save_examples(tmp_path / "examples-test.jsonl", examples)
    save(tmp_path / "predictions-test.jsonl", found)
    scores = TASKS["korsts"].score(examples, found)
    data = {"task": "korsts", "seed": 0, "splits": {"test": {"n": size, "scores": scores}},
            "evaluation": ["test"]}  # fmt: skip
    return outcomes.Outcome(tmp_path, data), examples, found


def test_jackknife_values_have_the_score_as_their_mean_and_the_spread_of_a_bootstrap(tmp_path):
    outcome, examples, said = regression(tmp_path)
    task = TASKS["korsts"]
    (score,) = [
        one for one in collect.scores(outcome, task, "test") if one.metric.endswith("/spearman")
    ]
    blocks = np.array(score.blocks)
    kept = blocks[:, 1] > 0
    assert 100 * blocks[kept, 0].mean() == pytest.approx(score.value, abs=1e-6)
    draw = np.random.default_rng(0)
    drawn = draw.multinomial(kept.sum(), np.full(kept.sum(), 1 / kept.sum()), 2_000)
    spread = 100 * (drawn @ blocks[kept, 0] / kept.sum()).std()
    places = np.array([collect.block_of(one) for one in examples])
    sides = np.array([[one.score for one in side] for side in (examples, said)])
    direct = []
    for _ in range(300):
        taken = np.concatenate([np.flatnonzero(places == b) for b in draw.choice(50, 50)])
        direct.append(100 * stats.spearmanr(*sides[:, taken]).statistic)
    assert spread == pytest.approx(np.std(direct), rel=0.25)


def test_blocks_of_an_accuracy_add_up_to_it(tmp_path):
    examples = [TextExample(str(i), f"문장 {i}", None, "ab"[i % 2]) for i in range(40)]
    predictions = [LabelPrediction(str(i), "ab"[i % 3 > 0], (0.5, 0.5)) for i in range(40)]
    outcomes.save_examples(tmp_path / "examples-dev.jsonl", examples)
    save(tmp_path / "predictions-dev.jsonl", predictions)
    task = replace(TASKS["nsmc"], labels=("a", "b"))
    scores = task.score(examples, predictions)
    data = {"task": "nsmc", "splits": {"dev": {"scores": scores}}, "evaluation": ["dev"]}
    found = collect.scores(outcomes.Outcome(tmp_path, data), task, "dev")
    (accuracy,) = [one for one in found if one.metric == "task/nsmc/accuracy"]
    right, count = map(sum, zip(*accuracy.blocks, strict=True))
    assert (count, 100 * right / count) == (40, accuracy.value)
