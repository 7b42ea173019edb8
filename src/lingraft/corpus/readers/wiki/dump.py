"""Articles of a MediaWiki dump, or of a part of one, as plain text.

In an export `<` occurs in mark-up only (text is escaped), so that `<page>` and `</page>` delimit
pages whatever stands between them. Every page is parsed alone: one that is broken or gigantic costs
itself, and no entity that a DOCTYPE defines is known in it.

Schema: https://www.mediawiki.org/xml/export-0.11.xsd and its predecessors.
"""

from __future__ import annotations

import bz2
import html
import io
import mmap
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from lingraft.corpus.readers.lines import Counts, check_text, opened, reading_errors
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
    from lingraft.corpus.readers.layout import Row, TextSource

BROKEN_XML, TOO_LARGE, EMPTY_PAGE = "broken XML", "page too large", "empty page"
REDIRECT, OTHER_NAMESPACE = "redirect", "other namespace"
DISAMBIGUATION, NOT_WIKITEXT = "disambiguation page", "not wikitext"
PAGE_BYTES = 4 << 20  # MediaWiki itself refuses to save more than 2 MiB of wikitext
PIECE_BYTES, HEAD_BYTES = 1 << 18, 1 << 20

PAGE, PAGE_END, END = b"<page>", b"</page>", b"</mediawiki>"
ROOT = re.compile(r"<(?![?!])([\w:-]*)([^<>]*)>")
LANGUAGE = re.compile(r"""xml:lang=["']([\w-]*)""")
DATABASE = re.compile(r"<dbname>\s*([^<]+?)\s*</")
NAMESPACE = re.compile(r'<namespace key="(-?\d{1,8})"[^>]*>([^<]+)</namespace>')
# A bz2 stream header (block size 1-9) and the magic of its first block.
STREAM_START = re.compile(rb"BZh[1-9]1AY&SY")
BLOCK_BYTES = 1 << 20  # a block is shorter


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
    starts, size = [0], path.stat().st_size
    if path.suffix.lower() == ".bz2":
        with reading_errors(path), path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            while starts[-1] + target_bytes < size:
                found = STREAM_START.finditer(data, starts[-1] + target_bytes)
                pages = (one.start() for one in found if _begins_with_page(data, one.start()))
                if (start := next(pages, None)) is None:
                    break
                starts.append(start)
    return list(zip(starts, [*starts[1:], size], strict=True))


def _begins_with_page(data: mmap.mmap, start: int) -> bool:
    try:
        head = bz2.BZ2Decompressor().decompress(data[start : start + BLOCK_BYTES], 64)
    except OSError:
        return False
    return head.lstrip().startswith(PAGE)


def wiki_dump(source: TextSource, section: recipe.Corpus, reading: Counts) -> Iterator[Row]:
    """Give the articles of a MediaWiki dump, or of a span of it, in its order.

    A document is named 'WIKI:PAGE' and is the text without the title.

    Raises:
        DataError: the file is unreadable, no dump, cut short or broken.
    """
    with reading_errors(source.file):
        site = _site(source.file)
        for xml in _cut(source.file, source.span):
            page, reason = _page(xml, site) if isinstance(xml, bytes) else (None, xml)
            if page is None:
                reading.drop(reason)
            else:
                yield page


def _pieces(path: Path, span: tuple[int, int] | None) -> Iterator[bytes]:
    """Give the bytes of a dump, decompressed."""
    with opened(path) if span is None else _opened_span(path, span) as stream:
        while piece := stream.read1(PIECE_BYTES):
            yield piece


def _opened_span(path: Path, span: tuple[int, int]) -> bz2.BZ2File:
    with path.open("rb") as file:
        file.seek(span[0])
        return bz2.BZ2File(io.BytesIO(file.read(span[1] - span[0])))


def _site(path: Path) -> Site:
    """Read the description of the wiki, at the beginning of its dump."""
    head = b""
    for piece in _pieces(path, None):
        head += piece
        if PAGE in head or b"</siteinfo>" in head or END in head or len(head) > HEAD_BYTES:
            break
    check_text(path, head[:4096])
    text = head.partition(b"</siteinfo>")[0].decode("utf-8", "replace")
    root = ROOT.search(text)
    if root is None or root[1] != "mediawiki":
        raise DataError(
            f"{path}: is no MediaWiki export; give kowiki-latest-pages-articles.xml.bz2, say"
        )
    language, wiki = LANGUAGE.search(root[2]), DATABASE.search(text)
    names = ((html.unescape(name).strip().lower(), key) for key, name in NAMESPACE.findall(text))
    return Site(
        wiki[1] if wiki else path.name.split("-")[0].split(".")[0],
        language[1] if language else "",
        CANONICAL_NAMESPACES | {name: int(key) for name, key in names},
    )


def _cut(path: Path, span: tuple[int, int] | None) -> Iterator[bytes | str]:
    """Give the XML of each page, or the reason for which it is dropped."""
    buffer = bytearray()
    for piece in _pieces(path, span):
        buffer += piece
        while (end := buffer.find(PAGE_END)) >= 0:
            page = buffer[: end + len(PAGE_END)]
            del buffer[: len(page)]
            begin = max(page.rfind(PAGE), 0)
            yield from [BROKEN_XML] * page.count(PAGE, 0, begin)  # pages that are not closed
            yield bytes(page[begin:]) if len(page) - begin <= PAGE_BYTES else TOO_LARGE
        if len(buffer) > PAGE_BYTES:
            del buffer[PAGE_BYTES : -len(END) - 4]  # stays above the limit until its end
    if END in buffer or (span and span[1] < path.stat().st_size):
        yield from [BROKEN_XML] * buffer.count(PAGE)
    else:
        raise DataError(
            f"{path}: is cut short (</mediawiki> is missing); copy or download the file again"
        )


def _page(xml: bytes, site: Site) -> tuple[Row | None, str]:
    """Return the article, or None and why it is dropped."""
    try:
        page = ET.fromstring(xml, ET.XMLParser(encoding="utf-8"))
    except (ET.ParseError, ValueError):
        return None, BROKEN_XML
    title = page.findtext("title", "").strip()
    revision = page.find("revision[last()]")  # of a history
    of_revision = revision if revision is not None else page
    wikitext = of_revision.findtext("text", "")
    number = page.findtext("id", "").strip()
    of_title = site.namespaces.get(title.partition(":")[0].lower(), 0)  # where none is numbered
    if page.findtext("ns", str(of_title)).strip() != "0":
        return None, OTHER_NAMESPACE
    if not title or not number.isdecimal():
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
    return ((f"{site.wiki}:{int(number)}", text), "") if text else (None, EMPTY_PAGE)
