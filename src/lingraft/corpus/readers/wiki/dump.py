"""Articles of a MediaWiki dump as plain text, in one process or several."""

from __future__ import annotations

import contextlib
from collections import deque
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from xml.parsers import expat

from lingraft import workers
from lingraft.corpus.readers.lines import Reading
from lingraft.corpus.readers.wiki import streams
from lingraft.corpus.readers.wiki.balance import MarkupError
from lingraft.corpus.readers.wiki.cutting import BROKEN_XML, EMPTY_PAGE, REDIRECT, Cut, Cutter
from lingraft.corpus.readers.wiki.disambiguation import is_disambiguation
from lingraft.corpus.readers.wiki.export import NotWikitextError, Page, Site, parse_page, parse_site
from lingraft.corpus.readers.wiki.plain import plain_text, tokenizer
from lingraft.corpus.readers.wiki.streams import Block
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from lingraft import recipe
    from lingraft.corpus.readers.documents import Row, Source

DISAMBIGUATION = "disambiguation page"
NOT_WIKITEXT = "not wikitext"
PAGE_BYTES = 4 << 20  # MediaWiki itself refuses to save more than 2 MiB of wikitext
BATCH_BYTES = 2 << 20  # of XML, to a worker at a time
BLOCK_BYTES = 4 << 20  # of bz2, to a worker at a time
# Nine pages in ten broken: the file is something else, or in another encoding.
BROKEN_ODDS = 9


@dataclass(frozen=True)
class Options:
    """What becomes of a page.

    Attributes:
        headings: keep headings, each on a line of its own.
        disambiguation: keep disambiguation pages.
        page_bytes: pages whose revision is longer, as XML, are dropped.
    """

    headings: bool = False
    disambiguation: bool = False
    page_bytes: int = PAGE_BYTES


@dataclass
class Result:
    """What a worker makes of a block or batch.

    Attributes:
        pages: articles as plain text, in order.
        reading: counts.
        error: why reading ended early, if it did; `pages` holds what came before.
    """

    pages: list[Page] = field(default_factory=list)
    reading: Reading = field(default_factory=Reading)
    error: str = ""


def site_of(path: Path) -> Site:
    """The wiki that a dump is of, from its beginning.

    Raises:
        DataError: the file is unreadable or no MediaWiki export, or has a DOCTYPE.
    """
    with streams.dump_errors(path):
        whole = Block(path, 0, path.stat().st_size)
    with contextlib.closing(streams.chunks(whole, Reading())) as pieces:
        return parse_site(path, (piece for piece in pieces if piece))


def pages(
    path: Path,
    reading: Reading,
    options: Options = Options(),
    processes: int = 1,
) -> Iterator[Page]:
    """The articles of a dump, in its order, as plain text.

    Args:
        path: an XML export; plain, .bz2 (one stream or many), .gz, .xz or .zst.
        reading: counts bytes, and what is dropped and why; the caller counts what it gets.
        options: what becomes of a page.
        processes: how many work; above 1, multistream bz2 is decompressed in parallel, and of
            other files the pages are handed round. The result does not depend on it.

    Raises:
        DataError: the file is unreadable, no dump, cut short or broken. All complete pages before
            the damage are given first.
    """
    tokenizer()
    site = site_of(path)
    good, broken = 0, -reading.dropped[BROKEN_XML]
    if processes == 1:
        whole = Block(path, 0, path.stat().st_size)
        found: Iterable[Page] = block_pages(whole, site, reading, options)
    else:
        found = _in_parallel(path, site, reading, options, processes)
    for page in found:
        good += 1
        yield page
    broken += reading.dropped[BROKEN_XML]
    if broken > BROKEN_ODDS * max(good, 1):
        raise DataError(
            f"{path}: {broken:,} of its pages are broken XML and {good:,} are not, so it "
            "is damaged or not UTF-8; copy or download the file again"
        )


def block_pages(
    block: Block,
    site: Site,
    reading: Reading,
    options: Options = Options(),
) -> Iterator[Page]:
    """The articles that begin in one block of a dump, as plain text; see `streams.blocks`.

    Raises:
        DataError: as `pages`.
    """
    for cut in cuts(block, site, reading, options.page_bytes):
        page = _page(cut, site, reading, options)
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


