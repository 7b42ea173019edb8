"""Builds the demo's text from Debian packages, which are downloaded but never installed.

    python scripts/build_demo_data.py                  # demo/data/libreoffice-help.en-ko.jsonl.gz
    python scripts/build_demo_data.py --english DIR    # English text for the demo's source model

The first is LibreOffice Help in Korean and English, aligned by paragraph id. The second is English
documentation (`demo/data/english-sources.toml` names the packages), without the English side of the
Korean pages that the demo holds out. Needs a Debian or Ubuntu machine (apt-get, dpkg-deb) whose
release carries the packages; no root rights, and no Python package besides lingraft.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from documentation_pages import drop_reason, read_blocks

from lingraft.corpus.split import split_of
from lingraft.errors import DataError, LingraftError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

REPOSITORY = Path(__file__).resolve().parent.parent
PAIRS_FILE = REPOSITORY / "demo/data/libreoffice-help.en-ko.jsonl.gz"
SOURCES_FILE = REPOSITORY / "demo/data/english-sources.toml"
HELP_EN, HELP_KO = "libreoffice-help-en-us", "libreoffice-help-ko"
HELP_ROOT = {HELP_EN: "usr/share/libreoffice/help/en-US", HELP_KO: "usr/share/libreoffice/help/ko"}
HELP_LEFT_OUT = frozenset(["code", "codeintable", "smathcode", "related"])


def help_page(path: Path) -> dict[str, str]:
    """Paragraphs of a LibreOffice Help page by id; a page may embed others whose ids repeat."""
    page = path.read_text(encoding="utf-8")
    page = page[page.find('<div id="DisplayArea"') : page.find('<div id="SearchFrame"')]
    seen: Counter[str] = Counter()
    paragraphs = {}
    for block in read_blocks(page):
        if re.match(r"(par|hd|lang)_", block.name) and not block.classes & HELP_LEFT_OUT:
            seen[block.name] += 1
            paragraphs[f"{block.name}#{seen[block.name]}"] = block.text
    return paragraphs


def is_translated(korean: str, english: str) -> bool:
    """Whether a paragraph is Korean, not the English one or a mixture with English sentences."""
    return (
        korean != english
        and re.search("[가-힣]", korean) is not None
        and re.search(r"</?[A-Z]+\b", korean) is None
        and re.search(r"\b(?:[A-Za-z][a-z']*,? ){5}[a-z]+\b", korean) is None
    )


def aligned(
    korean: dict[str, str],
    english: dict[str, str],
    is_good: Callable[[str, str], bool] = is_translated,
) -> Iterator[tuple[str, str]]:
    """Pairs of translated paragraphs of a page; none twice.

    Where the two pages do not hold the same ids in the same order, an id that repeats in a page
    cannot be told apart and is left out.
    """
    repeated = {key.split("#")[0] for key in [*korean, *english] if not key.endswith("#1")}
    same_order = list(korean) == list(english)
    seen = set()
    for key, text in korean.items():
        if key not in english or (key.split("#")[0] in repeated and not same_order):
            continue
        if text not in seen and is_good(text, english[key]):
            seen.add(text)
            yield text, english[key]


def help_pages(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Id and paragraphs of each page of LibreOffice Help, in the order of the ids.

    Raises:
        DataError: the folder holds no help pages.
    """
    paths = {
        path.relative_to(folder).with_suffix("").as_posix(): path
        for path in folder.glob("text/**/*.html")
    }
    if not paths:
        raise DataError(f"{folder}: has no help pages (text/**/*.html); use Debian 12")
    for name in sorted(paths):
        yield name, help_page(paths[name])


def pair_rows(english: Path, korean: Path) -> Iterator[dict[str, str]]:
    """One row a page that has translated paragraphs: id, text (Korean), en; paragraph i ↔ i."""
    originals = dict(help_pages(english))
    for name, paragraphs in help_pages(korean):
        pairs = list(aligned(paragraphs, originals.get(name, {})))
        if pairs:
            text, en = ("\n".join(side) for side in zip(*pairs, strict=True))
            yield {"id": name, "text": text, "en": en}


