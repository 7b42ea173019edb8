"""What the machine asks for: work beside training, memory that stays or is full, fp16's factor,
divided weights."""

import gc
import signal
import sys
import threading
import weakref
from types import SimpleNamespace

import pytest
import torch
from accelerate import Accelerator
from phase_rows import DROPOUT, rows_of
from stopping import assert_same_bits, at_call, of_training

from lingraft.errors import RecipeError
from lingraft.models.families import FAMILIES
from lingraft.recipe import Hardware
from lingraft.training import beside, checkpoint, loop, masked_text, sharding
from lingraft.training.data import Batcher, Step
from lingraft.training.machine import accelerator_for
from lingraft.training.masked_text import train_phase
from lingraft.training.phase import Stopped, WithObjective
from lingraft.training.problem import Totals
from lingraft.training.trained import Trained


@pytest.mark.parametrize("library", ["FSDP", "DEEPSPEED"])
def test_what_accelerate_would_divide_itself_is_refused_in_one_line(library, monkeypatch, tmp_path):
    monkeypatch.setenv(f"ACCELERATE_USE_{library}", "true")
    with pytest.raises(RecipeError, match=r'set hardware.sharding="fsdp2"') as error:
        accelerator_for(Hardware(), tmp_path)
    assert "\n" not in str(error.value)


def test_what_accelerate_was_set_up_for_elsewhere_changes_no_gradient(
    monkeypatch, one_process, tmp_path
):
    monkeypatch.setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4")
    monkeypatch.setenv("ACCELERATE_DYNAMO_BACKEND", "INDUCTOR")
    with one_process():
        accelerator = accelerator_for(Hardware(), tmp_path)
        assert accelerator.gradient_accumulation_steps == 1
        assert accelerator.state.dynamo_plugin.backend == "NO"


