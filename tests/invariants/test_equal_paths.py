"""Every fast path equals the plain one: packed rows, the head on masked tokens alone, activations
that are computed again, and bf16 within a band of fp32."""

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from freezing import freeze
from phase_rows import STILL, rows_of
from tiny_shapes import ENCODERS
from torch.nn import functional

from lingraft.models.families import FAMILIES
from lingraft.models.packed import PackedModel, assemble
from lingraft.models.rows import pack
from lingraft.training.checkpoint import weights
from lingraft.training.masked_text import train_phase
from lingraft.training.objectives import OBJECTIVES
from lingraft.training.phase import WithObjective, recompute_activations

ALL_FAMILIES = pytest.mark.parametrize("family", ENCODERS)
BAND = 0.002
"""Largest relative difference of the loss in bf16 at any of 60 steps; a tenth was measured."""


def hidden(sentences):
    """Each sentence's first third after the first token, as places and targets."""
    masked = [np.arange(1, 1 + max(1, len(sentence) // 3)) for sentence in sentences]
    return masked, [s[places] for s, places in zip(sentences, masked, strict=True)]


def packed_rows(tokens, row_tokens=32):
    sentences = tokens.rows(range(len(tokens)))
    rows, width = pack(tokens.lengths, row_tokens)
    batch = assemble(sentences, *hidden(sentences), rows, width, 1)
    return batch, [index for row in rows for index in row]


def padded(tokens):
    """Stock inputs of all sentences, and their masked places."""
    sentences = tokens.rows(range(len(tokens)))
    ids = torch.full((len(sentences), int(tokens.lengths.max())), 1)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence)] = torch.from_numpy(sentence.astype(np.int64))
    attend = torch.arange(ids.shape[1])[None] < torch.from_numpy(tokens.lengths)[:, None]
    return {"input_ids": ids, "attention_mask": attend.long()}, hidden(sentences)


def gradients(model, nats):
    model.zero_grad(set_to_none=True)
    nats.backward(retain_graph=True)
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def assert_same_gradients(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, gradient in ours.items():
        scale = max(1.0, float(theirs[name].abs().max()))
        torch.testing.assert_close(gradient, theirs[name], atol=1e-5 * scale, rtol=1e-4, msg=name)


@ALL_FAMILIES
def test_logits_and_gradients_of_each_sentence_are_those_of_the_padded_one(
    family, tiny_model, tiny_tokens
):
    tokens = tiny_tokens(5, 4, 14)
    ours, theirs = tiny_model(family), tiny_model(family)
    batch, order = packed_rows(tokens)
    assert len(batch.input_ids_NT) < len(tokens)
    logits_MV = PackedModel(ours, FAMILIES[family]).logits(batch)
    inputs, (masked, targets) = padded(tokens)
    stock_STV = theirs(**inputs).logits
    start = 0
    for index in order:
        gold = torch.from_numpy(targets[index].astype(np.int64))
        mine_V, start = logits_MV[start : start + len(gold)], start + len(gold)
        plain_V = stock_STV[index, torch.from_numpy(masked[index])]
        torch.testing.assert_close(mine_V, plain_V, atol=1e-4, rtol=1e-4)
        assert_same_gradients(
            gradients(ours, functional.cross_entropy(mine_V, gold, reduction="sum")),
            gradients(theirs, functional.cross_entropy(plain_V, gold, reduction="sum")),
        )
    assert start == len(logits_MV)


@ALL_FAMILIES
def test_the_head_on_masked_tokens_alone_is_the_full_head(family, tiny_model, tiny_tokens):
    batch, _ = packed_rows(tiny_tokens(6))
    packed = PackedModel(tiny_model(family), FAMILIES[family])
    alone_MV = packed.logits(batch)
    full_MV = packed.head(packed.hidden(batch)).flatten(0, 1)[batch.masked_M]
    torch.testing.assert_close(alone_MV, full_MV, atol=1e-5, rtol=1e-5)
    losses = [functional.cross_entropy(x_MV, batch.targets_M) for x_MV in (alone_MV, full_MV)]
    assert_same_gradients(*(gradients(packed.model, loss) for loss in losses))


@ALL_FAMILIES
@pytest.mark.parametrize("train", ["all", "phase 1"])
def test_activations_computed_again_give_the_same_gradients_with_the_same_dropout(
    family, train, tiny_model, tiny_tokens
):
    batch, _ = packed_rows(tiny_tokens(6))
    found = []
    for again in (False, True):
        model = tiny_model(family).train()
        if train == "phase 1":
            freeze(model, FAMILIES[family], frozenset({0}), frozenset({"embeddings", "inserted"}))
        if again:
            recompute_activations(model)
            assert model.is_activation_checkpointing
        module = WithObjective(PackedModel(model, FAMILIES[family]), OBJECTIVES["mlm"])
        torch.manual_seed(0)
        found.append(gradients(model, module(batch)["mlm"].nats))
    assert_same_gradients(*found)
    assert any(float(gradient.abs().max()) > 0.1 for gradient in found[0].values())


@pytest.mark.parametrize("family", ["roberta", "modernbert", "gpt2", "llama"])
def test_a_phase_that_computes_activations_again_ends_in_the_same_weights(
    family, tiny_job, tiny_model, accelerator
):
    ended, objective = [], "clm" if FAMILIES[family].kind == "causal" else "mlm"
    phase = {"objective": objective, "optimizer": {"learning_rate": 0.01, "epsilon": 1e-3}}
    for again in (False, True):
        training = {"gradient_checkpointing": again}
        job = tiny_job(f"{again}", phase=phase, hardware=training, family=FAMILIES[family])
        model = tiny_model(family)
        train_phase(job, model, accelerator)
        assert model.is_activation_checkpointing == again
        ended.append(weights(model))
    torch.testing.assert_close(*ended, atol=1e-6, rtol=1e-5)


def losses(job, model, precision):
    AcceleratorState._reset_state(reset_partial_state=True)
    train_phase(job, model, Accelerator(cpu=True, mixed_precision=precision))
    return np.array([row["loss"] for row in rows_of(job, "train")])


@pytest.mark.usefixtures("accelerator")
def test_the_loss_in_bf16_stays_within_a_band_of_fp32(tiny_job, tiny_model, tiny_tokens):
    phase = {
        "budget": {"value": 60},
        "validation": {"every_steps": 60},
        "optimizer": {"learning_rate": 3e-3},
        "schedule": {"warmup": 0},
    }
    found = []
    for precision in ("no", "bf16"):
        job = tiny_job(precision, phase=phase, train=tiny_tokens(64))
        found.append(losses(job, tiny_model("roberta", **STILL), precision))
    full, half = found
    assert len(full) == len(half) == 60
    assert full[-5:].mean() < 0.88 * full[:5].mean()
    difference = np.abs(half / full - 1)
    assert 0 < difference.max() < BAND
