import math

import pytest
import torch
from torch import nn

from lingraft.recipe import Optimizer, Schedule
from lingraft.training.trained import Trained, clip, learning_rate_factor


def factors(schedule, warmup, steps=100):
    return [learning_rate_factor((i + 0.5) / steps, schedule, warmup) for i in range(steps)]


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


def test_the_constant_rate_stays_after_the_warm_up():
    values = factors(Schedule(shape="constant"), 0.1)
    assert values[:10] == pytest.approx([(i + 0.5) / 10 for i in range(10)])
    assert values[10:] == [1.0] * 90


@pytest.mark.parametrize(("decay", "floor"), [(0.1, 0.0), (0.25, 0.2)])
def test_the_rate_stays_and_falls_in_a_line_in_the_last_share(decay, floor):
    schedule = Schedule(shape="wsd", decay=decay, floor=floor)
    for done in (0.05, 0.1, 0.5, 1 - decay, 1 - decay / 2, 0.99, 1.0):
        fall = max(0.0, 1 - (1 - done) / decay)
        expected = min(done / 0.1, 1.0) * (1 - (1 - floor) * fall)
        assert learning_rate_factor(done, schedule, 0.1) == pytest.approx(expected, abs=1e-12)


def test_a_long_warm_up_leaves_the_rest_of_the_phase_to_the_fall():
    schedule = Schedule(shape="wsd", decay=0.5)
    values = [learning_rate_factor(done, schedule, 0.8) for done in (0.4, 0.8, 0.9, 1.0)]
    assert values == pytest.approx([0.5, 1.0, 0.5, 0.0])


def test_a_decay_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="'decay' is of shape = 'wsd', not 'linear'; leave it out"):
        Schedule(decay=0.2)


@pytest.mark.parametrize("shape", ["linear", "cosine", "constant", "wsd"])
def test_the_rate_is_never_negative_and_never_above_its_peak(shape):
    values = factors(Schedule(shape=shape), 0.06)
    assert min(values) > 0
    assert max(values) <= 1
    assert learning_rate_factor(1.3, Schedule(shape=shape), 0.06) in (0.0, 1.0)


@pytest.mark.parametrize("shape", ["linear", "cosine", "wsd"])
def test_without_warm_up_the_rate_only_falls(shape):
    values = factors(Schedule(shape=shape), 0.0)
    assert values == sorted(values, reverse=True)
    assert values[0] == pytest.approx(1.0, abs=0.01)


def test_weight_decay_spares_biases_and_norms():
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Embedding(5, 4))
    optimizer = Trained(model).optimizer(Optimizer(weight_decay=0.3))
    decayed, spared = optimizer.param_groups
    assert {id(p) for p in decayed["params"]} == {id(model[0].weight), id(model[2].weight)}
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.3, 0.0)
    assert len(spared["params"]) == 3


def test_frozen_parameters_are_not_given_to_the_optimizer():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5))
    model[0].requires_grad_(False)
    optimizer = Trained(model).optimizer(Optimizer())
    known = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert known == {id(p) for p in model[1].parameters()}


def test_the_settings_of_the_recipe_reach_the_optimizer():
    section = Optimizer(learning_rate=0.02, betas=(0.8, 0.95), epsilon=1e-3)
    for group in Trained(nn.Linear(2, 2)).optimizer(section).param_groups:
        assert (group["lr"], group["betas"], group["eps"]) == (0.02, (0.8, 0.95), 1e-3)


def parameters_with_gradients():
    parameters = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))]
    parameters[0].grad, parameters[1].grad = torch.tensor([3.0, 0.0]), torch.tensor([4.0])
    return parameters


def test_clipping_scales_the_global_norm_and_reports_the_norm_before():
    parameters = parameters_with_gradients()
    assert float(clip(parameters, 1.0)) == pytest.approx(5.0)
    assert parameters[0].grad.tolist() == pytest.approx([0.6, 0.0], rel=1e-4)
    assert parameters[1].grad.tolist() == pytest.approx([0.8], rel=1e-4)


@pytest.mark.parametrize("max_norm", [None, 6.0])
def test_gradients_within_the_norm_are_left_alone(max_norm):
    parameters = parameters_with_gradients()
    assert float(clip(parameters, max_norm)) == pytest.approx(5.0)
    assert parameters[0].grad.tolist() == [3.0, 0.0]


def test_parameters_without_gradient_do_not_count():
    parameters = [*parameters_with_gradients(), nn.Parameter(torch.ones(3))]
    assert float(clip(parameters, None)) == pytest.approx(5.0)
