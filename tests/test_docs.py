"""README and guide run: every command in a console block, every Python block."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lingraft
from lingraft import cli
from lingraft.recipe.records import METHODS

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    *("README.md", "docs/guide.md", "docs/alignment.md", "docs/retrieval.md"),
    *("docs/multilingual.md", "docs/translation.md", "docs/quickstart.md"),
    *("docs/howto/causal.md", "docs/howto/fine-tune.md"),
)
CONSOLE_PAGES = (
    *("docs/index.md", "docs/howto/my-language.md", "docs/howto/my-domain.md"),
    *("docs/howto/from-a-dump.md", "docs/howto/many-languages.md"),
    *("docs/howto/compare.md", "docs/howto/cluster.md", "docs/howto/24-gb.md"),
    *("docs/streams.md", "docs/vocabulary.md"),
)
"""Pages whose console blocks are run, and which have no Python."""
MADE = ("tutorial.md", "reference/recipes.md", "reference/cli.md")
"""Pages that are made with the site; tests/test_site.py builds it with strict links."""
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TINY = [
    "corpus.max_train_sentences=150",
    "evaluation.max_sentences=10",
    "evaluation.max_words=3",
    "evaluation.samples=1",
    "tokenizer.vocab_size=1500",
    "phases.0.budget={value=1, unit='steps'}",
    "phases.0.batch={size=4, unit='sentences'}",
    "phases.0.validation.max_sentences=4",
    "phases.1.budget={value=1, unit='steps'}",
    "phases.1.batch={size=4, unit='sentences'}",
    "phases.1.validation.max_sentences=4",
]
STREAMS = {"--text ko=": 2, "metaxlm-demo": 5, "--language-field": 3, "--join": 4}
"""How many streams a command has, by what is in it; of one text they have none."""


def tiny(line: str) -> list[str]:
    """Settings that make the run of a command small."""
    number = next((found for part, found in reversed(STREAMS.items()) if part in line), 0)
    method = re.search(r"--method (\S+)", line)
    record = METHODS[method[1] if method else "xpt"]
    if "--source" in line and "--preset" not in line and record.preset == "auto":
        budget = ["training.budget={value=4, unit='steps'}", "embeddings.init=mean"]
        budget += ["training.batch={size=64, unit='tokens'}"]
        texts = [f"streams.{n}.{TINY[0]}" for n in range(number)] or [TINY[0]]
        return [*texts, *TINY[1:5], *(budget if "lapt" not in line else budget[::2])]
    phases = 1 if number > 2 else len(record.stretches)
    rest = [text for text in TINY[1:] if phases == 2 or not text.startswith("phases.1")]
    return [f"streams.{n}.{TINY[0]}" for n in range(number)] + rest if number else [TINY[0], *rest]


def blocks(page: str) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


TRAINING = {"adapt", "demo", "finetune", "study"}


def paged(pages: tuple[str, ...]) -> list[Any]:
    """The pages as cases; those with a command or Python that trains are slow."""
    return [pytest.param(page, marks=[pytest.mark.slow] * trains(page)) for page in pages]


def trains(page: str) -> bool:
    lines = [line.split() for _, text in blocks(page) for line in text.splitlines()]
    commands = {words[1] for words in lines if words[:1] == ["lingraft"]}
    return bool(commands & TRAINING) or any("lingraft.adapt(" in text for _, text in blocks(page))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like a checkout, where runs/ can be written."""
    for name in ("demo", "recipes", "scripts", "Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_command(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(line)
    # what the targets do is run by CI (test) and by the demo itself; here: they exist
    if words[0] == "make":
        subprocess.run(["make", "--dry-run", *words[1:]], check=True, capture_output=True)
        if words[1:] != ["demo"]:
            return
        words = ["lingraft", "adapt", "recipes/demo.toml", "--out", "runs/demo"]
    assert words[0] == "lingraft", f"a console block holds a command that no test runs: {line}"
    if "--minutes" in words:  # a machine that is busy would decide how many steps there are
        at = words.index("--minutes")
        words[at : at + 2] = ["--budget", "2steps"]
    if words[1] in ("adapt", "demo") and "--files-to" not in words:
        words += tiny(line)
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0, line


@pytest.mark.parametrize("page", paged(PAGES))
@pytest.mark.usefixtures("checkout")
def test_every_command_and_python_block_of_the_page_runs(
    page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapt = lingraft.adapt
    monkeypatch.setattr(
        lingraft, "adapt", lambda recipe, out: adapt(recipe, out, settings=TINY, update=True)
    )
    found = blocks(page)
    assert "console" in {kind for kind, _ in found} <= {"console", "python"}
    for kind, text in found:
        if kind == "python":
            exec(compile(text, page, "exec"), {})  # our own documentation
        else:
            for line in text.splitlines():
                run_command(line, monkeypatch)


@pytest.mark.parametrize("page", paged(CONSOLE_PAGES))
@pytest.mark.usefixtures("checkout")
def test_every_command_of_the_page_runs(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = blocks(page)
    assert {kind for kind, _ in found} == {"console"}
    for _, text in found:
        for line in text.splitlines():
            run_command(line, monkeypatch)


@pytest.mark.parametrize(
    "page",
    [
        *(*PAGES, *CONSOLE_PAGES, "CONTRIBUTING.md"),
        *(
            "docs/veco.md",
            "docs/budgets.md",
            "docs/papers.md",
            "docs/differences.md",
            "docs/encoder-decoder-sources.md",
            "docs/families.md",
        ),
    ],
)
def test_links_to_files_in_the_repository_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = [t.partition("#")[0] for t in re.findall(r"\]\(([^)]+)\)", text) if "://" not in t]
    missing = [t for t in targets if t and not ((ROOT / page).parent / t).exists()]
    assert [t for t in missing if t.removeprefix("../") not in MADE] == []


def test_papers_names_every_preset_and_initializer() -> None:
    from lingraft.embeddings import INITIALIZERS
    from lingraft.recipe.records import METHODS, PRESETS

    pages = (ROOT / "docs/papers.md", ROOT / "docs/differences.md")
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    names = (*PRESETS, *INITIALIZERS, *METHODS)
    assert [name for name in names if name not in text] == []
