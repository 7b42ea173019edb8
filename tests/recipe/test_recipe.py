from __future__ import annotations

from typing import get_args

import pytest
from pydantic import ValidationError
from script_modules import load

from lingraft import recipe as recipes
from lingraft.recipe import Masking, Optimizer, Recipe, Section
from lingraft.recipe.base import READ_PAIRS
from lingraft.recipe.records import PRESETS

PHASE = {"name": "one", "train": ["all"], "budget": {"value": 3}}
SECTIONS = [
    item
    for item in vars(recipes).values()
    if isinstance(item, type) and issubclass(item, Section) and item is not Section
]


def test_the_names_in_recipes_are_those_of_the_tables():
    from lingraft.models.embeddings import INITIALIZERS
    from lingraft.training.objectives import OBJECTIVES

    assert set(get_args(recipes.Initializer)) == set(INITIALIZERS)
    assert set(get_args(recipes.Objective)) == set(OBJECTIVES)
    pairs = {name for name, objective in OBJECTIVES.items() if "pairs" in objective.reads}
    assert set(READ_PAIRS) == pairs
    preset, none = get_args(recipes.Training.model_fields["preset"].annotation)
    assert set(get_args(preset)) == set(PRESETS)
    assert none is type(None)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_every_field_says_what_it_is(section):
    assert section.model_fields.keys() == load("reference_pages").docstrings(section).keys()


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_a_section_takes_no_unknown_key(section):
    with pytest.raises(ValidationError, match="nothing_of_ours"):
        section.model_validate({"nothing_of_ours": 1})


def test_defaults_are_the_papers_values():
    assert Masking() == Masking(rate=0.15, scheme="bert")
    optimizer = Optimizer()
    assert (optimizer.betas, optimizer.epsilon, optimizer.weight_decay) == ((0.9, 0.98), 1e-6, 0.01)
    assert optimizer.max_gradient_norm is None
    assert recipes.Batch() == recipes.Batch(size=256, unit="sentences")
    graft = recipes.Graft()
    assert (graft.inserted_before, graft.inserted_after) == (1, 1)
    assert recipes.Embeddings().init == "random"
    assert recipes.Tokenizer().vocab_size == 50_000


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_a_budget_is_finite_and_above_zero(value):
    with pytest.raises(ValidationError):
        recipes.Budget(value=value)


@pytest.mark.parametrize("name", ["corpus", "report"])
def test_a_phase_cannot_take_a_stages_folder(name):
    data = {"language": "ko", "source": {"model": "m"}, "corpus": {"text": ["a"]}}
    with pytest.raises(ValidationError, match=f"phases: '{name}' names two folders"):
        Recipe.model_validate(data | {"phases": [PHASE | {"name": name}]})


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        *(("8h", 8, "hours"), ("30m", 30, "minutes"), ("5Mtok", 5_000_000, "tokens")),
        *(("300k tok", 300_000, "tokens"), ("5e6 tokens", 5_000_000, "tokens")),
        *(("300steps", 300, "steps"), ("2 epochs", 2, "epochs"), ("0.1 minutes", 0.1, "minutes")),
    ],
)
def test_amounts_are_read_as_people_write_them_and_written_as_they_read(text, value, unit):
    budget = recipes.Budget.model_validate(text)
    assert (budget.value, budget.unit) == (value, unit)
    written = budget.model_dump(mode="json")
    assert isinstance(written, str)
    assert recipes.Budget.model_validate(written) == budget
