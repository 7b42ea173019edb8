"""Passes of a GPU: one row of a fixed number of tokens, the same results as short rows; compiled
layers train like plain ones."""

import numpy as np
import pytest
import torch
from gpu_attention import as_on_a_gpu
from phase_rows import STILL, rows_of
from torch._dynamo.utils import counters

from lingraft.models import segments
from lingraft.models.families import FAMILIES
from lingraft.models.rows import even_rows, even_width
from lingraft.models.stacks import packed_model
from lingraft.recipe import Batch, Masking
from lingraft.training.checkpoint import weights
from lingraft.training.data import Batcher, BatchPlan, Position
from lingraft.training.machine import encoder_layers
from lingraft.training.masked_text import train_phase
from lingraft.training.objectives import OBJECTIVES
from lingraft.training.objectives.common import TokenIds

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
PHASE = {
    "budget": {"value": 4},
    "optimizer": {"learning_rate": 0.01, "epsilon": 1e-3},
    "validation": {"every_steps": 2},
}


def trained(job, tiny_model, accelerator):
    """The weights that a phase ends with, and the loss of every row."""
    model = tiny_model("roberta", **STILL)
    train_phase(job, model, accelerator)
    return {"weights": weights(model), "losses": [row["loss"] for row in rows_of(job)]}


@pytest.mark.parametrize(
    ("phase", "training"),
    [
        ({}, {}),
        ({"batch": {"size": 200, "unit": "tokens"}}, {"micro_batch_tokens": 64}),
        ({}, {"gradient_checkpointing": True}),
        ({"train": ["embeddings"], "lora": {"parts": ["body"], "rank": 4, "alpha": 8}}, {}),
    ],
    ids=["sentences", "tokens in four passes", "activations again", "lora"],
)
def test_a_phase_in_rows_of_a_pass_ends_with_the_weights_of_one_in_short_rows(
    phase, training, tiny_job, tiny_model, accelerator, monkeypatch
):
    jobs = [tiny_job(n, phase=PHASE | phase, hardware=training) for n in ("short", "even")]
    short = trained(jobs[0], tiny_model, accelerator)
    windows = as_on_a_gpu(monkeypatch)
    even = trained(jobs[1], tiny_model, accelerator)
    assert set(windows) == {(-1, -1)}
    assert len(even["losses"]) > 4
    assert even["losses"] == pytest.approx(short["losses"], rel=1e-5)
    torch.testing.assert_close(even["weights"], short["weights"], atol=2e-5, rtol=1e-4)


class Text:
    """Sentences of random ids, in memory."""

    def __init__(self, mean, most):
        generator, number = np.random.default_rng(0), 4_000_000 // mean
        lengths = np.clip(generator.lognormal(np.log(mean) - 0.2, 0.65, number), 4, most)
        self.lengths = lengths.astype(np.int64)
        self.ids = generator.integers(5, 49_999, self.lengths.sum()).astype(np.uint16)
        self.ends = np.cumsum(self.lengths)

    def __len__(self):
        return len(self.lengths)

    def rows(self, indices):
        return [self.ids[self.ends[i] - self.lengths[i] : self.ends[i]] for i in indices]


@pytest.mark.parametrize(
    ("objective", "unit", "size", "mean", "most", "fill"),
    [
        ("mlm", "tokens", 32_768, 30, 128, 0.99),
        ("mlm", "tokens", 65_536, 30, 512, 0.99),
        ("mlm", "sentences", 1_024, 30, 128, 0.95),
        ("clm", "tokens", 131_072, 400, 1_024, 0.98),
    ],
)
def test_a_hundred_steps_have_at_most_two_shapes(
    objective, unit, size, mean, most, fill, monkeypatch
):
    monkeypatch.setattr(segments, "uses_segments", lambda _: True)
    text = Text(mean, most)
    width = even_width(text.lengths, size, unit, 32_768)
    vocabulary = TokenIds(50_000, 49_999, 1, (0, 1, 2, 3, 49_999))
    of_text = (text, OBJECTIVES[objective], vocabulary, Masking())
    batcher = Batcher(*of_text, 128, 32_768, 0, "phase", width)
    plan = BatchPlan(text.lengths, Batch(size=size, unit=unit), 0, "phase")
    shapes, tokens, slots = set(), 0, 0
    for _, (following, indices) in zip(range(100), plan.after(Position()), strict=False):
        step = batcher.step(indices, following.epoch)
        for batch in step.micro_batches:
            filled = batch.filled()
            shapes.add((*filled.input_ids_NT.shape, len(filled.masked_M)))
            tokens += int((batch.segments_NT > 0).sum())
            slots += batch.input_ids_NT.numel()
    assert len(shapes) <= 2
    assert {shape[0] for shape in shapes} == {1}
    assert tokens / slots > fill


@pytest.mark.parametrize("seed", range(6))
def test_even_rows_place_every_sentence_once_and_are_never_too_short(seed):
    lengths = np.random.default_rng(seed).integers(1, 90, 100)
    for width in (128, 512, 1_024, 5_120):
        rows, length = even_rows(lengths, width)
        assert sorted(index for row in rows for index in row) == list(range(100))
        assert max(int(lengths[row].sum()) for row in rows) <= length <= width * 9 // 8 + 127
    rows, length = even_rows(np.array([700, 20]), 128)
    assert length == 700


@pytest.fixture
def clean_compiler():
    """Compiled code is no other test's."""
    torch.compiler.reset()
    counters.clear()
    yield
    torch.compiler.reset()


@pytest.mark.slow
@pytest.mark.usefixtures("clean_compiler")
@pytest.mark.parametrize("name", ["roberta", "modernbert", "gemma2", "t5"])
def test_compiled_layers_are_compiled_once_whatever_the_segments(name, tiny_model, monkeypatch):
    monkeypatch.setattr(segments, "uses_segments", lambda _: True)
    packed = packed_model(tiny_model(name), FAMILIES[name])
    for layer in encoder_layers(packed):
        layer.compile(backend="eager")
    generator, graphs = np.random.default_rng(0), []
    for _ in range(5):
        lengths = generator.integers(4, 40, 20)
        sentences = [generator.integers(5, 300, n) for n in lengths]
        batch = packed.probe(sentences, [list(range(20))], 800, 1).rounded(1_024, 1)
        with torch.no_grad():
            packed.hidden(batch)
        graphs.append(counters["stats"]["unique_graphs"])
    assert len(set(graphs)) == 1
    assert not counters["graph_break"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # within torch
@pytest.mark.usefixtures("clean_compiler")
def test_compiled_layers_give_the_loss_curve_and_the_weights_of_plain_ones(
    tiny_job, tiny_model, tiny_tokens, accelerator
):
    # Every batch is 16 rows: one graph for training, one for looking.
    settings = {"train": tiny_tokens(48), "valid": tiny_tokens(16, seed=1)}
    settings["phase"] = PHASE | {"budget": {"value": 6}, "validation": {"every_steps": 3}}
    jobs = [tiny_job(f"{c}", hardware={"compile": c}, **settings) for c in (False, True)]
    plain, compiled = (trained(job, tiny_model, accelerator) for job in jobs)
    assert counters["stats"]["unique_graphs"] > 0
    assert not counters["graph_break"]
    assert len(plain["losses"]) == 8
    assert compiled["losses"] == pytest.approx(plain["losses"], rel=1e-5)
    # no name of a wrapper, too
    torch.testing.assert_close(compiled["weights"], plain["weights"], atol=1e-5, rtol=1e-4)
