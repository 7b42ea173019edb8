import json
import signal
import sys
import threading

import pytest
import torch
from accelerate import Accelerator
from stopping import assert_same_bits, at_call, of_training

from lingraft.models.families import FAMILIES
from lingraft.training import beside, checkpoint, loop, masked_text
from lingraft.training.accumulation import Totals
from lingraft.training.data import Batcher
from lingraft.training.masked_text import train_phase
from lingraft.training.phase import Stopped

DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
SETTINGS = {
    "phase": {"budget": {"value": 10}, "optimizer": {"learning_rate": 0.01}},
    "hardware": {"checkpoint_steps": 3},
}


@pytest.fixture
def in_threads(monkeypatch):
    """Batches and checkpoints are made beside training on a CPU too; gives the threads of each."""
    monkeypatch.setattr(beside, "has_time", lambda _: True)
    used = {"batches": set(), "checkpoints": set()}

    def noting(name, function):
        def called(*arguments):
            used[name].add(threading.current_thread())
            return function(*arguments)

        return called

    monkeypatch.setattr(Batcher, "step", noting("batches", Batcher.step))
    monkeypatch.setattr(checkpoint, "_write", noting("checkpoints", checkpoint._write))
    return used


def rows(job):
    found = [json.loads(line) for line in job.metrics_path.read_text().splitlines()]
    return [
        {key: value for key, value in row.items() if key != "tokens_per_second"} for row in found
    ]


def test_what_goes_on_beside_training_changes_no_bit(tiny_model, tiny_job, accelerator, request):
    straight, job = tiny_job("straight", **SETTINGS), tiny_job("beside", **SETTINGS)
    expected, model = tiny_model("roberta", **DROPOUT), tiny_model("roberta", **DROPOUT)
    train_phase(straight, expected, accelerator)
    used = request.getfixturevalue("in_threads")
    train_phase(job, model, accelerator)
    assert rows(job) == rows(straight)
    assert_same_bits(model.state_dict(), expected.state_dict())
    for name in ("model.safetensors", "optimizer.pt"):
        first, second = (
            (one.folder / "checkpoint-00000009" / name).read_bytes() for one in (straight, job)
        )
        assert first == second, name
    main = threading.main_thread()
    assert used["batches"] - {main}  # the main thread makes what is validated on
    assert used["checkpoints"] - {main} == used["checkpoints"]
    assert not any(thread.is_alive() for threads in used.values() for thread in threads - {main})


def test_a_run_stopped_beside_its_threads_goes_on_to_the_same_bits(
    tiny_model, tiny_job, accelerator, in_threads
):
    expected, again = (tiny_model("roberta", **DROPOUT) for _ in range(2))
    train_phase(tiny_job("straight", **SETTINGS), expected, accelerator)
    job = tiny_job("stopped", **SETTINGS)
    stop = at_call(4, loop, "gradients", lambda: signal.raise_signal(signal.SIGTERM))
    with stop, pytest.raises(Stopped, match="stopped by SIGTERM at step 4"):
        train_phase(job, tiny_model("roberta", **DROPOUT), accelerator)
    assert checkpoint.last_step(job.folder) == 4
    train_phase(job, again, accelerator)
    assert_same_bits(again.state_dict(), expected.state_dict())


@pytest.mark.parametrize(
    "place", [(6, Batcher, "step", of_training), (2, checkpoint, "_write", lambda *_: True)]
)
def test_what_goes_wrong_beside_training_ends_it(
    place, tiny_model, tiny_job, accelerator, in_threads
):
    def fail():
        raise OSError("the disk is gone")

    job, (number, owner, name, counts) = tiny_job(**SETTINGS), place
    with (
        at_call(number, owner, name, fail, counts),
        pytest.raises(OSError, match="the disk is gone"),
    ):
        train_phase(job, tiny_model("roberta"), accelerator)
    assert checkpoint.last_step(job.folder) == 3
    assert not [one for one in threading.enumerate() if one.name.startswith("ThreadPool")]


@pytest.mark.parametrize(
    ("family", "train"),
    [
        *((family, ["all"]) for family in ("roberta", "modernbert", "deberta-v2", "gemma2", "t5")),
        ("bloom", ["embeddings.new", "layers[-1]"]),
        ("bart", ["output_bias", "body"]),
    ],
)
def test_a_step_reads_no_number_of_its_device_but_where_it_is_logged(
    family, train, tiny_model, tiny_job, accelerator, monkeypatch
):
    """On torch's meta device every such question is an error."""
    logged = []
    objective = {"masked": "mlm", "causal": "clm", "seq2seq": "denoise"}[FAMILIES[family].kind]
    monkeypatch.setattr(Accelerator, "device", torch.device("meta"))
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda _: False)
    monkeypatch.setattr(masked_text, "check_isolation", lambda *_: None)
    monkeypatch.setattr(
        sys.modules["torch.optim.optimizer"],
        "_get_fused_kernels_supported_devices",
        lambda: ["meta"],
    )
    monkeypatch.setattr(Totals, "means", lambda *_: {})
    monkeypatch.setattr(loop._Trainer, "log_step", lambda *_: logged.append("step"))
    monkeypatch.setattr(loop._Trainer, "validate", lambda *_: None)
    job = tiny_job(
        phase=SETTINGS["phase"] | {"objective": objective, "train": train},
        hardware={"log_steps": 5},
        family=FAMILIES[family],
        new_rows=tuple(i % 7 == 3 for i in range(320)),
    )
    train_phase(job, tiny_model(family), accelerator)
    assert len(logged) == 3
