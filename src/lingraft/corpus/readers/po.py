r"""gettext .po files: translated messages as text, or both sides as pairs.

Format markers (`%s`, `{name}`, `_File`, `\n` at the ends) stay as they are. Left out, and counted:
messages marked fuzzy (a machine's guess that nobody has checked), obsolete ones (`#~`) and
untranslated ones.

The format: https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lingraft.corpus.cleaning.repair import text_encoding
from lingraft.corpus.pairs import Pair
from lingraft.corpus.readers.lines import (
    BROKEN_UTF8,
    HEAD_BYTES,
    LINE_TOO_LONG,
    Reading,
    opened,
    raw_lines,
    reading_errors,
)
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lingraft import recipe
    from lingraft.corpus.readers.documents import Source

FUZZY, OBSOLETE, UNTRANSLATED = "fuzzy message", "obsolete message", "untranslated message"
BROKEN_MESSAGE = "broken message"
DROPPED_LINE = "broken line"
# Nobody writes messages this long; a file that never closes one must not fill the memory.
MAX_MESSAGE_CHARACTERS = 1_000_000

CHARSET = re.compile(rb"charset=([A-Za-z0-9._:-]+)", re.IGNORECASE)
KEYWORD = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr(?:\[(\d{1,2})\])?)[ \t]*(?=\")")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)")
ESCAPED = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v",
}  # fmt: skip


@dataclass
class Message:
    """One entry of a .po file.

    Attributes:
        context: msgctxt, or None.
        source: msgid.
        plural: msgid_plural, or None.
        translations: msgstr by number; a message without a plural has the number 0 alone.
        fuzzy: nobody has checked it.
        broken: a string of it does not end, or a part comes twice.
    """

    context: str | None = None
    source: str | None = None
    plural: str | None = None
    translations: dict[int, str] = field(default_factory=dict)
    fuzzy: bool = False
    broken: bool = False

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Source and translation of each form that has both.

        Of a message with a plural: the singular with form 0 and the plural with the last form, or,
        where the language has but one form (Korean, Japanese), the plural with that one.
        """
        assert self.source is not None
        last = max(self.translations, default=0)
        if self.plural is None or last > 0:
            yield self.source, self.translations.get(0, "")
        if self.plural is not None:
            yield self.plural, self.translations.get(last, "")


def read(source: Source, section: recipe.Corpus, reading: Reading) -> Iterator[tuple[object, str]]:
    """The translations of a .po file, a document a message; every plural form is a line of it.

    Raises:
        DataError: the file cannot be read, is cut short, or is no .po file.
    """
    assert source.path is not None
    for message in translated(source.path, section.max_line_bytes, reading):
        forms = dict.fromkeys(message.translations[form] for form in sorted(message.translations))
        yield None, "\n".join(forms)


def read_pairs(path: Path, max_line_bytes: int, reading: Reading) -> Iterator[Pair]:
    """Message and translation, with line ends turned into spaces.

    Raises:
        DataError: the file cannot be read, is cut short, or is no .po file.
    """
    for message in translated(path, max_line_bytes, reading):
        for source, target in message.pairs():
            reading.documents += 1
            yield Pair(target, source)


def translated(path: Path, max_line_bytes: int, reading: Reading) -> Iterator[Message]:
    """The messages that are translated and checked; the others are counted in `reading`.

    Raises:
        DataError: the file cannot be read, is cut short, is in an unknown encoding, or holds no
            message at all.
    """
    good = 0
    broken_before = reading.dropped[BROKEN_MESSAGE] + reading.dropped[DROPPED_LINE]
    for message in messages(path, max_line_bytes, reading):
        if message.broken or message.source is None or not message.translations:
            reading.drop(BROKEN_MESSAGE)
            continue
        good += 1
        if message.source == "" and message.context is None:
            continue  # the header
        if message.fuzzy:
            reading.drop(FUZZY)
        elif not all(text.strip() for text in message.translations.values()):
            reading.drop(UNTRANSLATED)
        else:
            yield message
    broken = reading.dropped[BROKEN_MESSAGE] + reading.dropped[DROPPED_LINE] - broken_before
    if broken and not good:
        raise DataError(
            f"{path}: is no .po file ({broken:,} broken parts and no message); "
            "rename it or leave it out"
        )


