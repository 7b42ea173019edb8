"""Write the text of recipes/causal-source.toml and recipes/study-causal.toml, in documents.

    python research/scripts/build_causal_data.py data build/causal

`en.jsonl.gz`: manuals, reference and encyclopedia; `ko.jsonl.gz`: manuals of software;
`replay.jsonl.gz`: the first lines of every file of that English, to be read again;
`kept.jsonl.gz`: English of a book that is in no training text, to see what is left of it. The input
files have lost their boundaries of pages, so a document is a stretch of lines: only the page at
either end of a stretch can lie on two sides of the split. Folders name origin and licence in
SOURCE.md (pages/results.md has the table). The English of the Korean pages is not among it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
from pathlib import Path

from build_study_data import stretches

SOURCES = {
    "en": {
        "mono_en_debian_misc": ("anarchism", "fortunes", "wordnet_glosses"),
        "mono_en_msdocs": ("cpp", "powershell"),
        "mono_en_wikitext2": ("test", "valid"),
    },
    "kept": {"mono_en_debian_docs": ("handbook",)},
    "ko": {
        "mono_ko_docs_po": ("django", "python"),
        "mono_ko_dev_docs": ("diffusers", "fastapi", "hf_course", "react", "tensorflow", "vue"),
    },
}
SOURCES["replay"] = SOURCES["en"]
STRETCH_LINES = 40
MOST_LINES = {"kept": 400, "replay": 1_500}
"""Of a file."""


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with the input folders")
    parser.add_argument("out", type=Path)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for part, folders in SOURCES.items():
        path = asked.out / f"{part}.jsonl.gz"
        lines = characters = 0
        with gzip.GzipFile(path, "wb", compresslevel=3, mtime=0) as target:
            for folder, names in folders.items():
                for name in names:
                    file = f"{folder}/{name}.txt.xz"
                    with lzma.open(asked.data / file, "rt", encoding="utf-8") as text:
                        raw = [line.rstrip("\n") for line in text if line.strip()]
                    raw = raw[: MOST_LINES.get(part)]
                    lines += len(raw)
                    characters += sum(map(len, raw))
                    for number, held in enumerate(stretches(raw, STRETCH_LINES)):
                        row = {"id": f"{file}#{number}", "text": "\n".join(held)}
                        target.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        print(f"{path}: {lines:,} lines, {characters:,} characters")


if __name__ == "__main__":
    main()
