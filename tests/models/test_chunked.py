"""The head some tokens at a time: loss and gradients of the plain loss, and no logits of all."""

import sys
import types

import pytest
import torch

from lingraft.models import chunked
from lingraft.models.chunked import chunk_size, chunked_cross_entropy, loss_and_slope
from lingraft.models.families import FAMILIES
from lingraft.models.losses import IGNORED, summed_cross_entropy
from lingraft.models.stacks import packed_model

CAUSAL = [name for name, record in FAMILIES.items() if record.kind == "causal"]


def drawn(model, number=200, seed=3):
    """Hidden states and targets, of which some are not to be predicted."""
    generator = torch.Generator().manual_seed(seed)
    config = model.config
    width = model.get_input_embeddings().weight.shape[1]
    x = torch.randn(number, width, generator=generator)
    targets = torch.randint(0, config.vocab_size, (number,), generator=generator)
    targets[5] = IGNORED
    targets[-30:] = IGNORED
    return x, targets


def gradients(model, nats, x):
    (nats * 0.25).backward()
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return found | {"x": x.grad}


@pytest.mark.parametrize("family", [*CAUSAL, "roberta"])
@pytest.mark.parametrize("bf16", [False, True], ids=["fp32", "bf16"])
def test_loss_and_gradients_are_those_of_the_plain_loss(family, bf16, tiny_model, monkeypatch):
    monkeypatch.setattr(chunked, "chunk_size", lambda vocabulary: 64)
    found = []
    for ours in (True, False):
        packed = packed_model(tiny_model(family), FAMILIES[family])
        x, targets = drawn(packed.model)
        x.requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            nats = (
                chunked_cross_entropy(packed, x, targets)
                if ours
                else summed_cross_entropy(packed.head(x), targets)
            )
        found.append((nats, gradients(packed.model, nats, x)))
    (nats, ours), (expected, plain) = found
    torch.testing.assert_close(nats, expected, rtol=1e-5 if not bf16 else 1e-3, atol=1e-3)
    assert ours.keys() == plain.keys()
    for name, gradient in plain.items():
        scale = float(gradient.abs().max())
        rtol = 2e-2 if bf16 else 1e-4
        torch.testing.assert_close(ours[name], gradient, rtol=rtol, atol=rtol * scale, msg=name)


@pytest.mark.parametrize("part", ["head", "below"])
def test_what_is_frozen_has_no_gradient(part, tiny_model):
    model = tiny_model("llama", tie_word_embeddings=False)
    packed = packed_model(model, FAMILIES["llama"])
    x, targets = drawn(model)
    x.requires_grad_(part == "head")
    model.lm_head.requires_grad_(part == "below")
    chunked_cross_entropy(packed, x, targets).backward()
    assert (x.grad is None) == (part == "below")
    assert (model.lm_head.weight.grad is None) == (part == "head")


def test_without_gradients_it_is_the_same_number(tiny_model, monkeypatch):
    monkeypatch.setattr(chunked, "chunk_size", lambda vocabulary: 64)
    packed = packed_model(tiny_model("llama"), FAMILIES["llama"])
    x, targets = drawn(packed.model)
    with torch.no_grad():
        found = chunked_cross_entropy(packed, x, targets)
        expected = summed_cross_entropy(packed.head(x), targets)
    torch.testing.assert_close(found, expected)


def test_logits_that_are_ever_there_at_once_are_bounded(tiny_model, monkeypatch):
    monkeypatch.setattr(chunked, "LOGITS_AT_ONCE", 448 * 64)
    packed = packed_model(tiny_model("llama"), FAMILIES["llama"])
    x, targets = drawn(packed.model, 500)
    seen, head = [], packed.head
    monkeypatch.setattr(packed, "head", lambda x: seen.append(len(x)) or head(x))
    chunked_cross_entropy(packed, x.requires_grad_(), targets).backward()
    assert sum(seen) == 500
    assert max(seen) * packed.model.config.vocab_size <= chunked.LOGITS_AT_ONCE


def test_chunks_of_a_large_vocabulary_hold_few_tokens_and_one_at_least():
    assert [chunk_size(v) for v in (151_936, 50_000, 8_000)] == [192, 640, 4_160]
    assert chunk_size(10**9) == 64


def test_the_slope_is_the_gradient_of_the_loss():
    generator = torch.Generator().manual_seed(0)
    logits = (torch.randn(7, 11, generator=generator) * 30).requires_grad_()
    targets = torch.tensor([0, 3, IGNORED, 10, 5, 5, 1])
    nats, slope = loss_and_slope(logits.detach(), targets)
    expected = summed_cross_entropy(logits, targets)
    expected.backward()
    torch.testing.assert_close(nats, expected)
    torch.testing.assert_close(slope, logits.grad)


def test_the_packaged_kernel_gets_the_matrix_the_cap_and_scaled_states(tiny_model, monkeypatch):
    """It runs on GPUs alone: here a stand-in that computes what its documentation says."""

    class Kernel:
        def __init__(self, ignore_index, reduction, softcap):
            assert (ignore_index, reduction) == (IGNORED, "sum")
            self.softcap = softcap

        def __call__(self, weight, x, targets):
            logits = x @ weight.T
            if self.softcap is not None:
                logits = torch.tanh(logits / self.softcap) * self.softcap
            return summed_cross_entropy(logits, targets)

    module = types.ModuleType("liger_kernel.transformers")
    module.LigerFusedLinearCrossEntropyLoss = Kernel
    monkeypatch.setitem(sys.modules, "liger_kernel.transformers", module)
    for family in (name for name in CAUSAL if not FAMILIES[name].output_bias):
        packed = packed_model(tiny_model(family), FAMILIES[family])
        weight = packed.model.get_submodule(packed.family.head[0]).weight
        x, targets = drawn(packed.model)
        found = chunked._fused(packed, weight, x, targets)
        torch.testing.assert_close(found, summed_cross_entropy(packed.head(x), targets))


def test_the_packaged_kernel_is_not_taken_on_a_cpu(tiny_model):
    packed = packed_model(tiny_model("llama"), FAMILIES["llama"])
    assert chunked.fused_weight(packed, torch.device("cpu")) is None
