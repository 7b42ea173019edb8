"""Write the text of the source x target grid: recipes/source-grid-*.toml.

    python research/scripts/build_source_grid_data.py data build/source-grid

- OUT/source/LANGUAGE.jsonl: LibreOffice Help in seven languages, only the paragraphs that are
  translated into all of them, so that the sources differ in their language and in nothing else;
- OUT/target/LANGUAGE.jsonl: the Python documentation in five of them, 2 MB of UTF-8 each, drawn by
  stretches. No source has seen a page of it, in any language.

Origin and licences: SOURCE.md of each input folder (pages/results.md). Lines lost their pages, so a
document is a stretch of LINES lines: the split never cuts one, only the pages at its ends.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from build_study_data import stretches

from lingraft.tasks.reading import lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LINES = 20
TARGET_BYTES = 2_000_000
HELP = "par_libreoffice_help/en-{}.tsv.xz"
LANGUAGES = {"de": "de", "es": "es", "fr": "fr", "ja": "ja", "ko": "ko", "zh": "zh_CN"}
MANUALS = {
    "es": "mono_es_docs_po/python.txt.xz",
    "fr": "mono_fr_docs_po/python.txt.xz",
    "ja": "mono_ja_docs_po/python.txt.xz",
    "ko": "mono_ko_docs_po/python.txt.xz",
    "zh": "mono_zh_cn_docs_po/python.txt.xz",
}


def shared_paragraphs(data: Path) -> dict[str, list[str]]:
    """By language, the paragraphs that all languages have, in the order of the first file."""
    sides: dict[str, dict[str, str]] = {}
    for language, code in LANGUAGES.items():
        pairs = (line.split("\t") for line in lines(data / HELP.format(code)))
        of_language: dict[str, str] = {}
        for english, other in pairs:
            of_language.setdefault(english, other)
        sides[language] = of_language
    common = set.intersection(*(set(side) for side in sides.values()))
    keys = [english for english in sides["de"] if english in common]
    texts = {language: [side[key] for key in keys] for language, side in sides.items()}
    return {"en": keys} | texts


def documents(paragraphs: Iterable[str], name: str) -> Iterator[tuple[str, str]]:
    """Ids and texts of stretches of lines."""
    for number, stretch in enumerate(stretches(paragraphs, LINES)):
        yield f"{name}-{number:05}", "\n".join(stretch)


def drawn(paragraphs: Iterable[str], name: str) -> list[tuple[str, str]]:
    """Documents up to TARGET_BYTES, drawn by a hash of their ids, in their own order."""
    every = list(documents(paragraphs, name))
    order = sorted(every, key=lambda pair: hashlib.blake2b(pair[0].encode()).digest())
    chosen, size = set(), 0
    for key, text in order:
        if size >= TARGET_BYTES:
            break
        chosen.add(key)
        size += len(text.encode())
    return [pair for pair in every if pair[0] in chosen]


def write(pairs: Iterable[tuple[str, str]], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.dumps({"id": key, "text": text}, ensure_ascii=False) for key, text in pairs]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    print(f"{path}: {len(rows)} documents, {path.stat().st_size / 1e6:.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    for language, paragraphs in shared_paragraphs(given.data).items():
        write(documents(paragraphs, f"help-{language}"), given.out / "source" / f"{language}.jsonl")
    for language, path in MANUALS.items():
        write(
            drawn(lines(given.data / path), f"python-{language}"),
            given.out / "target" / f"{language}.jsonl",
        )


if __name__ == "__main__":
    main()
