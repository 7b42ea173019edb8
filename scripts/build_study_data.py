"""Write the text of recipes/study-ko.toml: Korean of several registers, in documents.

    python scripts/build_study_data.py data build/study-ko

The input folders hold one sentence or paragraph a line and name their origin and licence in
SOURCE.md (docs/results.md has the table). Lines that stand next to each other go into one document
of 40 lines, so that validation and test text is held out in stretches and not in single lines. Film
reviews that are test examples of the sentiment task are left out, and so are the pages whose
English original is in the source model's text (C++ and PowerShell documentation). Beside OUT, in
OUT-lexicon, goes the bilingual lexicon of the dictionary initialiser.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
from pathlib import Path

LINES_PER_DOCUMENT = 40
MICROSOFT = ("aspnetcore", "dotnet", "uwp", "visualstudio")
DEVELOPER = ("diffusers", "fastapi", "hf_course", "pytorch_tutorials", "react")
DEVELOPER += ("tensorflow", "tensorflow_notebooks", "vue")
COMMENTS = ("unlabeled_comments_5", "news_titles")
SOURCES = {
    "precedents": ["mono_ko_precedents/civil-first-90MB.txt.xz"],
    "reviews": ["mono_ko_nsmc_reviews/reviews.txt.xz"],
    "microsoft": [f"mono_ko_msdocs/{name}.txt.xz" for name in MICROSOFT],
    "developer": [f"mono_ko_dev_docs/{name}.txt.xz" for name in DEVELOPER],
    "comments": [f"mono_ko_news_comments/{name}.txt.xz" for name in COMMENTS],
}
LEXICON = "dict_wechsel/english-korean.hangul.tsv.xz"
LEFT_OUT = "task_nsmc_rebuilt/test.jsonl.xz"


def held_out(data: Path) -> set[str]:
    """Test texts of the sentiment task, white space closed up."""
    with lzma.open(data / LEFT_OUT, "rt", encoding="utf-8") as file:
        return {" ".join(json.loads(line)["text"].split()) for line in file}


def write(data: Path, out: Path) -> None:
    forbidden = held_out(data)
    out.mkdir(parents=True, exist_ok=True)
    for name, files in SOURCES.items():
        lines = dropped = documents = 0
        with gzip.GzipFile(out / f"{name}.jsonl.gz", "wb", compresslevel=3, mtime=0) as target:
            for file in files:
                held: list[str] = []
                with lzma.open(data / file, "rt", encoding="utf-8") as text:
                    for line in [*text, None]:
                        if line is not None:
                            if " ".join(line.split()) in forbidden:
                                dropped += 1
                                continue
                            held.append(line.rstrip("\n"))
                            lines += 1
                        if held and (line is None or len(held) == LINES_PER_DOCUMENT):
                            row = {"id": f"{file}#{documents}", "text": "\n".join(held)}
                            target.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
                            documents += 1
                            held = []
        print(f"{name}: {lines:,} lines in {documents:,} documents; {dropped:,} lines left out")
    lexicon = out.with_name(f"{out.name}-lexicon") / "en-ko.tsv"
    lexicon.parent.mkdir(exist_ok=True)
    pairs = lzma.decompress((data / LEXICON).read_bytes())
    lexicon.write_bytes(pairs)
    print(f"lexicon: {len(pairs.splitlines()):,} pairs")


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with the input folders")
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    write(arguments.data, arguments.out)


if __name__ == "__main__":
    main()
