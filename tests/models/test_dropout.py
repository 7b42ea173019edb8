"""Dropout by bits against its definition and torch's."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from lingraft.models.dropout import Dropout, dropout, keep_layers, use_bits

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_share_that_is_dropped_is_p_and_the_rest_is_scaled(dtype, p):
    torch.manual_seed(0)
    count = 1_000_003
    y = dropout(torch.ones(count, dtype=dtype), p)
    dropped = int((y == 0).sum())
    assert abs(dropped - p * count) < 5 * (p * (1 - p) * count) ** 0.5
    assert y[y != 0].unique().tolist() == [pytest.approx(1 / (1 - p), rel=4e-3)]
    assert float(y.double().mean()) == pytest.approx(1, abs=6e-3 / (1 - p))


def test_neighbours_are_dropped_independently():
    torch.manual_seed(1)
    kept = (dropout(torch.ones(400_000), 0.3) != 0).double() - 0.7
    for lag in range(1, 9):  # four numbers share 64 random bits
        assert abs(float((kept[:-lag] * kept[lag:]).mean())) < 5 * 0.21 / 400_000**0.5


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_gradient_is_that_of_the_same_mask(dtype):
    torch.manual_seed(2)
    x = torch.randn(33, 7, 5, dtype=dtype, requires_grad=True)
    y = dropout(x.transpose(0, 1), 0.4)  # not contiguous
    y.backward(torch.ones_like(y))
    scale = (y / x.transpose(0, 1)).detach().nan_to_num()
    assert torch.allclose(x.grad.transpose(0, 1).float(), scale.float(), rtol=1e-2)
    assert 0 < int((x.grad == 0).sum()) < x.numel()


def test_the_seed_of_torch_decides():
    x = torch.ones(1_000)

    def drawn(seed):
        torch.manual_seed(seed)
        return dropout(x, 0.5), dropout(x, 0.5)

    first, second = drawn(3)
    assert torch.equal(first, drawn(3)[0])
    assert torch.equal(second, drawn(3)[1])
    assert not torch.equal(first, second)
    assert not torch.equal(first, drawn(4)[0])


def test_what_is_dropped_is_zero_whatever_it_was():
    y = dropout(torch.full((1_000,), torch.inf), 0.5)
    assert set(y.tolist()) == {0.0, torch.inf}


@pytest.mark.parametrize("p", [0.0, 1.0, 1e-6])
def test_shares_that_bits_do_not_reach_are_left_to_torch(p):
    x = torch.randn(100)
    assert torch.allclose(dropout(x, p), x * (p < 1))


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


def test_activations_computed_again_see_the_same_mask():
    x = torch.randn(50, 50, requires_grad=True)
    layer = Dropout(0.5)
    gradients = []
    for again in (False, True):
        torch.manual_seed(5)
        y = (
            checkpoint(lambda x: layer(x).square(), x, use_reentrant=False)
            if again
            else layer(x).square()
        )
        gradients.append(torch.autograd.grad(y.sum(), x)[0])
    assert torch.equal(*gradients)


@pytest.mark.parametrize("family", ["opt", "xglm", "m2m_100", "bart"])
def test_no_layer_is_skipped_in_training(family, tiny_model):
    keys = [key for key in vars(tiny_model(family).config) if key.endswith("layerdrop")]
    assert keys
    model = tiny_model(family, **dict.fromkeys(keys, 0.9)).train()
    drops = [module for module in model.modules() if hasattr(module, "layerdrop")]
    assert {module.layerdrop for module in drops} == {0.9}
    keep_layers(model)
    assert {module.layerdrop for module in drops} == {0.0}
    assert {getattr(model.config, key) for key in keys} == {0.9}  # as the source has it
