"""Text out of HTML pages and crawls.

HTML goes through resiliparse (Apache-2.0), whose parser takes broken pages as browsers do and
whose main-content extraction drops menus, footers and the like. Crawls are WARC (pages as they were
sent) and WET (their text), by FastWARC (Apache-2.0): ISO 28500,
https://iipc.github.io/warc-specifications/
"""

from __future__ import annotations

import codecs
import io
import itertools
import re
from typing import TYPE_CHECKING, Any

from lingraft.corpus.readers import lines
from lingraft.errors import DataError
from lingraft.optional import require

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingraft import recipe
    from lingraft.corpus.readers.layout import Row, TextSource
    from lingraft.corpus.readers.lines import Counts

NO_MAIN_TEXT, NESTED_TOO_DEEPLY = "no main text", "markup nested too deeply"
UNKNOWN_ENCODING = "unknown encoding"
NOT_TEXT, NOT_OK = "neither HTML nor plain text", "HTTP status is not 200"
CUT_SHORT, BROKEN_RECORD = "record cut short", "broken record"
META_BYTES = 4_096
META_CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([A-Za-z0-9._:-]+)", re.IGNORECASE)
BROWSERS = {"iso8859-1": "cp1252", "euc_kr": "cp949", "gb2312": "gb18030", "shift_jis": "cp932"}
"""Encodings of pages that name the encoding on the left (WHATWG Encoding Standard, 4.2)."""
DAMAGED_SHARE = 0.25
"""Share of characters beyond ASCII: a text with fewer that are no UTF-8 is UTF-8 with damage; of
text in another encoding nearly all are."""
CODE = re.compile(
    r"<(style|script)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)", re.DOTALL | re.IGNORECASE
)
MAX_DEPTH = 1_000
"""Browsers nest no deeper than some hundreds; the time of resiliparse grows with the square."""
BLOCK = re.compile(
    r"<(/?)(?:address|article|aside|blockquote|center|details|div|dl|fieldset|figure|footer|form|"
    r"header|main|nav|ol|section|table|ul)\b",
    re.IGNORECASE,
)
HTML_TYPES = {"text/html", "application/xhtml+xml"}
HTTP_OK = 200
OF_CRAWLER = "metadata:"
"""Prefix of the addresses of what wget keeps as resources: its log and its arguments."""


def read_html(source: TextSource, section: recipe.Corpus, reading: Counts) -> Iterator[Row]:
    """Give the main text of a .html file, as one document; nothing, and counted, without one."""
    with lines.reading_errors(source.file), lines.opened(source.file) as stream:
        data = stream.read(lines.MAX_LINE_BYTES + 1)
    text, reason = _text(data, "text/html", None)
    if reason:
        reading.drop(reason)
    else:
        yield None, text


def _text(data: bytes, kind: str, charset: str | None) -> tuple[str, str]:
    """Return the text and '', or '' and why there is none; the server's charset goes first."""
    if len(data) > lines.MAX_LINE_BYTES:
        return "", lines.LINE_TOO_LONG
    if kind in HTML_TYPES and charset is None and (match := META_CHARSET.search(data[:META_BYTES])):
        charset = match[1].decode("ascii")
    page = decode(data, charset)
    if page is None:
        return "", UNKNOWN_ENCODING
    if kind not in HTML_TYPES:
        return page, ""
    if is_too_deep(page):
        return "", NESTED_TOO_DEEPLY
    extract = require("resiliparse.extract.html2text", "HTML", "web").extract_plain_text
    text = extract(page, main_content=True, alt_texts=False, list_bullets=False, links=False)
    return text.strip(), "" if text.strip() else NO_MAIN_TEXT


def decode(data: bytes, declared: str | None) -> str | None:
    """Decode a page: by its byte order mark, as UTF-8, or as it declares; None if nothing fits."""
    if data.startswith(lines.UTF16):
        return data.decode("utf-16", "replace")
    text = data.decode("utf-8-sig", "replace")
    damaged = text.count("\ufffd") - data.count("\ufffd".encode())
    if damaged <= DAMAGED_SHARE * (len(text) - len(text.encode("ascii", "ignore"))):
        return text
    try:
        name = codecs.lookup(declared or "").name
        return data.decode(BROWSERS.get(name, name))
    except (LookupError, ValueError):
        return None


def is_too_deep(page: str) -> bool:
    """Return whether blocks of a page are nested deeper than `MAX_DEPTH`, by their tags alone."""
    depth = 0
    for tag in BLOCK.finditer(CODE.sub("", page)):
        depth = max(0, depth + (-1 if tag[1] else 1))
        if depth > MAX_DEPTH:
            return True
    return False


def read_crawl(source: TextSource, section: recipe.Corpus, reading: Counts) -> Iterator[Row]:
    """Give the pages of a .warc or .wet file, plain or compressed; the id is the address.

    Records other than pages (requests, metadata, wget's log) are passed over; pages that were not
    sent well, are of another kind, too long or without main text are counted. So is the last record
    of an uncompressed file that was cut short, since a crawler that is stopped leaves one.

    Raises:
        DataError: the file cannot be read, a compressed one is cut short, a record does not begin
            as one, or the packages are missing.
    """
    warc = require("fastwarc.warc", source.name, "web")
    kinds = warc.response | warc.conversion | warc.resource
    with lines.reading_errors(source.file), lines.opened(source.file) as stream:
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
                text, reason = _page(record, warc)
                if reason:
                    reading.drop(reason)
                else:
                    yield address or None, text
    if not count:
        raise DataError(f"{source.name}: holds no WARC record; rename it or leave it out")


def _page(record: Any, warc: Any) -> tuple[str, str]:
    """Return the text of a record and '', or '' and why it is left out.

    What was sent is unpacked apart from the archive, so that a page whose own compression is
    broken does not stop the archive's reader.
    """
    if record.content_length > lines.MAX_LINE_BYTES:
        return "", lines.LINE_TOO_LONG
    charset = None
    try:
        body = record.reader.read()
        if len(body) < record.content_length:
            return "", CUT_SHORT
        if record.record_type == warc.response:
            sent = warc.WarcRecord()
            sent.set_bytes_content(body)
            sent.is_http = True
            sent.parse_http(auto_decode="all")
            if sent.http_headers is None or sent.http_headers.status_code != HTTP_OK:
                return "", NOT_OK
            kind, charset, content = sent.http_content_type or "", sent.http_charset, sent.reader
        else:
            kind, content = record.headers.get("Content-Type") or "", io.BytesIO(body)
        kind = kind.partition(";")[0].strip().lower()
        if kind not in (*HTML_TYPES, "text/plain"):
            return "", NOT_TEXT
        # Compressed pages can be far larger than they were sent.
        return _text(content.read(lines.MAX_LINE_BYTES + 1), kind, charset)
    except (OSError, ValueError):
        return "", BROKEN_RECORD
