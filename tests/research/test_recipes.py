"""Recipes and studies of research/ can be read, and find their files from where they lie."""

from pathlib import Path

import pytest

from lingraft.models.source import config_of
from lingraft.pipeline import completing
from lingraft.recipe import Source
from lingraft.recipe.decoding import load
from lingraft.recipe.methods import read_recipe
from lingraft.study.grid import cells
from lingraft.study.recipe import read_study

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "research/recipes"
TASKS = sorted((FOLDER / "tasks").glob("*.toml"))
STUDIES = sorted(path for path in FOLDER.rglob("*.toml") if "base" in load(path))
RECIPES = sorted({*FOLDER.rglob("*.toml")} - {*TASKS, *STUDIES})
OUTSIDE = {"data", "build"}
"""What a checkout lacks: research/README.md says how to make it."""


def name(path):
    return path.relative_to(FOLDER).with_suffix("").as_posix()


def is_made(path):
    return path.resolve().relative_to(ROOT).parts[0] in OUTSIDE


@pytest.mark.parametrize("path", RECIPES, ids=name)
def test_a_recipe_can_be_read(path):
    for text in [text for stream in read_recipe(path).texts for text in stream.corpus.text]:
        assert is_made(ROOT / text) or (ROOT / text).exists(), text


@pytest.mark.parametrize("path", STUDIES, ids=name)
def test_a_study_has_cells_and_finds_its_tasks(path, monkeypatch):
    # automatic settings read config.json and sizes of text; what is made elsewhere is stood in for
    demo = Source(model=str(ROOT / "demo/source"))
    monkeypatch.setattr(completing, "config_of", lambda _: config_of(demo))
    monkeypatch.setattr(completing, "is_source_tied", lambda _: True)
    monkeypatch.setattr(completing, "_text", lambda _: (1e6, False, []))
    study = read_study(path)
    assert cells(study)
    for task in study.tasks:
        assert task.data is None or is_made(Path(task.data)), task.data
        assert not task.name.endswith(".toml") or Path(task.name) in TASKS


@pytest.mark.parametrize("path", TASKS, ids=name)
def test_the_files_of_a_task_are_made_ones(path):
    assert all(is_made(path.parent / name) for name in load(path)["files"].values())
