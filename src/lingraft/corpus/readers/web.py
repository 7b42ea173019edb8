"""Crawled pages: WARC (pages as they were sent) and WET (their text), by FastWARC (Apache-2.0).

The format: ISO 28500, https://iipc.github.io/warc-specifications/
"""

from __future__ import annotations

import io
import itertools
from typing import TYPE_CHECKING, Any

from lingraft.corpus.cleaning import repair
from lingraft.corpus.extras import require
from lingraft.corpus.readers.lines import LINE_TOO_LONG, Reading, opened, reading_errors
from lingraft.corpus.readers.markup import NO_MAIN_TEXT, UNKNOWN_ENCODING, decode_html, html_to_text
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingraft import recipe
    from lingraft.corpus.readers.documents import Source

NOT_TEXT = "neither HTML nor plain text"
NOT_OK = "HTTP status is not 200"
CUT_SHORT = "record cut short"
BROKEN_RECORD = "broken record"
HTML_TYPES = {"text/html", "application/xhtml+xml"}
HTTP_OK = 200
OF_CRAWLER = "metadata:"
"""How addresses begin of what wget keeps as resources: its log and its arguments."""


def read(source: Source, section: recipe.Corpus, reading: Reading) -> Iterator[tuple[object, str]]:
    """The pages of a .warc or .wet file, plain or compressed; the id is the address.

    Records other than pages (requests, metadata, wget's log) are passed over; pages that were not
    sent well, are of another kind, too long or without main text are counted. So is the last record
    of an uncompressed file that was cut short, since a crawler that is stopped leaves one.

    Raises:
        DataError: the file cannot be read, a compressed one is cut short, a record does not begin
            as one, or the packages are missing.
    """
    assert source.path is not None
    warc = require("fastwarc.warc", source.name, "web")
    require("resiliparse", source.name, "web")
    kinds = warc.response | warc.conversion | warc.resource
    with reading_errors(source.path), opened(source.path, reading) as stream:
        archive = warc.ArchiveIterator(stream, record_types=warc.any_type, parse_http=False)
        for count in itertools.count():
            try:
                record = next(archive, None)
            except (OSError, ValueError) as error:
                raise DataError(
                    f"{source.name}: broken after record {count:,} ({error}); "
                    "copy or download the file again"
                ) from None
            if record is None:
                break
            address = (record.headers.get("WARC-Target-URI") or "").strip("<>")  # wget's has them
            if record.record_type & kinds and not address.startswith(OF_CRAWLER):
                page = _page(record, address, warc, section)
                if isinstance(page, str):
                    reading.drop(page)
                else:
                    yield page
    if not count:
        raise DataError(f"{source.name}: holds no WARC record; rename it or leave it out")


def _page(record: Any, address: str, warc: Any, section: recipe.Corpus) -> tuple[object, str] | str:
    """Address and text of a record, or why it is left out."""
    limit = section.max_line_bytes
    if record.content_length > limit:
        return LINE_TOO_LONG
    try:
        body = record.reader.read()
        if len(body) < record.content_length:
            return CUT_SHORT
        kind, charset, content = _content(record, body, warc)
        if kind is None:
            return NOT_OK
        if kind not in HTML_TYPES and kind != "text/plain":
            return NOT_TEXT
        # Compressed pages can be far larger than they were sent.
        data = content.read(limit + 1)
    except (OSError, ValueError):
        return BROKEN_RECORD
    if len(data) > limit:
        return LINE_TOO_LONG
    text, reason = _text(data, kind, charset)
    return reason or (address or None, text)


def _content(record: Any, body: bytes, warc: Any) -> tuple[str | None, str | None, Any]:
    """Media type (None where the page was not sent well), charset, and a reader of the content.

    What was sent is unpacked apart from the archive, so that a page whose own compression is
    broken does not stop the archive's reader.
    """
    if record.record_type != warc.response:
        return *_content_type(record.headers.get("Content-Type")), io.BytesIO(body)
    sent = warc.WarcRecord()
    sent.set_bytes_content(body)
    sent.is_http = True
    sent.parse_http(auto_decode="all")
    headers = sent.http_headers
    if headers is None or headers.status_code != HTTP_OK:
        return None, None, sent.reader
    return *_content_type(headers.get("Content-Type")), sent.reader


def _text(data: bytes, kind: str, charset: str | None) -> tuple[str, str]:
    """The text and '', or '' and why there is none."""
    if kind in HTML_TYPES:
        page = decode_html(data, charset)
        if page is None:
            return "", UNKNOWN_ENCODING
        text = html_to_text(page)
        return (text, "") if text else ("", NO_MAIN_TEXT)
    decoded = repair.decode(data, charset)
    return (decoded[0], "") if decoded is not None else ("", UNKNOWN_ENCODING)


def _content_type(header: str | None) -> tuple[str, str | None]:
    kind, *rest = (header or "").split(";")
    parameters = dict(one.strip().lower().partition("=")[::2] for one in rest)
    charset = parameters.get("charset", "").strip("\"' ")
    return kind.strip().lower(), charset or None
