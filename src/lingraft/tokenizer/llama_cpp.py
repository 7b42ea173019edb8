"""A vocabulary as llama.cpp reads it; refused where its ids would be others.

Byte-level BPE: llama.cpp knows ways to cut words by name, and merges by the same list.

SentencePiece's BPE: llama.cpp has no list of merges. Of all neighbours that make a piece it joins
those with the best score, whatever parts the piece has. Ids are the same if each piece comes about
from its own text (`derivation`), by merges in the order of the list, and scores by the rank of the
last. For neighbours at any moment of merging are what their joint text is then; would it be a piece
by then, it would be that piece. Pieces that no merges reach are harmless where no two join to them.
"""

from __future__ import annotations

import logging
import tomllib
from importlib import resources
from typing import TYPE_CHECKING, Any

from lingraft.errors import UnsupportedModelError
from lingraft.tokenizer import state as backend
from lingraft.tokenizer.files import state_of
from lingraft.tokenizer.merges import derivation
from lingraft.tokenizer.shards import special_ids_around
from lingraft.tokenizer.vocabulary import Vocabulary

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

logger = logging.getLogger(__name__)

TEXT = resources.files("lingraft.tokenizer").joinpath("llama_cpp.toml").read_text("utf-8")
TABLES: dict[str, Any] = tomllib.loads(TEXT)
OPTIONS = ("ignore_merges", "continuing_subword_prefix", "end_of_word_suffix", "dropout")
"""Of a BPE model; llama.cpp has the first alone, for some ways."""
ROLES = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
NORMAL, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 3, 4, 5, 6
"""Types of tokens in GGUF."""


def metadata(tokenizer: PreTrainedTokenizerFast, rows: int) -> dict[str, Any]:
    """Return what GGUF says of a tokenizer, by the names of its keys behind `tokenizer.`.

    Args:
        tokenizer: of the model.
        rows: of the model's embeddings; ids without a piece are written as unused.

    Raises:
        UnsupportedModelError: llama.cpp would give other ids.
    """
    vocabulary = Vocabulary.of(tokenizer).within(rows)
    pieces, ids = vocabulary.pieces + [""] * (rows - vocabulary.size), vocabulary.specials
    before, after = special_ids_around(tokenizer.backend_tokenizer)
    if "eos" not in ids or len(before) > 1 or after not in ([], [ids["eos"]]):
        raise _refused("has no end-of-text token, or puts other tokens around a text")
    ids = ids | {"bos": before[0] if before else ids.get("bos", ids["eos"])}  # else 11 or 1
    added = tokenizer.added_tokens_decoder
    types = {i: BYTE for i, piece in enumerate(pieces) if backend.BYTE_PIECE.fullmatch(piece)}
    types |= dict.fromkeys(added, USER_DEFINED)
    types |= dict.fromkeys(vocabulary.special_ids, CONTROL)
    values = _merging(state_of(tokenizer), pieces) | {
        "tokens": [piece or f"[unused by the vocabulary {i}]" for i, piece in enumerate(pieces)],
        "token_type": [types.get(i, NORMAL) if p else UNUSED for i, p in enumerate(pieces)],
        "add_bos_token": bool(before),
        "add_eos_token": bool(after),
    }
    strips = any(token.lstrip or token.rstrip for token in added.values())
    if strips or "Metaspace" in str(state_of(tokenizer)["pre_tokenizer"]):
        logger.warning("llama.cpp gives other ids for spaces by special tokens or before a text")
    values |= {f"{name}_token_id": ids[role] for role, name in ROLES.items() if role in ids}
    chat = {"chat_template": t} if isinstance(t := tokenizer.chat_template, str) else {}
    return {f"ggml.{key}": value for key, value in values.items()} | chat


def _refused(why: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"the tokenizer {why}, so llama.cpp would give other ids; use the model in transformers or "
        "train one with tokenizer.action=new tokenizer.algorithm=byte-bpe"
    )


def _merging(state: dict[str, Any], pieces: list[str]) -> dict[str, Any]:
    """Return what GGUF says of how text in NFC is cut and merged."""
    model, kind = state["model"], backend.kind_of_state(state)
    steps = [
        {key: value for key, value in step.items() if key != "trim_offsets"}
        for step in backend.steps(state["normalizer"]) + backend.steps(state["pre_tokenizer"])
        if step["type"] != "NFC"
    ]
    settings = {"steps": steps} | {key: model[key] for key in OPTIONS if model.get(key)}
    way = next((way["gguf"] for way in TABLES["ways"] if settings == way["tokenizer"]), None)
    if way is None or kind == "unigram" or (kind == "sp-bpe" and backend.missing_bytes(state)):
        raise _refused(f"is {kind}, lacks bytes, or cuts text by {settings}")
    if kind == "byte-bpe":
        return way | {"model": "gpt2", "merges": [" ".join(pair) for pair in model["merges"]]}
    scores = _scores(state)
    return way | {"model": "llama", "scores": [scores.get(piece, 0.0) for piece in pieces]}


def _scores(state: dict[str, Any]) -> dict[str, float]:
    """Return scores by which llama.cpp merges as the list of merges says."""
    pieces, scores = backend.pieces_of(state), dict[str, float]()
    ranks = {tuple(pair): rank for rank, pair in enumerate(state["model"]["merges"])}
    added = {token["content"] for token in state["added_tokens"]}
    for piece in (piece for piece in pieces if piece not in added):
        taken = derivation(piece, ranks)
        order = [rank for rank, _ in taken]
        reached = {*piece} <= pieces.keys() and piece in (piece[0], *(made for _, made in taken))
        joins = any(piece[:i] in pieces and piece[i:] in pieces for i in range(1, len(piece)))
        if order != sorted(order) or (joins and not reached):
            raise _refused(f"does not merge to its piece {piece} as SentencePiece would")
        scores[piece] = -float(order[-1]) if reached and order else 0.0
    return scores
