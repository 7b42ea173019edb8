"""The source's vocabulary without the pieces that a text does not use.

What stays: pieces that occur in the text, all bytes, all special and added tokens, the characters
of what occurs, of merging vocabularies every piece on the way to one that stays, and of Unigram the
piece with the worst score, from which the score of an unknown character follows. So the text falls
into the very same pieces as before. Ids close up in the source's order.

Source: `--resized-dict-map` of VECO's code (Luo et al. 2021).
"""

from __future__ import annotations

import copy
import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from lingraft.corpus.readers.lines import batched
from lingraft.tokenizer.algorithms import SPECIAL_SCORE
from lingraft.tokenizer.state import (
    BYTE_OF,
    BYTE_PIECE,
    MERGING,
    SENTINEL,
    kind_of_state,
    outside,
    pieces_of,
    renumber,
)
from lingraft.tokenizer.statistics import CHUNK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lingraft import recipe
    from lingraft.tokenizer.algorithms import Sample

CONTINUES = "##"


def trim(
    _: recipe.Tokenizer, state: dict[str, Any], sample: Sample
) -> tuple[dict[str, Any], dict[str, int]]:
    """Leave out of a vocabulary (tokenizer.json) what a text does not use; count both."""
    new_state = without_unused(state, sample.shown("finding pieces"))
    before, after = (len(pieces_of(version) | outside(version)) for version in (state, new_state))
    return new_state, {"source": before, "removed": before - after}


def without_unused(
    state: dict[str, Any], sentences: Iterable[str], up_to: int = -1, also: Iterable[str] = ()
) -> dict[str, Any]:
    """Return tokenizer.json without the pieces that sentences do not use.

    Args:
        state: tokenizer.json; it is not changed.
        sentences: the text; a literal special token in it is text.
        up_to: ids up to this one stay as they are (position rows can depend on the padding id).
        also: pieces that stay, if they are there.
    """
    kind, pieces = kind_of_state(state), pieces_of(state) | outside(state)
    used = _used(state, sentences)
    used |= {token["content"] for token in state["added_tokens"]} | ({*also} & pieces.keys())
    used |= {
        piece
        for piece, index in pieces.items()
        if index <= up_to
        or BYTE_PIECE.fullmatch(piece)
        or SENTINEL.fullmatch(piece)
        or (kind == "byte-bpe" and piece in BYTE_OF)
    }
    model = state["model"]
    unknown = model["vocab"][model["unk_id"]][0] if model.get("unk_id") is not None else None
    used |= {unknown, model.get("unk_token")} & pieces.keys()
    if kind in MERGING:
        used |= _parts(model, used & pieces_of(state).keys())
    else:
        used |= _letters(used) & pieces.keys()
    if kind == "unigram":
        used.add(min(model["vocab"], key=lambda entry: entry[1])[0])
    ordered = [piece for piece in sorted(pieces, key=pieces.__getitem__) if piece in used]
    ids = {piece: index for index, piece in enumerate(ordered)}
    model = model | {"vocab": ids}
    if kind in MERGING:
        merges = [tuple(merge) for merge in model["merges"]]
        model["merges"] = [
            (left, right) for left, right in merges if {left, right, left + right} <= used
        ]
    elif kind == "unigram":
        scores = dict(state["model"]["vocab"])
        model["vocab"] = [(piece, scores.get(piece, SPECIAL_SCORE)) for piece in ordered]
        model["unk_id"] = None if unknown is None else ids[unknown]
    new_state = copy.deepcopy(state | {"model": model})
    renumber(new_state, ids)
    return new_state


def _used(state: dict[str, Any], sentences: Iterable[str]) -> set[str]:
    """Return the pieces that occur in the text."""
    backend = Tokenizer.from_str(json.dumps(state))
    backend.encode_special_tokens = True
    ids: set[int] = set()
    for chunk in batched(sentences, CHUNK):
        for row in backend.encode_batch_fast(chunk, add_special_tokens=False):
            ids.update(row.ids)
    return {piece for index in ids if (piece := backend.id_to_token(index)) is not None}


def _parts(model: dict[str, Any], pieces: Iterable[str]) -> set[str]:
    """Return every part merged on the way to the pieces, characters too: commonest pair first."""
    ranks = {tuple(merge): rank for rank, merge in enumerate(model["merges"])}
    parts: set[str] = set()
    for piece in pieces:
        symbols = list(piece)
        if len(symbols) == 1 or BYTE_PIECE.fullmatch(piece):
            continue
        parts.update(symbols)
        while len(symbols) > 1:
            pairs = list(pairwise(symbols))
            best = min(pairs, key=lambda pair: ranks.get(pair, len(ranks)))
            if best not in ranks:
                break
            place = pairs.index(best)
            symbols[place : place + 2] = ["".join(best)]
            parts.add(symbols[place])
    return parts


def _letters(pieces: Iterable[str]) -> set[str]:
    """Return every character of the pieces, at the start of a word and inside one."""
    letters = {character for piece in pieces for character in piece.removeprefix(CONTINUES)}
    return letters | {CONTINUES + letter for letter in letters}