TEN_STEPS = {
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


def test_what_goes_on_beside_training_changes_no_bit(tiny_model, tiny_job, accelerator, request):
    straight, job = tiny_job("straight", **TEN_STEPS), tiny_job("beside", **TEN_STEPS)
    expected, model = tiny_model("roberta", **DROPOUT), tiny_model("roberta", **DROPOUT)
    train_phase(straight, expected, accelerator)
    used = request.getfixturevalue("in_threads")
    train_phase(job, model, accelerator)
    found, rows = ([row | {"tokens_per_second": 0} for row in rows_of(x)] for x in (job, straight))
    assert found == rows
    assert_same_bits(model.state_dict(), expected.state_dict())
    for name in ("model.safetensors", "optimizer.pt"):
        paths = [one.folder / "checkpoint-00000009" / name for one in (straight, job)]
        assert paths[0].read_bytes() == paths[1].read_bytes(), name
    main = threading.main_thread()
    assert used["batches"] - {main}  # the main thread makes what is validated on
    assert used["checkpoints"] - {main} == used["checkpoints"]
    assert not any(thread.is_alive() for threads in used.values() for thread in threads - {main})


def test_a_run_stopped_beside_its_threads_goes_on_to_the_same_bits(
    tiny_model, tiny_job, accelerator, in_threads
):
    expected, again = (tiny_model("roberta", **DROPOUT) for _ in range(2))
    train_phase(tiny_job("straight", **TEN_STEPS), expected, accelerator)
    job = tiny_job("stopped", **TEN_STEPS)
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

    job, (number, *function, counts) = tiny_job(**TEN_STEPS), place
    broken = at_call(number, *function, fail, counts)
    with broken, pytest.raises(OSError, match="the disk is gone"):
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
    fused = sys.modules["torch.optim.optimizer"]
    monkeypatch.setattr(fused, "_get_fused_kernels_supported_devices", lambda: ["meta"])
    monkeypatch.setattr(Totals, "means", lambda *_: {})
    monkeypatch.setattr(loop._Trainer, "log_step", lambda *_: logged.append("step"))
    monkeypatch.setattr(loop._Trainer, "validate", lambda *_: None)
    job = tiny_job(
        phase=TEN_STEPS["phase"] | {"objective": objective, "train": train},
        hardware={"log_steps": 5},
        family=FAMILIES[family],
        new_rows=tuple(i % 7 == 3 for i in range(320)),
    )
    train_phase(job, tiny_model(family), accelerator)
    assert len(logged) == 3


@pytest.fixture
def no_collector():
    """Garbage in cycles stays until somebody asks for its collection."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_what_a_phase_trained_with_is_gone_when_it_ends(
    tiny_model, tiny_job, accelerator, monkeypatch, no_collector
):
    made, original = [], Trained.optimizer

    def optimizer(*arguments, **options):
        result = original(*arguments, **options)
        made.append(weakref.ref(result))
        return result

    monkeypatch.setattr(Trained, "optimizer", optimizer)
    monkeypatch.setattr(loop, "LARGE", 0)
    train_phase(tiny_job(), tiny_model("roberta"), accelerator)
    assert [reference() for reference in made] == [None]


FULL = {
    "a GPU's": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
    "a CPU's": RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate"),
}


@pytest.fixture
def limited(monkeypatch):
    """Memory that is full where more tokens than this go through the model at once."""
    forward, sizes = WithObjective.forward, []

    def limit(tokens, error, when=lambda module: module.training):
        def limited_forward(self, batch):
            sizes.append(batch.input_ids_NT.numel())
            losses = forward(self, batch)
            if when(self) and sizes[-1] > tokens:
                raise error
            return losses

        monkeypatch.setattr(WithObjective, "forward", limited_forward)
        return sizes

    return limit


@pytest.mark.parametrize("whose", FULL)
def test_weights_are_those_of_small_passes(whose, limited, tiny_model, tiny_job, accelerator):
    batch = {"batch": {"size": 24}}
    small, large = tiny_model("roberta").train(), tiny_model("roberta").train()
    job = tiny_job("small", phase=batch, hardware={"micro_batch_tokens": 32})
    expected = train_phase(job, small, accelerator)
    sizes = limited(32, FULL[whose])
    job = tiny_job("large", phase=batch, hardware={"micro_batch_tokens": 256})
    result = train_phase(job, large, accelerator)
    assert max(sizes) > 32
    assert result["steps"] == expected["steps"]
    assert_same_bits(large.state_dict(), small.state_dict())


def test_validation_goes_on_in_smaller_passes(limited, tiny_model, tiny_job, accelerator):
    job = tiny_job("plain", hardware={"micro_batch_tokens": 256})
    expected = train_phase(job, tiny_model("roberta"), accelerator)
    sizes = limited(64, FULL["a GPU's"], when=lambda module: not module.training)
    job = tiny_job("limited", hardware={"micro_batch_tokens": 256})
    result = train_phase(job, tiny_model("roberta"), accelerator)
    assert max(sizes) > 64
    assert result["best"]["loss"] == pytest.approx(expected["best"]["loss"], rel=1e-3)


SETTINGS = {"budget": {"value": 6}, "optimizer": {"learning_rate": 0.01, "max_gradient_norm": 0.5}}


@pytest.fixture
def fp16(monkeypatch):
    """Steps take fp16's way, with fp32's numbers: what its factor does is all that differs."""
    scaler = torch.amp.GradScaler
    monkeypatch.setattr(Accelerator, "mixed_precision", "fp16")
    monkeypatch.setattr(torch.amp, "GradScaler", lambda device: scaler(device, growth_interval=4))


def test_a_scaled_loss_gives_the_plain_step(tiny_model, tiny_job, accelerator, request):
    """Factors are powers of two, so not even rounding differs; it doubles after four steps."""
    plain, model = tiny_model("roberta"), tiny_model("roberta")
    first, second = tiny_job("plain", phase=SETTINGS), tiny_job("scaled", phase=SETTINGS)
    train_phase(first, plain, accelerator)
    request.getfixturevalue("fp16")
    train_phase(second, model, accelerator)
    torch.testing.assert_close(model.state_dict(), plain.state_dict(), rtol=1e-5, atol=1e-6)
    norms = [[row["gradient_norm"] for row in rows_of(job, "train")] for job in (first, second)]
    assert norms[1] == pytest.approx(norms[0], rel=1e-5)
    assert max(norms[0]) > 0.5  # clipping was at work
    assert [row["loss_scale"] for row in rows_of(second, "train")] == [2**16] * 3 + [2**17] * 3


def test_a_step_whose_gradients_overflow_is_skipped_counted_and_resumed_alike(
    tiny_model, tiny_job, accelerator, fp16, monkeypatch
):
    collect, steps = Trained.collect, []

    def overflow(trained):
        collect(trained)
        steps.append({n: p.detach().clone() for n, p in trained.model.named_parameters()})
        if len(steps) == 3:
            next(p for p in trained.model.parameters() if p.grad is not None).grad[0] = torch.inf

    monkeypatch.setattr(Trained, "collect", overflow)
    job = tiny_job(phase=SETTINGS, hardware={"checkpoint_steps": 4})
    model = tiny_model("roberta")
    result = train_phase(job, model, accelerator)
    assert all(torch.equal(tensor, steps[2][name]) for name, tensor in steps[3].items())
    assert not all(torch.equal(tensor, steps[3][name]) for name, tensor in steps[4].items())
    rows = rows_of(job, "train")
    assert [row["skipped_steps"] for row in rows] == [0, 0, 1, 1, 1, 1]
    assert [row["loss_scale"] for row in rows] == [2**16] * 2 + [2**15] * 4
    assert [row["gradient_norm"] is None for row in rows] == [i == 2 for i in range(6)]
    assert result["skipped_steps"] == 1
    again = tiny_model("roberta")
    assert train_phase(job, again, accelerator)["skipped_steps"] == 1
    assert_same_bits(again.state_dict(), model.state_dict())


@pytest.mark.parametrize(
    ("mine", "theirs", "weights"),
    [
        (("mlm", "mlm", "ca_mlm"), (1, 2), [1, 1, 1, 0]),
        (("mlm", "ca_mlm", "ca_mlm"), (2, 1), [1, 0, 1, 1]),
    ],
)
def test_processes_with_as_many_micro_batches_of_other_kinds_compute_the_same(
    mine, theirs, weights, monkeypatch
):
    def all_reduce(counts, op, group):
        assert op is torch.distributed.ReduceOp.MAX
        counts.copy_(torch.maximum(counts, torch.tensor(theirs)))

    monkeypatch.setattr(sharding, "FSDPModule", torch.nn.Identity)
    monkeypatch.setattr(sharding.distributed, "all_reduce", all_reduce)
    here = SimpleNamespace(device=torch.device("cpu"), num_processes=2)
    step = Step([SimpleNamespace(objective=kind) for kind in mine], [1.0] * 3, {}, 0, 0)
    level = sharding.level(step, torch.nn.Identity(), here)
    assert [batch.objective for batch in level.micro_batches] == ["mlm", "mlm", "ca_mlm", "ca_mlm"]
    assert level.weights == weights
