"""Rows and layers that train alone, with settings of their own; LoRA; the optimizer and its
rates."""

import math
import re

import pytest
import torch
from stopping import assert_same_bits
from torch import nn
from torch.nn import functional
from transformers import AutoModelForMaskedLM

from lingraft.errors import RecipeError
from lingraft.models.families import FAMILIES
from lingraft.models.selection import Layout, Selection
from lingraft.recipe import Optimizer, Phase, Schedule
from lingraft.training import trained
from lingraft.training.masked_text import train_phase
from lingraft.training.trained import Trained, clip, learning_rate_factor

ROWS, KEPT = 320, 300
NEW = tuple(i >= KEPT or i % 50 == 7 for i in range(ROWS))  # not all of them at the end
NEW_V = torch.tensor(NEW)
INPUT, OUTPUT = "roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"
DECAY = {"learning_rate": 0.01, "weight_decay": 0.1}


def copy_of(model):
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def selection(*train, depth=2, tied=True, itl=(), gains=(), **phase):
    section = {"name": "p", "train": train, "budget": {"value": 1}} | phase
    layout = Layout(FAMILIES["roberta"], frozenset(itl), (depth,), tied, frozenset(gains))
    return Selection(Phase.model_validate(section), layout)


class Tied(nn.Module):
    """Predicts a piece from a piece, with one matrix at both ends."""

    def __init__(self, rows):
        super().__init__()
        self.word = nn.Embedding(*rows.shape, _weight=rows.clone())

    def forward(self, ids, weight):
        return functional.linear(functional.embedding(ids, weight).tanh(), weight)


@pytest.mark.parametrize("max_norm", [None, 0.05])
def test_new_rows_train_as_if_the_optimizer_knew_no_others(max_norm):
    """Against two parameters that are put together for every forward pass."""
    start = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
    new = torch.tensor([3, 9, 10, 11])
    ours, theirs = Tied(start), Tied(start)
    rows = trained.Rows(ours, "word.weight", new)
    chosen = selection("embeddings.new", optimizer=DECAY)
    settings, piece = chosen.phase.optimizer, chosen.piece(INPUT, "new")
    mine = trained.Trained(ours, [(rows.parameter, piece)], [rows])
    optimizer = mine.optimizer(settings)
    own = nn.Parameter(start[new].clone())
    reference = torch.optim.AdamW(
        [own], lr=0.01, betas=settings.betas, eps=settings.epsilon, weight_decay=0.1, fused=True
    )
    for step in range(50):
        ids = torch.randint(12, (8,), generator=torch.Generator().manual_seed(step))
        for half in ids.chunk(2):  # the gradients of micro-batches add up
            functional.cross_entropy(ours(half, ours.word.weight), half, reduction="sum").backward()
            whole = theirs.word.weight.detach().index_copy(0, new, own)
            functional.cross_entropy(theirs(half, whole), half, reduction="sum").backward()
        mine.collect()
        norms = clip(mine.parameters(), max_norm), clip([own], max_norm)
        assert norms[0] == norms[1]
        optimizer.step()
        reference.step()
        optimizer.zero_grad()
        reference.zero_grad()
        assert ours.word.weight.grad is None
    old = torch.ones(12, dtype=torch.bool).index_fill(0, new, False)
    assert torch.equal(ours.word.weight[old], start[old])
    assert torch.equal(ours.word.weight[new], own)
    assert not torch.equal(own, start[new])


CHANGED = {
    ("embeddings.new",): {INPUT: NEW_V},
    ("embeddings.old",): {INPUT: ~NEW_V},
    ("head.new", "embeddings.rows"): {INPUT: NEW_V | True, OUTPUT: NEW_V},
    ("head.rows",): {OUTPUT: NEW_V | True},
    ("embeddings.new", "output_bias.new"): {INPUT: NEW_V, "lm_head.bias": NEW_V},
}


# An untied RoBERTa has a second bias that nothing reads; a tied one has no rows of a head.
CASES = [(train, False) for train in CHANGED if "output_bias.new" not in train]
CASES += [(train, True) for train in CHANGED if not any(name.startswith("head") for name in train)]


@pytest.mark.parametrize(("train", "tied"), CASES)
def test_a_phase_moves_the_rows_that_it_names_and_not_one_bit_of_others(
    train, tied, tiny_model, tiny_job, accelerator
):
    model = tiny_model("roberta", tie_word_embeddings=tied)
    before = copy_of(model)
    at_the_end = {"every_steps": 3}  # so the last weights are the best
    phase = {"train": train, "optimizer": DECAY, "validation": at_the_end}
    job = tiny_job(phase=phase, new_rows=NEW)
    result = train_phase(job, model, accelerator)
    changed = CHANGED[train]
    for name, tensor in model.state_dict().items():
        matrix = INPUT if tied and name == OUTPUT else name.replace(".decoder.bias", ".bias")
        moved = (tensor != before[name]).reshape(len(tensor), -1).any(1)
        assert torch.equal(moved, changed.get(matrix, torch.zeros_like(moved))), name
    sizes = {name: before[name][0].numel() for name in changed}
    assert result["trainable_parameters"] == sum(
        int(rows.sum()) * sizes[name] for name, rows in changed.items()
    )
    stored = AutoModelForMaskedLM.from_pretrained(job.folder / "best").state_dict()
    assert_same_bits(stored, copy_of(model))


