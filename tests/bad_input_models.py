"""What test_bad_input.py does wrong with known models and `lingraft probe-source`."""

from __future__ import annotations

import shutil


def add(cases):
    """Put the cases into the table of bad_input_cases.py."""
    cases["a known model that is not on the Hub"] = lambda place: place.adapt(
        "--source", "hyperclova"
    )
    cases["a probe of no run"] = lambda place: ["probe-source", "run", "--task", "glue-sst2"]
    cases["a probe without a task"] = probe(task=None)
    cases["a probe on a task that is not there"] = probe(task="sst-2")
    cases["a probe without the task's files"] = probe("--data", "nowhere")
    cases["a probe after a phase that is not there"] = probe("--phase", "phase-3")
    cases["a probe of a phase whose weights were not kept"] = probe(change=without_weights)
    cases["a probe of a phase that is not done"] = probe(change=without_the_end)
    cases["a probe of a run whose source is gone"] = probe(change=without_source)
    cases["a probe with another source than the run's"] = with_another_source


def probe(*more, task="glue-sst2", change=None):
    """A case of `lingraft probe-source` of `run`, after `change` of that folder."""

    def prepared(place):
        run = place.run()
        if change:
            change(run)
        return ["probe-source", "run", *(["--task", task] if task else []), *more]

    return prepared


def without_weights(run):
    shutil.rmtree(run / "phase-1" / "best")


def without_the_end(run):
    (run / "phase-2" / "done.json").unlink()


def without_source(run):
    text = (run / "recipe.toml").read_text("utf-8")
    line = next(line for line in text.splitlines() if line.startswith("model = "))
    (run / "recipe.toml").write_text(text.replace(line, 'model = "./moved"'), "utf-8")


def with_another_source(place):
    place.run()
    place.source("bert")
    return ["probe-source", "run", "--task", "glue-sst2", "--source", "source"]
