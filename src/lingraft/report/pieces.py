"""Vocabulary pieces as text that people can read."""

from __future__ import annotations

WORD_START = "▁"


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's letters for bytes: printable Latin-1 as it is, the other bytes from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    unprintable = [byte for byte in range(0x100) if byte not in printable]
    letters = {chr(byte): byte for byte in printable}
    return letters | {chr(0x100 + index): byte for index, byte in enumerate(unprintable)}


BYTES = _byte_alphabet()


def readable(piece: str, kind: str) -> str:
    """A piece as shown in a table; the start of a word is marked by '▁', as SentencePiece does.

    Args:
        piece: as it stands in the vocabulary.
        kind: of the tokenizer; only 'byte-bpe' needs decoding. Bytes that are no whole character
            are shown as ‹ed 95›.
    """
    if kind != "byte-bpe" or not all(letter in BYTES for letter in piece):
        return piece
    data = bytes(BYTES[letter] for letter in piece)
    try:
        return data.decode("utf-8").replace(" ", WORD_START)
    except UnicodeDecodeError:
        return f"‹{data.hex(' ')}›"


def running(piece: str, kind: str) -> str:
    """A readable piece as part of a sentence: with the space that it stands for."""
    if kind == "wordpiece":
        return piece.removeprefix("##") if piece.startswith("##") else f" {piece}"
    return piece.replace(WORD_START, " ")
