"""`lingraft demo`: its own files, its recipe, and what it says."""

from __future__ import annotations

import json
from pathlib import Path

from lingraft.pipeline import demo
from lingraft.recipe.methods import read_recipe

ROOT = Path(__file__).resolve().parents[2]


def test_the_demos_recipe_is_that_of_the_clone_on_its_own_files() -> None:
    own = demo.recipe(method="xpt")
    theirs = read_recipe(ROOT / "recipes/demo-xpt.toml")
    assert own.corpus is not None
    assert theirs.corpus is not None
    paths = [own.source.model, *own.corpus.text]
    assert [str(Path(path).relative_to(ROOT)) for path in paths if path] == [
        theirs.source.model,
        *theirs.corpus.text,
    ]
    same = {"source": theirs.source, "corpus": theirs.corpus}
    assert own.model_copy(update=same) == theirs


def test_the_demos_files_are_copied_once(command, tmp_path) -> None:
    target = tmp_path / "files"
    said = command("demo", "--files-to", target)
    assert said.status == 0, said.err
    assert said.out.splitlines() == [
        f"source: {target / 'source'}",
        f"text:   {target / demo.TEXT}",
        "next:   Make a model of them:",
        f"        lingraft adapt --source {target / 'source'} --text {target / demo.TEXT} "
        "--lang ko --budget 5m --out runs/mine",
    ]
    copied = (target / demo.TEXT).read_bytes()
    assert copied == (ROOT / "demo" / demo.TEXT).read_bytes()
    assert json.loads((target / "source/config.json").read_text())["model_type"] == "modernbert"
    again = command("demo", "--files-to", target)
    assert again.status == 1
    assert "choose another --files-to" in again.err
