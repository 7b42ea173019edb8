r"""Wikitext made ready for the tokenizer, in one pass whose time is linear.

mwparserfromhell's tokenizer goes back when markup turns out not to be closed, so that its time is
quadratic in such openings, and nested headings or tables end in exponential time or a stack
overflow. Here comments and extension tags are taken out as MediaWiki's own preprocessor does it (an
extension tag ends at its first closing tag, whatever stands between). Tables go too, headings are
marked, HTML tags become what they mean for plain text, and brackets without a partner go.
Templates, links and entities are left to the tokenizer.

Control characters, which XML does not allow, stand for what later steps must not touch:

| character | stands for |
|---|---|
| `DROPPED` | something that was left out: parentheses that held nothing else go too |
| `WORDS` | the same, in whose place a reader of the page sees words or signs of the sentence |
| `BLOCK` | the same, where it does not begin a line |
| `BREAK` | the end of a line |
| `HEADING` | the marks around a heading |
| those of `PROTECTED` | a character of `<nowiki>`, or of an entity, that is no markup |
"""

from __future__ import annotations

import html
import re

DROPPED, BREAK, HEADING = "\x01", "\x02", "\x18"
WORDS, BLOCK = "\x19", "\x1a"
MARKUP_CHARACTERS = "'_|{}[]<=*#:;&-"
PROTECTED = {
    ord(markup): code
    for markup, code in zip(
        MARKUP_CHARACTERS,
        "\x03\x04\x05\x06\x07\x08\x0e\x0f\x10\x11\x12\x13\x14\x15\x16",
        strict=True,
    )
}
UNPROTECTED = {ord(code): chr(markup) for markup, code in PROTECTED.items()}
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")

MAX_DEPTH = 30  # mwparserfromhell takes what is nested a little deeper for text


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# https://www.mediawiki.org/wiki/Parser_extension_tags: content that is no running text.
DROPPED_EXTENSIONS = _names(
    "ref references math chem ce gallery imagemap timeline score hiero graph mapframe maplink "
    "templatedata templatestyles inputbox categorytree syntaxhighlight source pre indicator "
    "dynamicpagelist section languages charinsert includeonly"
)
SHOWN_IN_TEXT = _names("math chem ce hiero source syntaxhighlight")
"""Of these, what stands for a word of a sentence."""
RAW = DROPPED_EXTENSIONS | {"nowiki"}
# Elements whose content goes: tables, and the reading above a ruby base, which repeats it.
DROPPED_ELEMENTS = _names("table rt rp style script")
BLOCK_ELEMENTS = _names(
    "p div br hr blockquote center ul ol li dl dt dd poem h1 h2 h3 h4 h5 h6 caption tr td th"
)
INLINE_ELEMENTS = _names(
    "abbr b bdi bdo big cite code data del dfn em font i ins kbd mark q rb rbc rtc ruby s samp "
    "small span strike strong sub sup time tt u var wbr noinclude onlyinclude"
)

COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
# Begins with one of six characters, which lets `re` look for these alone; a line begins at "\n".
TOKEN = re.compile(
    r"[<{}\[\]\n](?:"
    r"(?P<whole>(?<=\[)\[[^\[\]{}<\n]*\]\]|(?<=\{)\{[^\[\]{}<\n]*\}\}(?!\}))|"
    r"(?<=<)(?P<tag>(?P<close>/?)(?P<name>[A-Za-z][A-Za-z0-9]*)(?:[\s/][^<>]*)?>)"
    r"|(?P<less>(?<=<))"
    r"|(?<=\n)(?P<opentable>[ \t*\#:;]*\{\|)"
    r"|(?<=\n)(?P<closetable>[ \t]*\|\}(?!\}))"
    r"|(?<=\n)(?P<heading>=+)"
    r"|(?<=\n)(?P<item>[*\#:;]+[ \t]*)"
    r"|(?<=\{)(?P<braces>\{+)"
    r"|(?<=\})(?P<unbraces>\}+)"
    r"|(?<=\[)(?P<link>\[)"
    r"|(?<=\])(?P<unlink>\])"
    r"|(?<=\[)(?P<external>(?=(?:[A-Za-z]{3,9}:)?//|mailto:))"
    r"|(?P<unexternal>(?<=\]))"
    r")"
)


FALSE_MARK = re.compile(r"[\n{](?:(?<=\n)=|(?<=[^{]\{)(?=\|))")


class MarkupError(ValueError):
    """The page cannot be parsed; the message is the reason that is counted."""


NESTED_TOO_DEEPLY = "markup nested too deeply"


def prepare(wikitext: str) -> str:
    """Take out of wikitext what is no text, and brackets without a partner.

    Raises:
        MarkupError: brackets are nested more than 30 deep.
    """
    if CONTROL.search(wikitext):
        wikitext = CONTROL.sub("", wikitext)
    return _Scanner("\n" + COMMENT.sub("", wikitext)).run()