def _page(cut: Cut, site: Site, reading: Reading, options: Options) -> Page | None:
    """The article, or None and a count."""
    page, reason = None, cut.reason
    if not reason:
        try:
            page, reason = _convert(cut.xml, site, options)
        except (expat.ExpatError, ValueError, NotWikitextError) as error:
            reason = _reason(error)
    if reason:
        reading.drop(reason)
        return None
    return page


def _reason(error: Exception) -> str:
    if isinstance(error, MarkupError):
        return str(error)
    return NOT_WIKITEXT if isinstance(error, NotWikitextError) else BROKEN_XML


def _convert(xml: bytes, site: Site, options: Options) -> tuple[Page | None, str]:
    page = parse_page(xml, site)
    if not page.text.strip():
        return None, EMPTY_PAGE
    if page.text.lstrip()[:9].lower() == "#redirect":
        return None, REDIRECT
    if not options.disambiguation and is_disambiguation(page.text, site.language):
        return None, DISAMBIGUATION
    text = plain_text(page.text, site, page.title, headings=options.headings)
    return (replace(page, text=text), "") if text else (None, EMPTY_PAGE)


def _work_block(block: Block, site: Site, options: Options) -> Result:
    result = Result()
    try:
        result.pages.extend(block_pages(block, site, result.reading, options))
    except DataError as error:
        result.error = str(error)
    return result


def _work_batch(batch: list[Cut] | DataError, site: Site, options: Options) -> Result:
    result = Result()
    if isinstance(batch, DataError):  # handed on, so that it comes after what came before it
        return Result(error=str(batch))
    for cut in batch:
        page = _page(cut, site, result.reading, options)
        if page is not None:
            result.pages.append(page)
    return result


def _in_parallel(
    path: Path, site: Site, reading: Reading, options: Options, processes: int
) -> Iterator[Page]:
    parts = streams.blocks(path, BLOCK_BYTES)
    with workers.pool(processes) as pool:
        if len(parts) > 1:
            given = (pool.submit(_work_block, part, site, options) for part in parts)
        else:
            batches = _batches(parts[0], site, reading, options)
            given = (pool.submit(_work_batch, batch, site, options) for batch in batches)
        waiting: deque[Future[Result]] = deque()
        try:
            for future in given:
                waiting.append(future)
                if len(waiting) >= 2 * processes:
                    yield from _taken(waiting.popleft().result(), reading)
            while waiting:
                yield from _taken(waiting.popleft().result(), reading)
        except BrokenProcessPool:
            raise DataError(
                f"{path}: a worker process ended early, most likely for want of memory; "
                "use fewer processes"
            ) from None
        finally:
            for future in waiting:
                future.cancel()


def _batches(
    block: Block, site: Site, reading: Reading, options: Options
) -> Iterator[list[Cut] | DataError]:
    """Pages in batches of about 2 MiB; in the end the error that ended reading, if one did."""
    batch: list[Cut] = []
    size = 0
    try:
        for cut in cuts(block, site, reading, options.page_bytes):
            if cut.reason:
                reading.drop(cut.reason)
                continue
            batch.append(cut)
            size += len(cut.xml)
            if size >= BATCH_BYTES:
                yield batch
                batch, size = [], 0
    except DataError as error:
        yield batch
        yield error
        return
    yield batch


def _taken(result: Result, reading: Reading) -> Iterator[Page]:
    """The pages of a worker, after its counts; its error after them.

    Raises:
        DataError: the worker met one.
    """
    reading.bytes_read += result.reading.bytes_read
    reading.documents += result.reading.documents
    reading.dropped += result.reading.dropped
    yield from result.pages
    if result.error:
        raise DataError(result.error)


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
    options = Options(page_bytes=min(section.max_line_bytes, PAGE_BYTES))
    if source.span is None:
        found = pages(source.path, reading, options)
    else:
        block = Block(source.path, *source.span)
        found = block_pages(block, site_of(source.path), reading, options)
    for page in found:
        yield page.name, page.text, {"title": page.title, "revision": page.revision}
