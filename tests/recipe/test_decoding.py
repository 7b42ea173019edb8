from __future__ import annotations

import pytest

from lingraft.errors import RecipeError
from lingraft.recipe.decoding import decode, load, override, to_toml

SMALL = {"language": "ko", "source": {"model": "m"}, "corpus": {"text": ["ko.txt"]}}
PHASE = {"name": "one", "train": ["all"], "budget": {"value": 3}}


def with_value(path, value):
    """The small recipe with one more value."""
    return override(SMALL, []) | {path.partition(".")[0]: nested(path.partition(".")[2], value)}


def nested(path, value):
    return {path: value} if path else value


def test_to_toml_and_back_gives_an_equal_recipe(tmp_path):
    recipe = decode(SMALL | {"phases": [PHASE], "corpus": {"text": ["가.txt", 'b"c.txt']}})
    path = tmp_path / "recipe.toml"
    path.write_text(to_toml(recipe), encoding="utf-8")
    assert decode(load(path)) == recipe


def test_a_byte_order_mark_before_a_recipe_is_no_part_of_it(tmp_path):
    (tmp_path / "recipe.toml").write_text('language = "ko"\n', encoding="utf-8-sig")
    assert load(tmp_path / "recipe.toml") == {"language": "ko"}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            "tokenizer.vocab_sise",
            9,
            "tokenizer.vocab_sise: no such key. Did you mean 'vocab_size'?",
        ),
        ("graft.zzz", 9, "graft.zzz: no such key. Allowed: source_weights, inserted_before, "),
        ("seed", "1", "seed: must be a valid integer; got '1'"),
        ("source", "roberta", "source: must be a valid dictionary or instance of Source"),
        ("phases", [PHASE | {"optimzer": {}}], "phases.0.optimzer: no such key. Did you mean 'o"),
        ("phases", [PHASE | {"budget": {}}], "phases.0.budget.value: Field required"),
        ("phases", [PHASE, PHASE], "phases: 'one' names two folders"),
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


@pytest.mark.parametrize("content", [None, b"name = ", "name = '가'".encode("euc-kr")])
def test_a_file_that_is_no_recipe_is_refused(content, tmp_path):
    path = tmp_path / "r.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RecipeError, match=f"^{path}: cannot be read as a recipe"):
        load(path)


DEEP, LARGE = "nested more than 32 levels", "is a whole number beyond 64 bits"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a = " + "[" * 100_000, "cannot be read"),
        ("[" + ".".join("a" * 1_000) + "]", DEEP),
        ("seed = " + "9" * 5_000, "cannot be read"),
        ("[corpus]\nlimits = [1, -9223372036854775809]", f"corpus.limits.1: {LARGE}"),
        ('language = "k\\u0000o"', "language: has a NUL character"),
    ],
)
def test_what_no_recipe_can_mean_is_refused_when_it_is_read(content, message, tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(content)
    with pytest.raises(RecipeError, match=message) as caught:
        load(path)
    assert "\n" not in str(caught.value)
