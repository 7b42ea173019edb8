"""Reads pages of software documentation (HTML, DocBook, Mallard) as paragraphs of text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


SEQUENCES = {"guiseq": " - ", "menuchoice": " - ", "keyseq": "+", "keycombo": "+"}
VOID = words("area base br col embed hr img input link meta param source track wbr")
INLINE = words("""
    a abbr acronym b bdi big cite code data del dfn em font guibutton guilabel guimenu
    guimenuitem guisubmenu guiseq i ins kbd key keycap keycombo keyseq link mark nobr q s samp
    small span strike strong sub sup time tt u ulink var command filename app application
    emphasis quote option literal userinput computeroutput firstterm xref file sys output
    cmd gui menuchoice shortcut replaceable envar interface productname trademark phrase
    br img input wbr script svg math button media inlinemediaobject guiicon indexterm footnote
    remark comment citetitle glossterm mousebutton keysym varname parameter function systemitem
    uri email wordasword
""")
SKIPPED_TAGS = words("""
    script style head pre nav header footer aside form button select svg math textarea noscript
    screen programlisting synopsis info bookinfo articleinfo sectioninfo indexterm legalnotice
    credit remark comment guiicon media mediaobject inlinemediaobject footnote
""")
SKIPPED_CLASSES = words("""
    navheader navfooter toc index programlisting screen synopsis highlight sphinxsidebar related
    headerlink footer sig toctree-wrapper nav-panel contents contents-treeview listingblock
    SECTION_TOC menu author authorgroup copyright legalnotice revhistory navCenter navigation
    ChildLinks copiable-link copiable-anchor docinfo docnav footnote indextable genindextable
""")
SKIPPED_IDS = words("toc header footer preamble page-header bottom tocframe")

FUNCTION_WORDS = words("""
    a about after all also an and any are as at be been before but by can could do does each for
    from had has have he her his how i if in into is it its may more most must no not of on one
    only or other our out over per same see should so some such than that the their them then
    there these they this those through to under up use used using was we were what when where
    which while who will with would you your
""")
CODE_WORD = re.compile(r"[_=<>{}\\|/@#$~^*+\[\]]|::|\w\(|\w\.\w|[a-z][A-Z]|[A-Za-z]\d|^--?\w")


@dataclass(frozen=True)
class Block:
    """One paragraph, heading, list item or cell: its text and what marks it in the page."""

    tag: str
    name: str
    classes: frozenset[str]
    text: str


@dataclass
class Open:
    """A tag that is open while a page is read."""

    tag: str
    name: str = ""
    classes: frozenset[str] = frozenset()
    skipped: bool = False
    start: int = 0
    choices: list[tuple[frozenset[str], str]] = field(default_factory=list)


class PageReader(HTMLParser):
    """Splits a page of HTML, DocBook or Mallard into blocks of text.

    Inline tags are kept as text, entities are decoded, white space is collapsed, code listings and
    navigation are left out; menu paths read "File - Save", keys "Ctrl+S". Where LibreOffice Help
    offers several wordings by platform or module (`switchinline`), the default one is read, else
    the first.
    """

    def __init__(self, *, xml: bool = False) -> None:
        super().__init__(convert_charrefs=True)
        self.void = frozenset[str]() if xml else VOID
        self.stack: list[Open] = []
        self.parts: list[str] = []
        self.blocks: list[Block] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in INLINE and not self.skipping():
            self.flush()
            if tag == "p" and self.stack and self.stack[-1].tag == "p":
                self.stack.pop()
        if tag in self.void:
            if tag == "br":
                self.parts.append(" ")
            return
        parent = self.stack[-1] if self.stack else None
        if parent and parent.tag in SEQUENCES and len(self.parts) > parent.start:
            self.parts.append(SEQUENCES[parent.tag])
        values = dict(attrs)
        name, classes = values.get("id") or "", words(values.get("class") or "")
        skipped = bool(
            self.skipping()
            or tag in SKIPPED_TAGS
            or classes & SKIPPED_CLASSES
            or name in SKIPPED_IDS
        )
        self.stack.append(Open(tag, name, classes, skipped, len(self.parts)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in INLINE and not self.skipping():
            self.flush()
        if not any(one.tag == tag for one in self.stack):
            return
        while True:
            one = self.stack.pop()
            self.close_choice(one)
            if one.tag == tag:
                return

    def handle_data(self, data: str) -> None:
        between = self.stack and self.stack[-1].tag in SEQUENCES and data.isspace()
        if not (between or self.skipping()):
            self.parts.append(data)

    def skipping(self) -> bool:
        """Whether what is being read is left out."""
        return bool(self.stack) and self.stack[-1].skipped

    def close_choice(self, one: Open) -> None:
        """Keep one of the wordings of a `switchinline` that ends, or set aside one that ends."""
        if "switchinline" in one.classes:
            default = [text for classes, text in one.choices if not classes]
            self.parts[one.start :] = (default or [text for _, text in one.choices])[:1]
        elif self.stack and "switchinline" in self.stack[-1].classes:
            self.stack[-1].choices.append((one.classes, "".join(self.parts[one.start :])))

    def flush(self) -> None:
        """End the block that is being read."""
        text = " ".join("".join(self.parts).replace("\u200b", "").split())
        self.parts.clear()
        if text:
            owner = next((one for one in reversed(self.stack) if one.tag not in INLINE), Open(""))
            self.blocks.append(Block(owner.tag, owner.name, owner.classes, text))


def read_blocks(page: str, *, xml: bool = False) -> list[Block]:
    """The blocks of a page in order."""
    if xml:
        for name, value in re.findall(r'<!ENTITY\s+([\w.-]+)\s+"([^"<]*)"', page):
            page = page.replace(f"&{name};", value)
        page = re.sub(r"<!DOCTYPE[^\[>]*(\[.*?\]\s*)?>", "", page, count=1, flags=re.DOTALL)
    reader = PageReader(xml=xml)
    reader.feed(page)
    reader.close()
    reader.flush()
    return reader.blocks


def drop_reason(text: str) -> str | None:
    """Why a paragraph is not English prose (length, symbols, code, …); None if it is."""
    tokens = text.split()
    if len(tokens) < 2 or len(text) < 8 or len(text) > 20_000:
        return "length"
    if sum(char.isalpha() or char == " " for char in text) < 0.8 * len(text) or text[0] in "$%>-#":
        return "symbols"
    if sum(bool(CODE_WORD.search(token)) for token in tokens) > 0.25 * len(tokens):
        return "code"
    if re.search(r"&[A-Za-z][\w.-]*;", text):
        return "entity"
    if sum(char.isalpha() and char > "\u024f" for char in text) > 0.03 * len(text):
        return "not English"
    common = sum(token.strip(".,:;()\"'").lower() in FUNCTION_WORDS for token in tokens)
    return "no sentence" if len(tokens) >= 10 and common < 0.15 * len(tokens) else None
