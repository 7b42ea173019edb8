"""Wikimedia's own exports as JSON lines: CirrusSearch dumps and Enterprise snapshots.

CirrusSearch (`kowiki-…-cirrussearch-content.json.gz`) holds two lines a page: where it is indexed,
then the page with its text already plain, without line ends. Enterprise
(`kowiki_namespace_0_….ndjson`, unpacked from its .tar.gz) holds a page a line with its HTML.

Formats: https://www.mediawiki.org/wiki/Help:CirrusSearch and
https://enterprise.wikimedia.com/docs/snapshot/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.corpus.extras import require
from lingraft.corpus.readers.columns import NO_TEXT_FIELD
from lingraft.corpus.readers.lines import BROKEN_JSON, Reading, json_object, text_lines
from lingraft.corpus.readers.markup import NESTED_TOO_DEEPLY, NO_MAIN_TEXT, is_too_deep
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lingraft import recipe
    from lingraft.corpus.readers.documents import Source

OTHER_NAMESPACE, REDIRECT = "other namespace", "redirect"
# Parts of a Wikipedia page that are no running text.
NOT_PROSE = (
    "table", "style", "figure", "sup.reference", "ol.references", "div.reflist", "div.navbox",
    "div.hatnote", "div.metadata", "span.mw-editsection", "math", "ul.gallery", "#toc", "div.thumb",
)  # fmt: skip


def recognises(path: Path) -> bool:
    """Whether the first line of a JSON file is that of a CirrusSearch dump or of a snapshot.

    Raises:
        DataError: the file cannot be read.
    """
    line = next(text_lines(path, 100_000_000, Reading()), "")
    row = json_object(line)
    return _is_index(row) or (row is not None and "article_body" in row)


def read(source: Source, section: recipe.Corpus, reading: Reading) -> Iterator[tuple[object, str]]:
    """The articles of a dump; the id is 'WIKI:PAGE', as it is for XML dumps.

    Pages of other namespaces and redirects are counted and left out.

    Raises:
        DataError: the file cannot be read, is cut short, or holds no page.
    """
    assert source.path is not None
    page_id: object = None
    good = broken = 0
    for line in text_lines(source.path, section.max_line_bytes, reading):
        if not line or line.isspace():
            continue
        row = json_object(line)
        if row is None:
            reading.drop(BROKEN_JSON)
            broken += 1
        elif _is_index(row):
            page_id = row["index"].get("_id")
        else:
            good += 1
            article = _enterprise(row) if "article_body" in row else _cirrus(row, page_id)
            page_id = None
            if isinstance(article, str):
                reading.drop(article)
            else:
                yield article
    if broken and not good:
        raise DataError(
            f"{source.name}: none of its {broken:,} lines is a JSON object; "
            "is it a CirrusSearch dump or an Enterprise snapshot?"
        )


def _is_index(row: dict[str, Any] | None) -> bool:
    return row is not None and len(row) == 1 and isinstance(row.get("index"), dict)


def _cirrus(row: dict[str, Any], page_id: object) -> tuple[object, str] | str:
    """Id and text of a page, or why it is left out."""
    if row.get("namespace", 0) != 0:
        return OTHER_NAMESPACE
    text = row.get("text")
    if not isinstance(text, str):
        return NO_TEXT_FIELD
    page = row.get("page_id", page_id)
    return (f"{row.get('wiki', '')}:{page}" if page is not None else None), text


def _enterprise(row: dict[str, Any]) -> tuple[object, str] | str:
    namespace = row.get("namespace")
    if isinstance(namespace, dict) and namespace.get("identifier", 0) != 0:
        return OTHER_NAMESPACE
    body, wiki = row["article_body"], row.get("is_part_of")
    page = body.get("html") if isinstance(body, dict) else None
    if not isinstance(page, str):
        return NO_TEXT_FIELD
    if "mw:PageProp/redirect" in page[:2_000]:
        return REDIRECT
    if is_too_deep(page):
        return NESTED_TOO_DEEPLY
    extract = require("resiliparse.extract.html2text", "an Enterprise snapshot", "web")
    text = extract.extract_plain_text(
        page, alt_texts=False, list_bullets=False, skip_elements=NOT_PROSE
    )
    name = wiki.get("identifier", "") if isinstance(wiki, dict) else ""
    identifier = row.get("identifier")
    if not text.strip():
        return NO_MAIN_TEXT
    return (f"{name}:{identifier}" if identifier is not None else None), text.strip()