def test_parts_have_learning_rates_of_their_own(tiny_model):
    rates = {"embeddings": 2e-4, "embeddings.new": 1e-3, "layers[0]": 3e-4}
    section = {"learning_rate": 1e-4, "weight_decay": 0.01, "rates": rates}
    model, chosen = tiny_model("roberta"), selection("all", optimizer=section)
    made = trained.select(model, chosen, lambda: NEW_V)
    optimizer = made.optimizer(chosen.phase.optimizer)
    found = dict(zip(made.peaks, optimizer.param_groups, strict=True))
    sizes = {peak: sum(p.numel() for p in group["params"]) for peak, group in found.items()}
    width = model.config.hidden_size
    assert sizes[1e-3] == int(NEW_V.sum()) * width
    assert sizes[2e-4] == int((~NEW_V).sum()) * width
    assert made.count == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("name", "rates", "said"),
    [
        ("head.new", {}, "'head.new': the model's output projection is its word embeddings"),
        ("layers[2:]", {}, "'layers[2:]': the model has 2 layers"),
        ("inserted", {"body": 1.0}, "'body' has settings of its own"),
        ("all", {"layers[0]": 1.0, "layers[:1]": 2.0}, "'layers[0]' and 'layers[:1]' both name"),
    ],
)
def test_names_that_this_model_has_nothing_for_are_refused(name, rates, said, tiny_model):
    optimizer = {"rates": rates}
    with pytest.raises(RecipeError, match=re.escape(said)):
        trained.select(tiny_model("roberta"), selection(name, optimizer=optimizer), lambda: NEW_V)


@pytest.mark.parametrize(("new", "name"), [(True, "old"), (False, "new")])
def test_rows_that_the_vocabulary_has_none_of_are_refused(new, name, tiny_model):
    chosen = selection(f"embeddings.{name}")
    with pytest.raises(RecipeError, match=f"no row that is {name}; name the whole part"):
        trained.select(tiny_model("roberta"), chosen, lambda: torch.full((ROWS,), new))


LORA = {"parts": ["body"], "rank": 4, "alpha": 8, "dropout": 0.1}


@pytest.mark.parametrize("modules", [[], ["query", "output.dense"]], ids=["all", "some"])
def test_lora_ends_in_the_weights_of_a_stock_model(modules, tiny_model, tiny_job, accelerator):
    section = LORA | {"modules": modules}
    model = tiny_model("roberta", num_hidden_layers=3)
    before = copy_of(model)
    phase = {"train": ["embeddings.new"], "lora": section, "optimizer": DECAY}
    job = tiny_job(phase=phase, new_rows=NEW, itl_layers=frozenset({0}))
    result = train_phase(job, model, accelerator)
    stored = AutoModelForMaskedLM.from_pretrained(job.folder / "best")
    logits = [m.eval()(input_ids=torch.arange(5, 25)[None]).logits for m in (stored, model)]
    torch.testing.assert_close(*logits, rtol=1e-4, atol=1e-5)
    after = copy_of(stored)
    assert after.keys() == before.keys()
    moved = {n for n in before if not torch.equal(after[n], before[n])} - {INPUT, OUTPUT}
    ends = tuple(f"{name}.weight" for name in modules) or (".weight",)
    expected = {n for n in before if "layer.1." in n or "layer.2." in n}
    expected = {n for n in expected if n.endswith(ends) and before[n].dim() == 2}
    assert moved == expected
    low_rank = sum(LORA["rank"] * sum(before[name].shape) for name in moved)
    assert result["trainable_parameters"] == low_rank + int(NEW_V.sum()) * before[INPUT].shape[1]
    assert torch.equal(after[INPUT][~NEW_V], before[INPUT][~NEW_V])


@pytest.mark.parametrize(
    ("schedule", "warmup", "after"),
    [
        ({"shape": "linear"}, 0.2, lambda done: (1 - done) / 0.8),
        ({"shape": "cosine"}, 0.2, lambda done: (1 + math.cos(math.pi * (done - 0.2) / 0.8)) / 2),
        ({"shape": "wsd", "decay": 0.1}, 0.1, lambda done: min(1, (1 - done) / 0.1)),
        (
            {"shape": "wsd", "decay": 0.25, "floor": 0.2},
            0.1,
            lambda done: 0.2 + 0.8 * min(1, (1 - done) / 0.25),
        ),
    ],
)
def test_the_rate_rises_in_a_line_and_falls_as_its_schedule_says(schedule, warmup, after):
    for done in (0.0, 0.05, 0.1, 0.2, 0.5, 0.75, 0.875, 0.9, 0.95, 0.99, 1.0):
        expected = done / warmup if done < warmup else after(done)
        found = learning_rate_factor(done, Schedule(**schedule), warmup)
        assert found == pytest.approx(expected, abs=1e-12)


def test_weight_decay_spares_biases_and_norms():
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Embedding(5, 4))
    optimizer = Trained(model).optimizer(Optimizer(weight_decay=0.3))
    decayed, spared = optimizer.param_groups
    assert {id(p) for p in decayed["params"]} == {id(model[0].weight), id(model[2].weight)}
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.3, 0.0)
    assert len(spared["params"]) == 3


def test_clipping_scales_the_global_norm_and_reports_the_norm_before():
    parameters = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))]
    parameters[0].grad, parameters[1].grad = torch.tensor([3.0, 0.0]), torch.tensor([4.0])
    assert float(clip(parameters, 1.0)) == pytest.approx(5.0)
    assert parameters[0].grad.tolist() == pytest.approx([0.6, 0.0], rel=1e-4)
    assert parameters[1].grad.tolist() == pytest.approx([0.8], rel=1e-4)
