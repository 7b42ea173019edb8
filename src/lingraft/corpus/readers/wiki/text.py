"""Wikitext to plain text, by mwparserfromhell, with a mark wherever something was left out.

The parser cannot know what a template shows, and no parser reads all that people write. So the rule
is: **a sentence goes if anything was left out of it, or if mark-up is left in it.** Both become
`HOLE`, and the corpus stage drops and counts the sentences that hold one.

What needs no parser is taken out before it: comments, extension tags (which end at their first
closing tag, whatever stands between), tables, headings, list marks and HTML tags. Templates, links
and entities are the parser's. Its time grows with the square of what is not closed, so a page with
much of that is refused before.
"""

from __future__ import annotations

import html
import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.corpus.readers.lines import HOLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

UNPARSABLE = "wikitext that cannot be parsed"
NOT_CLOSED = "mark-up that is not closed"
TEMPLATES = Path(__file__).with_name("templates.toml")
FILE, CATEGORY = 6, 14
CANONICAL_NAMESPACES = {"file": FILE, "image": FILE, "category": CATEGORY}
"""Understood in every language, beside the local names."""

# Where a thing was left out that is no part of a sentence: a note; an image, table or box, which
# is none at the beginning of a line.
NOTE, BLOCK = "\U0010fffb", "\U0010fffc"
# Stand for signs that the parser would take for a tag or heading.
LESS, EQUALS = "\U0010fff9", "\U0010fffa"
SIGNS = {ord(LESS): "<", ord(EQUALS): "="}
DEPTH = 30  # mwparserfromhell takes what is nested a little deeper for text
WORK = 10_000_000
"""Characters times one more than the openings that do not close: some two seconds."""

COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
# https://www.mediawiki.org/wiki/Parser_extension_tags: content that is no running text.
NOTES = "ref|references|indicator|templatestyles|templatedata|includeonly|section"
BLOCKS = (
    "gallery|imagemap|timeline|score|graph|mapframe|categorytree|pre|syntaxhighlight|source|"
    "inputbox|dynamicpagelist|charinsert|style"
)
WORDS = "math|chem|ce|hiero|nowiki|maplink|languages|script"
READINGS = "rt|rp|rtc"  # above a ruby base, which they repeat
EXTENSION = re.compile(
    rf"<((?P<note>{NOTES})|(?P<block>{BLOCKS})|(?P<word>{WORDS})|{READINGS})\b(?:[^<>]*/>|"
    r"[^<>]*>[^<]*(?:<(?!/?\1\b)[^<]*)*</\1\s*>)",
    re.IGNORECASE,
)
LINE_TAGS = re.compile("p|div|br|hr|blockquote|center|[uod]l|li|d[td]|poem|h[1-6]")
TEXT_TAGS = re.compile(
    "abbr|b|bd[io]|big|cite|code|data|del|dfn|em|font|i|ins|kbd|mark|q|rb|rbc|ruby|s|samp|small|"
    "span|strike|strong|su[bp]|time|tt|u|var|wbr|noinclude|onlyinclude"
)
POWER = re.compile(r"(?<=\d)<sup\b[^<>]*>\s*[-+−–]?\d", re.IGNORECASE)
"""An exponent behind a number, which would be another number beside it."""
TAG = re.compile(r"</?([a-zA-Z][a-zA-Z0-9]*)(?:[\s/][^<>]*)?>")
# Innermost ones; a line that begins another table ends the search, so that the time is linear.
TABLE = re.compile(
    r"^[ \t:*#;]*\{\|.*\n(?:(?![ \t:*#;]*\{\||[ \t]*\|\}).*\n)*[ \t]*\|\}(?!\})"
    r"|<table\b[^<>]*>[^<]*(?:<(?!/?table\b)[^<]*)*</table\s*>",
    re.MULTILINE | re.IGNORECASE,
)
TABLE_LEFT = re.compile(r"^[ \t:*#;]*\{\|", re.MULTILINE)
HEADING = re.compile(r"^=.*=[ \t]*$|^-{4,}", re.MULTILINE)
EQUALS_FIRST = re.compile(r"^[ \t]*=", re.MULTILINE)  # of a line that is no heading
LIST_MARK = re.compile(r"^[*#:;]+[ \t]*", re.MULTILINE)
BRACKETS = re.compile(r"\{\{|\}\}|\[\[|\]\]|\[(?=(?:[a-z]{3,9}:)?//|mailto:)|\]", re.IGNORECASE)
# As it is written in links to the same article in other languages: [[en:…]], [[zh-yue:…]].
LANGUAGE_PREFIX = re.compile(r"(?:[a-z]{2,3}|simple)(?:-[a-z]{2,8}){0,2}")
FLAT_TEMPLATE = re.compile(r"\{\{[^{}]*\}\}")
TEMPLATE_NAME = re.compile(r"\{\{([^{}|<>\[\]]{1,255})(?=[|}])")
NUMBER = re.compile(r"[-−–+±~≈]?[\d.,  ]*\d[\d.,  ]*")
CONVERTED = re.compile("n(?:rn)?u(?!n)")  # numbers, range words, units
RANGE_WORDS = {"to", "-", "–", "and", "or", "x", "by", "&"}