def write_pairs(rows: list[dict[str, str]], path: Path) -> None:
    """Write gzipped JSON lines; the bytes depend on the rows alone (the header holds no time)."""
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(gzip.compress(lines.encode(), compresslevel=9, mtime=0))
    temporary.replace(path)


@dataclass(frozen=True)
class Package:
    """An unpacked Debian package."""

    name: str
    version: str
    root: Path


def call(*command: str, folder: Path) -> str:
    """Output of a command.

    Raises:
        DataError: it is not installed, or it failed.
    """
    if shutil.which(command[0]) is None:
        raise DataError(f"{command[0]}: is not installed; run this script on Debian or Ubuntu")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise DataError(f"{' '.join(command)}: {reason}; run apt-get update, or use Debian 12")
    return done.stdout


def fetch(name: str, folder: Path) -> Package:
    """Download a package into `folder`, unless it is there, and unpack it; nothing is installed."""
    if not list(folder.glob(f"{name}_*.deb")):
        call("apt-get", "download", name, folder=folder)
    file = next(folder.glob(f"{name}_*.deb"))
    root = folder / name
    if not root.exists():
        partial = folder / f"{name}.partial"
        call("dpkg-deb", "-x", str(file), str(partial), folder=folder)
        partial.replace(root)
    return Package(name, call("dpkg-deb", "-f", str(file), "Version", folder=folder).strip(), root)


@dataclass(frozen=True)
class Source:
    """A package in `english-sources.toml`; its fields are described there."""

    name: str
    form: str
    licence: str
    files: list[str]
    leave_out: str = "$^"


