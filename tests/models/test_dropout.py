"""Dropout by bits against its definition and torch's."""

import pytest
import torch
from torch import nn

from lingraft.models.dropout import Dropout, dropout, keep_layers, use_bits

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("p", [0.1, 0.9])
def test_the_share_that_is_dropped_is_p_and_the_rest_is_scaled(dtype, p):
    torch.manual_seed(0)
    count = 1_000_003
    y = dropout(torch.ones(count, dtype=dtype), p)
    dropped = int((y == 0).sum())
    assert abs(dropped - p * count) < 5 * (p * (1 - p) * count) ** 0.5
    assert y[y != 0].unique().tolist() == [pytest.approx(1 / (1 - p), rel=4e-3)]
    assert float(y.double().mean()) == pytest.approx(1, abs=6e-3 / (1 - p))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_gradient_is_that_of_the_same_mask(dtype):
    torch.manual_seed(2)
    x = torch.randn(33, 7, 5, dtype=dtype, requires_grad=True)
    y = dropout(x.transpose(0, 1), 0.4)  # not contiguous
    y.backward(torch.ones_like(y))
    scale = (y / x.transpose(0, 1)).detach().nan_to_num()
    assert torch.allclose(x.grad.transpose(0, 1).float(), scale.float(), rtol=1e-2)
    assert 0 < int((x.grad == 0).sum()) < x.numel()


def test_a_models_dropouts_are_exchanged_and_nothing_else():
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.2), nn.Dropout1d(0.2))
    before = model.state_dict().keys()
    use_bits(model)
    assert [type(module) for module in model] == [nn.Linear, Dropout, nn.Dropout1d]
    assert model.state_dict().keys() == before
    assert model[1].p == 0.2
    x = torch.randn(4, 3)
    assert torch.equal(model[1].eval()(x), x)
    assert not torch.equal(model[1].train()(torch.ones(100)), torch.ones(100))


@pytest.mark.parametrize("family", ["opt", "bart"])
def test_no_layer_is_skipped_in_training(family, tiny_model):
    keys = [key for key in vars(tiny_model(family).config) if key.endswith("layerdrop")]
    assert keys
    model = tiny_model(family, **dict.fromkeys(keys, 0.9)).train()
    drops = [module for module in model.modules() if hasattr(module, "layerdrop")]
    assert {module.layerdrop for module in drops} == {0.9}
    keep_layers(model)
    assert {module.layerdrop for module in drops} == {0.0}
    assert {getattr(model.config, key) for key in keys} == {0.9}  # as the source has it
