"""Text quality and speed of our Wikipedia reader beside WikiExtractor's.

WikiExtractor is AGPL and no dependency of ours; it goes into an environment of its own:

    python -m venv build/wikiextractor && build/wikiextractor/bin/pip install wikiextractor==3.1.0
    python research/benchmarks/wikiextractor.py compare \
        --python build/wikiextractor/bin/python DUMP...

`compare` prints three Markdown tables: what each leaves of single constructs, what each leaves of
the same pages of the dumps, and pages per second. Both programs run as processes of their own, one
worker each, on the same plain XML, one after the other, `--runs` times in turn; the fastest run
counts. WikiExtractor runs with `--no-templates`: the fragments hold no template pages.
"""

from __future__ import annotations

import argparse
import bz2
import json
import random
import re
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from shared import head, timed

from lingraft.corpus.readers.documents import read
from lingraft.corpus.readers.layout import TextSource
from lingraft.corpus.readers.lines import HOLE, Counts, opened
from lingraft.recipe import Corpus

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = (
    '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="{0}">\n'
    "  <siteinfo>\n    <sitename>Wikipedia</sitename>\n    <dbname>{0}wiki</dbname>\n"
    "    <base>https://{0}.wikipedia.org/wiki/Main_Page</base>\n    <namespaces>\n"
    '      <namespace key="0" case="first-letter" />\n'
    '      <namespace key="6" case="first-letter">File</namespace>\n'
    '      <namespace key="10" case="first-letter">Template</namespace>\n'
    '      <namespace key="14" case="first-letter">Category</namespace>\n'
    "    </namespaces>\n  </siteinfo>\n"
)
PAGE = (
    "  <page>\n    <title>{}</title>\n    <ns>0</ns>\n    <id>{}</id>\n    <revision>\n"
    "      <id>{}</id>\n      <timestamp>2024-01-01T00:00:00Z</timestamp>\n      <contributor>\n"
    "        <username>A</username>\n        <id>1</id>\n      </contributor>\n"
    "      <model>wikitext</model>\n      <format>text/x-wiki</format>\n"
    '      <text xml:space="preserve">{}</text>\n      <sha1>x</sha1>\n    </revision>\n  </page>\n'
)
FOOTER = "</mediawiki>\n"
STREAM_PAGES = 100

# Construct, wikitext, what a reader of the page sees without tables, images and the like.
CONSTRUCTS = [
    ("link with label", "In [[Seoul City|Seoul]]s today.", "In Seouls today."),
    ("bold, italic", "A '''b''' ''c'' '''''d''''' l'''Iliade''.", "A b c d l'Iliade."),
    ("nested templates", "A {{x|{{y|[[z]]}}|k={{w}}}} b.", "A b."),
    ("{{lang}}", "A {{lang|fr|maison}} b.", "A maison b."),
    ("{{nowrap}}, {{convert}}", "A {{nowrap|b c}} {{convert|5|km|mi}} d.", "A b c 5 km d."),
    ("unclosed template", "A {{b c.\n\nSecond paragraph.", "A b c.\nSecond paragraph."),
    ("reference", 'A<ref name="x">y {{z}}</ref> b<ref name="x" />.', "A b."),
    ("nowiki", "A <nowiki>[[b]] ''c'' {{d}}</nowiki> e.", "A [[b]] ''c'' {{d}} e."),
    ("math", "A <math>x^{2} [[</math> b.", "A b."),
    ("comment", "A <!-- {{ [[ --> b.", "A b."),
    ("entities", "A &amp; b&nbsp;c &lt;d&gt; &#39;e&#39;.", "A & b c <d> 'e'."),
    ("less-than sign", "A 1 < 2 and 3 > 2.", "A 1 < 2 and 3 > 2."),
    ("<small>, <sub>, <br>", "A <small>b</small> H<sub>2</sub>O<br />c.", "A b H2O\nc."),
    ("<div>", "A\n<div class=x>\nb\n</div>\nc", "A\nb\nc"),
    ("list", "A:\n* b\n** [[c]]\n# d\n: e", "A:\nb\nc\nd\ne"),
    ("definition list", "A\n; b\n: c\nd", "A\nb\nc\nd"),
    ("table", "A\n{| class=x\n|-\n! b !! c\n|-\n| d || e\n|}\nf", "A\nf"),
    ("table in table", "A\n{|\n| b\n{|\n| c\n|}\n| d\n|}\nf", "A\nf"),
    ("table ended by </table>", "A\n{| border=1\n| b\n</table>\nf", "A\nf"),
    ("image, nested caption", "A\n[[File:b.png|thumb|c [[d|e]] f]]\ng", "A\ng"),
    ("gallery", "A\n<gallery>\nFile:b.png|c [[d]]\n</gallery>\ne", "A\ne"),
    ("category, language link", "A\n[[Category:B|c]]\n[[fr:D]]\ne", "A\ne"),
    ("external links", "A [http://b.org c d] e [http://f.org] g.", "A c d e g."),
    ("magic words", "__NOTOC__ A {{PAGENAME}} b.", "A Title b."),
    ("empty parentheses", "A ({{lang-xx|b}}; {{c}}) d, main() e.", "A d, main() e."),
    ("code block", 'A\n<syntaxhighlight lang="c">\nint a;\n</syntaxhighlight>\nb', "A\nb"),
    ("ruby", "A <ruby>漢字<rp>(</rp><rt>かんじ</rt><rp>)</rp></ruby> b.", "A 漢字 b."),
]
LEFTOVER = re.compile(
    r"\[\[|\]\]|\{\{|\}\}|\{\||\|\}|'''|</?(?:ref|div|span|br|table)\b|&(?:nbsp|lt|gt|amp);"
)
WORD = re.compile(r"\w+")
STREAM_PAGES = 100


