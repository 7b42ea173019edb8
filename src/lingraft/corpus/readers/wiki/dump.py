"""Articles of a MediaWiki dump, or of a part of one, as plain text.

In an export `<` occurs in mark-up only (text is escaped), so that `<page>` and `</page>` delimit
pages whatever stands between them. Every page is parsed alone: one that is broken or gigantic costs
itself, and no entity that a DOCTYPE defines is known in it.

Schema: https://www.mediawiki.org/xml/export-0.11.xsd and its predecessors.
"""

from __future__ import annotations

import bz2
import codecs
import html
import io
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from lingraft.corpus.readers.lines import (
    Reading,
    check_text,
    opened,
    reading_errors,
)
from lingraft.corpus.readers.wiki.text import (
    CANONICAL_NAMESPACES,
    MarkupError,
    Site,
    is_disambiguation,
    plain_text,
)
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lingraft import recipe
    from lingraft.corpus.readers.documents import Row, Source

BROKEN_XML, TOO_LARGE, EMPTY_PAGE = "broken XML", "page too large", "empty page"
REDIRECT, OTHER_NAMESPACE = "redirect", "other namespace"
DISAMBIGUATION, NOT_WIKITEXT = "disambiguation page", "not wikitext"
PAGE_BYTES = 4 << 20  # MediaWiki itself refuses to save more than 2 MiB of wikitext
PIECE_BYTES, HEAD_BYTES = 1 << 18, 1 << 20
# Nine pages in ten broken: the file is something else, or in another encoding.
BROKEN_ODDS = 9
OUTCOME = "the complete pages before it were read"
GIVE = "give a file such as kowiki-latest-pages-articles.xml.bz2"

PAGE, PAGE_END, END = b"<page>", b"</page>", b"</mediawiki>"
ROOT = re.compile(r"<(?![?!])([\w:-]*)([^<>]*)>")
LANGUAGE = re.compile(r"""xml:lang=["']([\w-]*)""")
DATABASE = re.compile(r"<dbname>\s*([^<]+?)\s*</")
NAMESPACE = re.compile(r'<namespace key="(-?\d{1,8})"[^>]*>([^<]+)</namespace>')
# A bz2 stream header (block size 1-9) and the magic of its first block.
STREAM_START = re.compile(rb"BZh[1-9]1AY&SY")
STREAM_START_BYTES = 10


def spans(path: Path, target_bytes: int) -> list[tuple[int, int]]:
    """Cut a multistream bz2 dump into spans that can be read in parallel.

    Cut is where a stream, which is byte-aligned, begins with a page, as Wikimedia makes them: from
    every multiple of `target_bytes` the next one is looked for. The index that is published beside
    the dumps is not needed.

    Args:
        path: the dump.
        target_bytes: compressed bytes a span should hold.

    Returns:
        First byte and end of one span or more, which cover the file.

    Raises:
        DataError: the file cannot be read.
    """
    starts = [0]
    with reading_errors(path, OUTCOME):
        size = path.stat().st_size
        if path.suffix.lower() == ".bz2":
            with path.open("rb") as file:
                while starts[-1] + target_bytes < size:
                    start = _next_page_stream(file, starts[-1] + target_bytes)
                    if start is None:
                        break
                    starts.append(start)
    return list(zip(starts, [*starts[1:], size], strict=True))


def _next_page_stream(file: io.BufferedReader, position: int) -> int | None:
    file.seek(position)
    buffer = b""
    while data := file.read(PIECE_BYTES):
        buffer += data
        for match in STREAM_START.finditer(buffer):
            start = file.tell() - len(buffer) + match.start()
            if _begins_with_page(file, start):
                return start
        buffer = buffer[1 - STREAM_START_BYTES :]
    return None


def _begins_with_page(file: io.BufferedReader, start: int) -> bool:
    back = file.tell()
    file.seek(start)
    decompressor, head = bz2.BZ2Decompressor(), b""
    try:
        while len(head) < 64 and not decompressor.eof and (data := file.read(PIECE_BYTES)):
            head += decompressor.decompress(data, 64)
    except (OSError, EOFError):
        head = b""
    file.seek(back)
    return head.lstrip().startswith(PAGE)


def pages(
    path: Path,
    reading: Reading,
    page_bytes: int = PAGE_BYTES,
    span: tuple[int, int] | None = None,
) -> Iterator[Row]:
    """Give name ('kowiki:123'), text, title and revision of the articles of a dump, in its order.

    Args:
        path: an XML export; plain, .bz2 (one stream or many), .gz, .xz or .zst.
        reading: counts what is dropped and why; the caller counts what it gets.
        page_bytes: longer pages, as XML, are dropped.
        span: one of `spans`; None is the whole.

    Raises:
        DataError: the file is unreadable, no dump, cut short or broken.
    """
    good = broken = 0
    with reading_errors(path, OUTCOME):
        site = _site(path)
        for xml in _cut(path, page_bytes, span):
            page, reason = _page(xml, site) if isinstance(xml, bytes) else (None, xml)
            broken += reason == BROKEN_XML
            if page is None:
                reading.drop(reason)
            else:
                good += 1
                yield page
    if broken > BROKEN_ODDS * max(good, 1):
        raise DataError(
            f"{path}: {broken:,} of its pages are broken XML and {good:,} are not, so it "
            "is damaged or not UTF-8; copy or download the file again"
        )


