import math

import pytest
import torch
from torch import nn

from lingraft.recipe import Optimizer, Schedule
from lingraft.training.trained import Trained, clip, learning_rate_factor


def test_the_rate_rises_in_a_line_and_falls_to_zero_in_a_line():
    schedule = Schedule(shape="linear")
    assert learning_rate_factor(0.0, schedule, 0.2) == 0
    assert learning_rate_factor(0.1, schedule, 0.2) == pytest.approx(0.5)
    assert learning_rate_factor(0.2, schedule, 0.2) == pytest.approx(1.0)
    assert learning_rate_factor(0.6, schedule, 0.2) == pytest.approx(0.5)
    assert learning_rate_factor(1.0, schedule, 0.2) == 0


def test_the_cosine_falls_in_half_a_period():
    schedule = Schedule(shape="cosine")
    for share in (0.2, 0.4, 0.6, 0.8, 1.0):
        expected = 0.5 * (1 + math.cos(math.pi * (share - 0.2) / 0.8))
        assert learning_rate_factor(share, schedule, 0.2) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("decay", "floor"), [(0.1, 0.0), (0.25, 0.2)])
def test_the_rate_stays_and_falls_in_a_line_in_the_last_share(decay, floor):
    schedule = Schedule(shape="wsd", decay=decay, floor=floor)
    for done in (0.05, 0.1, 0.5, 1 - decay, 1 - decay / 2, 0.99, 1.0):
        fall = max(0.0, 1 - (1 - done) / decay)
        expected = min(done / 0.1, 1.0) * (1 - (1 - floor) * fall)
        assert learning_rate_factor(done, schedule, 0.1) == pytest.approx(expected, abs=1e-12)


def test_weight_decay_spares_biases_and_norms():
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Embedding(5, 4))
    optimizer = Trained(model).optimizer(Optimizer(weight_decay=0.3))
    decayed, spared = optimizer.param_groups
    assert {id(p) for p in decayed["params"]} == {id(model[0].weight), id(model[2].weight)}
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.3, 0.0)
    assert len(spared["params"]) == 3


def parameters_with_gradients():
    parameters = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))]
    parameters[0].grad, parameters[1].grad = torch.tensor([3.0, 0.0]), torch.tensor([4.0])
    return parameters


def test_clipping_scales_the_global_norm_and_reports_the_norm_before():
    parameters = parameters_with_gradients()
    assert float(clip(parameters, 1.0)) == pytest.approx(5.0)
    assert parameters[0].grad.tolist() == pytest.approx([0.6, 0.0], rel=1e-4)
    assert parameters[1].grad.tolist() == pytest.approx([0.8], rel=1e-4)
