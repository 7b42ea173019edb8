"""Vocabulary pieces as text that people can read."""

from __future__ import annotations

from lingraft.tokenizer.state import BYTE_OF, WORD_START


def readable(piece: str, kind: str) -> str:
    """A piece as shown in a table; the start of a word is marked by '▁', as SentencePiece does.

    Args:
        piece: as it stands in the vocabulary.
        kind: of the tokenizer; only 'byte-bpe' needs decoding. Bytes that are no whole character
            are shown as ‹ed 95›.
    """
    if kind != "byte-bpe" or not all(letter in BYTE_OF for letter in piece):
        return piece
    data = bytes(BYTE_OF[letter] for letter in piece)
    try:
        return data.decode("utf-8").replace(" ", WORD_START)
    except UnicodeDecodeError:
        return f"‹{data.hex(' ')}›"


def running(piece: str, kind: str) -> str:
    """A readable piece as part of a sentence: with the space that it stands for."""
    if kind == "wordpiece":
        return piece.removeprefix("##") if piece.startswith("##") else f" {piece}"
    return piece.replace(WORD_START, " ")