# https://www.mediawiki.org/wiki/Help:Magic_words#Behavior_switches; local names have no ASCII.
SWITCH = re.compile(r"__(?:[A-Z]{3,30}|[^\x00-\x7f]{1,40})__")
VARIANT = re.compile(r"-\{([^{}|;:]*)\}-")  # text that is the same in all scripts of a language
PUNCTUATION = ",;:/、，；：·"
MARKS = f"{HOLE}{NOTE}{BLOCK}"
# Where no sentence misses what was left out: alone, first or last in parentheses; an image behind
# the end of a sentence; in a line of its own. Notes go with the space before them.
TIDY: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(rf"^[ \t{NOTE}{BLOCK}]*{BLOCK}[ \t{NOTE}]*", re.MULTILINE), ""),
    (re.compile(rf"^[ \t{MARKS}]+$", re.MULTILINE), ""),
    (re.compile(rf"(?<=[.!?…。！？])[{NOTE}{BLOCK}]*{BLOCK}[{NOTE}{BLOCK}]*"), " "),
    (re.compile(rf"[{MARKS}](?: *[{MARKS}])+"), lambda marks: max(marks[0])),
    (re.compile(rf" {{0,3}}[(（][ {PUNCTUATION}]*[{MARKS}][ {PUNCTUATION}{MARKS}]*[)）]"), ""),
    (re.compile(rf"([(（]) *[{MARKS}][ {PUNCTUATION}{MARKS}]*[{PUNCTUATION}] *"), r"\1"),
    (re.compile(rf"[{PUNCTUATION}] ?[{MARKS}] ?(?=[)）])"), ""),
    (re.compile(rf"(?<=[(（]){NOTE} ?| {{0,3}}{NOTE}(?=[.,;:!?)\n]|\Z)"), ""),
    (re.compile(NOTE), ""),
)
# Mark-up that is left, and brackets that hold nothing.
LEFT = re.compile(
    r"\[\[|\]\]|\{\{|\}\}|\||</?[a-zA-Z]|-\{|\}-|__[A-Z]+__|&#?\w{1,31};|"
    rf"[(（\[][ {PUNCTUATION}]*[)）\]]|{BLOCK}"
)
QUOTES = re.compile(r"'{2,}")
BOLD_IN_WORD = re.compile(r"(?<=\w)'''(?=\w)")


class MarkupError(ValueError):
    """A page that cannot be parsed; the message is the reason that is counted."""


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
    namespaces: Mapping[str, int] = field(default_factory=lambda: CANONICAL_NAMESPACES)


