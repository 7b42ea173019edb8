"""Write the text of recipes/veco-*.toml: pairs of English and a language, documents, three tests.

    python research/scripts/build_translation_data.py data build/translation
    python research/scripts/build_translation_data.py data build/translation-de --language de
    python research/scripts/build_translation_data.py --demo build/veco-demo    # of Help alone

- `test-help.tsv`, `dev.tsv`: pairs of LibreOffice Help that are held out. In Korean whole pages,
  the same as the demo holds out (`demo/data/libreoffice-help.en-ko.jsonl.gz`); the German file has
  lost its pages, so stretches of its lines stand for them;
- `test-pud.tsv`, `test-tatoeba.tsv`: UD-PUD and Tatoeba;
- `train.tsv`: the rest of Help, and of Korean the pairs of data/par_en_ko that TAKEN names (what it
  has of Help is not taken, since it has lost its pages), of German those of GERMAN;
- `train-help.tsv`: of these the pairs of LibreOffice, Help and program, which translators are
  fine-tuned on;
- `en.jsonl.gz`, `ko.jsonl.gz`: documents in one language. Files that have lost their pages are cut
  into stretches of lines; Help pages are whole;
- `en-sides.jsonl.gz`, `ko-sides.jsonl.gz`: the sides of `train.tsv`, as text without translations;
- `counts.json`: what stood in each, and what was left out.

A line or pair is left out of training where a side is a text of dev or test, by letters and digits
alone, or shares 13 words in a row with one (`lingraft.corpus.cleaning.decontamination`).
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from build_study_data import stretches

from lingraft.corpus.cleaning.clean import splitter
from lingraft.corpus.cleaning.decontamination import Evaluations
from lingraft.corpus.pairs import Checker, Pair
from lingraft.corpus.split import position, split_of
from lingraft.tasks.reading import lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PAIRS_FILE = Path(__file__).parents[2] / "demo/data/libreoffice-help.en-ko.jsonl.gz"
TAKEN = (
    "par_libreoffice_ui", "par_python_docs", "par_django_docs", "par_tldr", "par_react_docs",
    "par_vue_docs", "par_fastapi_docs", "par_tensorflow_docs", "par_hf_course",
    "par_diffusers_docs", "par_gnome_help", "par_gimp_help", "par_debian_install_guide",
    "par_debian_handbook", "par_mediawiki_messages",
)  # fmt: skip
"""Of par_en_ko. Left out: Microsoft's pages (Korean from a machine), par_korean_parallel (paired by
paragraph, loosely), what is tested on; the non-commercial rows are not in the file."""
PROGRAM = ("par_libreoffice_ui",)
GERMAN_HELP, GERMAN = "par_libreoffice_help", ("par_gnome_help", "par_tldr")
SCRIPTS = {"ko": ("Hang", "Hani"), "de": ("Latn",)}
DOCUMENTS = {
    "en": {
        "mono_en_debian_docs": ("gimp", "gnome", "handbook", "install", "reference"),
        "mono_en_wikitext2": ("test", "valid"),
    },
    "ko": {
        "mono_ko_docs_po": ("django", "python"),
        "mono_ko_dev_docs": ("diffusers", "fastapi", "hf_course", "react", "tensorflow", "vue"),
    },
    "de": {"mono_de_debian_docs": ("gimp", "gnome", "handbook", "install", "reference")},
}
STRETCH_LINES = 50
VALID, TEST, SPLIT_SEED = 0.05, 0.1, 0
"""As the demo's recipes."""
DEV_PAIRS, TEST_PAIRS = 500, 1_000
FEWEST_WORDS = 4
"""Of the English side of a held-out pair: titles and menu entries are not tested."""
MAX_CHARACTERS = 400
Sides = tuple[str, str]
"""English and the other language."""
Pages = dict[str, list[tuple[str, list[Sides]]]]
"""By the side of the split: id, and pairs."""
Counts = dict[str, dict[str, int]]


def help_pages() -> Pages:
    """All pages of LibreOffice Help."""
    found: Pages = {"train": [], "valid": [], "test": []}
    for line in lines(PAIRS_FILE):
        row = json.loads(line)
        pairs = list(zip(row["en"].split("\n"), row["text"].split("\n"), strict=True))
        found[split_of(row["id"], SPLIT_SEED, VALID, TEST)].append((row["id"], pairs))
    return found


