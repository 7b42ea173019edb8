"""The XML of a MediaWiki export: the site's description, and single pages.

Schema: https://www.mediawiki.org/xml/export-0.11.xsd and its predecessors; the namespace of the
elements is not looked at, so every version reads alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET
from xml.parsers import expat

from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

FILE, CATEGORY = 6, 14
# Understood in every language, beside the local names.
CANONICAL = {"file": FILE, "image": FILE, "category": CATEGORY}
SITE_BYTES = 4 << 20
ENCODINGS = {"utf-8", "utf8", "utf-16", "us-ascii", "ascii"}


@dataclass(frozen=True)
class Site:
    """The wiki that a dump is of.

    Attributes:
        wiki: name of its database ('kowiki'), or what there is in its place.
        language: its language code, '' where the dump does not say.
        namespaces: numbers of the namespaces by lower-case name.
    """

    wiki: str
    language: str = ""
    namespaces: Mapping[str, int] = field(default_factory=lambda: dict(CANONICAL))


@dataclass(frozen=True, slots=True)
class Page:
    """An article.

    Attributes:
        wiki: as in `Site`.
        id: number of the page, which stays when it is renamed.
        revision: number of the revision.
        title: its title.
        text: plain text; wikitext where a function says so.
    """

    wiki: str
    id: int
    revision: int
    title: str
    text: str

    @property
    def name(self) -> str:
        """What identifies the page among the pages of all wikis, say 'kowiki:123'."""
        return f"{self.wiki}:{self.id}"


class NotWikitextError(Exception):
    """The page is JSON, CSS, Lua or something else that is no article."""


def parse_site(path: Path, pieces: Iterable[bytes]) -> Site:
    """Read the beginning of a dump, up to the end of `<siteinfo>`.

    Args:
        path: named in messages; its stem stands for the wiki in very old dumps.
        pieces: UTF-8 bytes from the beginning of the dump.

    Raises:
        DataError: no XML, no MediaWiki export, a DOCTYPE, an encoding that is not Unicode.
    """
    head = b""
    for piece in pieces:
        head += piece
        ends = [
            at
            for tag in (b"</siteinfo>", b"<page>", b"</mediawiki>")
            if (at := head.find(tag)) >= 0
        ]
        if ends or len(head) > SITE_BYTES:
            head = head[: min(ends, default=SITE_BYTES)]
            break
    if not head.strip():
        raise DataError(f"{path}: is empty; copy or download the file again")
    handler = _SiteHandler(path)
    try:
        handler.parse(head)
    except expat.ExpatError as error:
        raise DataError(
            f"{path}: is no MediaWiki export (XML: {expat.errors.messages[error.code]}, line "
            f"{error.lineno}); give a file such as kowiki-latest-pages-articles.xml.bz2"
        ) from None
    return handler.site()


class _SiteHandler:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.root: str | None = None
        self.language = ""
        self.fields: dict[str, str] = {}
        self.namespaces: dict[str, int] = dict(CANONICAL)
        self.open = ""
        self.key = 0

    def parse(self, data: bytes) -> None:
        # The pieces are UTF-8 whatever the declaration says: UTF-16 has been converted.
        parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.XmlDeclHandler = self.declaration
        parser.StartDoctypeDeclHandler = self.doctype
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.characters
        parser.Parse(data, False)
        if self.root is None:
            raise DataError(
                f"{self.path}: is no MediaWiki export (no XML element in it); "
                "give a file such as kowiki-latest-pages-articles.xml.bz2"
            )

    def declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        if (encoding or "utf-8").lower() not in ENCODINGS:
            raise DataError(
                f"{self.path}: is written in {encoding}; only UTF-8 and UTF-16 dumps are read; "
                f"convert it: iconv -f {encoding} -t UTF-8, and correct its first line"
            )

    def doctype(self, name: str, system: str | None, public: str | None, internal: int) -> None:
        raise DataError(
            f"{self.path}: has a DOCTYPE, which no MediaWiki export has and which can define "
            "entities that fill the memory; it is not read"
        )

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if self.root is None:
            if name != "mediawiki":
                raise DataError(
                    f"{self.path}: is no MediaWiki export (its root is <{name[:40]}>, not "
                    "<mediawiki>); give a file such as kowiki-latest-pages-articles.xml.bz2"
                )
            self.root, self.language = name, attributes.get("xml:lang", "")
        self.open = name
        if name == "namespace":
            key = attributes.get("key", "")
            self.key = int(key) if key.removeprefix("-").isdecimal() and len(key) < 9 else 0

    def end(self, name: str) -> None:
        self.open = ""

    def characters(self, text: str) -> None:
        if self.open == "namespace":
            self.namespaces[text.strip().lower()] = self.key
        elif self.open in ("dbname", "sitename"):
            self.fields[self.open] = self.fields.get(self.open, "") + text.strip()

    def site(self) -> Site:
        wiki = self.fields.get("dbname") or self.path.name.split("-")[0].split(".")[0]
        return Site(wiki, self.language, self.namespaces)


def parse_page(xml: bytes, site: Site) -> Page:
    """Parse one page with one revision; `text` of the result is wikitext.

    Raises:
        ET.ParseError: broken XML.
        ValueError: no title or number.
        NotWikitextError: the content model is another.
    """
    page = ET.fromstring(xml, ET.XMLParser(encoding="utf-8"))
    model = page.findtext("revision/model", "wikitext").strip()
    if model != "wikitext":
        raise NotWikitextError(model)
    title = page.findtext("title", "").strip()
    numbers = [page.findtext(key, "").strip() for key in ("id", "revision/id")]
    if not title or not all(number.isdecimal() and len(number) < 19 for number in numbers):
        raise ValueError("no title or number")
    number, revision = map(int, numbers)
    return Page(site.wiki, number, revision, title, page.findtext("revision/text", ""))
