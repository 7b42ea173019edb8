"""`lingraft show recipe`: the recipes that ship, from a clone as from an installed package."""

from __future__ import annotations

import tomllib
from pathlib import Path

from lingraft.recipe import shipped

ROOT = Path(__file__).parents[2]


def test_without_a_name_all_recipes_are_listed_with_what_they_are(command):
    ended = command("show", "recipe")
    assert ended.status == 0
    listed = [line.split("│")[1].strip() for line in ended.out.splitlines() if "│" in line]
    assert [name for name in listed if name] == list(shipped.files())
    assert list(shipped.files())[:2] == ["start", "demo"]


def test_a_recipe_is_printed_as_it_was_written(command):
    ended = command("show", "recipe", "demo")
    assert ended.out == (ROOT / "recipes/demo.toml").read_text(encoding="utf-8")


def test_the_wheel_takes_the_recipes_to_where_they_are_looked_for():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    taken = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    package = Path(shipped.__file__).parents[1]
    assert package.parent / taken["recipes"] == shipped.PACKAGED


def test_an_installed_package_has_its_own(tmp_path, monkeypatch):
    (tmp_path / "mine.toml").write_text("# One line. And another.\nseed = 1\n", encoding="utf-8")
    monkeypatch.setattr(shipped, "PACKAGED", tmp_path)
    assert shipped.files() == {"mine": tmp_path / "mine.toml"}
    assert shipped.summary(tmp_path / "mine.toml") == "One line"


def test_every_recipe_says_what_it_is():
    assert [name for name, path in shipped.files().items() if not shipped.summary(path)] == []
