"""Content of tokenizer.json, as plain data."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, get_args

from lingraft.errors import UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

FILES = ("tokenizer.json", "vocab.json", "vocab.txt", "*.model")
"""Files, one of which every tokenizer has."""
Kind = Literal["unigram", "byte-bpe", "sp-bpe", "wordpiece"]
"""`sp-bpe` is SentencePiece's BPE with byte fallback (Llama 2, Gemma, Mistral)."""
MERGING = ("byte-bpe", "sp-bpe")
WORD_START = "▁"
BYTE_PIECE = re.compile(r"<0x[0-9A-F]{2}>")
PLACEHOLDER = re.compile(
    r"madeupword\d+|\[unused\d+\]|<unused\d+>|<\|reserved_special_token_\d+\|>|<\|extra_\d+\|>"
)
"""Tokens that a vocabulary holds in reserve, without a meaning."""
SENTINEL = re.compile(r"▁?<extra_id_(\d+)>")
"""T5's; mT5's vocabulary spells them with a word start."""
LANGUAGE_CODE = re.compile(r"([a-z]{2,3}_[A-Z]{2})|([a-z]{3}_[A-Z][a-z]{3})|(__[a-z]{2,3}__)")
"""Language codes of mBART (ko_KR), NLLB (kor_Hang) and M2M (__ko__)."""
PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
BYTE_OF = {chr(byte): byte for byte in PRINTABLE}
BYTE_OF |= {chr(256 + i): byte for i, byte in enumerate(sorted({*range(256)} - {*PRINTABLE}))}
"""Byte that each character of byte-level BPE stands for: GPT-2's table, inverted."""
IN_TEXT = {*range(0xC0), *range(0xC2, 0xF5)}
"""Bytes that UTF-8 can hold."""


def holds_tokenizer(folder: Path) -> bool:
    """Return whether a folder has any file of a tokenizer."""
    return any(match for pattern in FILES for match in folder.glob(pattern))


def kind_of_state(state: Mapping[str, Any]) -> Kind:
    """Return the algorithm of a tokenizer, from its model and pre-tokenizer.

    Raises:
        UnsupportedModelError: it is none of the four.
    """
    model = state["model"]["type"]
    if model in ("Unigram", "WordPiece"):
        return "unigram" if model == "Unigram" else "wordpiece"
    if model == "BPE" and "ByteLevel" in {step["type"] for step in steps(state["pre_tokenizer"])}:
        return "byte-bpe"
    if model == "BPE" and state["model"].get("byte_fallback"):
        return "sp-bpe"
    raise UnsupportedModelError(
        f"the source tokenizer's model is {model} without bytes; allowed kinds are "
        f"{', '.join(get_args(Kind))}; choose another source model"
    )


def continues(state: Mapping[str, Any]) -> bool:
    """Return whether a tokenizer has merges to go on with."""
    return kind_of_state(state) in MERGING and bool(state["model"].get("merges"))


def merges_are_lost(state: Mapping[str, Any]) -> bool:
    """Return whether only merges of characters could make the longer pieces, and there are none.

    So it is where a class for byte-pair merges has written a Unigram tokenizer anew.
    """
    model = state["model"]
    if model["type"] != "BPE" or model["merges"] or model.get("ignore_merges"):
        return False
    added = {token["content"] for token in state["added_tokens"]}
    pieces = [piece for piece in pieces_of(state) if piece not in added]
    return any(len(p.lstrip(WORD_START)) > 1 and not BYTE_PIECE.fullmatch(p) for p in pieces)


def steps(component: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the steps of a normaliser, pre-tokenizer or post-processor, nested sequences too."""
    if component is None or component["type"] != "Sequence":
        return [component] if component else []
    parts = next(value for value in component.values() if isinstance(value, list))
    return [step for part in parts for step in steps(part)]


def pieces_of(state: Mapping[str, Any]) -> dict[str, int]:
    """Return the pieces of the model's own vocabulary with their ids."""
    vocabulary = state["model"]["vocab"]
    if isinstance(vocabulary, dict):
        return vocabulary
    return {piece: index for index, (piece, _) in enumerate(vocabulary)}


def outside(state: Mapping[str, Any]) -> dict[str, int]:
    """Return added tokens that the model's own vocabulary lacks, by id.

    A backend gives such tokens the next free ids when it is loaded, so they have to enter the
    vocabulary before anything is put behind them.
    """
    pieces = pieces_of(state)
    added = {token["content"]: token["id"] for token in state["added_tokens"]}
    ordered = sorted(added, key=added.__getitem__)
    return {token: added[token] for token in ordered if token not in pieces}


def sentinel_ids(vocabulary: Mapping[str, int]) -> tuple[int, ...]:
    """Return the ids of `<extra_id_0>`, `<extra_id_1>` … in this order."""
    found = [
        (index, m[1]) for piece, index in vocabulary.items() if (m := SENTINEL.fullmatch(piece))
    ]
    sentinels = {number: index for index, number in sorted(found, reverse=True)}  # the lowest stays
    return tuple(sentinels[number] for number in sorted(sentinels, key=int))


def missing_bytes(state: Mapping[str, Any]) -> list[str]:
    """Return the pieces of bytes that a vocabulary made of bytes lacks, so that it drops text."""
    needed: list[str] = []
    if kind_of_state(state) == "byte-bpe":
        needed = [character for character, byte in BYTE_OF.items() if byte in IN_TEXT]
    elif state["model"].get("byte_fallback"):
        needed = [f"<0x{byte:02X}>" for byte in sorted(IN_TEXT)]
    pieces = pieces_of(state)
    return [piece for piece in needed if piece not in pieces]


def renumber(state: dict[str, Any], ids: Mapping[str, int]) -> None:
    """Give added tokens, and those that the post-processor puts around a text, other ids."""
    for token in state["added_tokens"]:
        token["id"] = ids[token["content"]]
    state["added_tokens"].sort(key=lambda token: token["id"])
    for step in steps(state["post_processor"]):
        for key in {"cls", "sep"} & step.keys():
            step[key] = [step[key][0], ids[step[key][0]]]
        special = step.get("special_tokens", {})
        for token in special.values() if isinstance(special, dict) else ():
            token["ids"] = [ids[piece] for piece in token["tokens"]]


def single_digits(pieces: Collection[str]) -> bool:
    """Return whether a vocabulary has digits, and no piece with two of them (Llama 2, Gemma)."""
    text = [piece for piece in pieces if not BYTE_PIECE.fullmatch(piece)]
    return any(re.search(r"\d", piece) for piece in text) and not any(
        re.search(r"\d\d", piece) for piece in text if not piece.startswith(("<", "["))
    )
