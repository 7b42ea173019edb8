"""What of a budget in time is left for a phase."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from lingraft.errors import RecipeError
from lingraft.pipeline import ending
from lingraft.recipe import Budget, Phase


@pytest.fixture
def run_of(monkeypatch):
    """A run of so many minutes, 20 s after it began; evaluating takes 30 s, exporting 10 s."""
    monkeypatch.setattr(ending, "evaluated_tokens", lambda _: 30_000)
    monkeypatch.setattr(ending, "exporting", lambda _: 10.0)

    def made(*minutes, baselines=(), processes=1):
        phases = [Phase(name=f"p{n}", budget=Budget(value=one, unit="minutes"), train=["all"])
                  for n, one in enumerate(minutes)]  # fmt: skip
        return SimpleNamespace(
            recipe=SimpleNamespace(phases=phases, baselines=baselines),
            clock=SimpleNamespace(seconds=60.0 * sum(minutes), passed=lambda: 20.0),
            accelerator=SimpleNamespace(num_processes=processes),
        )

    return made


LOOK = (5.0, 5_000)  # a millisecond a token


def test_what_comes_after_training_is_held_back(run_of):
    assert ending.allowance(run_of(5), 0, 0.0)(*LOOK) == 300 - 20 - 30 - 10 - 5


def test_phases_share_what_is_left_by_their_budgets(run_of):
    both = run_of(2, 3)
    left = 300 - 20 - 30 - 10 - 5
    assert ending.allowance(both, 0, 0.0)(*LOOK) == pytest.approx(left * 2 / 5)
    assert ending.allowance(both, 1, 0.0)(*LOOK) == pytest.approx(left)


def test_baselines_train_as_long_and_are_evaluated_too(run_of):
    left = 300 - 20 - 3 * 30 - 10 - 5
    assert ending.allowance(run_of(5, baselines=("a", "b")), 0, 0.0)(*LOOK) == left / 3


def test_one_process_evaluates_what_several_look_at(run_of):
    assert ending.allowance(run_of(5, processes=2), 0, 0.0)(*LOOK) == 300 - 20 - 60 - 10 - 5


def test_a_budget_that_leaves_no_time_says_the_least_that_would_do(run_of):
    with pytest.raises(RecipeError, match=r"1 minutes are too few here: .* at least 2 minutes"):
        ending.allowance(run_of(1), 0, 0.0)(*LOOK)
    assert ending.allowance(run_of(1), 0, 30.0)(*LOOK) == 0.6  # its schedule still ends


def test_a_phase_by_itself_has_its_own_budget():
    phase = Phase(name="p", budget=Budget(value=2, unit="minutes"), train=["all"])
    context = SimpleNamespace(recipe=SimpleNamespace(phases=[phase]), clock=None)
    assert ending.allowance(context, 0, 0.0)(*LOOK) == 120
