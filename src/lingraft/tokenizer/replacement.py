"""A new vocabulary in the source's own kind in everything but its pieces.

The source's normaliser, split pattern, byte fallback, scheme of digits and post-processor stay, and
every special or added token keeps its text, its role and its side of the vocabulary: those that
stand before the source's first piece come first, the others last.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer, models, normalizers

from lingraft.tokenizer.algorithms import (
    SPECIAL_SCORE,
    check_size,
    train_model,
    train_sp_bpe,
)
from lingraft.tokenizer.frame import Frame
from lingraft.tokenizer.merges import count_words
from lingraft.tokenizer.state import (
    BYTE_PIECE,
    SENTINEL,
    kind_of_state,
    pieces_of,
    renumber,
    single_digits,
)

if TYPE_CHECKING:
    from lingraft import recipe
    from lingraft.tokenizer.algorithms import Sample

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


def replace(
    section: recipe.Tokenizer, state: dict[str, Any], sample: Sample
) -> tuple[dict[str, Any], None]:
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
    return None if model["unk_id"] is None else str(model["vocab"][model["unk_id"]][0])


def _frame(state: dict[str, Any]) -> Frame:
    """Return the source's added tokens and its unknown token, which every new vocabulary keeps."""
    tokens, unknown = [token["content"] for token in state["added_tokens"]], _unknown(state)
    if unknown is not None and unknown not in tokens:
        tokens.append(unknown)
    if state["model"]["type"] == "Unigram" and state["model"].get("byte_fallback"):
        tokens += [piece for piece in pieces_of(state) if BYTE_PIECE.fullmatch(piece)]
    roles = {} if unknown is None else {"unk_token": unknown}
    return Frame(tuple(tokens), roles, (), (), None)
