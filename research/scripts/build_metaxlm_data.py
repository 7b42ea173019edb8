"""Write the text of recipes/study-metaxlm.toml: documentation in seven languages, and lexicons.

    python research/scripts/build_metaxlm_data.py data build/multilingual

The input folders hold one sentence or paragraph a line and name their origin and licence in
SOURCE.md. The files have lost the boundaries of their pages, so a document is a stretch of lines,
and only the page at either end of it lies on two sides of the split. Several of the files are
translations of one manual: what is held out in one language may be training text in another.

Lines that are a text of a task that the study is judged by, by letters and digits alone, or share
13 words in a row with one, are left out (`lingraft.corpus.cleaning.decontamination`). Beside OUT,
in OUT-lexicon, go the bilingual lexicons of the dictionary initializer.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

from build_study_data import stretches

from lingraft.corpus.cleaning.clean import splitter
from lingraft.corpus.cleaning.decontamination import Evaluations
from lingraft.tasks.reading import lines

if TYPE_CHECKING:
    from collections.abc import Iterator

DEBIAN = ("gimp", "gnome", "handbook", "install", "libreoffice", "reference")
DEVELOPER = ("diffusers", "fastapi", "hf_course", "pytorch_tutorials", "react")
DEVELOPER += ("tensorflow", "tensorflow_notebooks", "vue")
SOURCES = {
    "en": {"mono_en_debian_docs": DEBIAN},
    "de": {"mono_de_debian_docs": DEBIAN},
    "fr": {"mono_fr_debian_docs": DEBIAN, "mono_fr_docs_po": ("django", "python")},
    "es": {"mono_es_docs_po": ("django", "python")},
    "ja": {"mono_ja_debian_docs": DEBIAN, "mono_ja_docs_po": ("django", "python")},
    "zh": {"mono_zh_cn_docs_po": ("python",)},
    "ko": {"mono_ko_docs_po": ("django", "python"), "mono_ko_dev_docs": DEVELOPER},
}
STRETCH_LINES = 200
LEXICONS = {
    "de": "english-german",
    "fr": "english-french",
    "es": "english-spanish",
    "ja": "english-japanese",
    "zh": "english-chinese",
    "ko": "english-korean.hangul",
}
JUDGED_BY = {
    "par_tatoeba": "eng-*.tsv*",
    "align_gold": "*.jsonl*",
    "task_udpos": "*.jsonl*",
    "task_pawsx": "*.jsonl*",
    "task_panx": "*.jsonl*",
}
"""Folders of what the models are scored on, and their files."""
LANGUAGES = {"par_tatoeba": ("deu", "fra", "spa", "jpn", "cmn", "kor")}
FEWEST_LETTERS = 12
"""Shorter texts ("Open the file.") are no test sentence's own; a run of 13 words always counts."""


def strings(value: object) -> Iterator[str]:
    """All strings in a row of JSON; a list of words is one text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and all(isinstance(item, str) for item in value):
        yield " ".join(value)
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings(item)


def judged_by(data: Path) -> Iterator[str]:
    """Every text of the tasks."""
    for folder, pattern in JUDGED_BY.items():
        for path in sorted((data / folder).glob(pattern)):
            if not any(code in path.name for code in LANGUAGES.get(folder, ("",))):
                continue
            for line in lines(path):
                row = line.split("\t") if ".tsv" in path.name else json.loads(line)
                yield from row if isinstance(row, list) else strings(row)


def documents(data: Path, folders: dict[str, tuple[str, ...]]) -> Iterator[tuple[str, list[str]]]:
    """Stretches of lines of each file, with their names."""
    for folder, names in folders.items():
        for name in names:
            (path,) = (data / folder).glob(f"{name}.txt*")
            for number, stretch in enumerate(stretches(lines(path), STRETCH_LINES)):
                yield f"{folder}/{name}#{number * STRETCH_LINES}", stretch


def write(data: Path, out: Path) -> None:
    """Write the documents of every language and the lexicons, and tell what stood in them."""
    whole_lines = splitter("en", split_sentences=False)
    evaluations = Evaluations(judged_by(data), whole_lines, min_letters=FEWEST_LETTERS)
    out.mkdir(parents=True, exist_ok=True)
    for language, folders in SOURCES.items():
        kept = dropped = written = characters = 0
        with gzip.GzipFile(out / f"{language}.jsonl.gz", "wb", compresslevel=6, mtime=0) as file:
            for name, stretch in documents(data, folders):
                marks = evaluations.contaminated(stretch).tolist()
                clean = [line for line, found in zip(stretch, marks, strict=True) if not found]
                dropped += len(stretch) - len(clean)
                if clean:
                    text = "\n".join(clean)
                    row = json.dumps({"id": name, "text": text}, ensure_ascii=False)
                    file.write(row.encode() + b"\n")
                    kept, written = kept + len(clean), written + 1
                    characters += len(text)
        print(
            f"{language}: {kept:,} lines, {characters:,} characters in {written:,} documents; "
            f"{dropped:,} lines left out"
        )
    folder = out.with_name(f"{out.name}-lexicon")
    folder.mkdir(exist_ok=True)
    for language, name in LEXICONS.items():
        pairs = list(lines(data / "dict_wechsel" / f"{name}.tsv.xz"))
        (folder / f"en-{language}.tsv").write_text("\n".join(pairs) + "\n", encoding="utf-8")
        print(f"en-{language}: {len(pairs):,} pairs")


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with the input folders")
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    write(arguments.data, arguments.out)


if __name__ == "__main__":
    main()
