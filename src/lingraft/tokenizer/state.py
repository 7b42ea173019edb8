"""Content of tokenizer.json, as plain data: no torch, no transformers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, get_args

import langcodes

from lingraft.errors import DataError, RecipeError, UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

FILES = ("tokenizer.json", "vocab.json", "vocab.txt", "*.model")
"""Files, one of which every tokenizer has."""
NEAREST = {
    "BertJapaneseTokenizer": "google-bert/bert-base-multilingual-cased",
    "BertweetTokenizer": "FacebookAI/roberta-base",
    "ByT5Tokenizer": "google/mt5-small",
    "MarianTokenizer": "facebook/nllb-200-distilled-600M",
    "M2M100Tokenizer": "facebook/nllb-200-distilled-600M",
}
"""By class without a tokenizer.json: the nearest model that has one."""
OF_BYTES = ("ByT5Tokenizer", "CanineTokenizer", "PerceiverTokenizer")
"""Classes that need no file but tokenizer_config.json."""
Kind = Literal["unigram", "byte-bpe", "sp-bpe", "wordpiece"]
"""`sp-bpe` is SentencePiece's BPE with byte fallback (Llama 2, Gemma, Mistral)."""
MERGING = ("byte-bpe", "sp-bpe")
WORD_START = "▁"
BYTE_PIECE = re.compile(r"<0x[0-9A-F]{2}>")
PLACEHOLDER = re.compile(
    r"madeupword\d+|\[unused\d+\]|<unused\d+>|<\|reserved_special_token_\d+\|>|<\|extra_\d+\|>"
)
"""Tokens that a vocabulary holds in reserve, without a meaning."""
WRITTEN_AS_PATTERN = re.compile(r"\\[pPsSwWdD]|\(\?|\[\^")
"""In a string: what only a regular expression holds."""
LANGUAGE_CODE = re.compile(r"[a-z]{2,3}_[A-Z]{2}|[a-z]{3}_[A-Z][a-z]{3}|__[a-z]{2,3}__")
"""Language codes of mBART (ko_KR), NLLB (kor_Hang) and M2M (__ko__)."""
CHAT_TOKEN = re.compile(
    r"<\|(?:im_start|im_end|im_sep|eot_id|start_header_id|end_header_id|start_of_role|end_of_role)\|>"
    r"|<(?:start|end)_of_turn>"
)
"""Spellings in chat templates that are always a token (ChatML, Llama 3, Granite, Gemma); <|user|>
is text in many models."""


def _bytes_of_characters() -> dict[str, int]:
    """Return the byte that each character of byte-level BPE stands for: GPT-2's table, inverted."""
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    unprintable = [byte for byte in range(256) if byte not in set(printable)]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(256 + index): byte for index, byte in enumerate(unprintable)}


BYTE_OF = _bytes_of_characters()
IN_TEXT = {*range(0xC0), *range(0xC2, 0xF5)}
"""Bytes that UTF-8 can hold."""


def holds_tokenizer(folder: Path) -> bool:
    """Return whether a folder has any file of a tokenizer."""
    return any(match for pattern in FILES for match in folder.glob(pattern))


def check_holds_tokenizer(folder: Path) -> None:
    """Refuse a folder without a tokenizer.

    Raises:
        DataError: it has none.
        UnsupportedModelError: it has one that reads bytes or characters without any file.
    """
    if not holds_tokenizer(folder):
        config = folder / "tokenizer_config.json"
        settings = config.read_text("utf-8", "replace") if config.is_file() else ""
        if named := [kind for kind in OF_BYTES if kind in settings]:
            raise without_backend(str(folder), named[0])
        raise DataError(
            f"{folder}: has no tokenizer (none of {', '.join(FILES)}); "
            "save the model's tokenizer there with save_pretrained"
        )


def without_backend(name: str, kind: str) -> UnsupportedModelError:
    """Return what to say of a tokenizer whose class has no tokenizer.json."""
    return UnsupportedModelError(
        f"{name}: its tokenizer is {kind}, which has no tokenizer.json (it cuts text by Python "
        "code of its own); choose a model with one, such as "
        f"{NEAREST.get(kind, 'FacebookAI/xlm-roberta-base')}"
    )


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
        f"the source tokenizer's model is {model} without byte-level pre-tokenization or byte "
        f"fallback; allowed kinds are {', '.join(get_args(Kind))}; choose another source model"
    )


def continues(state: Mapping[str, Any]) -> bool:
    """Return whether a tokenizer has merges to go on with."""
    return kind_of_state(state) in MERGING and bool(state["model"].get("merges"))


