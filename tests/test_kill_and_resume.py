"""SIGKILL in a run, then --update: the weights are those of the straight run, bit for bit.

Each run is a process of its own, forked from a server that has loaded torch once.
"""

from __future__ import annotations

import hashlib
import json
import signal
from pathlib import Path
from typing import NamedTuple

import pytest
from forking import forked

KILLING = Path(__file__).parent / "support" / "killing.py"
STEPS = 12  # six in each phase, twelve in the baseline; a checkpoint after every second


class Moment(NamedTuple):
    """When to kill: just before a call of a function."""

    stage: str
    place: str
    call: int = 1
    about: str = ""
    left: str = ""
    """What must then lie in the run, half-made."""


STEP = "lingraft.training.loop:_Trainer.take_step"
MOMENTS = {
    "before there is a recipe in the run": Moment(
        "corpus", "pathlib:Path.replace", 1, "recipe.toml", ".lock"
    ),
    "phase 1, between two checkpoints": Moment(
        "phase-1", STEP, 4, "", "phase-1/checkpoint-00000002"
    ),
    "phase 1, while a checkpoint is written": Moment(
        "phase-1", "torch:save", 2, "", "phase-1/partial-00000004"
    ),
    "phase 1, while the best weights change": Moment(
        "phase-1", "pathlib:Path.replace", 3, "best.partial", "phase-1/best.partial"
    ),
    "the baseline's phase": Moment(
        "baselines/scratch/phase-1", STEP, 12 + 8, "",
        "baselines/scratch/phase-1/checkpoint-00000006",
    ),
    "model, with the weights written": Moment(
        "model", "lingraft.models.export:check_reload", 1, "", "model.partial/model.safetensors"
    ),
}  # fmt: skip
ALWAYS = ("phase 1, between two checkpoints", "model, with the weights written")
"""The moments of `make test`."""


@pytest.fixture(scope="module")
def launch():
    """Runs the command line in a process of its own; the exit status (minus the signal)."""

    def start(arguments, errors, *moment):
        child = forked(KILLING, list(map(str, arguments)), str(errors), *moment)
        child.join(100)
        return child.exitcode

    return start


@pytest.fixture(scope="module")
def arguments(shorthand):
    def of(out, *more):
        settings = ("hardware.checkpoint_steps=2", "corpus.valid=0.05", "evaluation.max_words=40")
        return [*shorthand(out, steps=STEPS), *settings, *more]

    return of


BASELINE = ("--baseline", "scratch")


@pytest.fixture(scope="module")
def straight(launch, arguments, tmp_path_factory):
    run = tmp_path_factory.mktemp("straight") / "run"
    errors = run.with_name("errors")
    assert launch(arguments(run, *BASELINE), errors) == 0, errors.read_text()
    return run


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def weights(run):
    """Digests of the exported weights, and of a baseline's where there is one."""
    files = [run / "model" / "model.safetensors", *run.glob("baselines/*/*/best/*.safetensors")]
    return [digest(file) for file in files]


def rubbish(run):
    """Half-made things that nobody needs."""
    names = ("*partial*", "checkpoint-*")
    return [str(path) for name in names for path in run.rglob(name)]


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(moment, id=name, marks=[pytest.mark.slow] * (name not in ALWAYS))
        for name, moment in MOMENTS.items()
    ],
)
def test_a_killed_run_resumes_to_the_same_weights(moment, launch, arguments, straight, tmp_path):
    run, errors = tmp_path / "run", tmp_path / "errors"
    asked = arguments(run, *(BASELINE if "baselines" in moment.stage else ()))
    assert launch(asked, errors, moment[1:4]) == -signal.SIGKILL, errors.read_text()
    assert not (run / moment.stage / "done.json").exists()
    assert (run / moment.left).exists()
    assert launch([*asked, "--update"], errors) == 0, errors.read_text()
    expected = weights(straight)
    assert weights(run) == (expected if "baselines" in moment.stage else expected[:1])
    assert not rubbish(run)


@pytest.mark.slow
def test_a_run_that_is_killed_repeatedly_resumes_to_the_same(launch, arguments, straight, tmp_path):
    run, errors = tmp_path / "run", tmp_path / "errors"
    for kill in ((STEP, 3, ""), (STEP, 3, ""), ("torch:save", 1, "")):
        assert launch(arguments(run), errors, kill) == -signal.SIGKILL, errors.read_text()
    assert launch(arguments(run), errors) == 0, errors.read_text()
    assert weights(run) == weights(straight)[:1]
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    looks = [(row["phase"], row["step"]) for row in rows if row["kind"] == "valid"]
    assert {step for _, step in looks} == set(range(1, 7))
    assert len(looks) == len(set(looks))  # what was done after the checkpoint is not told twice


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_leaves_a_checkpoint(number, status, launch, arguments, straight, tmp_path):
    run, errors = tmp_path / "run", tmp_path / "errors"
    assert launch(arguments(run), errors, (STEP, 3, ""), number) == status
    said = f"lingraft: stopped by {number.name} at step 3 of phase 'phase-1'; "
    said += "a checkpoint is written, the same command goes on"
    assert errors.read_text().splitlines()[-1] == said
    assert (run / "phase-1" / "checkpoint-00000003").is_dir()
    assert launch(arguments(run), errors) == 0, errors.read_text()
    assert "phase-1: goes on from step 3" in errors.read_text()
    assert weights(run) == weights(straight)[:1]
    assert not rubbish(run)
