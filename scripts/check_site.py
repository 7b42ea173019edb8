"""Checks the built site: it asks nothing of other servers, and no page is too long.

    python scripts/check_site.py build/site

`mkdocs build --strict` checks links, anchors and the navigation.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

MOST_WORDS = 1_200
"""Of prose: words in code blocks, tables and drawings do not count."""
REFERENCES = ("404", "search", "files/", "reference/cli", "reference/recipes", "reference/python")
"""Beginnings of the names of pages that may be longer: they are made from the code."""
NO_PROSE = ("script", "style", "pre", "svg", "table")
LOADS = {
    "audio": "src", "embed": "src", "iframe": "src", "img": "src", "link": "href", "object": "data",
    "script": "src", "source": "src", "track": "src", "video": "src", "use": "href",
    "image": "href",
}  # fmt: skip
"""Elements that a browser loads something for, without being asked to."""
QUIET_LINKS = {"canonical", "next", "prev", "alternate", "edit"}
IN_STYLES = re.compile(r"(?:@import\s+|url\()\s*[\"']?((?:https?:)?//[^\"')\s]+)")


class Page(HTMLParser):
    """What a page loads from elsewhere, and its words of prose."""

    def __init__(self) -> None:
        super().__init__()
        self.outside: list[str] = []
        self.words = 0
        self._in_article = 0
        self._skipped = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        target = values.get(LOADS.get(tag, ""), "")
        quiet = tag == "link" and set(values.get("rel", "").split()) & QUIET_LINKS
        if target.startswith(("http:", "https:", "//")) and not quiet:
            self.outside.append(f"<{tag}> {target}")
        self.outside += IN_STYLES.findall(values.get("style", ""))
        self._in_article += tag == "article"
        self._skipped += tag in NO_PROSE

    def handle_endtag(self, tag: str) -> None:
        self._in_article -= tag == "article"
        self._skipped -= tag in NO_PROSE

    def handle_data(self, data: str) -> None:
        if self._in_article and not self._skipped:
            self.words += len(data.split())


def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    return page


def outside_requests(site: Path) -> list[str]:
    """What pages and style sheets load from other servers: `FILE: WHAT` each."""
    found = []
    for path in sorted(site.rglob("*.html")):
        found += [f"{path.relative_to(site)}: {what}" for what in read(path).outside]
    for path in sorted(site.rglob("*.css")):
        text = path.read_text(encoding="utf-8")
        found += [f"{path.relative_to(site)}: {what}" for what in IN_STYLES.findall(text)]
    return found


def long_pages(site: Path, most: int = MOST_WORDS) -> dict[str, int]:
    """Words of prose of the pages with more than `most` that are no references."""
    names = {path.relative_to(site).with_suffix("").as_posix(): path for path in _pages(site)}
    wanted = {name: path for name, path in names.items() if not name.startswith(REFERENCES)}
    words = {name: read(path).words for name, path in wanted.items()}
    return {name: count for name, count in words.items() if count > most}


def _pages(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


def main() -> int:
    site = Path(sys.argv[1])
    problems = [f"asks another server: {what}" for what in outside_requests(site)]
    problems += [
        f"{name}: {words:,} words; {MOST_WORDS:,} at most"
        for name, words in long_pages(site).items()
    ]
    for problem in problems:
        print(problem)
    print(f"{len(_pages(site))} pages, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