def check_continues(state: Mapping[str, Any]) -> None:
    """Refuse a tokenizer without merges to go on with.

    Raises:
        UnsupportedModelError: it is of a kind that has none, or its file has lost them.
    """
    kind = kind_of_state(state)
    if kind not in MERGING:
        raise UnsupportedModelError(
            f"tokenizer.action: 'extend' goes on with the source's merges, and a {kind} vocabulary "
            "has none; use 'append'"
        )
    if not state["model"].get("merges"):
        raise UnsupportedModelError(
            "tokenizer.action: 'extend' goes on with the source's merges, and its tokenizer.json "
            "has none; save the tokenizer again, or use 'replace'"
        )


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


def dead_pattern(state: Mapping[str, Any]) -> str | None:
    """Say of a split pattern that is stored as a plain string that no text matches it."""
    for step in steps(state["pre_tokenizer"]):
        plain = str(step["pattern"].get("String", "")) if step["type"] == "Split" else ""
        if WRITTEN_AS_PATTERN.search(plain):
            return (
                f"tokenizer.json stores the split pattern '{plain[:40]}' as a plain string, which "
                "no text matches, so pieces run across words; store it under Regex, not String"
            )
    return None


def chat_tokens(template: str) -> list[str]:
    """Return the tokens around the turns of a chat that a template uses."""
    return list(dict.fromkeys(CHAT_TOKEN.findall(template)))


def check_chat(template: str, tokens: Collection[str], algorithm: str) -> None:
    """Refuse a chat template whose tokens the tokenizer lacks, or the new vocabulary will lack.

    Args:
        template: of the source; empty where it has none.
        tokens: all that the source's tokenizer has.
        algorithm: of a new vocabulary, as in the recipe.

    Raises:
        UnsupportedModelError: a token of the template would fall into pieces.
    """
    used = chat_tokens(template)
    lacking = [token for token in used if token not in tokens]
    if lacking:
        raise UnsupportedModelError(
            f"the source's chat template uses {', '.join(lacking)}, which its tokenizer does not "
            "have, so a chat would fall into pieces; put back the tokenizer that belongs to it, or "
            "delete chat_template"
        )
    if used and algorithm != "source":
        raise UnsupportedModelError(
            f"tokenizer.algorithm: '{algorithm}' has no place for the chat tokens of the source "
            f"({', '.join(used)}); use 'replace', or 'extend', or delete its chat_template"
        )


def steps(component: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the steps of a normaliser, pre-tokenizer or post-processor, nested sequences too."""
    if component is None:
        return []
    if component["type"] != "Sequence":
        return [component]
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
    return {
        token: added[token] for token in sorted(added, key=added.__getitem__) if token not in pieces
    }


def missing_bytes(state: Mapping[str, Any]) -> list[str]:
    """Return the pieces of bytes that a vocabulary made of bytes lacks, so that it drops text."""
    if kind_of_state(state) == "byte-bpe":
        needed = [character for character, byte in BYTE_OF.items() if byte in IN_TEXT]
    elif state["model"].get("byte_fallback"):
        needed = [f"<0x{byte:02X}>" for byte in sorted(IN_TEXT)]
    else:
        needed = []
    pieces = pieces_of(state)
    return [piece for piece in needed if piece not in pieces]


def reserved_ids(state: Mapping[str, Any], in_use: Iterable[str]) -> list[int]:
    """Return the ids of tokens in reserve, ascending, without those in a role or a template.

    Args:
        state: tokenizer.json.
        in_use: tokens with a role, and the text of a chat template.
    """
    used = "\n".join(in_use) + str(state["post_processor"])
    ids = pieces_of(state) | outside(state)
    return sorted(
        i for token, i in ids.items() if PLACEHOLDER.fullmatch(token) and token not in used
    )


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


def code_among(
    codes: list[str], before: str | None, setting: str | None, language: str
) -> str | None:
    """Choose a code as `code_for` does, of a tokenizer's codes and the one around its sentences."""
    if before is None:
        if setting is not None:
            raise RecipeError(
                f"tokenizer.language_code: '{setting}' has no place, the source tokenizer puts no "
                "language code around sentences; leave it out"
            )
        return None
    code = setting or _code_of(language, codes)
    if code is None:
        raise RecipeError(
            f"tokenizer.language_code: the source tokenizer has no code of '{language}'; give one "
            f"of its own ({', '.join(codes[:8])} …), a near language's, or a new one, spelt like "
            "them"
        )
    if not LANGUAGE_CODE.fullmatch(code):
        raise RecipeError(
            f"tokenizer.language_code: '{code}' is not spelt as the source tokenizer's codes are "
            f"({before}); spell it so"
        )
    return code


def _code_of(language: str, codes: list[str]) -> str | None:
    """Return a language's code, however long (ko, kor), in its script where there are several."""
    wanted = langcodes.get(language)
    names = {code: langcodes.get(code.strip("_").partition("_")[0]).language for code in codes}
    own = [code for code in codes if names[code] == wanted.language]
    script = f"_{wanted.maximize().script}"
    return next((code for code in own if code.endswith(script)), own[0] if own else None)
