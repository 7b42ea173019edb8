"""Recipes, studies and options that a random hand has changed: valid, or one line that says why."""

from __future__ import annotations

import copy
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings, strategies as some

from lingraft.errors import LingraftError
from lingraft.finetuning.recipe import read_finetune, tasks_of
from lingraft.pipeline.preflight import check
from lingraft.recipe.decoding import checked, load
from lingraft.recipe.methods import read_recipe
from lingraft.study import runner
from lingraft.study.recipe import read_study
from lingraft.tasks.definition import Definition

ROOT = Path(__file__).parents[1]
RECIPES = sorted((ROOT / "recipes").rglob("*.toml"))
EXAMPLES = int(os.environ.get("LINGRAFT_EXAMPLES", "40"))
"""Thousands find the next ones; the default keeps the suite short."""
shortly = settings(
    max_examples=EXAMPLES,
    derandomize="LINGRAFT_EXAMPLES" not in os.environ,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)

large = some.sampled_from([2**31, 2**63 - 1, 2**63, -(2**63), 10**30, 10**400])
numbers = some.one_of(some.integers(-3, 3), large, some.floats())
strings = some.one_of(
    some.text(max_size=8),
    some.sampled_from(
        ["", " ", "\0", "[/]", "[red]", "../..", "/", "~", "~nobody", "hub:", "ko",
         "kor-Hang", "x" * 300,
         "a\nb", "한글", "²", "{", "%s", "recipes", "all", "xpt", "demo/data", "."]
    ),
)  # fmt: skip
plain = some.one_of(numbers, strings, some.booleans(), some.dates(), some.times())


def tables(inner: Any) -> Any:
    return some.one_of(some.lists(inner, max_size=3), some.dictionaries(strings, inner, max_size=3))


values = some.recursive(plain, tables, max_leaves=6)


def places(data: Any, *path: Any) -> list[tuple[Any, ...]]:
    """The path of everything in a table."""
    entries = data.items() if isinstance(data, dict) else enumerate(data)
    found = []
    for key, value in entries:
        found.append((*path, key))
        if isinstance(value, dict | list):
            found += places(value, *path, key)
    return found


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value} if depth % 2 else [value]
    return value


@some.composite
def changed(draw: Any, files: list[Path]) -> tuple[Path, dict[str, Any]]:
    """A shipped file with one to three changes."""
    path = draw(some.sampled_from(files))
    data = tomllib.loads(path.read_text("utf-8"))
    for _ in range(draw(some.integers(1, 3))):
        found = places(data)
        if not found:
            break
        *steps, last = draw(some.sampled_from(found))
        table: Any = data
        for step in steps:
            table = table[step]
        change = draw(some.sampled_from(["delete", "replace", "replace", "add", "deep"]))
        if change == "delete":
            del table[last]
        elif change == "replace":
            table[last] = draw(values)
        elif change == "deep":
            table[last] = nested(draw(some.sampled_from([5, 31, 32, 33, 100])))
        elif isinstance(table, dict):
            table[draw(strings)] = copy.deepcopy(draw(values))
    return path, data


def is_valid_or_one_line(call: Any) -> None:
    said = "valid"
    try:
        call()
    except LingraftError as error:
        said = str(error)
    assert len(said.splitlines()) == 1, said


def read_and_plan(path: Path) -> None:
    """What the light commands do with a file."""
    data = load(path)
    if "grids" in data or "base" in data:
        runner.plan(read_study(path), path.parent)
    elif "finetune" in data:
        tasks_of(*read_finetune(path))
    elif "kind" in data:
        checked(Definition, data, str(path))
    else:
        check(read_recipe(path))


@pytest.fixture
def placed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where the shipped paths are good."""
    monkeypatch.chdir(ROOT)
    return tmp_path


@shortly
@given(case=changed(RECIPES))
def test_a_shipped_recipe_that_is_changed_at_random_is_valid_or_one_line(case, placed):
    path, data = case
    copy_path = placed / path.name
    try:
        text = tomli_w.dumps(data)
        copy_path.write_text(text.replace('base = "', f'base = "{path.parent}/'), "utf-8")
    except (UnicodeEncodeError, ValueError, RecursionError):  # what no file can hold
        return
    is_valid_or_one_line(lambda: read_and_plan(copy_path))


XPT = "recipes/demo-xpt.toml"
DEMO = tomllib.loads((ROOT / XPT).read_text("utf-8"))
PATHS = [".".join(map(str, path)) for path in places(DEMO)]


@shortly
@given(
    path=some.one_of(some.sampled_from([*PATHS, "phases.0.budget.value"]), strings),
    value=some.one_of(values.map(str), values.map(repr), strings),
)
def test_any_override_is_valid_or_one_line(path, value, placed):
    is_valid_or_one_line(lambda: check(read_recipe(Path(XPT), [f"{path}={value}"])))
