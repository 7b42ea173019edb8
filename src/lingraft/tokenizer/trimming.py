"""The source's vocabulary without the pieces that a text does not use.

What stays: pieces that occur in the text, all bytes, all special and added tokens, the characters
of what occurs, of merging vocabularies every piece on the way to one that stays, and of Unigram the
piece with the worst score, from which the score of an unknown character follows. So the text falls
into the very same pieces as before. Ids close up in the source's order.

Source: `--resized-dict-map` of VECO's code (Luo et al. 2021).

A new vocabulary in the source's own kind in everything but its pieces.

The source's normaliser, split pattern, byte fallback, scheme of digits and post-processor stay, and
every special or added token keeps its text, its role and its side of the vocabulary: those that
stand before the source's first piece come first, the others last.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer, models, normalizers

from lingraft.corpus.readers.lines import batched
from lingraft.tokenizer.algorithms import SPECIAL_SCORE, check_size, train_model, train_sp_bpe
from lingraft.tokenizer.frame import Frame
from lingraft.tokenizer.merges import count_words, derivation
from lingraft.tokenizer.state import (
    BYTE_OF,
    BYTE_PIECE,
    MERGING,
    SENTINEL,
    kind_of_state,
    outside,
    pieces_of,
    renumber,
    single_digits,
)
from lingraft.tokenizer.statistics import CHUNK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lingraft import recipe
    from lingraft.tokenizer.merges import Sample


Made = tuple[dict[str, Any], dict[str, int] | None]
"""Another tokenizer.json, and how many pieces it has from where."""
CONTINUES = "##"


def trim(_: recipe.Tokenizer, state: dict[str, Any], sample: Sample) -> Made:
    """Leave out of a vocabulary (tokenizer.json) what a text does not use; count both."""
    new_state = without_unused(state, sample.shown("finding pieces"))
    before, after = (len(pieces_of(version) | outside(version)) for version in (state, new_state))
    return new_state, {"source": before, "removed": before - after}


def without_unused(state: dict[str, Any], sentences: Iterable[str]) -> dict[str, Any]:
    """Return tokenizer.json without the pieces that sentences do not use.

    Args:
        state: tokenizer.json; it is not changed.
        sentences: the text; a literal special token in it is text.
    """
    kind, pieces = kind_of_state(state), pieces_of(state) | outside(state)
    used = _used(state, sentences)
    used |= {token["content"] for token in state["added_tokens"]}
    used |= {
        piece
        for piece in pieces
        if BYTE_PIECE.fullmatch(piece)
        or SENTINEL.fullmatch(piece)
        or (kind == "byte-bpe" and piece in BYTE_OF)
    }
    model, unknown = state["model"], _unknown(state)
    if unknown is not None:
        used.add(unknown)
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
        merges = map(tuple, model["merges"])
        model["merges"] = [pair for pair in merges if {*pair, "".join(pair)} <= used]
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
        if len(piece) > 1 and not BYTE_PIECE.fullmatch(piece):
            parts.update(piece, (part for _, part in derivation(piece, ranks)))
    return parts


def _letters(pieces: Iterable[str]) -> set[str]:
    """Return every character of the pieces, at the start of a word and inside one."""
    letters = {character for piece in pieces for character in piece.removeprefix(CONTINUES)}
    return letters | {CONTINUES + letter for letter in letters}


LEARNT = ("vocab", "merges", "unk_id")
"""Keys of a model that training decides; its others are settings, which stay."""


def learn(section: recipe.Tokenizer, state: dict[str, Any], sample: Sample) -> dict[str, Any]:
    """Train a vocabulary on text as the source reads it: the model part of tokenizer.json.

    Args:
        section: size and coverage.
        state: tokenizer.json of the source.
        sample: sentences to train on.

    Raises:
        RecipeError: the size is smaller than what the vocabulary must have.
    """
    kind, backend = kind_of_state(state), Tokenizer.from_str(json.dumps(state))
    normaliser, frame = backend.normalizer or normalizers.Sequence([]), _frame(state)
    if kind == "sp-bpe":
        words, digits = count_words(state, sample), single_digits(pieces_of(state))
        model: models.Model = train_sp_bpe(words, digits, section, frame)
    else:
        model = train_model(kind, sample, normaliser, backend.pre_tokenizer, section, frame)
    learnt: dict[str, Any] = json.loads(Tokenizer(model).to_str())["model"]
    check_size(len(learnt["vocab"]), section)
    return learnt


def replace(section: recipe.Tokenizer, state: dict[str, Any], sample: Sample) -> Made:
    """Put a vocabulary that is trained on new text in the place of the source's; as `learn`."""
    learnt = learn(section, state, sample)
    pieces, unknown = pieces_of(state), _unknown(state)
    kept = {token["content"]: token["id"] for token in state["added_tokens"]}
    kept |= {piece: index for piece, index in pieces.items() if SENTINEL.fullmatch(piece)}
    kept = dict(sorted(kept.items(), key=lambda entry: entry[1]))
    if unknown is not None:
        kept.setdefault(unknown, pieces[unknown])
    first = min((i for piece, i in pieces.items() if piece not in kept), default=len(kept))
    front = [token for token, index in kept.items() if index < first]
    back = [token for token in kept if token not in front]
    scores = dict(learnt["vocab"])
    new_ids = pieces_of({"model": learnt})
    ordered = [piece for piece in sorted(new_ids, key=new_ids.__getitem__) if piece not in kept]
    vocabulary = [*front, *ordered, *back]
    ids = {piece: index for index, piece in enumerate(vocabulary)}
    settings = {key: value for key, value in state["model"].items() if key not in LEARNT}
    model = learnt | settings | {"vocab": ids}
    if learnt["type"] == "Unigram":
        model |= {
            "vocab": [(piece, scores.get(piece, SPECIAL_SCORE)) for piece in vocabulary],
            "unk_id": None if unknown is None else ids[unknown],
        }
    new_state = state | {"model": model}
    renumber(new_state, ids)
    return new_state, None


def _unknown(state: dict[str, Any]) -> str | None:
    model = state["model"]
    if model["type"] != "Unigram":
        token: str | None = model.get("unk_token")
        return token if token in pieces_of(state) else None
    unk_id = model.get("unk_id")
    return None if unk_id is None else str(model["vocab"][unk_id][0])


def _frame(state: dict[str, Any]) -> Frame:
    """Return the source's added tokens and its unknown token, which every new vocabulary keeps."""
    tokens, unknown = [token["content"] for token in state["added_tokens"]], _unknown(state)
    if unknown is not None and unknown not in tokens:
        tokens.append(unknown)
    if state["model"]["type"] == "Unigram" and state["model"].get("byte_fallback"):
        tokens += [piece for piece in pieces_of(state) if BYTE_PIECE.fullmatch(piece)]
    roles = {} if unknown is None else {"unk_token": unknown}
    return Frame(tuple(tokens), roles, (), (), None)
