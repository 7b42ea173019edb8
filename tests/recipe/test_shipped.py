"""`lingraft show recipe`: the recipes that ship, from a clone as from an installed package."""

from __future__ import annotations

import tomllib
from pathlib import Path

from lingraft.recipe import catalogue

ROOT = Path(__file__).parents[2]


def test_the_wheel_takes_the_recipes_to_where_they_are_looked_for():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    taken = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    package = Path(catalogue.__file__).parents[1]
    assert package.parent / taken["recipes"] == catalogue.PACKAGED
