"""Find the pages in the bytes of an export, holding one revision at a time.

In an export `<` occurs in markup only (text is escaped), so that `<page>` and `</page>` delimit
pages whatever stands between them: a page that is broken, gigantic or of no interest is stepped
over without an XML parser, and the next one is found again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingraft.corpus.readers.wiki.export import Site

BROKEN_XML = "broken XML"
TOO_LARGE = "page too large"
REDIRECT = "redirect"
OTHER_NAMESPACE = "other namespace"
EMPTY_PAGE = "empty page"

MARK = re.compile(rb"</?(?:page|revision|mediawiki)>")
PAGE, CLOSE = b"<page>", b"</mediawiki>"
TAIL_BYTES = 16  # longer than any mark
HEAD_BYTES = 1 << 16  # titles have at most 255 bytes; the rest of a page's head is short too
NAMESPACE = re.compile(rb"<ns>\s*(-?\d+)\s*</ns>")
TITLE = re.compile(rb"<title>([^<]*)</title>")
TIMESTAMP = re.compile(rb"<timestamp>([^<]*)</timestamp>")


@dataclass(frozen=True, slots=True)
class Cut:
    """One page, as bytes of XML.

    Attributes:
        xml: `<page>`, its head, its latest revision and `</page>`; empty when it is dropped.
        reason: why it is dropped; empty when it is not.
    """

    xml: bytes
    reason: str = ""


class State(Enum):
    """Where in the export the cutter is."""

    OUTSIDE = auto()
    HEAD = auto()
    REVISION = auto()
    AFTER_REVISION = auto()
    SKIPPED = auto()  # in a page that is dropped and counted at its end
    LOST = auto()  # after a page that made no sense and is counted already


class Cutter:
    """Cuts pages out of pieces of an export.

    Of several revisions the latest by timestamp is kept (of equal ones the last).

    Args:
        site: names of the namespaces, for exports that do not number them.
        limit: a revision of more bytes is dropped without being held.

    Attributes:
        closed: `</mediawiki>` has been read.
        finished: a page has been met that begins after the boundary.
    """

    def __init__(self, site: Site, limit: int) -> None:
        self.site = site
        self.limit = limit
        self.closed = False
        self.finished = False
        self._boundary: int | None = None
        self._buffer = bytearray()
        self._position = 0  # of the first byte of the buffer
        self._scan = 0
        self._state = State.OUTSIDE
        self._reason = ""
        self._head = b""
        self._latest = b""
        self._timestamp = b""
        self._oversize = False

    def feed(self, data: bytes) -> Iterator[Cut]:
        """Take a piece; the pages that end in it."""
        self._buffer += data
        while not self.finished and (mark := MARK.search(self._buffer, self._scan)):
            start, end, name = mark.start(), mark.end(), mark.group()
            del mark  # a bytearray cannot shrink while a match refers to it
            self._scan = end
            yield from self._step(name, start, end)
        self._trim_unmarked()
        if self._boundary is not None and not self.in_page:
            fed_past = self._position + len(self._buffer) - self._boundary
            self.finished = self.finished or fed_past >= len(PAGE)

    def end_block(self) -> None:
        """Pages that begin in what is fed from now on belong to the next block."""
        self._boundary = self._position + len(self._buffer)
        self.finished = self.finished or (not self.in_page and not self._mark_may_straddle())

    def complete(self, *, from_start: bool) -> bool:
        """Whether the export ends here: not in a page, and `</mediawiki>` has been read.

        Args:
            from_start: False where a block was read that may begin inside `</mediawiki>`.
        """
        closing = not from_start and self._position == 0 and CLOSE.endswith(self._buffer.strip())
        return not self.in_page and (self.closed or closing)

    @property
    def in_page(self) -> bool:
        """Whether the page at hand has not ended."""
        return self._state is not State.OUTSIDE

    def _mark_may_straddle(self) -> bool:
        return any(self._buffer.endswith(PAGE[:length]) for length in range(1, len(PAGE)))

    def _step(self, name: bytes, start: int, end: int) -> Iterator[Cut]:
        if name == PAGE:
            yield from self._begin_page(start)
        elif name == b"</page>":
            yield from self._end_page()
        elif name == b"<revision>":
            yield from self._begin_revision(start)
        elif name == b"</revision>":
            yield from self._end_revision(end)
        elif name == CLOSE:
            self.closed = True
            if self.in_page:
                yield from self._lose()
            self._state = State.OUTSIDE

    def _begin_page(self, start: int) -> Iterator[Cut]:
        if self.in_page:
            yield from self._lose()
        if self._boundary is not None and self._position + start >= self._boundary:
            self.finished = True
            return
        self._trim(start)
        self._state = State.HEAD
        self._reason, self._head, self._latest, self._timestamp = "", b"", b"", b""
        self._oversize = False

    def _begin_revision(self, start: int) -> Iterator[Cut]:
        if self._state is State.REVISION:
            yield from self._lose()
        elif self._state is State.HEAD:
            self._head = bytes(self._buffer[:start])
            self._reason = self._unwanted()
            self._state = State.SKIPPED if self._reason else State.REVISION
            self._trim(start)
        elif self._state is State.AFTER_REVISION:
            self._state = State.REVISION
            self._trim(start)

    def _end_revision(self, end: int) -> Iterator[Cut]:
        if self._state is not State.REVISION:
            if self._state in (State.HEAD, State.AFTER_REVISION):
                yield from self._lose()
            return
        oversize = self._oversize or end > self.limit
        self._oversize = False
        if oversize:
            # Its timestamp went with it; it counts as the latest so far, as dumps list them.
            self._latest, self._reason = b"", TOO_LARGE
        else:
            revision = bytes(self._buffer[:end])
            match = TIMESTAMP.search(revision)
            timestamp = match[1] if match else b""
            if timestamp >= self._timestamp:
                self._latest, self._timestamp, self._reason = revision, timestamp, ""
        self._state = State.AFTER_REVISION
        self._trim(end)

    def _end_page(self) -> Iterator[Cut]:
        if self._state in (State.SKIPPED, State.AFTER_REVISION):
            xml = b"" if self._reason else self._head + self._latest + b"</page>"
            yield Cut(xml, self._reason)
        elif self._state is State.HEAD:
            yield Cut(b"", EMPTY_PAGE)
        elif self._state is State.REVISION:
            yield from self._lose()
        self._state = State.OUTSIDE
        self._head = self._latest = b""

    def _lose(self) -> Iterator[Cut]:
        """Give up the page at hand; count it once."""
        if self._state is not State.LOST:
            yield Cut(b"", BROKEN_XML)
        self._state = State.LOST

    def _unwanted(self) -> str:
        number = NAMESPACE.search(self._head)
        if number:
            main = int(number[1][:9]) == 0
        else:
            title = TITLE.search(self._head)
            prefix = title[1].partition(b":")[0].decode("utf-8", "replace") if title else ""
            main = self.site.namespaces.get(prefix.lower(), 0) == 0
        if not main:
            return OTHER_NAMESPACE
        return REDIRECT if b"<redirect" in self._head else ""

    def _trim(self, count: int) -> None:
        del self._buffer[:count]
        self._position += count
        self._scan = max(0, self._scan - count)

    def _trim_unmarked(self) -> None:
        """Let go of bytes that are not needed, but for the beginning of a mark at the end."""
        size = len(self._buffer)
        if self._state is State.HEAD and size > HEAD_BYTES:
            self._state, self._reason = State.SKIPPED, BROKEN_XML
        if self._state is State.REVISION and size > self.limit:
            self._oversize = True
        if self._oversize or self._state not in (State.HEAD, State.REVISION):
            self._trim(max(0, size - TAIL_BYTES))
        self._scan = max(self._scan, len(self._buffer) - TAIL_BYTES)
