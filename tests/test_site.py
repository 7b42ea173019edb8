"""The documentation site: strict links, no request to other servers, references that are whole."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lingraft
from lingraft import cli
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
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def script(name: str) -> Any:
    """A module of scripts/."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(ROOT / "scripts"))


@pytest.mark.slow
def test_no_page_asks_another_server_or_is_long(site: Path) -> None:
    check = script("check_site")
    assert len(list(site.rglob("*.html"))) > 24
    assert check.outside_requests(site) == []
    assert check.long_pages(site) == {}


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/css">',
        '<img src="http://a.example/b.png">',
        '<p style="background: url(https://a.example/c.png)">',
    ],
)
def test_the_check_sees_what_a_browser_would_load_from_elsewhere(html: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(html, encoding="utf-8")
    assert len(script("check_site").outside_requests(tmp_path)) == 1


def test_a_link_to_another_site_and_a_picture_of_our_own_are_no_requests(tmp_path: Path) -> None:
    html = (
        '<a href="https://a.example">a</a><img src="b.svg"><link rel="canonical" href="https://c">'
    )
    (tmp_path / "page.html").write_text(html, encoding="utf-8")
    assert script("check_site").outside_requests(tmp_path) == []


def test_words_of_a_page_are_those_of_its_prose(tmp_path: Path) -> None:
    skipped = "<pre>six</pre><table><tr><td>seven</td></tr></table>"
    page = f"<nav>one two</nav><article><p>three four <b>five</b></p>{skipped}</article>"
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    assert script("check_site").long_pages(tmp_path, most=2) == {"page": 3}


def test_an_option_in_code_stays_on_one_line_and_prose_stays_as_it_is() -> None:
    made = script("site_hooks").on_page_content(
        '<p>a--b --set</p><code>x <span class="go">--lang ko</span> -- a--b</code>'
    )
    kept = '<p>a--b --set</p><code>x <span class="go"><span class="option">--lang</span> ko</span>'
    assert made == f"{kept} -- a--b</code>"


@pytest.mark.slow
def test_links_out_of_the_documentation_show_the_file_and_tables_are_filled(site: Path) -> None:
    path = "files/src/lingraft/recipe/defaults.py.html"
    assert "TABLE" in (site / path).read_text(encoding="utf-8")
    page = (site / "background/automatic-settings.html").read_text(encoding="utf-8")
    assert path in page
    families = (site / "reference/families.html").read_text(encoding="utf-8")
    assert "roberta-prelayernorm" in families
    assert "KoELECTRA" in families


def keys(section: type[Section], path: str = "") -> Iterator[tuple[str, str, str | None]]:
    """Table, key and docstring of everything in a recipe."""
    pages = script("reference_pages")
    for name, field in section.model_fields.items():
        inner = [found for found, _ in pages._sections(field.annotation)]
        if not inner:
            yield path, name, pages.docstrings(section).get(name)
        for one in inner:
            yield from keys(one, f"{path}.{name}" if path else name)


def test_every_key_of_a_recipe_is_in_the_reference_with_its_docstring() -> None:
    text = script("reference_pages").recipes()
    found = list(keys(Recipe))
    assert len(found) > 100
    assert [(path, name) for path, name, told in found if not told] == []
    assert [name for _, name, _ in found if f"| `{name}` |" not in text] == []
    tables = {path for path, _, _ in found if path}
    told_before = "streams.corpus."  # its tables are those of corpus
    assert [p for p in tables if f"[{p}]" not in text and told_before not in p] == []


def test_the_recipe_reference_has_types_limits_and_defaults() -> None:
    text = script("reference_pages").recipes()
    assert re.search(r"\| `vocab_size` \| whole number, ≥ 32, ≤ 2,000,000 \| `50000` \|", text)
    assert "| `source_weights` | `pretrained`, `random` | `pretrained` |" in text


def test_the_command_line_reference_has_every_command() -> None:
    text = script("reference_pages").command_line()
    named = re.findall(r"^## `lingraft ([\w-]+)`", text, re.MULTILINE)
    assert named == list(cli.COMMANDS)


@pytest.mark.slow
def test_the_python_reference_has_every_public_name(site: Path) -> None:
    text = (site / "reference/python.html").read_text(encoding="utf-8")
    public = {name for name in lingraft.__all__ if not name.startswith("__")} - {"Recipe"}
    assert [
        name for name in sorted(public) if not re.search(rf'id="lingraft\.[\w.]*{name}"', text)
    ] == []


@pytest.mark.slow
def test_the_tutorials_text_code_and_results_become_a_page(site: Path) -> None:
    notebook = {
        "cells": [
            {"cell_type": "markdown", "source": ["# A\n", "b"]},
            {
                "cell_type": "code",
                "source": "1 + 1",
                "outputs": [
                    {"output_type": "stream", "name": "stdout", "text": ["hello\n"]},
                    {"output_type": "execute_result", "data": {"text/plain": "2"}},
                    {"output_type": "display_data", "data": {"image/png": "AAAA"}},
                ],
            },
        ]
    }
    made = script("notebook_page").markdown(json.dumps(notebook))
    assert made.split("\n\n") == [
        "# A\nb",
        "```python\n1 + 1\n```",
        "```text\nhello\n```",
        "```text\n2\n```",
        "![what the cell draws](data:image/png;base64,AAAA)\n",
    ]
    page = (site / "tutorial.html").read_text(encoding="utf-8")
    assert "data:image/png;base64," in page  # what was drawn is in the committed file
    assert "site-packages" not in NOTEBOOK.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_tutorial_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
