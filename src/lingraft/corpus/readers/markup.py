"""Text out of HTML, Markdown and crawled pages.

HTML goes through resiliparse (Apache-2.0), whose parser takes broken pages as browsers do and
whose main-content extraction drops menus, footers and the like. Markdown goes through
markdown-it-py (MIT). Crawls are WARC (pages as they were sent) and WET (their text), by FastWARC
(Apache-2.0): ISO 28500, https://iipc.github.io/warc-specifications/
"""

from __future__ import annotations

import io
import itertools
import re
from typing import TYPE_CHECKING, Any

from lingraft.corpus.cleaning import repair
from lingraft.corpus.extras import require
from lingraft.corpus.readers.layout import UNSPACED
from lingraft.corpus.readers.lines import LINE_TOO_LONG, Reading, opened, reading_errors
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingraft import recipe
    from lingraft.corpus.readers.documents import Source

NO_MAIN_TEXT, NESTED_TOO_DEEPLY = "no main text", "markup nested too deeply"
UNKNOWN_ENCODING = "unknown encoding"
META_BYTES = 4_096
META_CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([A-Za-z0-9._:-]+)", re.IGNORECASE)

# YAML: keys, lists, comments and what is indented; a paragraph between two rules is text.
FRONT_MATTER = re.compile(
    r"\A\ufeff?---[ \t]*\r?\n(?![ \t]*\r?\n)"
    r"(?:(?:[\w\"'.][\w\"'. -]*:[^\r\n]*|[ \t#-][^\r\n]*)?\r?\n)*?"
    r"(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)"
)
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


def read_html(
    source: Source, section: recipe.Corpus, reading: Reading
) -> Iterator[tuple[object, str]]:
    """Give the main text of a .html file, as one document.

    Raises:
        DataError: the file cannot be read or is cut short, or the package is missing.
    """
    for text in _text_of(source, section, reading, "text/html"):
        yield None, text


def read_markdown(
    source: Source, section: recipe.Corpus, reading: Reading
) -> Iterator[tuple[object, str]]:
    """Give the text of a .md file, as one document.

    Raises:
        DataError: the file cannot be read or is cut short, or the package is missing.
    """
    for text in _text_of(source, section, reading, "text/plain"):
        yield None, markdown_to_text(text)


def _text_of(source: Source, section: recipe.Corpus, reading: Reading, kind: str) -> Iterator[str]:
    """Give the text of a file of a kind; nothing, and counted, where it has none."""
    data = _whole_file(source, section, reading)
    if data is not None:
        text, reason = _text(data, kind, None)
        if reason:
            reading.drop(reason)
        else:
            yield text


def _whole_file(source: Source, section: recipe.Corpus, reading: Reading) -> bytes | None:
    """Give the bytes of a file; None, and counted, if there are too many."""
    assert source.path is not None
    with reading_errors(source.path), opened(source.path) as stream:
        data = stream.read(section.max_line_bytes + 1)
    if len(data) > section.max_line_bytes:
        reading.drop(LINE_TOO_LONG)
        return None
    return data


def _text(data: bytes, kind: str, charset: str | None) -> tuple[str, str]:
    """Give the text and '', or '' and why there is none; the server's charset goes first."""
    if kind in HTML_TYPES and charset is None and (match := META_CHARSET.search(data[:META_BYTES])):
        charset = match[1].decode("ascii")
    decoded = repair.decode(data, charset)
    if decoded is None:
        return "", UNKNOWN_ENCODING
    if kind not in HTML_TYPES:
        return decoded[0], ""
    if is_too_deep(decoded[0]):
        return "", NESTED_TOO_DEEPLY
    text = html_to_text(decoded[0])
    return text, "" if text else NO_MAIN_TEXT


def is_too_deep(page: str) -> bool:
    """Tell whether blocks of a page are nested deeper than `MAX_DEPTH`, by their tags alone."""
    depth = 0
    for tag in BLOCK.finditer(CODE.sub("", page)):
        depth = max(0, depth + (-1 if tag[1] else 1))
        if depth > MAX_DEPTH:
            return True
    return False


def html_to_text(page: str, *, main_content: bool = True) -> str:
    """Give the text of a page: paragraphs, headings and list items on lines of their own.

    Args:
        page: HTML, broken or not.
        main_content: leave out menus, headers, footers and the like, by resiliparse's rules (lists
            right below the top of a page count as menus).

    Raises:
        DataError: resiliparse is not installed.
    """
    extract = require("resiliparse.extract.html2text", "HTML", "web")
    text = extract.extract_plain_text(
        page, main_content=main_content, alt_texts=False, list_bullets=False, links=False,
        comments=not main_content, skip_elements=[] if main_content else ["pre"],
    )  # fmt: skip
    return str(text).strip()


def markdown_to_text(source: str) -> str:
    """Give the text of a Markdown document: a paragraph, heading, list item or table row a line.

    Code blocks, images, HTML tags, link targets and YAML front matter go; code within a sentence
    stays.

    Raises:
        DataError: a package is not installed.
    """
    markdown = require("markdown_it", "Markdown", "web")
    parser = markdown.MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    page = CODE.sub("", parser.render(FRONT_MATTER.sub("", source, count=1)))
    if is_too_deep(page):
        return ""
    text = html_to_text(UNSPACED.sub("", page), main_content=False)
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


NOT_TEXT = "neither HTML nor plain text"
NOT_OK = "HTTP status is not 200"
CUT_SHORT = "record cut short"
BROKEN_RECORD = "broken record"
HTML_TYPES = {"text/html", "application/xhtml+xml"}
HTTP_OK = 200
OF_CRAWLER = "metadata:"
"""How addresses begin of what wget keeps as resources: its log and its arguments."""


def read_crawl(
    source: Source, section: recipe.Corpus, reading: Reading
) -> Iterator[tuple[object, str]]:
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
    with reading_errors(source.path), opened(source.path) as stream:
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
    """Give media type (None where the page was not sent well), charset, and a reader.

    What was sent is unpacked apart from the archive, so that a page whose own compression is
    broken does not stop the archive's reader.
    """
    if record.record_type != warc.response:
        kind = (record.headers.get("Content-Type") or "").partition(";")[0]
        return kind.strip().lower(), None, io.BytesIO(body)
    sent = warc.WarcRecord()
    sent.set_bytes_content(body)
    sent.is_http = True
    sent.parse_http(auto_decode="all")
    if sent.http_headers is None or sent.http_headers.status_code != HTTP_OK:
        return None, None, sent.reader
    return (sent.http_content_type or "").lower(), sent.http_charset, sent.reader