def _pieces(path: Path, span: tuple[int, int] | None) -> Iterator[bytes]:
    """Give the bytes of a dump, decompressed, as UTF-8."""
    try:
        with opened(path) if span is None else _opened_span(path, span) as stream:
            utf16 = stream.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
            decoder = codecs.getincrementaldecoder("utf-16")("replace")
            while piece := stream.read1(PIECE_BYTES):
                yield decoder.decode(piece).encode() if utf16 else piece
    except EOFError:
        raise _cut_short(path) from None


def _opened_span(path: Path, span: tuple[int, int]) -> bz2.BZ2File:
    with path.open("rb") as file:
        file.seek(span[0])
        return bz2.BZ2File(io.BytesIO(file.read(span[1] - span[0])))


def _site(path: Path) -> Site:
    """Read the description of the wiki, at the beginning of its dump."""
    head = b""
    for piece in _pieces(path, None) if path.stat().st_size else ():
        head += piece
        if PAGE in head or b"</siteinfo>" in head or END in head or len(head) > HEAD_BYTES:
            break
    check_text(path, head[:4096])
    text = head.partition(b"</siteinfo>")[0].decode("utf-8", "replace")
    root = ROOT.search(text)
    if root is None or root[1] != "mediawiki":
        raise DataError(f"{path}: is no MediaWiki export (no <mediawiki> begins it); {GIVE}")
    language, wiki = LANGUAGE.search(root[2]), DATABASE.search(text)
    names = ((html.unescape(name).strip().lower(), key) for key, name in NAMESPACE.findall(text))
    return Site(
        wiki[1] if wiki else path.name.split("-")[0].split(".")[0],
        language[1] if language else "",
        CANONICAL_NAMESPACES | {name: int(key) for name, key in names},
    )


def _cut(path: Path, limit: int, span: tuple[int, int] | None) -> Iterator[bytes | str]:
    """Give the XML of each page, or the reason for which it is dropped."""
    buffer = bytearray()
    for piece in _pieces(path, span):
        buffer += piece
        while (end := buffer.find(PAGE_END)) >= 0:
            page = buffer[: end + len(PAGE_END)]
            del buffer[: len(page)]
            begin = max(page.rfind(PAGE), 0)
            yield from [BROKEN_XML] * page.count(PAGE, 0, begin)  # pages that are not closed
            yield bytes(page[begin:]) if len(page) - begin <= limit else TOO_LARGE
        if len(buffer) > limit:
            del buffer[limit : -len(END) - 4]  # stays above the limit until its end
    if END in buffer or (span and span[1] < path.stat().st_size):
        yield from [BROKEN_XML] * buffer.count(PAGE)
    else:
        raise _cut_short(path)


def _cut_short(path: Path) -> DataError:
    return DataError(
        f"{path}: is cut short (</mediawiki> is missing); the complete pages before the cut were "
        "read; copy or download the file again"
    )


def _page(xml: bytes, site: Site) -> tuple[Row | None, str]:
    """The article, or None and why it is dropped."""
    try:
        page = ET.fromstring(xml, ET.XMLParser(encoding="utf-8"))
    except (ET.ParseError, ValueError):
        return None, BROKEN_XML
    title = page.findtext("title", "").strip()
    revision = page.find("revision[last()]")  # of a history
    of_revision = revision if revision is not None else page
    wikitext = of_revision.findtext("text", "")
    numbers = [page.findtext("id", "").strip(), of_revision.findtext("id", "").strip()]
    of_title = site.namespaces.get(title.partition(":")[0].lower(), 0)  # where none is numbered
    if page.findtext("ns", str(of_title)).strip() != "0":
        return None, OTHER_NAMESPACE
    if not title or not all(number.isdecimal() and len(number) < 19 for number in numbers):
        return None, BROKEN_XML
    if page.find("redirect") is not None or wikitext.lstrip()[:9].lower() == "#redirect":
        return None, REDIRECT
    if of_revision.findtext("model", "wikitext").strip() != "wikitext":
        return None, NOT_WIKITEXT
    if is_disambiguation(wikitext, site.language):
        return None, DISAMBIGUATION
    try:
        text = plain_text(wikitext, site)
    except MarkupError as error:
        return None, str(error)
    facts: dict[str, str | int] = {"title": title, "revision": int(numbers[1])}
    return ((f"{site.wiki}:{int(numbers[0])}", text, facts), "") if text else (None, EMPTY_PAGE)


def wiki_dump(source: Source, section: recipe.Corpus, reading: Reading) -> Iterator[Row]:
    """A MediaWiki dump: an article a document, named 'WIKI:PAGE', its text without the title.

    Title and revision go with it. Has the form of the readers in
    `lingraft.corpus.readers.documents`.

    Args:
        source: the dump, or one span of it.
        section: `max_line_bytes` is the limit for the XML of a page, if it is below 4 MiB.
        reading: counts.

    Raises:
        DataError: as `pages`.
    """
    assert source.path is not None
    page_bytes = min(section.max_line_bytes, PAGE_BYTES)
    return pages(source.path, reading, page_bytes, source.span)
