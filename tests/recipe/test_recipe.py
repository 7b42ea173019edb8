from __future__ import annotations

from typing import get_args

import pytest
import script_modules
from pydantic import ValidationError

from lingraft import recipe as recipes
from lingraft.errors import RecipeError
from lingraft.recipe import Masking, Optimizer, Section
from lingraft.recipe.base import READ_PAIRS
from lingraft.recipe.decoding import decode, load, override, to_toml
from lingraft.recipe.records import PRESETS

PHASE = {"name": "one", "train": ["all"], "budget": {"value": 3}}
CLASSES = [item for item in vars(recipes).values() if isinstance(item, type)]
SECTIONS = [item for item in CLASSES if issubclass(item, Section) and item is not Section]


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
    pages = script_modules.load("reference_pages")
    assert section.model_fields.keys() == pages.docstrings(section).keys()


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
    trained = ("embeddings", "output_bias", "inserted")
    assert PRESETS["xpt2021"].first_phase == trained
    assert PRESETS["chameleon2022"].first_phase == (*trained, "positions", "head")


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_a_budget_is_finite_and_above_zero(value):
    with pytest.raises(ValidationError):
        recipes.Budget(value=value)


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


SMALL = {"language": "ko", "source": {"model": "m"}, "corpus": {"text": ["ko.txt"]}}


def with_value(path, value):
    """The small recipe with one more value."""
    return override(SMALL, []) | {path.partition(".")[0]: nested(path.partition(".")[2], value)}


def nested(path, value):
    return {path: value} if path else value


def test_to_toml_and_back_gives_an_equal_recipe(tmp_path):
    recipe = decode(SMALL | {"phases": [PHASE], "corpus": {"text": ["가.txt", 'b"c.txt']}})
    path = tmp_path / "recipe.toml"
    path.write_text(to_toml(recipe), "utf-8")
    assert decode(load(path)) == recipe


def test_a_byte_order_mark_before_a_recipe_is_no_part_of_it(tmp_path):
    (tmp_path / "recipe.toml").write_text('language = "ko"\n', encoding="utf-8-sig")
    assert load(tmp_path / "recipe.toml") == {"language": "ko"}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("tokenizer.vocab_sise", 9, "tokenizer.vocab_sise: no such key. Did you mean 'vocab_size"),
        ("graft.zzz", 9, "graft.zzz: no such key. Allowed: source_weights, inserted_before, "),
        ("seed", "1", "seed: must be a valid integer; got '1'"),
        ("source", "roberta", "source: must be a valid dictionary or instance of Source"),
        ("phases", [PHASE | {"optimzer": {}}], "phases.0.optimzer: no such key. Did you mean 'o"),
        ("phases", [PHASE | {"budget": {}}], "phases.0.budget.value: Field required"),
        ("phases", [PHASE, PHASE], "phases: 'one' names two folders"),
        ("phases", [PHASE | {"name": "corpus"}], "phases: 'corpus' names two folders"),
        ("baselines", [{"method": "scratch"}] * 2, "baselines: 'scratch' is there twice"),
    ],
)
def test_what_is_wrong_is_said_with_its_path_and_what_is_allowed(path, value, message):
    with pytest.raises(RecipeError) as caught:
        decode(with_value(path, value), "r.toml")
    assert str(caught.value).startswith(f"r.toml: {message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("3.5", 3.5),
        ("true", True),
        ("[1, 2]", [1, 2]),
        ('"3"', "3"),
        ("{size = 3}", {"size": 3}),
        ("a bare word", "a bare word"),
        ("a=b", "a=b"),
        ("/some/path", "/some/path"),
        ("", ""),
    ],
)
def test_an_overriding_value_is_toml_or_else_a_string(text, value):
    assert override({}, [f"key={text}"]) == {"key": value}


def test_overrides_make_tables_and_change_lists_in_place():
    data = {"phases": [{"budget": {"value": 1}}, {"budget": {"value": 2}}]}
    changed = override(data, ["phases.1.budget='9 steps'", "graft.inserted_before = 2", "seed=1"])
    assert changed["phases"] == [{"budget": {"value": 1}}, {"budget": "9 steps"}]
    assert changed["graft"] == {"inserted_before": 2}
    assert changed["seed"] == 1
    assert data == {"phases": [{"budget": {"value": 1}}, {"budget": {"value": 2}}]}


@pytest.mark.parametrize(
    "assignment", ["seed", "=3", "phases.2.name=x", "phases.first.name=x", "seed.a=3"]
)
def test_an_override_that_leads_nowhere_is_refused(assignment):
    with pytest.raises(RecipeError, match=f"^{assignment}: "):
        override({"seed": 1, "phases": [{}]}, [assignment])


DEEP, LARGE = "nested more than 32 levels", "is a whole number beyond 64 bits"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read as a recipe"),
        ("name = ", "cannot be read as a recipe"),
        ("name = '가'", "cannot be read as a recipe"),  # not UTF-8
        ("a = " + "[" * 100_000, "cannot be read"),
        ("[" + ".".join("a" * 1_000) + "]", DEEP),
        ("seed = " + "9" * 5_000, "cannot be read"),
        ("[corpus]\nlimits = [1, -9223372036854775809]", f"corpus.limits.1: {LARGE}"),
        ('language = "k\\u0000o"', "language: has a NUL character"),
    ],
)
def test_what_no_recipe_can_mean_is_refused_when_it_is_read(content, message, tmp_path):
    path = tmp_path / "recipe.toml"
    if content is not None:
        path.write_bytes(content.encode("euc-kr"))
    with pytest.raises(RecipeError, match=message) as caught:
        load(path)
    assert "\n" not in str(caught.value)
