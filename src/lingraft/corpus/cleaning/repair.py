"""Repair text that went through the wrong encoding, and find the encoding of a file."""

from __future__ import annotations

import codecs

from lingraft.corpus.extras import require

REPAIRED = "encoding repaired"
# Codecs of Python that no page is written in: one that always fails, two that resolve escapes, two
# for domain names, and one that gives halves of surrogate pairs and that browsers do not know.
NOT_FOR_TEXT = {"undefined", "unicode-escape", "raw-unicode-escape", "idna", "punycode", "utf-7"}

BROWSERS = {"iso8859-1": "cp1252", "euc_kr": "cp949", "gb2312": "gb18030", "shift_jis": "cp932"}
"""What pages are written in that name the encoding on the left (WHATWG Encoding Standard, 4.2)."""
DAMAGED_SHARE = 0.25
"""Of a text's characters beyond ASCII: with fewer that are no UTF-8 it is UTF-8 with damage; of
text in another encoding nearly all are."""


def repair(text: str) -> tuple[str, bool]:
    """Undo text that was decoded with the wrong encoding (한글 for í•œê¸€), by ftfy.

    Only the encoding is repaired, HTML entities are resolved in text without mark-up, and
    terminal escapes go; quotes, ligatures and widths are the normalisation's and the tokenizer's
    business. Characters that cannot be brought back become U+FFFD, which the sentence filter
    drops as damaged.

    Returns:
        The text, and whether it changed.

    Raises:
        DataError: the package ftfy is not installed.
    """
    ftfy = require("ftfy", "encoding repair", "clean")
    config = ftfy.TextFixerConfig(
        fix_latin_ligatures=False,
        fix_character_width=False,
        uncurl_quotes=False,
        fix_line_breaks=False,
        remove_control_chars=False,
        normalization=None,
        explain=False,
    )
    repaired: str = ftfy.fix_text(text, config)
    return repaired, repaired != text


def text_encoding(name: str) -> str | None:
    """Python's name of an encoding that text can be in; None where there is none of that name."""
    try:
        "".encode(name)  # refuses what is no text encoding
        codec = codecs.lookup(name).name
    except (LookupError, ValueError):
        return None
    return None if codec.replace("_", "-") in NOT_FOR_TEXT else codec


def decode(data: bytes, declared: str | None = None) -> tuple[str, str] | None:
    """Decode bytes of unknown encoding.

    A byte order mark decides; else UTF-8 is tried, which hardly any other text is by chance, with
    U+FFFD for single damaged characters; then the declared encoding, or that which browsers take
    for it; then what charset-normalizer finds most likely.

    Args:
        data: a whole text; a sample cut within a character is no UTF-8.
        declared: what a header says, if anything; what names no text encoding is passed over.

    Returns:
        The text and the name of its encoding, or None where nothing fits.

    Raises:
        DataError: the package charset-normalizer is needed and not installed.
    """
    marked: tuple[str, ...] = ()
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        marked = ("utf-32",)
    elif data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        marked = ("utf-16",)
    result = _first(data, *marked, "utf-8-sig")
    if result is None and not marked:
        result = _damaged_utf8(data)
    if result is None and declared and (encoding := text_encoding(declared)):
        result = _first(data, BROWSERS.get(encoding, encoding), encoding)
    if result is not None:
        return result
    best = require("charset_normalizer", "text that is not UTF-8", "clean").from_bytes(data).best()
    return None if best is None else (str(best), best.encoding)


def _first(data: bytes, *names: str) -> tuple[str, str] | None:
    """The text by the first encoding that fits, and its name."""
    for name in names:
        try:
            return data.decode(name), codecs.lookup(name).name.removesuffix("-sig")
        except UnicodeError:
            continue
    return None


def _damaged_utf8(data: bytes) -> tuple[str, str] | None:
    """Of bytes that are not all UTF-8 the text, with U+FFFD for the damage; None of another one."""
    text = data.decode("utf-8-sig", "replace")
    damaged = text.count("\ufffd") - data.count("\ufffd".encode())
    beyond = len(text) - len(text.encode("ascii", "ignore"))
    return (text, "utf-8") if damaged <= DAMAGED_SHARE * beyond else None
