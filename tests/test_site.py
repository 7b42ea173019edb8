"""The documentation site: strict links, no request to other servers, references that are whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from script_modules import load

from lingraft.recipe import Recipe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingraft.recipe.base import Section

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "docs/tutorial.ipynb"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a broken link, anchor or page outside the navigation fails the build."""
    folder = tmp_path_factory.mktemp("site") / "site"
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    how = {"cwd": ROOT, "env": environment, "timeout": 500, "check": False}
    built = subprocess.run(words, capture_output=True, text=True, **how)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.mark.slow
def test_no_page_asks_another_server_or_is_long(site: Path) -> None:
    check = load("check_site")
    assert len(list(site.rglob("*.html"))) > 24
    assert check.outside_requests(site) == []
    assert check.long_pages(site) == {}


def keys(section: type[Section], path: str = "") -> Iterator[tuple[str, str, str | None]]:
    """Table, key and docstring of everything in a recipe."""
    pages = load("reference_pages")
    for name, field in section.model_fields.items():
        inner = [found for found, _ in pages._sections(field.annotation)]
        if not inner:
            yield path, name, pages.docstrings(section).get(name)
        for one in inner:
            yield from keys(one, f"{path}.{name}" if path else name)


def test_every_key_of_a_recipe_is_in_the_reference_with_its_docstring() -> None:
    text = load("reference_pages").recipes()
    found = list(keys(Recipe))
    assert len(found) > 100
    assert [(path, name) for path, name, told in found if not told] == []
    assert [name for _, name, _ in found if f"| `{name}` |" not in text] == []
    tables = {path for path, _, _ in found if path}
    # the tables of streams.corpus are those of corpus
    assert [p for p in tables if f"[{p}]" not in text and "streams.corpus." not in p] == []


@pytest.mark.slow
def test_the_tutorial_runs_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer steps and less text; else as it is, in a process and a folder of its own."""
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), *sys.path]))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(NOTEBOOK, 4)
    smaller = {
        '"100ktok"': '"2steps"',
        'max_train_sentences": 3000': 'max_train_sentences": 150',
        'max_sentences": 200': 'max_sentences": 10',
        'max_words": 100': 'max_words": 3',
    }
    for old, new in smaller.items():
        changed = [cell for cell in notebook.cells if old in cell.source]
        assert changed, old
        for cell in changed:
            cell.source = cell.source.replace(old, new)
    (tmp_path / "demo").symlink_to(ROOT / "demo")
    NotebookClient(notebook, timeout=500, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert (tmp_path / "runs/tutorial/model/model.safetensors").is_file()
    drawn = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in drawn)
    assert [output for output in drawn if output["output_type"] == "error"] == []