@cache
def templates(language: str) -> dict[str, tuple[str, str]]:
    """Return how each template known on the wiki of a language shows text, and its sign."""
    table = tomllib.loads(TEMPLATES.read_text())
    known: dict[str, tuple[str, str]] = {}
    for group in (table["en"], table.get(language.lower().split("-")[0], {})):
        signs = group.get("sign", {})
        known |= {name: ("sign", sign) for name, sign in signs.items()}
        known |= {name: (how, "") for how in group.keys() - {"sign"} for name in group[how]}
    return known


def _canonical(name: str) -> str:
    return name.strip().replace("_", " ").lower()


def is_disambiguation(wikitext: str, language: str) -> bool:
    """Return whether a page bears a template, or the switch, that marks disambiguation pages."""
    known = templates(language)
    return "__DISAMBIG__" in wikitext or any(
        known.get(_canonical(match[1]), ("",))[0] == "disambiguation"
        for match in TEMPLATE_NAME.finditer(wikitext)
    )


def plain_text(wikitext: str, site: Site) -> str:
    """Return the running text of a page: a paragraph or list item a line, with its `HOLE`s.

    Args:
        wikitext: of one page.
        site: gives the names of namespaces, and the language.

    Returns:
        Lines without empty ones between; any run of white space is one space.

    Raises:
        MarkupError: too much of the page is not closed, or the parser refuses it.
    """
    import mwparserfromhell

    prepared = _prepared(wikitext)
    if len(prepared) * (1 + _not_closed(prepared)) > WORK:
        raise MarkupError(NOT_CLOSED)
    try:
        text = _Writer(site).text(mwparserfromhell.parse(prepared, skip_style_tags=True))
    except Exception as error:  # its ParserError, and whatever else its C code may meet
        raise MarkupError(UNPARSABLE) from error
    return _tidied(text)


def _prepared(text: str) -> str:
    """Return wikitext without what needs no parser."""
    text = EXTENSION.sub(_extension, COMMENT.sub(_comment, text))
    for _ in range(DEPTH):
        text, count = TABLE.subn(BLOCK, text)
        if not count:
            break
    text = TAG.sub(_tag, POWER.sub(HOLE, TABLE_LEFT.sub(HOLE, text))).replace("<", LESS)
    text = EQUALS_FIRST.sub(EQUALS, LIST_MARK.sub("", HEADING.sub("", text)))
    return "\n".join(map(_without_quotes, text.split("\n")))


def _comment(match: re.Match[str]) -> str:
    closed = match[0].endswith("-->") and "<!--" not in match[0][4:]
    return "" if closed else HOLE


def _extension(match: re.Match[str]) -> str:
    if match["note"]:  # one that is not closed ends with the next, lines below
        content = FLAT_TEMPLATE.sub("", match[0]).partition(">")[2].rpartition("<")[0]
        return HOLE if "\n" in content.lstrip() else NOTE
    if match["block"]:
        return BLOCK
    shows_nothing = match["word"] is None or match[0].lower().startswith("<nowiki/")
    return "" if shows_nothing else HOLE


def _tag(match: re.Match[str]) -> str:
    name = match[1].lower()
    if LINE_TAGS.fullmatch(name):
        return "\n"
    return "" if TEXT_TAGS.fullmatch(name) else HOLE


def _not_closed(text: str) -> int:
    """Count brackets that the parser tries to close in vain: without a partner, or too deep."""
    stack: list[str] = []
    failed = 0
    for mark in BRACKETS.findall(text):
        if mark in ("{{", "[[", "["):
            stack.append({"{{": "}}", "[[": "]]", "[": "]"}[mark])
            failed += len(stack) > DEPTH
        elif mark in stack[-DEPTH:]:
            while stack.pop() != mark:
                failed += 1
    return failed + len(stack)


