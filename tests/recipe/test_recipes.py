"""The recipes that ship: each parses, expands, checks, and names the papers' values.

`lingraft show recipe`: the recipes that ship, from a clone as from an installed package.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from lingraft.corpus.readers import documents
from lingraft.corpus.readers.lines import Counts
from lingraft.errors import DataError
from lingraft.pipeline import completing, preflight
from lingraft.recipe import catalogue
from lingraft.recipe.decoding import load, to_toml
from lingraft.recipe.methods import as_written, read_recipe

ROOT = Path(__file__).parents[2]
# A study's recipe is a grid over one of these; tests/study reads them.
RECIPES = sorted(path for path in (ROOT / "recipes").glob("*.toml") if "base" not in load(path))


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch):
    monkeypatch.chdir(ROOT)


def complete(path):
    recipe = read_recipe(path)
    here = Path(recipe.source.model or "").is_dir()
    return completing.complete(recipe).recipe if here else recipe


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_that_ships_expands_and_survives_toml(path, tmp_path):
    recipe = complete(path)
    assert path.stem in (recipe.name, f"{recipe.name}-base")
    written = tmp_path / "recipe.toml"
    written.write_text(to_toml(as_written(recipe)), "utf-8")
    assert as_written(read_recipe(written)) == as_written(recipe)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_that_ships_is_sound(path):
    recipe = read_recipe(path)
    needed = [text for stream in recipe.texts for text in stream.corpus.text]
    needed.append(recipe.source.model)
    outside = [name for name in needed if str(name).startswith(("data/", "build/"))]
    absent = [name for name in outside if not Path(name).exists()]
    if absent:
        with pytest.raises(DataError, match=f"{absent[0]}'?: no such (file or )?directory"):
            preflight.check(recipe)
    else:
        recipe = complete(path)
        last = [f"baseline {baseline.method}" for baseline in recipe.baselines]
        assert preflight.check(recipe).stages[-1] == ["report", *last][-1]


def test_a_page_of_the_multilingual_demo_is_on_one_side_in_all_languages():
    corpora = [stream.corpus for stream in read_recipe(ROOT / "recipes/metaxlm-demo.toml").streams]
    assert len(corpora) >= 4
    assert len({(one.valid, one.test, one.split_seed) for one in corpora}) == 1
    sources = [(source, one) for one in corpora for source in documents.resolve(one.text)]
    pages = [{page.id for page in documents.read(*source, Counts())} for source in sources]
    shared = set.intersection(*map(set, pages))
    assert len(shared) > 1_000
    korean = read_recipe(ROOT / "recipes/demo.toml").corpus
    assert (korean.valid, korean.test, korean.split_seed) == (0.05, 0.1, 0)
    assert all(set(one) <= set(pages[1]) for one in pages)  # the source has seen no held-out page
    assert corpora[0].valid == korean.valid
    assert corpora[0].test == korean.test


def test_the_wheel_takes_the_recipes_to_where_they_are_looked_for():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    taken = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert Path(catalogue.__file__).parents[1].parent / taken["recipes"] == catalogue.PACKAGED
