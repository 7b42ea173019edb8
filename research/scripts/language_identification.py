"""What the filter by language drops of good sentences, and lets through of other languages.

Reads folders or files of lines `ENGLISH TAB SENTENCE` named `eng-CODE.tsv[.xz]` (Tatoeba's test
sets of LASER) and prints a Markdown table, a row a language that the model knows: the share of its
own sentences that go, and the share of sentences of the other languages in its script that stay,
all together and the worst one. Sentences below 20 characters are not looked at and not counted.

    python research/scripts/language_identification.py data/par_tatoeba --languages xho,zsm,slv
"""

from __future__ import annotations

import argparse
import lzma
from pathlib import Path
from typing import TYPE_CHECKING

import langcodes
import numpy as np

from lingraft.corpus.cleaning.scripts import MIN_CHARACTERS, LanguageIdentifier
from lingraft.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--languages", help="of the rows; all where not given")
    parser.add_argument("--sentences", type=int, default=300, help="of a language, at most")
    arguments = parser.parse_args()
    texts = read(arguments.folder, arguments.sentences)
    identifiers = dict(known(texts))
    rows = arguments.languages.split(",") if arguments.languages else list(identifiers)
    print("| | dropped: alone | in documents of 8 | others kept: alone | in documents of 8 |")
    print("|---|---:|---:|---:|---:|")
    totals = []
    for language in rows:
        near = [
            other
            for other, identifier in identifiers.items()
            if script(other) == script(language)
            and not identifier.accepted & identifiers[language].accepted
        ]
        cells = []
        for size in (1, 8):
            lost = dropped(identifiers[language], texts[language], size).mean()
            kept = {o: 1 - dropped(identifiers[language], texts[o], size).mean() for o in near}
            worst = max(kept, key=lambda other: kept[other], default="")
            cells.append((lost, np.mean(list(kept.values()) or [0.0]), kept.get(worst, 0.0), worst))
        totals.append([cell[:3] for cell in cells])
        lost_cells = [f"{lost:.1%}" for lost, *_ in cells]
        kept_cells = [f"{mean:.1%} ({worst} {most:.0%})" for _, mean, most, worst in cells]
        print(f"| {language} | {' | '.join(lost_cells + kept_cells)} |", flush=True)
    (alone, together) = np.mean(totals, axis=0)
    print(
        f"| mean | {alone[0]:.1%} | {together[0]:.1%} | {alone[1]:.1%} (worst {alone[2]:.0%}) "
        f"| {together[1]:.1%} (worst {together[2]:.0%}) |"
    )


def read(folder: Path, most: int) -> dict[str, list[str]]:
    """The sentences of each language, by the code in the file's name."""
    texts = {}
    for path in sorted(folder.glob("eng-*.tsv*")):
        with lzma.open(path, "rt") if path.suffix == ".xz" else path.open() as file:
            sentences = [line.rstrip("\n").split("\t")[1] for line in file if "\t" in line]
        texts[path.name[4:7]] = [text for text in sentences if len(text) >= MIN_CHARACTERS][:most]
    return {language: sentences for language, sentences in texts.items() if len(sentences) > 20}


def known(languages: dict[str, list[str]]) -> Iterator[tuple[str, LanguageIdentifier]]:
    """An identifier of each language that the model knows."""
    for language in languages:
        try:
            yield language, LanguageIdentifier(langcodes.get(language).to_tag())
        except RecipeError:
            continue


def script(language: str) -> str | None:
    """The likeliest script of a language."""
    return langcodes.get(language).maximize().script


def dropped(identifier: LanguageIdentifier, texts: list[str], size: int) -> NDArray[np.bool_]:
    """What the filter drops where every document has `size` sentences."""
    return identifier.foreign(texts, np.arange(len(texts)) // size)


if __name__ == "__main__":
    main()