@dataclass
class Run:
    """Texts by page number, seconds on the clock, seconds of processors."""

    texts: dict[int, str]
    wall: float
    cpu: float


def run_lingraft(xml: Path, out: Path) -> Run:
    path = out / "lingraft.jsonl"
    _, wall, cpu = timed([sys.executable, __file__, "extract", str(xml), str(path)])
    with path.open() as file:
        rows = [json.loads(line) for line in file]
    return Run({row["id"]: row["text"] for row in rows}, wall, cpu)


def run_wikiextractor(python: str, xml: Path, out: Path) -> Run:
    folder = out / "wikiextractor"
    options = ["--json", "--no-templates", "--quiet", "--processes", "1", "--output", str(folder)]
    _, wall, cpu = timed([python, "-m", "wikiextractor.WikiExtractor", *options, str(xml)])
    texts = {}
    for path in sorted(folder.glob("*/*")):
        with path.open() as file:
            texts |= {int(row["id"]): row["text"] for row in map(json.loads, file)}
    return Run(texts, wall, cpu)


def both(python: str, xml: Path, runs: int) -> tuple[Run, Run]:
    """The fastest of `runs` runs of each, taken in turn."""
    ours, theirs = [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as out:
            ours.append(run_lingraft(xml, Path(out)))
            theirs.append(run_wikiextractor(python, xml, Path(out)))
    return min(ours, key=lambda run: run.wall), min(theirs, key=lambda run: run.wall)


def export(language: str, texts: list[str]) -> str:
    body = "".join(
        PAGE.format("Title", at, at + 1000, escape(text, {'"': "&quot;"}))
        for at, text in enumerate(texts, 1)
    )
    return HEADER.format(language) + body + FOOTER


def spaced(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def cell(text: str) -> str:
    return "`` " + " ⏎ ".join(spaced(text)).replace("|", "\\|").replace("`", "'") + " ``"


def compare_constructs(python: str, folder: Path) -> None:
    xml = folder / "constructs.xml"
    xml.write_text(export("en", [text for _, text, _ in CONSTRUCTS]))
    ours, theirs = both(python, xml, 1)
    print(head("construct", "wanted", "lingraft", "WikiExtractor"))
    for at, (name, _, wanted) in enumerate(CONSTRUCTS, 1):
        cells = [
            "the same" if spaced(run.texts.get(at, "")) == spaced(wanted)
            else cell(run.texts.get(at, ""))
            for run in (ours, theirs)
        ]  # fmt: skip
        print(f"| {name} | {cell(wanted)} | {cells[0]} | {cells[1]} |")


def compare_dumps(python: str, dumps: list[Path], folder: Path, runs: int) -> None:
    counts = ("characters", "words", "only here", "markup left")
    quality = [head("dump", "pages in both", "program", *counts)]
    rates = ("seconds", "pages/s", "CPU seconds", "pages/CPU s")
    speed = [head("dump", "program", "pages out", *rates)]
    for dump in dumps:
        xml = folder / "dump.xml"
        with xml.open("wb") as file, opened(dump) as pieces:
            shutil.copyfileobj(pieces, file)
        ours, theirs = both(python, xml, runs)
        common = sorted(
            at for at in ours.texts.keys() & theirs.texts.keys() if theirs.texts[at].strip()
        )
        rates: list[tuple[float, float]] = []  # pages a second, and a CPU second
        words = [
            sum((Counter(WORD.findall(run.texts[at])) for at in common), Counter())
            for run in (ours, theirs)
        ]
        for name, run, own, other in (
            ("lingraft", ours, words[0], words[1]),
            ("WikiExtractor", theirs, words[1], words[0]),
        ):
            text = "\n".join(run.texts[at] for at in common)
            quality.append(
                f"| {dump.name} | {len(common):,} | {name} | {len(text):,} | {own.total():,} "
                f"| {(own - other).total():,} | {len(LEFTOVER.findall(text)):,} |"
            )
            count = sum(bool(text.strip()) for text in run.texts.values())
            rates.append((count / run.wall, count / run.cpu))
            speed.append(
                f"| {dump.name} | {name} | {count:,} | {run.wall:.2f} | {count / run.wall:,.0f} "
                f"| {run.cpu:.2f} | {count / run.cpu:,.0f} |"
            )
        speed.append(
            "| | lingraft : WikiExtractor | | | **{:.1f} ×** | | **{:.1f} ×** |".format(
                *(own / other for own, other in zip(*rates, strict=True))
            )
        )
    print("\n" + "\n".join(quality) + "\n\n" + "\n".join(speed))


def generated(path: Path, count: int, copy_every: int | None = None) -> int:
    """Write a multistream dump of pages of some 2,000 characters, 100 to a stream.

    Args:
        path: of the dump.
        count: of its pages.
        copy_every: one of so many is nearly a copy of the page before it; None has none.

    Returns:
        The bytes of its XML.
    """
    rng = random.Random(0)
    vocabulary = ["".join(rng.choices("aeioklmnrstu", k=rng.randint(2, 9))) for _ in range(5_000)]
    kinds = [text for _, text, _ in CONSTRUCTS]

    def streams() -> Iterator[str]:
        yield HEADER.format("en")
        text = ""
        for start in range(1, count + 1, STREAM_PAGES):
            stream = []
            for at in range(start, min(start + STREAM_PAGES, count + 1)):
                paragraphs = [
                    " ".join(rng.choices(vocabulary, k=50)) + ".\n\n" + rng.choice(kinds)
                    for _ in range(6)
                ]
                if copy_every and at % copy_every == 0:
                    text = text.replace(vocabulary[7], vocabulary[8]) + "\n\nOne line more."
                else:
                    text = "\n\n".join(paragraphs)
                stream.append(PAGE.format(f"Page {at}", at, at, escape(text, {'"': "&quot;"})))
            yield "".join(stream)
        yield FOOTER

    size = 0
    with path.open("wb") as file:
        for stream in streams():
            data = stream.encode()
            file.write(bz2.compress(data))
            size += len(data)
    return size


def extract(dump: Path, out: Path) -> None:
    with out.open("w") as file:
        section = Corpus(text=(str(dump),))
        for document in read(TextSource(dump.name, dump), section, Counts()):
            number = document.id.rpartition(":")[2]
            row = {"id": number, "text": document.text.replace(HOLE, "")}
            file.write(json.dumps(row) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("compare")
    one.add_argument("dumps", nargs="+", type=Path)
    one.add_argument("--python", required=True, help="Python that has wikiextractor")
    one.add_argument("--runs", type=int, default=3)
    one = commands.add_parser("extract")
    one.add_argument("dump", type=Path)
    one.add_argument("out", type=Path)
    given = parser.parse_args()
    if given.command == "compare":
        with tempfile.TemporaryDirectory() as folder:
            compare_constructs(given.python, Path(folder))
            compare_dumps(given.python, given.dumps, Path(folder), given.runs)
    else:
        extract(given.dump, given.out)


if __name__ == "__main__":
    main()