@dataclass
class Tally:
    """What one package gave."""

    paragraphs: int = 0
    words: int = 0
    characters: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Add what another package gave."""
        self.paragraphs += other.paragraphs
        self.words += other.words
        self.characters += other.characters
        self.dropped += other.dropped

    def cells(self) -> str:
        """Three cells of a Markdown table."""
        return f"{self.paragraphs:,} | {self.words:,} | {self.characters:,}"


def read_page(path: Path) -> str:
    """A page as text, unpacked if need be; old pages are in Latin-1."""
    data = path.read_bytes()
    data = bz2.decompress(data) if path.suffix == ".bz2" else data
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def source_pages(source: Source, root: Path) -> Iterator[tuple[str, list[str]]]:
    """Id and paragraphs of each page of a package, in the order of the paths.

    Raises:
        DataError: no file of the package matches.
    """
    if source.form == "help":
        for name, paragraphs in help_pages(root / source.files[0]):
            yield name, list(paragraphs.values())
        return
    paths = sorted(
        {path for pattern in source.files for path in root.glob(pattern) if path.is_file()}
    )
    if not paths:
        patterns = " ".join(source.files)
        raise DataError(f"{source.name}: no file matches {patterns}; correct {SOURCES_FILE.name}")
    for path in paths:
        name = path.relative_to(root).as_posix()
        if re.search(source.leave_out, name):
            continue
        pages = [read_page(path)]
        if source.form == "kde":
            pages = re.split(r"<FILENAME filename=[^>]*>", pages[0])[1:]
        for number, page in enumerate(pages):
            blocks = read_blocks(page, xml=source.form == "xml")
            yield f"{source.name}/{name}#{number}", [block.text for block in blocks]


def is_held_out(page: str) -> bool:
    """Whether the demo validates or tests on a help page (the split of `recipes/demo.toml`)."""
    return split_of(page, seed=0, valid=0.05, test=0.1) != "train"


def held_out_text(pages: Iterable[tuple[str, list[str]]]) -> tuple[set[str], set[str]]:
    """Ids of the help pages that the demo holds out, and their English paragraphs in lower case."""
    held = {name: text for name, text in pages if is_held_out(name)}
    return set(held), {paragraph.casefold() for text in held.values() for paragraph in text}


class EnglishText:
    """Collects the English training text: clean prose, no paragraph twice, nothing held out."""

    def __init__(self, held_pages: set[str], held_paragraphs: set[str]) -> None:
        self.held_pages, self.held_paragraphs = held_pages, held_paragraphs
        self.seen: set[str] = set()

    def clean(self, name: str, paragraphs: list[str], tally: Tally) -> list[str]:
        """The paragraphs of a page that may be trained on; what is dropped is counted by reason."""
        if name in self.held_pages:
            tally.dropped["held-out page"] += len(paragraphs)
            return []
        kept = []
        for paragraph in paragraphs:
            key = paragraph.casefold()
            reason = drop_reason(paragraph)
            if key in self.held_paragraphs:
                reason = "held-out paragraph"
            elif key in self.seen:
                reason = "duplicate"
            if reason is not None:
                tally.dropped[reason] += 1
                continue
            self.seen.add(key)
            kept.append(paragraph)
            tally.paragraphs += 1
            tally.words += len(paragraph.split())
            tally.characters += len(paragraph)
        return kept


def write_english(sources: list[tuple[Source, Package]], folder: Path) -> dict[str, Tally]:
    """Write `english.jsonl` (id, text; one page a row) and count by package."""
    help_source, help_package = next(one for one in sources if one[0].form == "help")
    collected = EnglishText(*held_out_text(source_pages(help_source, help_package.root)))
    tallies = {source.name: Tally() for source, _ in sources}
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / ".english.jsonl.tmp"
    with temporary.open("w", encoding="utf-8") as file:
        for source, package in sources:
            for name, paragraphs in source_pages(source, package.root):
                if kept := collected.clean(name, paragraphs, tallies[source.name]):
                    row = {"id": name, "text": "\n".join(kept)}
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
    temporary.replace(folder / "english.jsonl")
    return tallies


def build_pairs(debs: Path) -> None:
    """Build the Korean and English pages of the demo, and print what they hold."""
    english, korean = (fetch(name, debs) for name in (HELP_EN, HELP_KO))
    rows = list(pair_rows(english.root / HELP_ROOT[HELP_EN], korean.root / HELP_ROOT[HELP_KO]))
    write_pairs(rows, PAIRS_FILE)
    for package in (english, korean):
        print(f"{package.name} {package.version}")
    texts, originals = (
        [text for row in rows for text in row[side].split("\n")] for side in ("text", "en")
    )
    counts = {
        "pages": len(rows),
        "pairs": len(texts),
        "different pairs": len(set(zip(texts, originals, strict=True))),
        "different Korean": len(set(texts)),
        "Korean characters": sum(map(len, texts)),
        "Korean bytes": sum(len(text.encode()) for text in texts),
        "bytes on disk": PAIRS_FILE.stat().st_size,
    }
    for what, count in counts.items():
        print(f"{what:<20}{count:>10,}")


def build_english(debs: Path, folder: Path) -> None:
    """Build the English training text, and print a Markdown table of what each package gave."""
    listed = tomllib.loads(SOURCES_FILE.read_text(encoding="utf-8"))["package"]
    sources = [(Source(**entry), fetch(entry["name"], debs)) for entry in listed]
    tallies = write_english(sources, folder)
    print("| package | version | licence | paragraphs | words | characters |")
    print("|---|---|---|--:|--:|--:|")
    total = Tally()
    for source, package in sources:
        tally = tallies[source.name]
        total.add(tally)
        print(f"| {source.name} | {package.version} | {source.licence} | {tally.cells()} |")
    print(f"| total | | | {total.cells()} |")
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in total.dropped.most_common())
    print(f"\nDropped paragraphs: {dropped}.")
    file = folder / "english.jsonl"
    print(f"{file}: {file.stat().st_size:,} bytes")


def run(parser: argparse.ArgumentParser, build: Callable[[argparse.Namespace, Path], None]) -> int:
    """Read the command line and build, with the packages in --debs or a folder that goes again."""
    parser.add_argument(
        "--debs", type=Path, metavar="DIR", help="keep the downloaded packages here"
    )
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="lingraft-debs-") as temporary:
            debs = options.debs or Path(temporary)
            debs.mkdir(parents=True, exist_ok=True)
            build(options, debs)
    except LingraftError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def main() -> int:
    """The demo's pairs, or the English text of its source."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--english", type=Path, metavar="DIR", help="write the English training text here instead"
    )

    def build(options: argparse.Namespace, debs: Path) -> None:
        if options.english is None:
            build_pairs(debs)
        else:
            build_english(debs, options.english)

    return run(parser, build)


if __name__ == "__main__":
    sys.exit(main())
