"""SIGKILL in each phase of a causal run that trains rows, LoRA and replayed text, then --update.

As test_kill_and_resume.py: the weights are those of the straight run, bit for bit.
"""

import hashlib
import signal
from pathlib import Path

import numpy as np
import pytest
from forking import forked

pytestmark = pytest.mark.slow

KILLING = Path(__file__).parent / "support" / "killing.py"
STEP = "lingraft.training.loop:_Trainer.take_step"
WORDS = ("the", "old", "green", "house", "tree", "dog", "walks", "sees")
RECIPE = """
name = "replayed"
source.model = "{source}"
tokenizer = {{ action = "extend", new_pieces = 64, max_tokens = 32, streams = ["ko"] }}
graft = {{ inserted_before = 0, inserted_after = 0 }}
embeddings.init = "mean"
hardware = {{ precision = "fp32", row_tokens = 32, checkpoint_steps = 2 }}
evaluation = {{ samples = 0, max_sentences = 10, untouched = false }}
[[streams]]
name = "ko"
language = "ko"
corpus.text = ["{korean}"]
[[streams]]
name = "en"
language = "en"
corpus.text = ["{english}"]
"""
PHASE = """
[[phases]]
name = "{name}"
objective = "clm"
train = {train}
lora = {{ parts = ["body"], rank = 2, dropout = {dropout} }}
budget = "6 steps"
batch = "8 sentences"
optimizer.learning_rate = 1e-2
data = [{{ stream = "ko" }}, {{ stream = "en", share = 0.3 }}]
"""
PHASES = (
    PHASE.format(name="rows", train='["embeddings.new"]', dropout=0.1),  # it draws, so states count
    PHASE.format(name="all-rows", train='["embeddings.rows"]', dropout=0),
)


@pytest.fixture(scope="module")
def launch(tiny_source, korean_text, tmp_path_factory):
    """Runs the recipe in a process of its own; the exit status (minus the signal)."""
    folder, drawn = tmp_path_factory.mktemp("replayed"), np.random.default_rng(0)
    lines = [" ".join(drawn.choice(WORDS, drawn.integers(4, 12))) + ".\n" for _ in range(150)]
    (folder / "en.txt").write_text("".join(lines), encoding="utf-8")
    named = {"source": tiny_source("llama"), "korean": korean_text, "english": folder / "en.txt"}
    recipe = folder / "recipe.toml"
    recipe.write_text(RECIPE.format(**named) + "".join(PHASES), encoding="utf-8")

    def start(out, *moment, update=False):
        arguments = ["adapt", str(recipe), "--out", str(out), *(["--update"] if update else [])]
        child = forked(KILLING, arguments, str(out.with_name("errors")), *moment)
        child.join(100)
        return child.exitcode

    return start


def weights(run):
    files = [run / name / "best" / "model.safetensors" for name in ("rows", "all-rows")]
    files.append(run / "model" / "model.safetensors")
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]


@pytest.fixture(scope="module")
def straight(launch, tmp_path_factory):
    run = tmp_path_factory.mktemp("straight") / "run"
    assert launch(run) == 0, run.with_name("errors").read_text()
    return weights(run)


@pytest.mark.parametrize(("phase", "call"), [("rows", 4), ("all-rows", 6 + 4)])
def test_a_causal_run_killed_in_a_phase_resumes_to_the_weights_of_the_straight_run(
    phase, call, launch, straight, tmp_path
):
    run, errors = tmp_path / "run", tmp_path / "errors"
    assert launch(run, (STEP, call, "")) == -signal.SIGKILL, errors.read_text()
    assert not (run / phase / "done.json").exists()
    assert (run / phase / "checkpoint-00000002").is_dir()
    assert launch(run, update=True) == 0, errors.read_text()
    assert f"{phase}: goes on from step 2" in errors.read_text()
    assert weights(run) == straight
