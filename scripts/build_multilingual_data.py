"""Builds the text of the MetaXLM demo from Debian packages, downloaded but never installed.

    python scripts/build_multilingual_data.py     # demo/data/libreoffice-help.de-fr-ja.jsonl.gz

LibreOffice Help in German, French and Japanese: of every second page of the demo's Korean and
English pages, the paragraphs that are translated. A page has the same id in every language, so that
it is held out in all of them or in none. Needs what scripts/build_demo_data.py needs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from typing import TYPE_CHECKING

from build_demo_data import (
    HELP_EN,
    HELP_ROOT,
    PAIRS_FILE,
    REPOSITORY,
    aligned,
    fetch,
    help_pages,
    run,
    write_pairs,
)

from lingraft.corpus.split import position

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEVERAL_FILE = REPOSITORY / "demo/data/libreoffice-help.de-fr-ja.jsonl.gz"
LANGUAGES = ("de", "fr", "ja")
SHARE = 0.5
"""Of the Korean and English pages, those that are taken."""
LONG = 5
"""Words of an English sentence that no translation holds by chance."""
SENTENCE_END = re.compile(r"(?<=[.!?:])\s+")


def is_translated(text: str, english: str) -> bool:
    """Whether a paragraph is no English one, nor holds an English sentence."""
    sentences = SENTENCE_END.split(english)
    return (
        text != english
        and re.search(r"</?[A-Z]+\b", text) is None
        and not any(len(part.split()) >= LONG and part in text for part in sentences)
    )


def chosen_pages() -> set[str]:
    """Ids of every second page of the Korean and English ones; which, the id alone decides."""
    with gzip.open(PAIRS_FILE, "rt", encoding="utf-8") as file:
        ids = [str(json.loads(line)["id"]) for line in file]
    return {name for name in ids if position(name, 0, "multilingual demo") < SHARE}


def rows(
    english: Path, translated: Path, language: str, chosen: set[str]
) -> Iterator[dict[str, str]]:
    """One row a page: id, language, translated paragraphs joined by line feeds."""
    originals = dict(help_pages(english))
    for name, paragraphs in help_pages(translated):
        if name not in chosen:
            continue
        pairs = list(aligned(paragraphs, originals.get(name, {}), is_translated))
        if pairs:
            yield {"id": name, "lang": language, "text": "\n".join(text for text, _ in pairs)}


def build(debs: Path) -> None:
    """Build the file, and print what it holds of each language."""
    english, chosen = fetch(HELP_EN, debs), chosen_pages()
    print(f"{english.name} {english.version}")
    found = []
    for language in LANGUAGES:
        package = fetch(f"libreoffice-help-{language}", debs)
        folder = package.root / f"usr/share/libreoffice/help/{language}"
        own = list(rows(english.root / HELP_ROOT[HELP_EN], folder, language, chosen))
        paragraphs = [text for row in own for text in row["text"].split("\n")]
        characters = sum(map(len, paragraphs))
        print(
            f"{package.name} {package.version}: {len(own):,} pages, {len(paragraphs):,} "
            f"paragraphs, {characters:,} characters"
        )
        found += own
    write_pairs(found, SEVERAL_FILE)
    print(f"{SEVERAL_FILE.name}: {SEVERAL_FILE.stat().st_size:,} bytes")


def main() -> int:
    """The pages of the three languages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    return run(parser, lambda _, debs: build(debs))


if __name__ == "__main__":
    sys.exit(main())
