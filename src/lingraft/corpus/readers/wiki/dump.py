"""Articles of a MediaWiki dump, or of one block of it, as plain text."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from lingraft.corpus.readers.lines import HOLE, Reading
from lingraft.corpus.readers.wiki import streams
from lingraft.corpus.readers.wiki.balance import MarkupError
from lingraft.corpus.readers.wiki.cutting import BROKEN_XML, EMPTY_PAGE, REDIRECT, Cut, Cutter
from lingraft.corpus.readers.wiki.disambiguation import is_disambiguation
from lingraft.corpus.readers.wiki.export import NotWikitextError, Page, Site, parse_page, parse_site
from lingraft.corpus.readers.wiki.plain import plain_text, tokenizer
from lingraft.corpus.readers.wiki.streams import Block
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lingraft import recipe
    from lingraft.corpus.readers.documents import Row, Source

DISAMBIGUATION = "disambiguation page"
NOT_WIKITEXT = "not wikitext"
PAGE_BYTES = 4 << 20  # MediaWiki itself refuses to save more than 2 MiB of wikitext
# Nine pages in ten broken: the file is something else, or in another encoding.
BROKEN_ODDS = 9


def site_of(path: Path) -> Site:
    """The wiki that a dump is of, from its beginning.

    Raises:
        DataError: the file is unreadable or no MediaWiki export, or has a DOCTYPE.
    """
    with streams.dump_errors(path):
        whole = Block(path, 0, path.stat().st_size)
    with contextlib.closing(streams.chunks(whole, Reading())) as pieces:
        return parse_site(path, (piece for piece in pieces if piece))


def pages(path: Path, reading: Reading, page_bytes: int = PAGE_BYTES) -> Iterator[Page]:
    """The articles of a dump, in its order, as plain text.

    Args:
        path: an XML export; plain, .bz2 (one stream or many), .gz, .xz or .zst.
        reading: counts bytes, and what is dropped and why; the caller counts what it gets.
        page_bytes: pages whose revision is longer, as XML, are dropped.

    Raises:
        DataError: the file is unreadable, no dump, cut short or broken. All complete pages before
            the damage are given first.
    """
    tokenizer()
    site = site_of(path)
    good, broken = 0, -reading.dropped[BROKEN_XML]
    for page in block_pages(Block(path, 0, path.stat().st_size), site, reading, page_bytes):
        good += 1
        yield page
    broken += reading.dropped[BROKEN_XML]
    if broken > BROKEN_ODDS * max(good, 1):
        raise DataError(
            f"{path}: {broken:,} of its pages are broken XML and {good:,} are not, so it "
            "is damaged or not UTF-8; copy or download the file again"
        )


def block_pages(
    block: Block, site: Site, reading: Reading, page_bytes: int = PAGE_BYTES
) -> Iterator[Page]:
    """The articles that begin in one block of a dump, as plain text; see `streams.blocks`.

    Raises:
        DataError: as `pages`.
    """
    for cut in cuts(block, site, reading, page_bytes):
        page = _page(cut, site, reading)
        if page is not None:
            yield page


def cuts(block: Block, site: Site, reading: Reading, page_bytes: int) -> Iterator[Cut]:
    """The pages that begin in a block, as XML; also those that are dropped already.

    Raises:
        DataError: the file is cut short or broken.
    """
    cutter = Cutter(site, page_bytes)
    with contextlib.closing(streams.chunks(block, reading)) as pieces:
        for piece in pieces:
            if piece == streams.BOUNDARY:
                cutter.end_block()
            else:
                yield from cutter.feed(piece)
            if cutter.finished:
                return
    if not cutter.complete(from_start=block.start == 0):
        raise streams.cut_short(block.path)


def _page(cut: Cut, site: Site, reading: Reading) -> Page | None:
    """The article, or None and a count."""
    page, reason = None, cut.reason
    if not reason:
        try:
            page, reason = _convert(cut.xml, site)
        except (ET.ParseError, ValueError, NotWikitextError) as error:
            reason = _reason(error)
    if reason:
        reading.drop(reason)
        return None
    return page


def _reason(error: Exception) -> str:
    if isinstance(error, MarkupError):
        return str(error)
    return NOT_WIKITEXT if isinstance(error, NotWikitextError) else BROKEN_XML


def _convert(xml: bytes, site: Site) -> tuple[Page | None, str]:
    page = parse_page(xml, site)
    if not page.text.strip():
        return None, EMPTY_PAGE
    if page.text.lstrip()[:9].lower() == "#redirect":
        return None, REDIRECT
    if is_disambiguation(page.text, site.language):
        return None, DISAMBIGUATION
    text = plain_text(page.text, site, page.title, HOLE)
    return (replace(page, text=text), "") if text else (None, EMPTY_PAGE)


def wiki_dump(source: Source, section: recipe.Corpus, reading: Reading) -> Iterator[Row]:
    """A MediaWiki dump: an article a document, named 'WIKI:PAGE', its text without the title.

    Title and revision go with it.

    Has the form of the readers in `lingraft.corpus.readers.documents`.

    Args:
        source: the dump, or one block of it.
        section: `max_line_bytes` is the limit for the XML of a page, if it is below 4 MiB.
        reading: counts.

    Raises:
        DataError: as `pages`.
    """
    assert source.path is not None
    page_bytes = min(section.max_line_bytes, PAGE_BYTES)
    if source.span is None:
        dump_pages = pages(source.path, reading, page_bytes)
    else:
        block = Block(source.path, *source.span)
        dump_pages = block_pages(block, site_of(source.path), reading, page_bytes)
    for page in dump_pages:
        yield page.name, page.text, {"title": page.title, "revision": page.revision}
