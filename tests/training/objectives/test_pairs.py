"""CA-MLM and TLM on packed pairs against a literal implementation that takes one pair at a time;
XLM+KD: sentence states on unmasked text, drawn to a teacher's."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from phase_rows import IDS, STILL, tokens_of
from torch.nn import functional
from with_module import with_module

from lingraft.models.families import FAMILIES
from lingraft.models.packed import PackedModel
from lingraft.recipe import Masking, Phase
from lingraft.tokenizer.pairs import Edges, TokenPairs, translations
from lingraft.training.data import Batcher
from lingraft.training.mixture import MixtureBatcher
from lingraft.training.objectives import OBJECTIVES, objective_for
from lingraft.training.objectives.distillation import TERM, Teacher, pooled, sentences_of

MASKING = Masking(rate=0.3)
TERMS = ["x_alone", "y_alone", "x_given_y", "y_given_x"]
EDGES = Edges(1, 1)


@pytest.fixture
def veco(tiny_model):
    """A tiny model with cross-attention, without dropout."""
    return with_module(tiny_model("roberta", **STILL), "roberta")


@pytest.fixture
def pairs(tiny_tokens):
    """Translations: every two sentences are a document."""

    def made(number, **settings):
        tokens = tiny_tokens(2 * number)
        tokens = dataclasses.replace(tokens, starts=np.arange(0, 2 * number, 2))
        return TokenPairs(tokens, translations(tokens), EDGES, 64, **settings)

    return made


def batcher_of(name, pairs):
    return Batcher(pairs, OBJECTIVES[name], IDS, MASKING, 64, 10**6, 0, "phase-1")


def step_of(name, pairs):
    return batcher_of(name, pairs).step(np.arange(len(pairs)), 0)


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
    held, model = pairs(7), veco
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
    hidden = batcher_of("ca_mlm", held).hide(np.arange(7), 0)
    sides = list(zip(hidden.ids, hidden.masked, hidden.targets, strict=True))
    each = [literal(model, family, sides[2 * i : 2 * i + 2]) for i in range(7)]
    total = {term: sum(one[term] for one in each) for term in TERMS}
    sum(total[term] / step.targets[term] for term in TERMS).backward()
    for term in TERMS:
        torch.testing.assert_close(losses[term].nats, total[term], atol=0, rtol=1e-5)
    theirs = {name: p.grad for name, p in model.named_parameters()}
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def test_the_partner_is_a_constant_and_shared_layers_still_learn_from_it(veco, pairs, monkeypatch):
    packed = PackedModel(veco, FAMILIES["roberta"])
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
    batcher = batcher_of("ca_mlm", held)
    together, alone = batcher.hide(np.arange(8), 0), batcher.hide(np.array([5]), 0)
    assert [m.tolist() for m in together.masked[10:12]] == [m.tolist() for m in alone.masked]
    for masked, length in zip(together.masked, together.lengths, strict=True):
        assert abs(len(masked) - 0.3 * (length - 2)) <= 1


def test_tlm_is_the_masked_sequence_of_both_sentences(veco, pairs):
    held = pairs(5, longest=64)
    model = veco
    step = step_of("tlm", held)
    (batch,) = step.micro_batches
    found = OBJECTIVES["tlm"].loss(PackedModel(model, FAMILIES["roberta"]), batch)["tlm"]
    assert {"tlm": found.positions} == step.targets
    hidden = batcher_of("tlm", held).hide(np.arange(5), 0)
    total = 0.0
    model.set_attn_implementation("sdpa")
    for ids, places, targets in zip(hidden.ids, hidden.masked, hidden.targets, strict=True):
        assert [int(token) for token in ids if token in (0, 2)] == [0, 2, 2]
        logits = model(input_ids=torch.tensor(ids)[None]).logits[0, torch.tensor(places)]
        nats = functional.cross_entropy(logits, torch.tensor(targets), reduction="sum")
        total += float(nats.detach())
    assert float(found.nats.detach()) == pytest.approx(total, rel=1e-5)


def test_where_cross_attention_alone_trains_its_terms_alone_are_left(veco, pairs):
    section = {"train": ["cross_attention"], "objective": "ca_mlm", "budget": {"value": 1}}
    phase = Phase.model_validate(section | {"name": "p"})
    only = objective_for("ca_mlm", phase)
    more = phase.model_copy(update={"train": ("cross_attention", "head")})
    assert objective_for("ca_mlm", more) is OBJECTIVES["ca_mlm"]
    packed = PackedModel(veco, FAMILIES["roberta"])
    (batch,) = step_of("ca_mlm", pairs(4)).micro_batches
    with torch.no_grad():  # whose attention has another last bit
        whole, part = OBJECTIVES["ca_mlm"].loss(packed, batch), only.loss(packed, batch)
    assert list(part) == TERMS[2:]
    for term, one in part.items():
        assert torch.equal(one.nats, whole[term].nats)
        assert one.positions == whole[term].positions
    counts = Batcher(pairs(4), only, IDS, MASKING, 64, 64, 0, "phase-1").step(np.arange(4), 0)
    assert counts.targets == {term: one.positions for term, one in part.items()}


TEXT = ("Open the file and save it.", "The dog sleeps.", "나는 학교에 가서 책을 읽었다.")


@pytest.fixture
def teacher(tiny_model, tiny_tokenizer):
    """A BERT teaches a RoBERTa: other weights, another tokenizer, the same width."""

    def of(weight=1.0):
        tokenizers = tiny_tokenizer("bert"), tiny_tokenizer("roberta")
        model = tiny_model("bert"), FAMILIES["bert"]
        return Teacher(*model, *tokenizers, longest=128, weight=weight)

    return of


@pytest.fixture
def batch(tiny_tokenizer, tiny_tokens):
    """The three sentences, packed; the shortest and the second share a row."""
    tokens = tokens_of(tiny_tokenizer("roberta")(list(TEXT))["input_ids"])
    batcher = Batcher(tokens, OBJECTIVES["mlm"], IDS, Masking(), 48, 4_096, 0, "phase-1")
    return MixtureBatcher([batcher], 0).step(np.arange(3), 0).micro_batches[0]


def test_the_mean_state_of_a_sentence_is_over_its_own_tokens():
    states_NTD = torch.arange(24.0).reshape(2, 6, 2)
    segments_NT = torch.tensor([[1, 1, 2, 2, 2, 0], [1, 0, 0, 0, 0, 0]])
    expected = [states_NTD[0, :2].mean(0), states_NTD[0, 2:5].mean(0), states_NTD[1, 0]]
    assert torch.equal(pooled(states_NTD, segments_NT), torch.stack(expected))


@torch.no_grad()
def test_the_loss_is_that_of_single_sentences_through_the_stock_models(
    teacher, batch, tiny_model, tiny_tokenizer
):
    student = tiny_model("roberta")
    loss = teacher(weight=0.5).loss(PackedModel(student, FAMILIES["roberta"]), batch)[TERM]
    expected = 0.0
    for text in TEXT:
        states = []
        for family in ("roberta", "bert"):
            ids = torch.tensor([tiny_tokenizer(family)(text)["input_ids"]])
            base = tiny_model(family).base_model
            states.append(base(input_ids=ids).last_hidden_state[0].mean(0))
        expected += 0.5 * float((states[0] - states[1]).square().mean())
    assert loss.positions == 3
    assert float(loss.nats) == pytest.approx(expected, rel=1e-4)


def test_only_the_teacher_s_stream_is_read_whole(tiny_tokens):
    batchers = [
        Batcher(tiny_tokens(number), OBJECTIVES["mlm"], IDS, Masking(), 32, 4_096, 0, name)
        for name, number in (("ko", 10), ("en", 6))
    ]
    mixture = MixtureBatcher(batchers, 1)
    indices = np.array([0, 3, 11, 15, 12])  # two Korean sentences and three English ones
    step = mixture.step(indices, 0)
    plain = MixtureBatcher(batchers).step(indices, 0)
    assert step.targets == {TERM: 3} | plain.targets
    assert step.global_targets == plain.global_targets  # tokens; a teacher's are sentences
    assert step.micro_batches[0].objective == TERM
    assert (step.global_tokens, step.global_sentences) == (plain.global_tokens, 5)
    assert TERM not in mixture.step(np.array([0, 3]), 0).targets
    shares = [mixture.step(indices, 0, rank, 2) for rank in (0, 1)]
    found = [
        sentence
        for share in shares
        for micro, weight in zip(share.micro_batches, share.weights, strict=True)
        if micro.objective == TERM and weight
        for sentence in sentences_of(micro)
    ]
    together = sentences_of(step.micro_batches[0])
    assert sorted(found) == sorted(together)
    assert all(share.targets == step.targets for share in shares)


def test_gradients_reach_the_student_and_never_the_teacher(teacher, batch, tiny_model):
    student, frozen = tiny_model("roberta"), teacher()
    frozen.loss(PackedModel(student, FAMILIES["roberta"]), batch)[TERM].nats.backward()
    grads = {name for name, p in student.named_parameters() if p.grad is not None}
    assert any("encoder.layer.0" in name for name in grads)
    assert not any("lm_head" in name for name in grads)
    assert all(p.grad is None and not p.requires_grad for p in frozen.packed.parameters())
    assert not frozen.packed.training