def german_stretches(data: Path) -> Pages:
    """LibreOffice Help in German, whose pages are lost: stretches of lines stand for them."""
    found: Pages = {"train": [], "valid": [], "test": []}
    pairs = _two_columns(data / GERMAN_HELP / "en-de.tsv.xz")
    for first in range(0, len(pairs), STRETCH_LINES):
        name = f"{GERMAN_HELP}#{first}"
        stretch = pairs[first : first + STRETCH_LINES]
        found[split_of(name, SPLIT_SEED, VALID, TEST)].append((name, stretch))
    return found


def held_out(
    pages: list[tuple[str, list[Sides]]], count: int, seen: set[str], language: str = "ko"
) -> list[Sides]:
    """So many different pairs of these pages, drawn by a hash, in their order."""
    pairs = []
    for _, page in pages:
        for english, other in checked(page, Counter(), language):
            if len(english.split()) >= FEWEST_WORDS and not seen & {english, other}:
                seen |= {english, other}
                pairs.append((english, other))
    chosen = set(sorted(pairs, key=lambda pair: position(pair[0], SPLIT_SEED, "test"))[:count])
    return [pair for pair in pairs if pair in chosen]


def checked(pairs: Iterable[Sides], dropped: Counter[str], language: str = "ko") -> Iterator[Sides]:
    """Pairs that pass lingraft's own checks; why the others do not is counted."""
    checker = Checker(("Latn",), SCRIPTS[language], MAX_CHARACTERS, dropped=dropped)
    for pair in checker.check(Pair(target=other, source=english) for english, other in pairs):
        yield pair.source, pair.target


def training_pairs(
    data: Path,
    pages: list[tuple[str, list[Sides]]],
    taken: Sequence[str] = TAKEN,
    language: str = "ko",
) -> Iterator[Sides]:
    """Of the pages and of other projects, before any check."""
    for _, page in pages:
        yield from page
    if language == "de":
        for folder in taken:
            yield from _two_columns(data / folder / "en-de.tsv.xz")
        return
    (path,) = (data / "par_en_ko").glob("*.tsv*")
    for line in lines(path):
        folder, english, korean = line.split("\t")
        if folder in taken:
            yield english, korean


def documents(
    data: Path, language: str, pages: list[tuple[str, list[Sides]]]
) -> Iterator[tuple[str, list[str]]]:
    """Ids and lines in one language."""
    for name, page in pages:
        yield name, [pair[language != "en"] for pair in page]
    for folder, names in DOCUMENTS[language].items():
        for name in names:
            (path,) = (data / folder).glob(f"{name}.txt*")
            for number, stretch in enumerate(stretches(lines(path), STRETCH_LINES)):
                yield f"{folder}/{name}#{number * STRETCH_LINES}", stretch


def write_pairs(pairs: Sequence[Sides], path: Path) -> dict[str, int]:
    text = "".join(f"{english}\t{other}\n" for english, other in pairs).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
    return {
        "pairs": len(pairs),
        "English words": sum(len(english.split()) for english, _ in pairs),
        "other words": sum(len(other.split()) for _, other in pairs),
    }


def write_documents(rows: Iterable[tuple[str, list[str]]], path: Path) -> dict[str, int]:
    counts: Counter[str] = Counter()
    with gzip.GzipFile(path, "wb", compresslevel=6, mtime=0) as file:
        for name, text in rows:
            row = {"id": name, "text": "\n".join(text)}
            file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
            counts.update(documents=1, lines=len(text), characters=len(row["text"]))
    return dict(counts)


def evaluations_of(pages: Pages, texts: list[str]) -> Evaluations:
    """What must not be trained on: texts, and every line of a held-out page, chosen or not."""
    held = [page for kind in ("test", "valid") for _, page in pages[kind]]
    lines_of = [side for page in held for pair in page for side in pair]
    return Evaluations(texts + lines_of, splitter("en", split_sentences=False))


