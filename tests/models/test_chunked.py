"""The head some tokens at a time: loss and gradients of the plain loss, and no logits of all."""

import pytest
import torch

from lingraft.models import chunked
from lingraft.models.chunked import chunked_cross_entropy
from lingraft.models.families import FAMILIES
from lingraft.models.losses import IGNORED, summed_cross_entropy
from lingraft.models.stacks import packed_model

HEADS = ["llama", "gemma2", "cohere2", "granite", "phi", "roberta"]
"""Heads with a cap, a factor, a divisor, a bias, and of several modules."""


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


@pytest.mark.parametrize("family", HEADS)
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
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        torch.testing.assert_close(
            chunked_cross_entropy(packed, x, targets), expected, rtol=1e-3, atol=1e-3
        )
    torch.testing.assert_close(nats, expected, rtol=1e-5 if not bf16 else 1e-3, atol=1e-3)
    assert ours.keys() == plain.keys()
    for name, gradient in plain.items():
        scale = float(gradient.abs().max())
        rtol = 2e-2 if bf16 else 1e-4
        torch.testing.assert_close(ours[name], gradient, rtol=rtol, atol=rtol * scale, msg=name)


def test_logits_that_are_ever_there_at_once_are_bounded(tiny_model, monkeypatch):
    monkeypatch.setattr(chunked, "LOGITS_AT_ONCE", 448 * 64)
    packed = packed_model(tiny_model("llama"), FAMILIES["llama"])
    x, targets = drawn(packed.model, 500)
    seen, head = [], packed.head
    monkeypatch.setattr(packed, "head", lambda x: seen.append(len(x)) or head(x))
    chunked_cross_entropy(packed, x.requires_grad_(), targets).backward()
    assert sum(seen) == 500
    assert max(seen) * packed.model.config.vocab_size <= chunked.LOGITS_AT_ONCE
