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
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

from lingraft.corpus.cleaning import repair
from lingraft.corpus.extras import require
from lingraft.corpus.readers.lines import LINE_TOO_LONG, Reading, opened, reading_errors
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lingraft import recipe
    from lingraft.corpus.readers.documents import Source

Text = TypeVar("Text")
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
CODE = re.compile(r"<(style|script)\b.*?(?:</\1\s*>|\Z)", re.DOTALL | re.IGNORECASE)
# A comment that is never closed hides all that follows, as in a browser.
HTML_TAG = re.compile(r"<!--.*?(?:-->|\Z)|<[!/?a-zA-Z][^<>]*>", re.DOTALL)
MAX_DEPTH = 1_000
"""Browsers nest no deeper than some hundreds; the time of resiliparse grows with the square."""
ELEMENT = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)[^<>]*?(/?)>")
# Elements that hold nothing, or that end where the next one begins.
ENDED = {
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr", "p", "li", "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot", "option",
    "optgroup", "colgroup", "rt", "rp", "a", "button", "nobr", "select", "html", "head", "body",
}  # fmt: skip
HTML_BREAK = re.compile(r"<br\b", re.IGNORECASE)
# Between characters of scripts without spaces, the end of a source line is no space.
UNSPACED_BREAK = re.compile(
    r"(?<=[\u3040-\u30ff\u3400-\u9fff\uff66-\uff9f])\n(?=[\u3040-\u30ff\u3400-\u9fff])"
)


def read_html(
    source: Source, section: recipe.Corpus, reading: Reading
) -> Iterator[tuple[object, str]]:
    """The main text of a .html file, as one document.

    Raises:
        DataError: the file cannot be read or is cut short, or the package is missing.
    """
    require("resiliparse", source.name, "web")
    page = _decoded(source, section, reading, decode_html)
    if page is None:
        return
    text, reason = main_text(page)
    if reason:
        reading.drop(reason)
        return
    yield None, text


def read_markdown(
    source: Source, section: recipe.Corpus, reading: Reading
) -> Iterator[tuple[object, str]]:
    """The text of a .md file, as one document.

    Raises:
        DataError: the file cannot be read or is cut short, or the package is missing.
    """
    require("markdown_it", source.name, "web")
    decoded = _decoded(source, section, reading, repair.decode)
    if decoded is not None:
        yield None, markdown_to_text(decoded[0])


def _decoded(
    source: Source, section: recipe.Corpus, reading: Reading, decode: Callable[[bytes], Text | None]
) -> Text | None:
    """The text of a file; None, and counted, if it is too long or in no known encoding."""
    assert source.path is not None
    data = whole_file(source.path, section.max_line_bytes, reading)
    if data is None:
        return None
    text = decode(data)
    if text is None:
        reading.drop(UNKNOWN_ENCODING)
    return text


def whole_file(path: Path, max_bytes: int, reading: Reading) -> bytes | None:
    """The bytes of a plain or compressed file; None, and counted, if there are too many.

    Raises:
        DataError: the file cannot be read or is cut short.
    """
    with reading_errors(path), opened(path, reading) as stream:
        data = stream.read(max_bytes + 1)
    if len(data) > max_bytes:
        reading.drop(LINE_TOO_LONG)
        return None
    return data


def decode_html(data: bytes, declared: str | None = None) -> str | None:
    """Decode a page; what the server declared goes before what the page says of itself."""
    if declared is None:
        match = META_CHARSET.search(data[:META_BYTES])
        declared = match.group(1).decode("ascii") if match else None
    decoded = repair.decode(data, declared)
    return None if decoded is None else decoded[0]


def is_too_deep(page: str) -> bool:
    """Whether elements of a page are nested deeper than `MAX_DEPTH`, by its tags alone."""
    depths, depth = Counter[str](), 0
    for tag in ELEMENT.finditer(CODE.sub("", page)):
        closes, name, is_empty = tag[1], tag[2].lower(), tag[3]
        if name in ENDED or is_empty or (closes and not depths[name]):
            continue
        step = -1 if closes else 1
        depths[name] += step
        depth += step
        if depth > MAX_DEPTH:
            return True
    return False


def main_text(page: str) -> tuple[str, str]:
    """The text of a page and '', or '' and why there is none; arguments as `html_to_text`."""
    if is_too_deep(page):
        return "", NESTED_TOO_DEEPLY
    text = html_to_text(page)
    return text, "" if text else NO_MAIN_TEXT


def html_to_text(page: str) -> str:
    """The text of a page: paragraphs, headings and list items on lines of their own.

    Menus, headers, footers, comments and the like are left out by resiliparse's rules (lists right
    below the top of a page count as menus).

    Args:
        page: HTML, broken or not.

    Returns:
        The text; empty where there is none.

    Raises:
        DataError: resiliparse is not installed.
    """
    extract = require("resiliparse.extract.html2text", "HTML", "web")
    text = extract.extract_plain_text(
        page, main_content=True, alt_texts=False, list_bullets=False, links=False, comments=False
    )
    return str(text).strip()


def markdown_to_text(source: str) -> str:
    """The text of a Markdown document: a paragraph, heading, list item or table row a line.

    Code blocks, images, HTML tags, link targets and YAML front matter go; code within a sentence
    stays.

    Raises:
        DataError: markdown-it-py is not installed.
    """
    markdown = require("markdown_it", "Markdown", "web")
    parser = markdown.MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    lines: list[str] = []
    cells: list[str] | None = None
    for token in parser.parse(FRONT_MATTER.sub("", source, count=1)):
        if token.type == "tr_open":
            cells = []
        elif token.type == "tr_close":
            lines.append(" ".join(cells or []))
            cells = None
        elif token.type == "inline":
            text = _inline(token.children or [])
            (lines if cells is None else cells).append(text)
        elif token.type == "html_block":
            lines.append(" ".join(HTML_TAG.sub(" ", CODE.sub(" ", token.content)).split()))
    return "\n".join(line for line in lines if line.strip())


def _inline(tokens: list[Any]) -> str:
    pieces = []
    for token in tokens:
        if token.type in ("text", "code_inline"):
            pieces.append(token.content)
        elif token.type in ("softbreak", "hardbreak") or HTML_BREAK.match(token.content):
            pieces.append("\n")
    return UNSPACED_BREAK.sub("", "".join(pieces)).replace("\n", " ").strip()


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
        return main_text(page)
    decoded = repair.decode(data, charset)
    return (decoded[0], "") if decoded is not None else ("", UNKNOWN_ENCODING)


def _content_type(header: str | None) -> tuple[str, str | None]:
    kind, *rest = (header or "").split(";")
    parameters = dict(one.strip().lower().partition("=")[::2] for one in rest)
    charset = parameters.get("charset", "").strip("\"' ")
    return kind.strip().lower(), charset or None
