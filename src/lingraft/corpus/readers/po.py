r"""gettext .po files: translated messages as text, or both sides as pairs.

Format markers (`%s`, `{name}`, `_File`, `\n` at the ends) stay as they are. Left out, and counted:
messages marked fuzzy (a machine's guess that nobody has checked), obsolete ones (`#~`) and
untranslated ones.

The format: https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html
"""

from __future__ import annotations

import gettext
import itertools
import re
from collections import Counter
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
    from lingraft.corpus.readers.parallel import Layout

FUZZY, OBSOLETE, UNTRANSLATED = "fuzzy message", "obsolete message", "untranslated message"
BROKEN_MESSAGE = "broken message"
DROPPED_LINE = "broken line"
# Nobody writes messages this long; a file that never closes one must not fill the memory.
MAX_MESSAGE_CHARACTERS = 1_000_000

CHARSET = re.compile(rb"charset=([A-Za-z0-9._:-]+)", re.IGNORECASE)
PLURAL = re.compile(r"^Plural-Forms:.*?\bplural\s*=\s*([^;\n]+)", re.IGNORECASE | re.MULTILINE)
MANY = range(2, 101)
"""Numbers of which most have the form that stands for "many"."""
KEYWORD = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr(?:\[(\d{1,2})\])?)[ \t]*(?=\")")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
OBSOLETE_MESSAGE = re.compile(r"#~\s*msgid\s")
ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)")
ESCAPED = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v",
}  # fmt: skip


@dataclass
class Message:
    """One entry of a .po file.

    Attributes:
        parts: the strings of each part: 'msgctxt', 'msgid', 'msgid_plural', and of a msgstr its
            number; a message without a plural has the number 0 alone.
        fuzzy: nobody has checked it.
        broken: a string of it does not end, or a part comes twice.
        forms: the numbers of the forms for one and for many; None where the header says none.
    """

    parts: dict[str | int, list[str]] = field(default_factory=dict)
    fuzzy: bool = False
    broken: bool = False
    forms: tuple[int, int] | None = None

    def add(self, line: str) -> None:
        """Take a line: the beginning of a part, or a further string of the last one."""
        keyword = KEYWORD.match(line)
        if keyword is not None:
            name = int(keyword[2] or 0) if keyword[1].startswith("msgstr") else keyword[1]
            self.broken |= name in self.parts
            self.parts[name] = []
            line = line[keyword.end() :]
        if self.broken:
            return
        pieces = next(reversed(self.parts.values()))
        string = STRING.fullmatch(line)
        if string is None or sum(map(len, pieces)) + len(line) > MAX_MESSAGE_CHARACTERS:
            self.broken = True
        else:
            pieces.append(string[1])

    def text(self, part: str | int) -> str:
        """A part without its quotes and escapes; '' where there is none."""
        return unescape("".join(self.parts.get(part, ())))

    @property
    def translations(self) -> list[str]:
        """The texts of msgstr by their numbers."""
        return [self.text(part) for part in sorted(p for p in self.parts if isinstance(p, int))]

    def pairs(self) -> Iterator[Pair]:
        """Source and translation of each form that has both.

        Of a message with a plural: the singular with the form for 1 and the plural with the one
        that most numbers have, or, where the language has but one form (Korean, Japanese), the
        plural with that one. Without a rule in the header they are the first and the last.
        """
        if "msgid_plural" not in self.parts:
            yield Pair(self.text(0), self.text("msgid"))
            return
        texts = self.translations
        last = len(texts) - 1
        one, many = self.forms if self.forms and max(self.forms) <= last else (0, last)
        if len(texts) > 1:
            yield Pair(texts[one], self.text("msgid"))
        yield Pair(texts[many], self.text("msgid_plural"))


def plural_forms(header: str) -> tuple[int, int] | None:
    """The numbers of the forms for one and for many, by the rule of a header; None without one."""
    found = PLURAL.search(header)
    if found is None:
        return None
    try:
        rule = gettext.c2py(found[1])
        return rule(1), Counter(map(rule, MANY)).most_common(1)[0][0]
    except (ValueError, ArithmeticError, RecursionError):
        return None


def read(source: Source, section: recipe.Corpus, reading: Reading) -> Iterator[tuple[object, str]]:
    """The translations of a .po file, a document a message; every plural form is a line of it.

    Raises:
        DataError: the file cannot be read, is cut short, or is no .po file.
    """
    assert source.path is not None
    for message in translated(source.path, section.max_line_bytes, reading):
        yield None, "\n".join(dict.fromkeys(message.translations))


def read_pairs(path: Path, layout: Layout, reading: Reading) -> Iterator[Pair]:
    """Message and translation, with line ends turned into spaces.

    Raises:
        DataError: the file cannot be read, is cut short, or is no .po file.
    """
    for message in translated(path, layout.max_line_bytes, reading):
        yield from message.pairs()


def translated(path: Path, max_line_bytes: int, reading: Reading) -> Iterator[Message]:
    """The messages that are translated and checked; the others are counted in `reading`.

    Raises:
        DataError: the file cannot be read, is cut short, is in an unknown encoding, or holds no
            message at all.
    """
    good, forms = 0, None
    broken_before = reading.dropped[BROKEN_MESSAGE] + reading.dropped[DROPPED_LINE]
    for message in messages(path, max_line_bytes, reading):
        if message.broken or "msgid" not in message.parts or not message.translations:
            reading.drop(BROKEN_MESSAGE)
            continue
        good += 1
        if not message.text("msgid") and "msgctxt" not in message.parts:
            forms = plural_forms(message.text(0))
            continue  # the header
        message.forms = forms
        if message.fuzzy:
            reading.drop(FUZZY)
        elif not all(text.strip() for text in message.translations):
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

    A message ends at an empty line, at a comment after its msgstr, or where the next one begins.

    Raises:
        DataError: the file cannot be read, is cut short, or is in an unknown encoding.
    """
    message = Message()
    for raw in itertools.chain(_lines(path, max_line_bytes, reading), [""]):
        line = raw.strip()
        if message.parts and (not line or line[0] == "#" or _begins_next(line, message)):
            yield message
            message = Message()
        if not line:
            message = Message()
        elif line[0] != "#":
            if message.parts or KEYWORD.match(line):
                message.add(line)
            else:
                reading.drop(DROPPED_LINE)
        elif line.startswith("#,") and "fuzzy" in line:
            message.fuzzy = True
        elif OBSOLETE_MESSAGE.match(line):
            reading.drop(OBSOLETE)


def _begins_next(line: str, message: Message) -> bool:
    """A msgid or msgctxt after a msgstr begins the next message without an empty line."""
    keyword = KEYWORD.match(line)
    return keyword is not None and keyword[1] in ("msgid", "msgctxt") and bool(message.translations)


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
        match = CHARSET.search(stream.peek(HEAD_BYTES))
    if match is None or match.group(1).upper() == b"CHARSET":
        return "utf-8"
    name = match.group(1).decode("ascii")
    encoding = text_encoding(name)
    if encoding is None:
        raise DataError(
            f"{path}: its header says charset={name}, which is no known encoding; "
            "convert it: msgconv -t UTF-8"
        )
    return encoding