class _Writer:
    """A writer of the text of the parser's nodes."""

    def __init__(self, site: Site) -> None:
        from mwparserfromhell import nodes

        self.site = site
        self.templates = templates(site.language)
        self.writers: dict[type, Any] = {
            nodes.Text: str,
            nodes.Template: self._template,
            nodes.Wikilink: self._link,
            nodes.ExternalLink: self._external,
            nodes.HTMLEntity: lambda node: html.unescape(str(node)),
        }

    def text(self, code: Any) -> str:
        """Return the text of a piece of parsed wikitext; what no writer is for leaves a hole."""
        return "".join(
            self.writers[type(node)](node) if type(node) in self.writers else HOLE
            for node in code.nodes
        )

    def _template(self, node: Any) -> str:
        name, colon, argument = str(node.name).partition(":")  # {{formatnum:1234}}
        how, sign = self.templates.get(_canonical(name), ("", ""))
        if how == "sign":
            return sign
        source = str(node)
        if "\n" in source and how != "quote":  # a box, or one that is closed by another's braces
            return BLOCK if source.endswith("\n}}") else HOLE
        if how in ("", "note", "disambiguation"):
            return NOTE if how == "note" else HOLE
        arguments = {str(p.name).strip(): self.text(p.value).strip() for p in node.params}
        values = [argument.strip()] if colon else []
        while (value := arguments.get(str(len(values) + 1))) is not None:
            values.append(value)
        if how == "doubt":
            return HOLE if values else NOTE
        if how == "quote":
            quoted = arguments.get("text") or "".join(values[:1])
            return f"\n{quoted}\n" if quoted else HOLE
        named = len(arguments) + bool(colon) - len(values)
        return _shown(how, values, named) or HOLE

    def _link(self, node: Any) -> str:
        target = self.text(node.title).strip()
        prefix, colon, _ = target.partition(":")
        name = prefix.strip().replace("_", " ")
        if colon and name:
            number = self.site.namespaces.get(name.lower())
            if number == FILE:
                return HOLE if "\n" in str(node) else BLOCK
            if number == CATEGORY or (number is None and LANGUAGE_PREFIX.fullmatch(name)):
                return NOTE
        label = self.text(node.text).strip() if node.text is not None else ""
        return label or target.removeprefix(":").replace("_", " ")

    def _external(self, node: Any) -> str:
        if not node.brackets:
            return str(node)
        return self.text(node.title).strip() if node.title is not None else HOLE


def _shown(how: str, values: list[str], named: int) -> str:
    """Return what a template shows of its arguments; empty where that is not known.

    Args:
        how: as in the table of templates.
        values: the arguments without names.
        named: how many others there are.
    """
    if how in ("first", "second", "last"):
        index = {"first": 0, "second": 1, "last": len(values) - 1}[how]
        return values[index] if index < len(values) else ""
    kinds = "".join(
        "r" if v in RANGE_WORDS else "n" if NUMBER.fullmatch(v) else "u" for v in values
    )
    if how == "number":
        return " ".join(values) if kinds in ("n", "nu") and not named else ""
    shown = CONVERTED.match(kinds)
    return " ".join(values[: shown.end()]) if shown else ""


def _tidied(text: str) -> str:
    """Return the lines of a text, with holes where mark-up is left, and nothing else of ours."""
    text = VARIANT.sub(r"\1", SWITCH.sub("", text))
    for pattern, replacement in TIDY:
        text = pattern.sub(replacement, text)
    lines = (LEFT.sub(HOLE, line) for line in text.translate(SIGNS).split("\n"))
    return "\n".join(content for line in lines if (content := " ".join(line.split())))


def _without_quotes(line: str) -> str:
    """Return a line without its marks of bold and italic, by MediaWiki's rules.

    Where both kinds are odd in number, a bold mark within a word is an apostrophe and an italic
    mark: French l'''Iliade'' is l'Iliade.
    """
    marks = [len(mark) for mark in QUOTES.findall(line)]
    if sum(n in (3, 4, 5) for n in marks) % 2 and sum(n in (2, 5) for n in marks) % 2:
        line = BOLD_IN_WORD.sub("'", line, count=1)
    return QUOTES.sub(lambda mark: "'" * {4: 1}.get(len(mark[0]), max(len(mark[0]) - 5, 0)), line)