def messages(path: Path, max_line_bytes: int, reading: Reading) -> Iterator[Message]:
    """Every message that is not obsolete, broken ones included; obsolete ones are counted.

    Raises:
        DataError: the file cannot be read, is cut short, or is in an unknown encoding.
    """
    parser = Parser(reading)
    for line in _lines(path, max_line_bytes, reading):
        message = parser.feed(line)
        if message is not None:
            yield message
    message = parser.finish()
    if message is not None:
        yield message


class Parser:
    """Puts messages together from lines.

    A message ends at an empty line, at a comment after its msgstr, or where the next one begins.
    """

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.message = Message()
        self.part: str | None = None
        self.form = 0
        self.pieces: list[str] = []
        self.size = 0
        self.obsolete = False

    def feed(self, line: str) -> Message | None:
        """Take one line; a message that it ends."""
        line = line.strip()
        if line.startswith("#~"):
            ended = self.finish()
            if not self.obsolete and re.match(r"#~\s*msgid\s", line):
                self.reading.drop(OBSOLETE)
            return ended
        if not line:
            return self.finish()
        if line.startswith("#"):
            ended = self.finish() if self.part is not None else None
            if line.startswith("#,") and "fuzzy" in line:
                self.message.fuzzy = True
            return ended
        keyword = KEYWORD.match(line)
        if keyword is not None:
            ended = self._begins_next(keyword.group(1))
            self._close_part()
            self._open_part(keyword, line[keyword.end() :])
            return ended
        self._add(line)
        return None

    def finish(self) -> Message | None:
        """End the message that is open, if one is."""
        started = self.part is not None
        self._close_part()
        message, self.message = self.message, Message()
        return message if started else None

    def _begins_next(self, keyword: str) -> Message | None:
        """A msgid or msgctxt after a msgstr begins the next message without an empty line."""
        if keyword in ("msgid", "msgctxt") and (self.part == "msgstr" or self.message.translations):
            return self.finish()
        return None

    def _open_part(self, keyword: re.Match[str], rest: str) -> None:
        name = keyword.group(1)
        self.part = "msgstr" if name.startswith("msgstr") else name
        self.form = int(keyword.group(2) or 0)
        self.pieces, self.size = [], 0
        self._add(rest)

    def _add(self, text: str) -> None:
        string = STRING.fullmatch(text)
        if self.part is None:
            self.reading.drop(DROPPED_LINE)
        elif string is None:
            self.message.broken = True
        else:
            self.size += len(text)
            if self.size > MAX_MESSAGE_CHARACTERS:
                self.message.broken = True
            else:
                self.pieces.append(string.group(1))

    def _close_part(self) -> None:
        if self.part is None:
            return
        text = unescape("".join(self.pieces))
        message = self.message
        if self.part == "msgstr":
            message.broken |= self.form in message.translations
            message.translations[self.form] = text
        else:
            name = {"msgctxt": "context", "msgid": "source", "msgid_plural": "plural"}[self.part]
            message.broken |= getattr(message, name) is not None
            setattr(message, name, text)
        self.part, self.pieces, self.size = None, [], 0


def unescape(text: str) -> str:
    """Resolve the C escapes of a string; those of bytes above 127 are left as they are."""

    def resolve(match: re.Match[str]) -> str:
        code = match.group(1)
        if code[0] == "x" and len(code) > 1:
            value = int(code[1:], 16)
        elif code[0] in "01234567":
            value = int(code, 8)
        else:
            return ESCAPED.get(code, code)
        return chr(value) if value < 0x80 else match.group()

    return ESCAPE.sub(resolve, text) if "\\" in text else text


def _lines(path: Path, max_line_bytes: int, reading: Reading) -> Iterator[str]:
    encoding = _encoding(path)
    for line in raw_lines(path, max_line_bytes, reading):
        if line is None:
            reading.drop(LINE_TOO_LONG)
            continue
        try:
            yield line.decode(encoding)
        except UnicodeDecodeError:
            reading.drop(BROKEN_UTF8 if encoding == "utf-8" else f"broken {encoding}")


def _encoding(path: Path) -> str:
    """The encoding that the header names; UTF-8 where it names none or still has the template's."""
    # The bytes are counted when they are read for good.
    with reading_errors(path), opened(path, Reading()) as stream:
        found = CHARSET.search(stream.peek(HEAD_BYTES))
    if found is None or found.group(1).upper() == b"CHARSET":
        return "utf-8"
    name = found.group(1).decode("ascii")
    known = text_encoding(name)
    if known is None:
        raise DataError(
            f"{path}: its header says charset={name}, which is no known encoding; "
            "convert it: msgconv -t UTF-8"
        )
    return known
