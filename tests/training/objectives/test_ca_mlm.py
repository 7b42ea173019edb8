"""CA-MLM and TLM on packed pairs against a literal implementation that takes one pair at a time."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch.nn import functional

from lingraft.models import cross_attention, loading
from lingraft.models.families import FAMILIES
from lingraft.models.modules import MODULES
from lingraft.models.packed import PackedModel
from lingraft.recipe import Masking, Phase
from lingraft.tokenizer.pairs import Edges, TokenPairs, translations
from lingraft.training.data import Batcher
from lingraft.training.objectives import OBJECTIVES, objective_for
from lingraft.training.objectives.common import TokenIds

IDS = TokenIds(size=320, mask=319, pad=1, special=(0, 1, 2, 3, 319))
MASKING = Masking(rate=0.3)
TERMS = ["x_alone", "y_alone", "x_given_y", "y_given_x"]
EDGES = Edges(1, 1)
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@pytest.fixture
def veco(tiny_model):
    """A tiny model with cross-attention whose weights matter."""

    def made(family="roberta", **changes):
        off = NO_DROPOUT
        model = tiny_model(family, **{**off, **changes})
        cross_attention.insert(model, FAMILIES[family], 2, 0)
        generator = torch.Generator().manual_seed(4)
        with torch.no_grad():
            for tensor in loading.own_tensors(model, MODULES["cross_attention"]).values():
                tensor.add_(torch.randn(tensor.shape, generator=generator), alpha=0.1)
        return model

    return made


@pytest.fixture
def pairs(tiny_tokens):
    """Translations: every two sentences are a document."""

    def made(number, seed=0, **settings):
        tokens = tiny_tokens(2 * number, seed=seed)
        tokens = dataclasses.replace(tokens, starts=np.arange(0, 2 * number, 2))
        return TokenPairs(tokens, translations(tokens), EDGES, 64, **settings)

    return made


def step_of(name, pairs, row_tokens=64, micro=10**6, indices=None):
    batcher = Batcher(pairs, OBJECTIVES[name], IDS, MASKING, row_tokens, micro, 0, "phase-1")
    return batcher.step(np.arange(len(pairs)) if indices is None else np.array(indices), 0)


def literal(model, family, sides):
    """The four terms of one pair without packing: the layers written out, one side at a time.

    Args:
        model: with cross-attention.
        family: post-norm: BERT's layout.
        sides: of each side corrupted ids, places and targets.
    """
    body, head = model.base_model, model.get_submodule(family.head[0])

    def encode(ids, memory=None):
        places = torch.arange(len(ids))[None] + 2
        x = body.embeddings(input_ids=torch.tensor(ids)[None], position_ids=places)
        for layer in body.encoder.layer:
            a = layer.attention.output(attend(layer.attention.self, x, x), x)
            if memory is not None:
                cross = layer.crossattention
                mixed = cross.output.dense(attend(cross.self, a, memory))
                a = cross.output.LayerNorm(a + mixed)
            x = layer.output(layer.intermediate(a), a)
        return x

    def attend(maps, queries, keys):
        q, k, v = (
            f(t).reshape(1, -1, 2, 16).transpose(1, 2)
            for f, t in ((maps.query, queries), (maps.key, keys), (maps.value, keys))
        )
        mixed = torch.softmax(q @ k.transpose(2, 3) / 4.0, -1) @ v
        return mixed.transpose(1, 2).reshape(1, -1, 32)

    alone = [encode(ids) for ids, _, _ in sides]
    given = [encode(sides[i][0], alone[1 - i].detach()) for i in (0, 1)]

    def nats(states, side):
        _, places, targets = sides[side]
        logits = head(states[0, torch.tensor(places)])
        return functional.cross_entropy(logits, torch.tensor(targets), reduction="sum")

    found = [nats(states[i], i) for states in (alone, given) for i in (0, 1)]
    return dict(zip(TERMS, found, strict=True))


def test_packed_loss_and_gradients_are_those_of_one_pair_at_a_time(veco, pairs):
    held, model = pairs(7), veco()
    family = FAMILIES["roberta"]
    step = step_of("ca_mlm", held)
    (batch,) = step.micro_batches
    assert batch.input_ids_NT.shape[0] < 7  # pairs share rows
    losses = OBJECTIVES["ca_mlm"].loss(PackedModel(model, family), batch)
    assert list(losses) == TERMS
    assert {term: one.positions for term, one in losses.items()} == step.targets
    sum(one.nats / step.targets[term] for term, one in losses.items()).backward()
    ours = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    hidden = Batcher(held, OBJECTIVES["ca_mlm"], IDS, MASKING, 64, 64, 0, "phase-1").hide(
        np.arange(7), 0
    )
    sides = list(zip(hidden.ids, hidden.masked, hidden.targets, strict=True))
    each = [literal(model, family, sides[2 * i : 2 * i + 2]) for i in range(7)]
    total = {term: sum(one[term] for one in each) for term in TERMS}
    sum(total[term] / step.targets[term] for term in TERMS).backward()
    for term in TERMS:
        assert float(losses[term].nats.detach()) == pytest.approx(
            float(total[term].detach()), rel=1e-5
        )
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(ours[name], parameter.grad, atol=1e-5, rtol=1e-4, msg=name)


def test_the_partner_is_a_constant_and_shared_layers_still_learn_from_it(veco, pairs, monkeypatch):
    packed = PackedModel(veco(), FAMILIES["roberta"])
    (batch,) = step_of("ca_mlm", pairs(3)).micro_batches
    kept, hidden = [], packed.hidden
    monkeypatch.setattr(packed, "hidden", lambda *a, **k: kept.append(hidden(*a, **k)) or kept[-1])
    losses = OBJECTIVES["ca_mlm"].loss(packed, batch)
    states, plugged = kept
    given = losses["x_given_y"].nats + losses["y_given_x"].nats
    query = packed.model.roberta.encoder.layer[0].attention.self.query.weight
    partner, own, layer = torch.autograd.grad(
        given, [states, plugged, query], allow_unused=True, retain_graph=True
    )
    assert partner is None
    assert own.any()
    assert layer.any()
    alone = losses["x_alone"].nats + losses["y_alone"].nats
    assert torch.autograd.grad(alone, states)[0].any()


def test_each_side_has_a_mask_of_its_own_that_no_other_pair_changes(pairs):
    held = pairs(8)
    batcher = Batcher(held, OBJECTIVES["ca_mlm"], IDS, MASKING, 64, 64, 0, "phase-1")
    together, alone = batcher.hide(np.arange(8), 0), batcher.hide(np.array([5]), 0)
    assert [m.tolist() for m in together.masked[10:12]] == [m.tolist() for m in alone.masked]
    for masked, length in zip(together.masked, together.lengths, strict=True):
        assert abs(len(masked) - 0.3 * (length - 2)) <= 1


def test_tlm_is_the_masked_sequence_of_both_sentences(veco, pairs):
    held = pairs(5, longest=64)
    model = veco()
    step = step_of("tlm", held)
    (batch,) = step.micro_batches
    found = OBJECTIVES["tlm"].loss(PackedModel(model, FAMILIES["roberta"]), batch)["tlm"]
    assert {"tlm": found.positions} == step.targets
    hidden = Batcher(held, OBJECTIVES["tlm"], IDS, MASKING, 64, 64, 0, "phase-1").hide(
        np.arange(5), 0
    )
    total = 0.0
    model.set_attn_implementation("sdpa")
    for ids, places, targets in zip(hidden.ids, hidden.masked, hidden.targets, strict=True):
        assert [int(token) for token in ids if token in (0, 2)] == [0, 2, 2]
        logits = model(input_ids=torch.tensor(ids)[None]).logits[0, torch.tensor(places)]
        nats = functional.cross_entropy(logits, torch.tensor(targets), reduction="sum")
        total += float(nats.detach())
    assert float(found.nats.detach()) == pytest.approx(total, rel=1e-5)


def test_where_cross_attention_alone_trains_its_terms_alone_are_left(veco, pairs):
    phase = Phase.model_validate(
        {"name": "p", "train": ["cross_attention"], "objective": "ca_mlm", "budget": {"value": 1}}
    )
    only = objective_for("ca_mlm", phase)
    more = phase.model_copy(update={"train": ("cross_attention", "head")})
    assert objective_for("ca_mlm", more) is OBJECTIVES["ca_mlm"]
    packed = PackedModel(veco(), FAMILIES["roberta"])
    (batch,) = step_of("ca_mlm", pairs(4)).micro_batches
    whole, part = OBJECTIVES["ca_mlm"].loss(packed, batch), only.loss(packed, batch)
    assert list(part) == TERMS[2:]
    for term, one in part.items():
        assert torch.equal(one.nats, whole[term].nats)
        assert one.positions == whole[term].positions
    counts = Batcher(pairs(4), only, IDS, MASKING, 64, 64, 0, "phase-1").step(np.arange(4), 0)
    assert counts.targets == {term: one.positions for term, one in part.items()}
