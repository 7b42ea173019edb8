"""Budgets on the command line: how they are written, and what is said where there is none."""

from __future__ import annotations

import pytest

from lingraft.commands import budgets
from lingraft.errors import RecipeError
from lingraft.recipe.methods import read_recipe


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5M", 5e6),
        ("300k", 3e5),
        ("1.5B", 1.5e9),
        ("2e6", 2e6),
        ("1,000", 1e3),
        ("1,500,000", 1.5e6),
    ],
)
def test_tokens_are_written_as_people_do(text, number):
    assert budgets.count(text, "--tokens") == number


@pytest.mark.parametrize("text", ["", "M", "-3", "5 apples", "0", "1e", "1,5M", "1,5000"])
def test_what_is_no_number_of_tokens_is_refused(text):
    with pytest.raises(RecipeError, match="write a number above 0"):
        budgets.count(text, "--tokens")


@pytest.mark.parametrize("unit", ["minutes", "hours", "steps"])
def test_an_option_names_its_unit(unit):
    values = dict.fromkeys(("minutes", "hours", "tokens", "steps")) | {unit: 3}
    assert budgets.chosen(values) == {"value": 3, "unit": unit}


ONE, TWO = [{"name": "de"}], [{"name": "de"}, {"name": "fr"}]


@pytest.mark.parametrize(
    ("form", "settings", "more", "preset"),
    [
        ({}, [], {}, "auto"),
        ({"method": "adapters"}, [], {}, "auto"),
        ({"method": "metaxlm"}, [], {}, None),
        ({"method": "untrained"}, [], {}, None),
        ({"method": "no-such-method"}, [], {}, None),
        ({}, ["phases.0.dropout=0"], {}, None),
        ({}, [], {"yes": True}, None),
        ({"streams": ONE}, [], {}, "auto"),
        ({"streams": TWO}, [], {}, None),
        ({}, [], {"joins": True}, None),
    ],
)
def test_auto_is_the_default_where_it_knows_what_to_do(form, settings, more, preset, caplog):
    assert budgets.default_preset(form, settings, **more) == preset
    assert ("not those of 'auto'" in caplog.text) == bool(settings)


@pytest.fixture
def short(tiny_source, korean_text, tmp_path, monkeypatch):
    """The short form without a budget."""
    start = ("adapt", "--source", tiny_source("roberta"), "--text", korean_text, "--lang", "ko")
    return (*start, "--out", tmp_path / "run")


def test_without_a_budget_it_says_what_the_papers_would_take_and_asks(command, short, tmp_path):
    ended = command(*short)
    assert ended.status == 1
    assert "no budget: give --minutes, --hours, --tokens or --steps" in ended.err
    assert "60,000 steps of 256 sentences would take about" in ended.err
    assert "--yes" in ended.err
    assert not (tmp_path / "run").exists()


SEVERAL = ("--method", "metaxlm")


def test_of_other_methods_the_papers_budget_is_not_begun_unasked(
    command, tiny_source, korean_text, tmp_path, monkeypatch
):
    texts = ("--text", f"ko={korean_text}", f"en={korean_text}")
    start = ("adapt", "--source", tiny_source("roberta"), *texts, "--out", tmp_path / "run")
    ended = command(*start, *SEVERAL)
    assert ended.status == 1
    assert "no budget: give --minutes, --hours, --tokens or --steps" in ended.err
    assert "200,000 steps" in ended.err
    assert "(--yes takes them)" in ended.err
    assert not (tmp_path / "run").exists()
    for given in (("--yes",), ("--preset", "metaxlm2021"), ("--steps", 1)):
        ended = command(*start, *SEVERAL, *given, "--set", "corpus.text=['gone']")
        assert "no budget" not in ended.err


def test_a_budget_in_set_is_one(command, short):
    ended = command(*short, "--set", "method.budget={value=1, unit='parsecs'}")
    assert "no budget" not in ended.err
    assert "method.budget.unit" in ended.err


def test_yes_takes_the_papers_preset(command, short, tmp_path):
    two = ("--set", "phases.0.budget.value=1", "--set", "phases.1.budget.value=1")
    small = (*two, "--vocab-size", 300, "--set", "method.batch={size=8, unit='sentences'}")
    ended = command(*short, "--yes", *small)
    assert ended.status == 0, ended.err
    recipe = read_recipe(tmp_path / "run/recipe.toml")
    assert recipe.method.preset == "xpt2021"
    assert [phase.budget.value for phase in recipe.phases] == [1, 1]
    assert not (tmp_path / "run/plan.json").exists()


@pytest.mark.slow
def test_yes_beside_a_budget_changes_nothing(command, short, tmp_path):
    ended = command(*short, "--yes", "--steps", 2, "--batch-tokens", 200, "--vocab-size", 300)
    assert ended.status == 0, ended.err
    assert read_recipe(tmp_path / "run/recipe.toml").method.preset == "auto"


def test_the_short_form_with_steps_is_decided_by_auto(command, short, tmp_path):
    small = ("--set", "graft.embeddings=mean", "--set", "evaluation.words=5")
    ended = command(*short, "--steps", 2, "--batch-tokens", 200, "--vocab-size", 300, *small)
    assert ended.status == 0, ended.err
    recipe = read_recipe(tmp_path / "run/recipe.toml")
    assert (recipe.method.name, recipe.method.preset) == ("xpt-sp", "auto")
    assert [phase.budget.value for phase in recipe.phases] == [2]
    assert "rule one-phase" in ended.err
    again = command(*short, "--steps", 2, "--batch-tokens", 200, "--vocab-size", 300, *small)
    assert again.status == 0, again.err
    assert "plan:" not in again.err
    assert "phase-1: kept" in again.err
