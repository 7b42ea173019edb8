"""What Python sees of a run: model, tokenizer, tables, a figure; and callbacks while it runs."""

from __future__ import annotations

import json

import pytest

import lingraft


@pytest.fixture(scope="module")
def run(adapted):
    return lingraft.Run(str(adapted("roberta")))


def test_scores_are_those_of_the_evaluation(run):
    done = json.loads((run.path / "evaluation/done.json").read_text())["result"]
    table = run.scores.set_index("model")
    assert table.loc["XPT", "perplexity"] == done["metrics"]["mask-only"]["perplexity"]
    assert table.loc["XPT", "bits_per_character"] == done["words"]["bits_per_character"]
    assert {"hits@1", "mrr", "seconds", "tokens"} <= set(table.columns)
    rows = lingraft.read_scores(run.path).set_index(["model", "metric"])
    assert rows.loc[("XPT", "mask-only/perplexity"), "value"] == table.loc["XPT", "perplexity"]


class Stopped(Exception):
    """An error of a callback's own."""


class Notes(lingraft.Callback):
    def __init__(self, stop_at=None):
        self.stages, self.rows, self.stop_at = [], [], stop_at

    def on_step(self, run, row):
        self.rows.append((run.path.name, row))
        if row["step"] == self.stop_at:
            raise Stopped

    def on_validation(self, run, row):
        self.rows.append((run.path.name, row))

    def on_stage(self, run, name, result):
        assert result == run.stage(name).result()
        self.stages.append((run.path.name, name))


def test_callbacks_are_told_once_of_everything_and_their_errors_stop_the_run(
    tiny_source, korean_text, tmp_path
):
    config = lingraft.AdaptConfig(
        source=tiny_source("roberta"),
        text=korean_text,
        language="ko",
        out=tmp_path / "run",
        method="xpt-sp",
        preset="xpt2021",
        budget="4steps",
        baselines=["scratch"],
        settings={"tokenizer.vocab_size": 300, "hardware.log_steps": 1, "training.batch.size": 4},
    )
    first, second = Notes(stop_at=3), Notes()
    with pytest.raises(Stopped):
        lingraft.adapt(config, callbacks=[first])
    assert [name for _, name in first.stages] == ["corpus", "tokenizer", "graft"]
    assert [row["step"] for _, row in first.rows if row["kind"] == "train"] == [1, 2, 3]
    run = lingraft.adapt(config, callbacks=[second])
    assert run.plot_loss()
    own = [name for folder, name in second.stages if folder == "run"]
    assert own == ["phase-1", "evaluation", "model"]
    assert ("scratch", "phase-1") in second.stages
    logged = [json.loads(line) for line in run.metrics_path.read_text().splitlines()]
    assert [row for folder, row in second.rows if folder == "run"] == logged
    third = Notes()
    lingraft.adapt(config, callbacks=[third])
    assert third.stages == third.rows == []
