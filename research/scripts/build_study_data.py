"""Write the text of recipes/study-ko.toml: Korean of several registers, in documents.

    python research/scripts/build_study_data.py data build/study-ko

The input folders hold one sentence or paragraph a line and name their origin and licence in
SOURCE.md (pages/results.md has the table). A document is never cut by the split:

- court decisions: a document is a decision, known by its headnote (`decisions`);
- the other files have lost their boundaries, of pages, films and articles, so a document is a long
  stretch of lines, and only the page or film at either end of it lies on two sides.

Lines that are a text of a task that the study is judged by, by letters and digits alone, or share
13 words in a row with one, are left out (`lingraft.corpus.cleaning.decontamination`), and so are
the pages whose English original is in the source model's text (C++ and PowerShell documentation).
Beside OUT, in OUT-lexicon, goes the bilingual lexicon of the dictionary initializer.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import lzma
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lingraft.corpus.cleaning.clean import splitter
from lingraft.corpus.cleaning.decontamination import Evaluations, letters
from lingraft.tasks import held_out as benchmarks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

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
# Small sources have shorter stretches, so that some of each is held out.
STRETCH_LINES = {"reviews": 1_000, "microsoft": 1_000, "developer": 500, "comments": 500}
LEXICON = "dict_wechsel/english-korean.hangul.tsv.xz"
JUDGED_BY = ("klue-ner", "klue-nli", "klue-sts", "klue-dp")
JUDGED_BY += ("korsts", "nsmc", "khs", "pawsx-ko", "kornli")
BATCH_LINES = 10_000

# The question that a decision answers has no full stop: "… 할 수 있는지 여부(소극)".
ENDS_DECISION = re.compile(r"(판결|결정|명령)(한다|합니다)\.?\Z")
QUESTION = re.compile(
    r"(여부|\([^()]*(적극|소극)[^()]*\)|의미|기준|방법|효력|범위|시기|성질|요건|소재|주체|효과|내용|사례)\Z"
)
FIRST_OF_SEVERAL = ("[1]", "［1］")
# What goes on: items, headings of a decision's parts, signatures and opinions of judges.
GOES_ON = re.compile(r"\[[2-9]|［[2-9]|[가-하]\.|\(|\d|[①-⑳⑴-⑿]|【|대법|재판")
FEWEST_CHARACTERS = 20


def decisions(lines: Iterable[str]) -> Iterator[list[str]]:
    """The court decisions that stand one after the other in a file.

    A decision begins with its headnote: a question without a full stop behind a sentence, or what
    follows the formula that ends one ("주문과 같이 판결한다."). Where neither is left (lines that
    occurred before were taken out of the file) two decisions are one document: none is cut.
    """
    held: list[str] = []
    for line in lines:
        if held and _begins(held[-1], line):
            yield held
            held = []
        held.append(line)
    if held:
        yield held


def _begins(before: str, line: str) -> bool:
    if not before.endswith((".", "】", ")")) or QUESTION.search(before):
        return False
    if line.startswith(FIRST_OF_SEVERAL):
        return not line.endswith(".")
    if GOES_ON.match(line):
        return False
    asks = QUESTION.search(line) is not None and len(line) >= FEWEST_CHARACTERS
    return asks or ENDS_DECISION.search(before) is not None


def stretches(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    """Lines in documents of so many."""
    left = iter(lines)
    while held := list(itertools.islice(left, size)):
        yield held


def left_out(lines: Iterable[str], evaluations: Evaluations) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is a text of a task."""
    for batch in stretches(lines, BATCH_LINES):
        yield from zip(batch, evaluations.contaminated(batch).tolist(), strict=True)


def documents(name: str, lines: Iterable[str]) -> Iterator[list[str]]:
    """The documents of a source."""
    return stretches(lines, STRETCH_LINES[name]) if name in STRETCH_LINES else decisions(lines)


@contextmanager
def archive(path: Path) -> Iterator[Callable[[str, list[str]], int]]:
    """A new file of documents: what adds one, by its name and lines, and says how many lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.GzipFile(path, "wb", compresslevel=3, mtime=0) as target:

        def add(name: str, lines: list[str]) -> int:
            row = {"id": name, "text": "\n".join(lines)}
            target.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
            return len(lines)

        yield add


def write(data: Path, out: Path) -> None:
    """Write the documents of every source, and tell what stood in them."""
    texts = {task.name: benchmarks.texts(task, data) for task in benchmarks.tasks_of(JUDGED_BY)}
    whole_lines = splitter("ko", split_sentences=False)
    evaluations = Evaluations(itertools.chain(*texts.values()), whole_lines, min_letters=1)
    wanted = {letters(text) for own in texts.values() for text in own}
    before: set[str] = set()
    after: set[str] = set()
    for name, files in SOURCES.items():
        lines = dropped = written = 0
        with archive(out / f"{name}.jsonl.gz") as add:
            for file in files:
                with lzma.open(data / file, "rt", encoding="utf-8") as text:
                    raw = [line.rstrip("\n") for line in text]
                marks = [found for _, found in left_out(raw, evaluations)]
                at = 0
                for document in documents(name, raw):
                    own = marks[at : at + len(document)]
                    at += len(document)
                    kept = [line for line, found in zip(document, own, strict=True) if not found]
                    before |= wanted.intersection(map(letters, document))
                    after |= wanted.intersection(map(letters, kept))
                    dropped += sum(own)
                    if kept:
                        lines += add(f"{file}#{written}", kept)
                        written += 1
        print(f"{name}: {lines:,} lines in {written:,} documents; {dropped:,} lines left out")
    for task, own_texts in texts.items():
        own_letters = [found for text in own_texts if (found := letters(text))]
        shares = [
            sum(x in stood for x in own_letters) / len(own_letters) for stood in (before, after)
        ]
        print(
            f"{task}: of {len(own_letters):,} texts {shares[0]:.2%} stood in it, "
            f"now {shares[1]:.2%}"
        )
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