class _Scanner:
    """One pass over the marks of a page.

    Attributes:
        edits: (start, end, replacement); an edit inside another one is void.
        stack: what is open: kind, start of the mark, its length.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.edits: list[tuple[int, int, str]] = []
        self.stack: list[tuple[str, int, int]] = []
        self.open: dict[str, int] = {}
        self.never_closed: set[str] = set()

    def run(self) -> str:
        position = 0
        while match := TOKEN.search(self.text, position):
            # A link or template that holds no other is most of what there is.
            position = match.end() if match.lastgroup == "whole" else self._step(match)
        while self.stack:
            self._give_up()
        return self._edited()

    def _step(self, match: re.Match[str]) -> int:
        kind, start, end = match.lastgroup, match.start(), match.end()
        if self.text[start] == "\n":
            start += 1
        if kind == "tag":
            return self._tag(match)
        if kind == "less":
            self.edits.append((start, end, PROTECTED[ord("<")]))
        elif kind == "item":
            self.edits.append((start, end, ""))
        elif kind == "heading":
            return self._heading(start)
        elif kind == "opentable":  # an indented table is one too, once the marks of the list go
            self.edits.append((start, end - 2, ""))
            self._push("table", end - 2, 2)
        elif kind == "unbraces":
            self._close_braces(start, end)
        elif kind in ("braces", "link", "external"):
            self._push(kind, start, end - start)
        else:
            assert kind is not None
            self._close(kind.removeprefix("un").replace("closetable", "table"), start, end)
        return end

    def _heading(self, start: int) -> int:
        """A line that begins with '='; what is no heading begins with a plain '='."""
        end = self.text.find("\n", start)
        line = self.text[start : end if end >= 0 else len(self.text)].rstrip()
        level = min(
            len(line) - len(line.lstrip("=")), len(line) - len(line.rstrip("=")), len(line) // 3, 6
        )
        if level == 0:
            self.edits.append((start, start + 1, PROTECTED[ord("=")]))
            return start + 1
        self.edits.append((start, start + level, HEADING))
        self.edits.append((start + len(line) - level, start + len(line), HEADING))
        return start + level

    def _tag(self, match: re.Match[str]) -> int:
        start, end, name = match.start(), match.end(), match["name"].lower()
        if name in RAW:
            return self._extension(name, match)
        if name in DROPPED_ELEMENTS:
            if match["close"]:
                self._close(name, start, end)
            elif not match["tag"].endswith("/>"):
                self._push(name, start, end - start)
        elif name in BLOCK_ELEMENTS:
            self.edits.append((start, end, BREAK))
        elif name in INLINE_ELEMENTS:
            self.edits.append((start, end, ""))
        else:  # MediaWiki shows tags that it does not know
            self.edits.append((start, start + 1, PROTECTED[ord("<")]))
            return start + 1
        return end

    def _extension(self, name: str, match: re.Match[str]) -> int:
        start, end = match.start(), match.end()
        replacement = "" if name == "nowiki" else WORDS if name in SHOWN_IN_TEXT else DROPPED
        if match["close"] or name in self.never_closed:
            self.edits.append((start, end, ""))
            return end
        if match["tag"].endswith("/>"):
            self.edits.append((start, end, replacement))
            return end
        close = re.compile(rf"</{name}\s*>", re.IGNORECASE).search(self.text, end)
        if close is None:
            self.never_closed.add(name)
            self.edits.append((start, end, ""))
            return end
        if name == "nowiki":
            replacement = protect(html.unescape(self.text[end : close.start()]))
        self.edits.append((start, close.end(), replacement))
        return close.end()

    def _push(self, kind: str, start: int, length: int) -> None:
        if len(self.stack) >= MAX_DEPTH:
            self._drop_lines_left_open()
        if len(self.stack) >= MAX_DEPTH:
            raise MarkupError(NESTED_TOO_DEEPLY)
        self.stack.append((kind, start, length))
        self.open[kind] = self.open.get(kind, 0) + 1

    def _drop_lines_left_open(self) -> None:
        """Give up links that were opened on an earlier line: on none of these they can end."""
        line = self.text.rfind("\n", 0, self.stack[-1][1]) + 1
        entries = []
        for entry in self.stack:
            kind, start, length = entry
            if kind in ("link", "external") and start < line:
                self.edits.append((start, start + length, ""))
                self.open[kind] -= 1
            else:
                entries.append(entry)
        self.stack = entries

    def _give_up(self) -> None:
        """The innermost opening has no partner."""
        kind, start, length = self.stack.pop()
        self.open[kind] -= 1
        self.edits.append((start, start + length, ""))

    def _close(self, kind: str, start: int, end: int) -> None:
        if not self.open.get(kind):
            if kind != "external":  # a lone ] is text
                self.edits.append((start, end, ""))
            return
        while self.stack[-1][0] != kind:
            self._give_up()
        _, opened, _ = self.stack.pop()
        self.open[kind] -= 1
        if kind in DROPPED_ELEMENTS:
            self.edits.append((opened, end, BLOCK if kind == "table" else DROPPED))

    def _close_braces(self, start: int, end: int) -> None:
        """Match a run of closing braces with the runs that are open, from the inside out."""
        while end - start >= 2 and self.open.get("braces"):
            while self.stack[-1][0] != "braces":
                self._give_up()
            _, opened, length = self.stack.pop()
            self.open["braces"] -= 1
            matched = min(length, end - start)
            start += matched
            if length - matched >= 2:
                self._push("braces", opened, length - matched)
            elif length > matched:
                self.edits.append((opened, opened + length - matched, ""))
        if start < end:
            self.edits.append((start, end, ""))

    def _edited(self) -> str:
        pieces = []
        position = 0
        for start, end, replacement in sorted(self.edits, key=lambda edit: (edit[0], -edit[1])):
            if start >= position:
                pieces += [self.text[position:start], replacement]
                position = end
        pieces.append(self.text[position:])
        return FALSE_MARK.sub(lambda match: protect(match[0]), "".join(pieces))


def protect(text: str) -> str:
    """Text with every markup character replaced by what stands for it."""
    return CONTROL.sub("", text).translate(PROTECTED)
