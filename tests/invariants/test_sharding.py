"""Two processes that divide the weights (FSDP2) take the steps of one; a checkpoint goes on with
any number of processes, divided or not; only the first process writes. Batches and checkpoints are
made in threads, as on GPUs."""

import shutil

import pytest
import torch
from phase_rows import STILL, best_of, rows_of
from processes import train_together, weights_of_ranks
from safetensors.torch import load_file

from lingraft.training import checkpoint
from lingraft.training.masked_text import train_phase

pytestmark = pytest.mark.slow  # two processes import torch, then train eleven jobs

PHASE = {
    "budget": {"value": 10},
    "batch": {"size": 9},  # 9 sentences on two processes: three micro-batches and two
    "optimizer": {"learning_rate": 0.01, "epsilon": 1e-3, "max_gradient_norm": 0.5},
    "validation": {"every_steps": 4},
}
FIRST_PHASE = ["embeddings", "output_bias", "inserted"]
NEW = tuple(i % 7 == 3 or i > 310 for i in range(320))
ROWS = ["embeddings.new", "output_bias.new", "layers[0]"]
# Where each job goes on: the checkpoint of step 5 that another one left.
KINDS = {"ddp": "none", "fsdp2": "fsdp2"}
RESUMED = {"1 to fsdp2": "one", "1 to ddp": "one", "fsdp2 to ddp": "fsdp2", "ddp to fsdp2": "ddp"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory, tiny_job_in, tiny_model, tiny_tokens, one_process):
    """Makes jobs and the model; the jobs of this file have been trained."""
    folder = tmp_path_factory.mktemp("runs")

    def model():
        return tiny_model("roberta", num_hidden_layers=3, **STILL)

    def job(name, sharding="none", train=("all",)):
        training = {"micro_batch_tokens": 32, "sharding": sharding, "checkpoint_steps": 5}
        phase = PHASE | {"train": list(train), "mean_teacher": 0.5 * name.endswith("mean")}
        layers = {"itl_layers": frozenset({0, 2}), "train": tiny_tokens(33), "new_rows": NEW}
        return tiny_job_in(folder, name, phase=phase, hardware=training, **layers)

    with one_process() as accelerator:
        trained = {"one": ["all"], "one, frozen": FIRST_PHASE, "one, rows": ROWS}
        trained |= {"one, mean": ["all"], "one, rows, mean": ROWS}
        for name, train in trained.items():
            train_phase(job(name, train=train), model(), accelerator)
    names = ["ddp", "fsdp2", *RESUMED]
    jobs = [job(name, "fsdp2" if name.endswith("fsdp2") else "none") for name in names]
    jobs.append(job("fsdp2, frozen", "fsdp2", FIRST_PHASE))
    jobs += [job(f"{name}, rows", sharding, ROWS) for name, sharding in KINDS.items()]
    jobs += [job("ddp, mean"), job("ddp, rows, mean", train=ROWS)]
    train_together(folder, model(), jobs, RESUMED, setup="with_threads")
    return job, model


def assert_like_one_process(ours, theirs, since=0):
    """The same rows from a step on, and the same best weights."""
    wanted = [row for row in rows_of(theirs) if row["step"] > since]
    assert len(rows_of(ours)) == len(wanted) >= 6
    for row, other in zip(rows_of(ours), wanted, strict=True):
        assert (row["kind"], row["step"]) == (other["kind"], other["step"])
        assert row["tokens"] == other["tokens"]
        assert row["loss"] == pytest.approx(other["loss"], rel=1e-5)
        if row["kind"] == "train":
            assert row["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-3)
    torch.testing.assert_close(best_of(ours), best_of(theirs), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["ddp", "fsdp2"])
def test_two_processes_take_ten_steps_like_one(name, runs):
    job, model = runs
    made = model()
    assert made.get_output_embeddings().weight is made.get_input_embeddings().weight
    assert_like_one_process(job(name), job("one"))
    assert weights_of_ranks(job(name))


@pytest.mark.parametrize("name", ["mean", "rows, mean"])
def test_a_mean_teacher_of_two_processes_is_that_of_one(name, runs):
    job, _ = runs
    assert_like_one_process(job(f"ddp, {name}"), job(f"one, {name}"))


def test_with_a_frozen_body_too_and_what_is_frozen_stays_as_it_was(runs):
    job, model = runs
    assert_like_one_process(job("fsdp2, frozen"), job("one, frozen"))
    found, before = best_of(job("fsdp2, frozen")), model().state_dict()
    moved = {name for name in found if not torch.equal(found[name], before[name])}
    assert any(name.startswith("roberta.encoder.layer.0.") for name in moved)
    assert "roberta.embeddings.word_embeddings.weight" in moved
    assert not any(name.startswith("roberta.encoder.layer.1.") for name in moved)


@pytest.mark.parametrize("name", KINDS)
def test_rows_of_divided_matrices_too_and_no_other_row_moves_by_a_bit(name, runs):
    job, model = runs
    assert_like_one_process(job(f"{name}, rows"), job("one, rows"))
    found, before = best_of(job(f"{name}, rows")), model().state_dict()
    for matrix in ("roberta.embeddings.word_embeddings.weight", "lm_head.bias"):
        same = (found[matrix] == before[matrix]).reshape(len(NEW), -1).all(1)
        assert same.tolist() == [not new for new in NEW]


@pytest.mark.parametrize("name", RESUMED)
def test_two_processes_go_on_from_a_checkpoint_of_another_kind(name, runs):
    job, _ = runs
    assert_like_one_process(job(name), job("one"), since=5)


@pytest.mark.parametrize("name", ["ddp", "fsdp2"])
def test_one_process_goes_on_from_a_checkpoint_of_two(name, runs, accelerator):
    job, model = runs
    again = job(f"{name} to 1")
    whole = checkpoint.latest(job(name).folder)
    shutil.copytree(whole, again.folder / whole.name)
    train_phase(again, model(), accelerator)
    assert_like_one_process(again, job("one"), since=5)


def test_a_checkpoint_of_shards_has_the_form_of_one_process(runs):
    job, _ = runs
    paths = [checkpoint.latest(job(name).folder) for name in ("one", "fsdp2")]
    whole, sharded = (load_file(path / "model.safetensors") for path in paths)
    assert {n: t.shape for n, t in whole.items()} == {n: t.shape for n, t in sharded.items()}
    whole, sharded = (torch.load(path / "optimizer.pt", weights_only=True) for path in paths)
    assert whole["state"].keys() == sharded["state"].keys()
    torch.testing.assert_close(sharded["state"], whole["state"], atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("name", ["ddp", "fsdp2", "fsdp2, frozen"])
def test_the_second_process_writes_nothing(name, runs):
    job, _ = runs
    assert list((job(name).folder / "second").iterdir()) == []
    written = [(row["kind"], row["step"]) for row in rows_of(job(name))]
    assert len(written) == len(set(written))
