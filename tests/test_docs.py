"""The documentation is true: commands run or parse, files decode, links lead somewhere.

Blocks marked `console` and `python` run, page by page in their order; those marked `sh` name
models or data that are not at hand, and parse; those marked `toml` decode.
"""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from lingraft.cli import app as cli
from lingraft.recipe import Recipe
from lingraft.recipe.methods import recipe_from

ROOT = Path(__file__).resolve().parent.parent
DOCS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
PAGES = ["README.md", *DOCS]
MADE = ["docs/tutorial.md", "docs/reference/recipes.md", "docs/reference/cli.md"]
"""Pages that are made with the site; tests/test_site.py builds it with strict links."""
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"^(?:lingraft [a-z-].*)|(?<=-m )lingraft [^']*")
TRAINING = {"adapt", "demo", "finetune", "graft", "study"}
SMALL = ["evaluation.max_sentences=10", "evaluation.max_words=3", "evaluation.samples=1"]
FEW = "2steps"
TWO = [{"name": n, "language": n, "corpus": {"text": [f"{n}.txt"]}} for n in ("ko", "en")]
STREAMS = {"streams": TWO}
ONE = {"language": "ko", "corpus": {"text": ["ko.txt"]}}
"""What a part of a recipe lacks: text of two languages, or of one."""


def blocks(page: str, *kinds: str) -> list[tuple[str, str]]:
    found = BLOCK.findall((ROOT / page).read_text("utf-8"))
    return [(kind, text.replace("\\\n", " ")) for kind, text in found if kind in kinds]


def running(page: str) -> Any:
    """The page as a case; one with a command or Python that trains is slow."""
    found = blocks(page, "console", "python")
    words = [line.split() for kind, text in found if kind == "console" for line in text.split("\n")]
    slow = any(line[0] == "make" or line[1] in TRAINING for line in words if line)
    slow |= any("lingraft." in text for kind, text in found if kind == "python")
    return pytest.param(page, marks=[pytest.mark.slow] * slow)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like a checkout, where runs/ can be written."""
    for name in ("demo", "recipes", "scripts", "tests", "Makefile", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "constraints.txt").symlink_to(ROOT / "constraints.txt")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def small(line: str) -> list[str]:
    """The words of a command, with so few steps that it takes seconds."""
    words = shlex.split(line)
    if words[0] == "make":  # CI runs the targets; here they exist
        subprocess.run(["make", "--dry-run", *words[1:]], check=True, capture_output=True)
        words = shlex.split("lingraft adapt recipes/demo.toml --out runs/demo")
    assert words[0] == "lingraft", f"a console block holds a command that no test runs: {line}"
    if words[1] not in ("adapt", "demo") or "--files-to" in words:
        return words
    if "--budget" in words:
        words[words.index("--budget") + 1] = FEW
    else:
        words.append(f"training.budget={FEW}")
    return [*words, *SMALL]


@pytest.mark.parametrize(
    "page", [running(page) for page in PAGES if blocks(page, "console", "python")]
)
@pytest.mark.usefixtures("checkout")
def test_every_console_and_python_block_runs(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, text in blocks(page, "console", "python"):
        if kind == "python":
            exec(compile(text, page, "exec"), {})  # our own documentation
            continue
        for line in text.splitlines():
            monkeypatch.setattr(sys, "argv", small(line))
            with pytest.raises(SystemExit) as ended:
                cli.main()
            assert ended.value.code == 0, line


def unknown_keys(line: str) -> list[str]:
    """Parse a command line, which fails at an option that there is not; return keys that are none.

    Raises:
        LingraftError: lingraft cannot read it, or click's own errors.
    """
    command: Any = cli.COMMAND_LINE
    words = [*itertools.takewhile(lambda word: word not in "|>&&;", shlex.split(line)[1:])]
    while hasattr(command, "commands") and not words[0].startswith("-"):
        command, words = command.commands[words[0]], words[1:]
    if hasattr(command, "commands"):  # an option of every command
        flags = {flag for param in command.params for flag in param.opts}
        return [] if words[0] in {*flags, "--help", "-h"} else words
    context = command.make_context(command.name, words)
    given = [re.split(r"[.=]", setting)[0] for setting in context.params.get("settings") or ()]
    known = command.keys()
    return [key for key in given if key not in known]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_parses(page: str) -> None:
    lines = [line for _, text in blocks(page, "", "sh", "console") for line in text.split("\n")]
    calls = [match[0] for match in map(CALL.search, lines) if match]
    assert [(call, key) for call in calls for key in unknown_keys(call)] == []


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "toml")])
def test_every_block_of_toml_decodes_and_keys_of_recipes_exist(page: str) -> None:
    for _, text in blocks(page, "toml"):
        data = tomllib.loads(text)
        if data.keys() <= Recipe.model_fields.keys():
            lacking = {} if "streams" in data else ONE if data.keys() & ONE.keys() else STREAMS
            recipe_from({"source": {"model": "demo/source"}} | lacking | data)


def anchors(page: Path) -> set[str]:
    """The places of a page that a link can name."""
    text = BLOCK.sub("", page.read_text("utf-8"))
    found = re.findall(r"^#+ (.+?)(?: \{ #([\w-]+) \})?$", text, re.MULTILINE)
    return {given or re.sub(r"[^\w -]", "", of.lower()).replace(" ", "-") for of, given in found}


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md"])
def test_links_lead_to_files_and_headings(page: str) -> None:
    text = BLOCK.sub("", (ROOT / page).read_text("utf-8"))
    lost = []
    for link in re.findall(r"\]\(([^)\s]+)", text):
        target, _, anchor = link.partition("#")
        path = ((ROOT / page).parent / target).resolve() if target else ROOT / page
        if "://" in link or "actions/workflows" in link:
            continue
        name = path.relative_to(ROOT).as_posix()
        if name in MADE or (name.startswith("research/") and not (ROOT / "research").exists()):
            continue  # an sdist has no research/
        if not path.exists() or (anchor and anchor not in anchors(path)):
            lost.append(link)
    assert lost == []
