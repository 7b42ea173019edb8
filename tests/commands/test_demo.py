"""`lingraft demo`: its own files, its recipe, and what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lingraft.pipeline import demo
from lingraft.recipe.methods import read_recipe
from lingraft.rundir import Run

if TYPE_CHECKING:
    from lingraft.recipe import Recipe

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


def test_the_demo_of_an_installed_package_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "lingraft/demo"
    (packed / "source").mkdir(parents=True)
    (packed / "source/config.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(demo, "PLACES", (packed, ROOT / "demo"))
    recipe = demo.recipe(["seed=3"])
    assert recipe.seed == 3
    assert recipe.corpus is not None
    assert recipe.source.model == str(packed / "source")
    assert recipe.corpus.text == (str(packed / demo.TEXT),)


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


@pytest.mark.parametrize("name", ["demo", "metaxlm-demo"])
def test_a_recipe_of_the_demos_files_is_sound_where_its_help_puts_them(
    name, command, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = " ".join(command("show", "--help").out.split())
    told = re.search(r"The files of (.*?) are copied by `(.*?)`", said)
    assert told
    assert name in told[1].split(" and ")
    assert told[2] == "lingraft demo --files-to demo"
    assert command("demo", "--files-to", "demo").status == 0
    Path("my.toml").write_text(command("show", "recipe", name).out, "utf-8")
    checked = command("check", "my.toml")
    assert checked.status == 0, checked.err


def test_the_demo_ends_with_the_report_and_a_filled_gap(
    command, adapted, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Recipe, Path]] = []
    run = Run(adapted("roberta"))

    def made(recipe: Recipe, out: Path, **_: object) -> Run:
        asked.append((recipe, out))
        return run

    monkeypatch.setattr("lingraft.pipeline.adapt.adapt", made)
    said = command("demo", "--out", "runs/x", "seed=1", "tokenizer.vocab_size=1500")
    assert said.status == 0, said.err
    ((recipe, out),) = asked
    assert (recipe.seed, recipe.tokenizer.vocab_size, out) == (1, 1500, Path("runs/x"))
    *_, model, report, _, _, gap = said.out.splitlines()
    assert (model, report) == (
        f"model:  {run.model_path}",
        f"report: {run.path / 'report.html'}",
    )
    sentence, guesses = gap.split("  →  ")
    assert sentence == "파일을 <mask> 저장합니다."
    assert guesses.count("%)") == 3
