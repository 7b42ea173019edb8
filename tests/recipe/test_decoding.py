from __future__ import annotations

import datetime as dt

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


def test_a_recipe_needs_language_source_and_text_only():
    recipe = decode(SMALL)
    assert (recipe.name, recipe.seed, recipe.corpus.text) == ("run", 0, ("ko.txt",))
    assert recipe.phases == ()


def test_to_toml_and_back_gives_an_equal_recipe(tmp_path):
    recipe = decode(SMALL | {"phases": [PHASE], "corpus": {"text": ["가.txt", 'b"c.txt']}})
    path = tmp_path / "recipe.toml"
    path.write_text(to_toml(recipe), encoding="utf-8")
    assert decode(load(path)) == recipe


def test_a_byte_order_mark_before_a_recipe_is_no_part_of_it(tmp_path):
    (tmp_path / "recipe.toml").write_text('language = "ko"\n', encoding="utf-8-sig")
    assert load(tmp_path / "recipe.toml") == {"language": "ko"}


def test_toml_has_no_null_so_what_is_none_is_left_out():
    text = to_toml(decode(SMALL))
    assert "revision" not in text
    assert "None" not in text


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            "tokenizer.vocab_sise",
            9,
            "tokenizer.vocab_sise: no such key. Did you mean 'vocab_size'?",
        ),
        ("graft.zzz", 9, "graft.zzz: no such key. Allowed: source_weights, inserted_before, "),
        ("langauge", "ko", "langauge: no such key. Did you mean 'language'?"),
        ("seed", "1", "seed: must be a whole number; got '1'"),
        ("seed", -1, "seed: must be greater than or equal to 0; got -1"),
        ("name", "a b", "name: must match pattern '^[A-Za-z0-9][A-Za-z0-9._-]*$'; got 'a b'"),
        ("source", "roberta", "source: must be a table; got 'roberta'"),
        ("corpus.text", "ko.txt", "corpus.text: must be a list, such as [\"…\"]; got 'ko.txt'"),
        ("corpus.text", [], "corpus.text: must have at least 1 item, not 0; got []"),
        ("hardware.precision", "int8", "hardware.precision: must be 'auto', 'bf16', 'fp16' or"),
        (
            "training.learning_rate",
            float("nan"),
            "training.learning_rate: must be a finite number; ",
        ),
        ("phases", [PHASE | {"optimzer": {}}], "phases.0.optimzer: no such key. Did you mean 'o"),
        ("phases", [PHASE | {"budget": {}}], "phases.0.budget.value: is missing; the recipe must"),
        ("phases", [PHASE, PHASE], "phases: two phases have the same name, in ['one', 'one']; "),
    ],
)
def test_what_is_wrong_is_said_with_its_path_and_what_is_allowed(path, value, message):
    with pytest.raises(RecipeError) as caught:
        decode(with_value(path, value), "r.toml")
    assert str(caught.value).startswith(f"r.toml: {message}")
    assert "\n" not in str(caught.value)


def test_a_value_that_is_shown_is_cut():
    with pytest.raises(RecipeError) as caught:
        decode(with_value("seed", "x" * 5_000))
    assert len(str(caught.value)) < 200


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


def test_the_last_of_two_overrides_counts():
    assert override({}, ["seed=1", "seed=2"]) == {"seed": 2}


def test_a_date_in_a_recipe_can_be_overridden():
    day = dt.date(2024, 1, 2)
    assert override({"name": day}, ["seed=1"]) == {"name": day, "seed": 1}


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("seed", "seed: write it as path.to.key=value"),
        ("=3", "=3: write it as path.to.key=value"),
        ("phases.2.name=x", "phases.2.name=x: '2' must be an index below 1"),
        ("phases.first.name=x", "phases.first.name=x: 'first' must be an index below 1"),
        ("seed.a=3", "seed.a=3: 'seed' is a value, not a table"),
    ],
)
def test_an_override_that_leads_nowhere_is_refused(assignment, message):
    with pytest.raises(RecipeError) as caught:
        override({"seed": 1, "phases": [{}]}, [assignment])
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such recipe; give the path of a TOML file"),
        (b"name = ", "not valid TOML: Invalid value"),
        ("name = '가'".encode("euc-kr"), "not UTF-8 at byte 8; a recipe is a UTF-8 text file"),
    ],
)
def test_a_file_that_is_no_recipe_is_refused(content, message, tmp_path):
    path = tmp_path / "r.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RecipeError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: {message}")


DEEP, LARGE = "nested more than 32 levels", "is a whole number beyond 64 bits"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a = " + "[" * 1_000 + "]" * 1_000, DEEP),
        ("a = " + "[" * 100_000, DEEP),
        ("a = " + "{a=" * 1_000 + "1" + "}" * 1_000, DEEP),
        (".".join("a" * 1_000) + " = 1", DEEP),
        ("[" + ".".join("a" * 1_000) + "]", DEEP),
        ("seed = " + "9" * 5_000, LARGE),
        ("seed = 9223372036854775808", f"seed: {LARGE}"),
        (
            "[corpus]\nmax_train_sentences = [1, -9223372036854775809]",
            f"corpus.max_train_sentences.1: {LARGE}",
        ),
        ('language = "k\\u0000o"', "language: has a NUL character"),
    ],
)
def test_what_no_recipe_can_mean_is_refused_when_it_is_read(content, message, tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(content)
    with pytest.raises(RecipeError, match=message) as caught:
        load(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [("[" * 1_000 + "]" * 1_000, DEEP), ("9" * 5_000, LARGE), ("9" * 20, LARGE)],
)
def test_what_no_recipe_can_mean_is_refused_as_an_override(value, message):
    with pytest.raises(RecipeError, match=message) as caught:
        override(SMALL, [f"seed={value}"])
    assert len(str(caught.value)) < 250


def test_an_override_of_a_thousand_steps_is_refused():
    with pytest.raises(RecipeError, match=DEEP):
        override(SMALL, [f"{'.'.join('a' * 1_000)}=1"])


@pytest.mark.parametrize("key", ["²", "9" * 5_000, "-1"])
def test_an_index_of_an_override_is_a_plain_number(key):
    with pytest.raises(RecipeError, match="must be an index below 1"):
        override(SMALL, [f"corpus.text.{key}=a"])
