"""Hooks of mkdocs: pages and tables that are made when the site is built.

Links that lead out of docs/ get a page that shows the file, so that the site is whole offline.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "src")]

import notebook_page  # noqa: E402
import reference_pages  # noqa: E402

LINK = re.compile(r"(?<=\]\()(\.\./[^)\s#]+)(#[^)\s]*)?(?=\))")
TABLE = re.compile(r"^<!-- table: (\w+) -->$", re.MULTILINE)
CODE = re.compile(r"<code>.*?</code>", re.DOTALL)
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
LANGUAGES = {".toml": "toml", ".py": "python", ".md": "", ".cff": "yaml"}
MADE = {
    "reference/recipes.md": reference_pages.recipes,
    "reference/cli.md": reference_pages.command_line,
    "tutorial.md": lambda: notebook_page.markdown(
        (ROOT / "docs/tutorial.ipynb").read_text(encoding="utf-8")
    ),
}
"""Pages that are made, by their path below docs/."""


def repository_path(page: str, target: str) -> str | None:
    """The path in the repository of a link that leaves docs/; None of one that stays inside.

    Args:
        page: the page's own path below docs/.
        target: what it links to.
    """
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    return None if path.startswith("docs/") else path


def linked_files(pages: dict[str, str]) -> list[str]:
    """Files outside docs/ that some pages link to.

    Args:
        pages: Markdown by path below docs/.
    """
    targets = ((page, match[1]) for page, text in pages.items() for match in LINK.finditer(text))
    paths = (repository_path(page, target) for page, target in targets)
    return sorted({path for path in paths if path is not None})


def shown(path: str) -> str:
    """A page that shows a file of the repository; an sdist lacks research/.

    Raises:
        FileNotFoundError: there is no such file.
    """
    if path.startswith("research/") and not (ROOT / "research").exists():
        return f"# {path}\n\nThis file is in the repository.\n"
    text = (ROOT / path).read_text(encoding="utf-8")
    kind = LANGUAGES.get(Path(path).suffix, "")
    return f"# {path}\n\n````{kind}\n{text.rstrip()}\n````\n"


def on_files(files: Any, config: Any) -> Any:
    """Add what is made; `files` holds docs/ as it is on disk."""
    made = {path: make() for path, make in MADE.items()}
    texts = {file.src_uri: file.content_string for file in files.documentation_pages()} | made
    made |= {f"files/{path}.md": shown(path) for path in linked_files(texts)}
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill in tables, and lead links out of docs/ to the pages that show those files."""
    own = page.file.src_uri

    def inside(match: re.Match[str]) -> str:
        path = repository_path(own, match[1])
        if path is None:
            return match[0]
        return posixpath.relpath(f"files/{path}.md", posixpath.dirname(own) or ".")

    whole = TABLE.sub(lambda match: reference_pages.TABLES[match[1]](), markdown)
    return LINK.sub(inside, whole)


def on_page_content(html: str, **_: Any) -> str:
    """Keep every option of a command on one line: browsers break lines behind its hyphens."""

    def whole(code: re.Match[str]) -> str:
        return OPTION.sub(r'<span class="option">\g<0></span>', code[0])

    return CODE.sub(whole, html)