def allowed(pairs: list[Sides], evaluations: Evaluations) -> list[Sides]:
    """Pairs of which no side is in dev or test."""
    marks = evaluations.contaminated([english for english, _ in pairs])
    marks |= evaluations.contaminated([other for _, other in pairs])
    return [pair for pair, found in zip(pairs, marks, strict=True) if not found]


def write_demo(out: Path) -> Counts:
    """Write the pairs of Help pages alone."""
    out.mkdir(parents=True, exist_ok=True)
    pages, seen = help_pages(), set[str]()
    sets = {
        "test": held_out(pages["test"], TEST_PAIRS, seen),
        "dev": held_out(pages["valid"], DEV_PAIRS, seen),
    }
    every = (pair for _, page in pages["train"] for pair in page)
    sets["train"] = allowed(list(checked(every, Counter())), evaluations_of(pages, []))
    names = {kind: f"{kind}.tsv.gz" for kind in sets}
    return {names[kind]: write_pairs(pairs, out / names[kind]) for kind, pairs in sets.items()}


def write(data: Path, out: Path, language: str) -> Counts:
    """Write all files.

    Returns:
        What stands in each, by its name.
    """
    out.mkdir(parents=True, exist_ok=True)
    pages, seen = help_pages() if language == "ko" else german_stretches(data), set[str]()
    taken, near = (TAKEN, PROGRAM) if language == "ko" else (GERMAN, ())
    tatoeba = {"ko": "kor", "de": "deu"}[language]
    sets = {
        "test-help.tsv": held_out(pages["test"], TEST_PAIRS, seen, language),
        "dev.tsv": held_out(pages["valid"], DEV_PAIRS, seen, language),
        "test-pud.tsv": _two_columns(data / f"par_ud_pud/en-{language}.tsv.xz"),
        "test-tatoeba.tsv": _two_columns(data / f"par_tatoeba/eng-{tatoeba}.tsv.xz"),
    }
    counts = {name: write_pairs(pairs, out / name) for name, pairs in sets.items()}
    texts = [side for pairs in sets.values() for pair in pairs for side in pair]
    evaluations = evaluations_of(pages, texts)

    dropped: Counter[str] = Counter()
    good = list(checked(training_pairs(data, pages["train"], taken, language), dropped, language))
    train = allowed(good, evaluations)
    dropped["in dev or test"] = len(good) - len(train)
    own = training_pairs(data, pages["train"], near, language)
    help_pairs = set(checked(own, Counter(), language))
    of_help = [pair for pair in train if pair in help_pairs]
    counts["train-help.tsv"] = write_pairs(of_help, out / "train-help.tsv")
    counts["train.tsv"] = write_pairs(train, out / "train.tsv") | dropped
    for column, side in enumerate(("en", language)):
        left: Counter[str] = Counter()
        rows = _clean(documents(data, side, pages["train"]), evaluations, left)
        name = f"{side}.jsonl.gz"
        counts[name] = write_documents(rows, out / name) | left
        sides = list(stretches((pair[column] for pair in train), STRETCH_LINES))
        name = f"{side}-sides.jsonl.gz"
        numbered = ((f"train#{n * STRETCH_LINES}", stretch) for n, stretch in enumerate(sides))
        counts[name] = write_documents(numbered, out / name)
    return counts


def _two_columns(path: Path) -> list[Sides]:
    return [(line.split("\t")[0], line.split("\t")[1]) for line in lines(path)]


def _clean(
    rows: Iterable[tuple[str, list[str]]], evaluations: Evaluations, left: Counter[str]
) -> Iterator[tuple[str, list[str]]]:
    for name, text in rows:
        marks = evaluations.contaminated(text).tolist()
        left["in dev or test"] += sum(marks)
        if kept := [line for line, found in zip(text, marks, strict=True) if not found]:
            yield name, kept


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("data", type=Path, nargs="?", help="folder with the input folders")
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--language", choices=SCRIPTS, default="ko", help="beside English")
    parser.add_argument("--demo", type=Path, help="a folder for the pairs of Help pages alone")
    arguments = parser.parse_args()
    counts = (
        write_demo(arguments.demo)
        if arguments.demo
        else write(arguments.data, arguments.out, arguments.language)
    )
    text = json.dumps(counts, ensure_ascii=False, indent=1)
    if not arguments.demo:
        (arguments.out / "counts.json").write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
