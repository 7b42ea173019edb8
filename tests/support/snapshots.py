"""Texts that tests compare with files of tests/snapshots.

`SNAPSHOTS=write pytest …` writes them anew; look at the difference before you commit it.
"""

import os
from pathlib import Path

from outlines import outline

LONG = 800
"""Letters; of a longer line, which is a recipe, only the beginning is compared."""
FOLDER = Path(__file__).parents[1] / "snapshots"


def check_page(name, html):
    """Compare what a page says, and the order in which it does, with its snapshot.

    It must also nest, hold nothing that it loads from elsewhere or that runs, and use no id twice.
    """
    found = outline(html)
    assert not found.tags & {"script", "link", "iframe", "img", "object"}
    assert all(one.startswith("#") for one in found.references)
    assert len(found.ids) == len(set(found.ids))
    assert all(after - before <= 1 for before, after in zip(found.headings, found.headings[1:]))  # noqa: B905
    check(name, "\n".join(line if len(line) < LONG else line[:40] + " …" for line in found.lines))


def check(name, text):
    """Compare a text with its snapshot."""
    path = FOLDER / f"{name}.txt"
    text = text.rstrip()
    if os.environ.get("SNAPSHOTS") == "write":
        path.write_text(text + "\n", "utf-8")
    assert text.splitlines() == path.read_text("utf-8").splitlines()
