"""Write the text of recipes/proof: Python's and Django's documentation in four languages.

    python research/scripts/build_proof_data.py data build/proof

The files hold a paragraph a line and have lost the boundaries of pages, so a document is a stretch
of lines, as in build_study_data.py. Each input folder's SOURCE.md names origin and licence.
"""

from __future__ import annotations

import argparse
import lzma
from pathlib import Path

from build_study_data import archive, stretches

LANGUAGES = ("es", "fr", "ja", "ko")
STRETCH_LINES = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with the input folders")
    parser.add_argument("out", type=Path)
    asked = parser.parse_args()
    for language in LANGUAGES:
        for file in sorted((asked.data / f"mono_{language}_docs_po").glob("*.txt.xz")):
            target = asked.out / language / f"{file.name.partition('.')[0]}.jsonl.gz"
            with lzma.open(file, "rt", encoding="utf-8") as text, archive(target) as add:
                lines = (line.rstrip("\n") for line in text)
                count = sum(
                    add(f"{file.name}#{number}", held)
                    for number, held in enumerate(stretches(lines, STRETCH_LINES))
                )
            print(f"{target}: {count:,} lines")


if __name__ == "__main__":
    main()
