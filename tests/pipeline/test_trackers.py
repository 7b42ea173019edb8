"""Runs of trackers go on where a run goes on; phases and baselines follow each other in them."""

from __future__ import annotations

import json

import pytest

from lingraft.pipeline import trackers
from lingraft.recipe.methods import recipe_from
from lingraft.report.row import Score
from lingraft.rundir import Run
from lingraft.training.machine import accelerator_for


@pytest.mark.filterwarnings("ignore")
def test_steps_scores_and_the_recipe_reach_one_run_of_tensorboard(tmp_path):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run, baseline = Run(tmp_path), Run(tmp_path / "baselines" / "scratch")
    baseline.path.mkdir(parents=True)
    recipe = recipe_from(
        {
            "name": "x",
            "language": "ko",
            "source": {"model": "a/b"},
            "corpus": {"text": ["t.txt"]},
            "hardware": {"trackers": ["tensorboard"], "device": "cpu"},
            "training": {"method": "xpt-sp", "budget": "5 steps"},
        }
    )
    for of, phase in ((run, "phase-1"), (run, "phase-2"), (baseline, "phase-1")):
        accelerator = accelerator_for(recipe.hardware, tmp_path)  # each phase in a call of its own
        trackers.start(accelerator, recipe, run)
        for step in (1, 2):
            row = {"phase": phase, "kind": "train", "step": step, "loss": float(step)}
            with of.metrics_path.open("a") as file:
                file.write(json.dumps(row) + "\n")
            trackers.log_row(accelerator, of, row, trackers.steps(run, (of, phase)))
        trackers.log_scores(accelerator, run, [Score(model="M+", metric="mrr", value=0.5)])
        accelerator.end_training()
    events = reader.EventAccumulator(str(tmp_path / "lingraft"))
    events.Reload()
    steps = {tag: [event.step for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    assert steps == {
        "phase-1/train_loss": [1, 2],
        "phase-2/train_loss": [3, 4],
        "scratch/phase-1/train_loss": [5, 6],
        "M_/test/mrr": [2, 4, 6],
    }
    (stored,) = tmp_path.glob("lingraft/*/hparams.yml")
    assert "recipe_fingerprint" in stored.read_text()
