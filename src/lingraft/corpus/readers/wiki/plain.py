"""Wikitext to plain text.

mwparserfromhell's C tokenizer gives a flat list of tokens; one walk over it writes the text. Its
tree of nodes is not built: that takes eight times as long as the tokens.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lingraft.corpus.readers.wiki import templates
from lingraft.corpus.readers.wiki.balance import (
    BLOCK,
    BREAK,
    DROPPED,
    HEADING,
    PROTECTED,
    UNPROTECTED,
    WORDS,
    MarkupError,
    prepare,
    protect,
)
from lingraft.corpus.readers.wiki.export import CATEGORY, FILE, Site
from lingraft.corpus.readers.wiki.quotes import without_quotes
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

UNPARSABLE = "wikitext that cannot be parsed"
VARIANT_LANGUAGES = {"zh", "gan", "sr", "sh", "kk", "uz", "ku", "iu", "shi", "tg", "crh"}

# https://www.mediawiki.org/wiki/Help:Magic_words#Behavior_switches; local names have no ASCII.
SWITCH = re.compile(
    r"__(?:NOTOC|FORCETOC|TOC|NOEDITSECTION|NEWSECTIONLINK|NONEWSECTIONLINK|NOGALLERY|HIDDENCAT|"
    r"EXPECTUNUSEDCATEGORY|EXPECTUNUSEDTEMPLATE|INDEX|NOINDEX|STATICREDIRECT|DISAMBIG|"
    r"NOCONTENTCONVERT|NOCC|NOTITLECONVERT|NOTC|EXPECTED_UNCONNECTED_PAGE|ARCHIVEDTALK|"
    r"NOTALK|[^\x00-\x7f]{1,40})__"
)
# As it is written in links to the same article in other languages: [[en:…]], [[zh-yue:…]].
LANGUAGE_PREFIX = re.compile(r"(?:[a-z]{2,3}|simple)(?:-[a-z]{2,8}){0,2}")
# What is tidied up around something dropped. Repetitions are bounded, or begin at a character that
# they do not hold, so that the time is linear in whatever a page consists of.
PUNCTUATION = ",;:/、，；：·"
RUN_OF_DROPPED = re.compile(rf"{DROPPED}(?: *{DROPPED})+")
EMPTY_PARENTHESES = re.compile(rf"[(（][ {PUNCTUATION}]*{DROPPED}[ {PUNCTUATION}{DROPPED}]*[)）]")
DROPPED_FIRST = re.compile(rf"([(（]) *{DROPPED}[ {PUNCTUATION}{DROPPED}]*")
DROPPED_LAST = re.compile(rf"{DROPPED}[ {PUNCTUATION}{DROPPED}]{{0,8}}(?=[)）])")
DROPPED_BEFORE_PUNCTUATION = re.compile(rf"{DROPPED}(?=[.,;:!?)\n]|\Z)")
# Where nothing is missing without it: at the beginning of a line; alone, first or last in
# parentheses; alone on a line; right behind the end of a sentence (a note).
LEFT_OUT = f"{DROPPED}{WORDS}{BLOCK}"
FIRST_IN_LINE = re.compile(rf"(?:\A|[\n{BREAK}])[ \t{LEFT_OUT}]*")
NOT_MISSED = re.compile(
    rf"[(（][ {PUNCTUATION}{DROPPED}]*{WORDS}[ {PUNCTUATION}{DROPPED}{WORDS}]*[)）]"
    rf"|[(（] *{WORDS}(?= ?[{PUNCTUATION}])"
    rf"|[,;、，；] *{WORDS}(?= *[)）])"
    rf"|(?<=[.!?…。！？]){WORDS}"
    rf"|(?:(?<=\A)|(?<=[\n{BREAK}]))[ {DROPPED}]*{WORDS}[ {DROPPED}{WORDS}]*(?=[\n{BREAK}]|\Z)"
)
# Stand for what goes with the space, or with any punctuation, before it.
WITH_SPACE, WITH_PUNCTUATION = "\x0b", "\x0c"
PUNCTUATION_BEFORE = re.compile(rf"[ {PUNCTUATION}{DROPPED}]{{0,4}}{WITH_PUNCTUATION}")
TABLE_REST = re.compile(rf"[ \t]*[{{{PROTECTED[ord('{')]}]?\|")
VARIANT = re.compile(r"-\{([^{}]*)\}-")


@dataclass(slots=True)
class _Frame:
    """Markup that is open: what kind, and the text of its parts so far.

    Attributes:
        kind: 'page', 'template', 'link', 'external' or 'url' (without brackets).
        parts: pieces of text; a new list begins at a '|'.
        keys: of a template: parts whose name has been read, by their index.
    """

    kind: str
    parts: list[list[str]] = field(default_factory=lambda: [[]])
    keys: dict[int, str] = field(default_factory=dict)

    def texts(self) -> list[str]:
        return ["".join(part) for part in self.parts]


def tokenizer() -> tuple[Callable[[str, int, bool], list[Any]], Any]:
    """Mwparserfromhell's tokenizer, and the module of its token classes.

    Raises:
        DataError: it is not installed, or was built without its C tokenizer.
    """
    try:
        from mwparserfromhell.parser import tokens
        from mwparserfromhell.parser._tokenizer import CTokenizer  # type: ignore[import-not-found]
    except ImportError:
        raise DataError(
            "wikitext: reading it needs the package mwparserfromhell with its C tokenizer; "
            'run: pip install "lingraft[wiki]"'
        ) from None
    return CTokenizer().tokenize, tokens


def plain_text(wikitext: str, site: Site, title: str = "", hole: str = "") -> str:
    """The running text of a page: a paragraph or list item a line.

    Left out: templates (but for those of `templates.py`), tables, references, images with their
    captions, categories, links to other languages, formulas, galleries, code blocks, comments,
    numbered external links. Kept: the text of links, of lists and of `<nowiki>`.

    Args:
        wikitext: of one page.
        site: gives the names of namespaces, and the language.
        title: of the page, for {{PAGENAME}}.
        hole: put where words of a sentence were left out: templates, formulas, images and tables
            within it.

    Returns:
        Lines without empty ones between; any run of white space is one space.

    Raises:
        MarkupError: the page is nested too deeply, or the tokenizer refuses it.
        DataError: mwparserfromhell is not installed.
    """
    prepared = prepare(wikitext)
    tokenize, kinds = tokenizer()
    try:
        tokens = tokenize(prepared, 0, True)
    except Exception as error:  # its ParserError, and whatever else its C code may meet
        raise MarkupError(UNPARSABLE) from error
    return _finish(_Writer(kinds, site, title).write(tokens), site, hole)


class _Writer:
    """Walks over the tokens; `frames` holds what is open, the page itself first."""

    def __init__(self, kinds: Any, site: Site, title: str) -> None:
        self.site = site
        self.title = title
        self.frames = [_Frame("page")]
        self.kinds = kinds
        self.handlers: dict[type, Callable[[Sequence[Any], int], int]] = {
            kinds.TemplateOpen: self._open_template,
            kinds.TemplateParamSeparator: self._next_part,
            kinds.TemplateParamEquals: self._name_part,
            kinds.TemplateClose: self._close_template,
            kinds.ArgumentOpen: self._skip_argument,
            kinds.WikilinkOpen: self._open_link,
            kinds.WikilinkSeparator: self._next_part,
            kinds.WikilinkClose: self._close_link,
            kinds.ExternalLinkOpen: self._open_external,
            kinds.ExternalLinkSeparator: self._next_part,
            kinds.ExternalLinkClose: self._close_external,
            kinds.HTMLEntityStart: self._entity,
            kinds.TagOpenOpen: self._rule,
        }

    def write(self, tokens: Sequence[Any]) -> str:
        """The text, with what stands for other things still in it."""
        text_kind, handlers, frames = self.kinds.Text, self.handlers, self.frames
        index = 0
        while index < len(tokens):
            token = tokens[index]
            if type(token) is text_kind:
                frames[-1].parts[-1].append(token["text"])
            else:
                index = handlers[type(token)](tokens, index)
            index += 1
        assert len(frames) == 1, "the tokenizer gives no markup that is not closed"
        return "".join(frames[0].parts[0])

    def _put(self, text: str) -> None:
        self.frames[-1].parts[-1].append(text)

    def _skip(self, tokens: Sequence[Any], index: int, opens: type, closes: type) -> int:
        """The index of the token that closes the one at `index`."""
        depth = 0
        while True:
            kind = type(tokens[index])
            if kind is opens:
                depth += 1
            elif kind is closes:
                depth -= 1
                if depth == 0:
                    return index
            index += 1

    def _open_template(self, tokens: Sequence[Any], index: int) -> int:
        name = tokens[index + 1]
        if type(name) is self.kinds.Text and templates.carries_text(
            name["text"].partition(":")[0] if ":" in name["text"] else name["text"]
        ):
            self.frames.append(_Frame("template"))
            return index
        end = self._skip(tokens, index, self.kinds.TemplateOpen, self.kinds.TemplateClose)
        texts = [token["text"] for token in tokens[index:end] if type(token) is self.kinds.Text]
        if texts and templates.canonical(texts[0]) in templates.FOOTNOTES:
            self._put(DROPPED)
        else:
            self._put(BLOCK if any("\n" in text for text in texts) else WORDS)
        return end

    def _next_part(self, tokens: Sequence[Any], index: int) -> int:
        self.frames[-1].parts.append([])
        return index

    def _name_part(self, tokens: Sequence[Any], index: int) -> int:
        frame = self.frames[-1]
        frame.keys[len(frame.parts) - 1] = "".join(frame.parts[-1]).strip()
        frame.parts[-1] = []
        return index

    def _close_template(self, tokens: Sequence[Any], index: int) -> int:
        frame = self.frames.pop()
        name, *parts = frame.texts()
        function, colon, argument = name.partition(":")
        if colon:  # {{formatnum:1234}}
            name, parts = function, [argument, *parts]
        shift = 0 if colon else 1
        keywords = {
            key: parts[at - shift].strip() for at, key in frame.keys.items() if at <= len(parts)
        }
        positional = [part for at, part in enumerate(parts) if at + shift not in frame.keys]
        text = ""
        if templates.carries_text(name):  # it may go on after what `_open_template` looked at
            text = templates.expand(name, positional, keywords, protect(self.title))
        self._put(text or WORDS)
        return index

    def _skip_argument(self, tokens: Sequence[Any], index: int) -> int:
        self._put(WORDS)
        return self._skip(tokens, index, self.kinds.ArgumentOpen, self.kinds.ArgumentClose)

    def _open_link(self, tokens: Sequence[Any], index: int) -> int:
        name = tokens[index + 1]
        if type(name) is self.kinds.Text:
            if hidden := self._hidden(name["text"]):
                self._put(hidden)
                return self._skip(tokens, index, self.kinds.WikilinkOpen, self.kinds.WikilinkClose)
            if type(tokens[index + 2]) is self.kinds.WikilinkClose:
                self._put(_shown(name["text"]))
                return index + 2
        self.frames.append(_Frame("link"))
        return index

    def _hidden(self, target: str) -> str:
        """What stands for a link that shows an image or nothing at all; empty for others."""
        prefix, colon, _ = target.partition(":")
        if not colon or not prefix.strip():
            return ""
        name = prefix.strip().replace("_", " ")
        number = self.site.namespaces.get(name.lower())
        if number is not None:
            return {FILE: BLOCK, CATEGORY: DROPPED}.get(number, "")
        return DROPPED if LANGUAGE_PREFIX.fullmatch(name) else ""

    def _close_link(self, tokens: Sequence[Any], index: int) -> int:
        target, *label = self.frames.pop().texts()
        text = "".join(label)
        self._put(text if text.strip() else _shown(target))
        return index

    def _open_external(self, tokens: Sequence[Any], index: int) -> int:
        self.frames.append(_Frame("external" if tokens[index].get("brackets") else "url"))
        return index

    def _close_external(self, tokens: Sequence[Any], index: int) -> int:
        frame = self.frames.pop()
        url, *label = frame.texts()
        self._put(url if frame.kind == "url" else "".join(label).strip() or DROPPED)
        return index

    def _entity(self, tokens: Sequence[Any], index: int) -> int:
        end = self._skip(tokens, index, self.kinds.HTMLEntityStart, self.kinds.HTMLEntityEnd)
        body = ""
        for token in tokens[index:end]:
            if type(token) is self.kinds.HTMLEntityNumeric:
                body += "#"
            elif type(token) is self.kinds.HTMLEntityHex:
                body += "x"
            elif type(token) is self.kinds.Text:
                body += token["text"]
        self._put(protect(html.unescape(f"&{body};")))
        return end

    def _rule(self, tokens: Sequence[Any], index: int) -> int:
        """The rule that ---- is; all other tags went before."""
        self._put(BREAK)
        return self._skip(tokens, index, self.kinds.TagOpenOpen, self.kinds.TagCloseSelfclose)


def _shown(target: str) -> str:
    """What a link without a label shows."""
    return target.strip().removeprefix(":").replace("_", " ")


def _with_holes(text: str, hole: str) -> str:
    """Put the mark for what is missing in a sentence; the rest is left out like a note."""
    text = FIRST_IN_LINE.sub(lambda match: match[0].replace(BLOCK, DROPPED), text)
    text = text.replace(BLOCK, WORDS)
    text = NOT_MISSED.sub(lambda match: match[0].replace(WORDS, DROPPED), text)
    return text.replace(WORDS, hole)


def _finish(text: str, site: Site, hole: str) -> str:
    """Take the last marks out, and tidy up where something was dropped."""
    text = _with_holes(text, hole or DROPPED)
    if "__" in text:
        text = SWITCH.sub("", text)
    if "-{" in text and site.language.split("-")[0] in VARIANT_LANGUAGES:
        text = VARIANT.sub(_variant, text)
    if DROPPED in text:
        text = RUN_OF_DROPPED.sub(DROPPED, text)
        text = EMPTY_PARENTHESES.sub(WITH_SPACE, text)
        text = DROPPED_FIRST.sub(r"\1", text)
        text = DROPPED_LAST.sub(WITH_PUNCTUATION, text)
        if WITH_PUNCTUATION in text:
            text = PUNCTUATION_BEFORE.sub("", text)
        text = DROPPED_BEFORE_PUNCTUATION.sub(WITH_SPACE, text)
        for mark in (f"  {WITH_SPACE}", f" {WITH_SPACE}", WITH_SPACE, DROPPED):
            text = text.replace(mark, "")
    lines = []
    for line in text.replace(BREAK, "\n").split("\n"):
        if TABLE_REST.match(line) or line.startswith(HEADING):
            continue
        if content := " ".join(
            without_quotes(line.replace(HEADING, "")).translate(UNPROTECTED).split()
        ):
            lines.append(content)
    return "\n".join(lines)


def _variant(match: re.Match[str]) -> str:
    """Text of a language-variant mark: -{text}-, or the first of -{zh-hans:甲; zh-hant:乙}-.

    https://www.mediawiki.org/wiki/Writing_systems/Syntax; with flags that only define a rule
    nothing is shown.
    """
    flags, bar, content = match[1].rpartition("|")
    if bar and set(flags.replace(" ", "").split(";")) & {"H", "T", "-", "D"}:
        return ""
    first = content.split(";")[0]
    name, colon, value = first.partition(":")
    return (
        value.strip() if colon and re.fullmatch(r"\s*[a-z]{2,3}(?:-[a-z]+)*\s*", name) else content
    )
