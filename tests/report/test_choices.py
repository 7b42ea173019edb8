"""The table of multiple choice."""

from __future__ import annotations

from pathlib import Path

from lingraft.report import causal
from lingraft.tasks import choice_metrics


def test_every_model_says_itself_how_many_contexts_lost_their_start(monkeypatch):
    def model(label, cut):
        scores = {"cut": cut, "n": 10, "chance": 50.0, "text": "a"}
        for metric in choice_metrics.METRICS:
            scores |= {metric: 60.0, f"{metric}_stderr": 1.0}
        return causal.Model(label, {}, {"choices": {"quiz": scores}}, Path())

    models = [model("first", 3), model("second", 0), model("third", 7)]
    monkeypatch.setattr(causal, "models", lambda variants: models)
    notes = causal.choices_table([]).notes
    assert notes[1:] == (
        "quiz, first: 3 choices have a context that lost its start.",
        "quiz, third: 7 choices have a context that lost its start.",
    )
