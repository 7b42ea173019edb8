"""The source's vocabulary, kept as it is or with pieces of the target language added to it.

Ids of the source's pieces never change, and its normaliser and pre-tokenizer stay. What is added
comes from a vocabulary that is trained on the target's text in the source's own kind:

- byte-level BPE: merges, behind all of the source's. The source's merges are done first, so a text
  falls into the source's tokens or into whole runs of them, never into others.
- Unigram: pieces with the scores of their own training. They compete with the source's, so text of
  the source's language can fall into other pieces than before where they are its words too.
- WordPiece: pieces. The longest piece wins, which can be a new one in the source's language too.

Source: vocabulary extension before continued pretraining ("LAPT", Chau et al. 2020).
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer, models, normalizers
from transformers import PreTrainedTokenizerFast

from lingraft.errors import RecipeError, UnsupportedModelError
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.algorithms import (
    SPECIAL_SCORE,
    Sample,
    train_byte_bpe,
    train_unigram,
    train_wordpiece,
)
from lingraft.tokenizer.frame import frame_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lingraft import recipe

logger = logging.getLogger(__name__)

CONTINUES = "##"


def make(
    section: recipe.Tokenizer,
    source: PreTrainedTokenizerFast | None,
    sentences: Callable[[], Iterable[str]],
    *,
    pad_id: int | None,
    seed: int,
) -> tuple[PreTrainedTokenizerFast, dict[str, int] | None]:
    """The target's tokenizer, whatever the recipe asks for: new, kept or extended.

    Args:
        section: what is asked for.
        source: the source's tokenizer; None where a model is trained from nothing.
        sentences: gives the training text anew at each call.
        pad_id: the id that the padding token must have; None where it does not matter.
        seed: as in `tokenizer.train`.

    Returns:
        The tokenizer; for one that keeps the source's pieces, how many there are (`source`), how
        many were added (`added`) and how many of these no text can give (`unreachable`).

    Raises:
        RecipeError, DataError, UnsupportedModelError: as `tokenizer.train`; there is no source
        tokenizer to keep, or it has another padding id than the model.
    """
    if section.kind not in ("keep", "extend"):
        ours = tokenizer_files.train(section, source, sentences, pad_id=pad_id, seed=seed)
        return ours, None
    if source is None:
        raise RecipeError(
            f"tokenizer.kind: '{section.kind}' needs a source model; a model trained from nothing "
            "must say one of unigram, byte-bpe, wordpiece"
        )
    if pad_id is not None and source.pad_token_id != pad_id:
        raise UnsupportedModelError(
            f"the source's positions need the padding token at id {pad_id}, but its tokenizer has "
            f"it at {source.pad_token_id}; set pad_token_id in its config.json right"
        )
    if tokenizer_files.lower_cases(source):
        logger.warning(
            "the source tokenizer lower-cases its text, and so does the model that keeps it"
        )
    if section.kind == "keep":
        return wrapped(backend_of(source), source), {
            "source": len(source),
            "added": 0,
            "unreachable": 0,
        }
    return extend(section, source, Sample(sentences, section.train_sentences, seed))


def extend(
    section: recipe.Tokenizer, source: PreTrainedTokenizerFast, sample: Sample
) -> tuple[PreTrainedTokenizerFast, dict[str, int]]:
    """Add to a source's vocabulary the pieces of a new one that it lacks, behind its own ids.

    Args:
        section: size of the vocabulary that is trained (`vocab_size`), and its coverage.
        source: the source's tokenizer.
        sample: sentences to train on.

    Returns:
        The tokenizer, and the counts of `make`.

    Raises:
        UnsupportedModelError: ids of the source cannot be kept.
    """
    kind = tokenizer_files.kind_of(source)
    learnt = _learn(kind, section, source, sample)
    state: dict[str, Any] = json.loads(backend_of(source).to_str())
    theirs: dict[str, int] = source.get_vocab()
    added = ADD[kind](state, learnt, max(theirs.values()) + 1)
    backend = Tokenizer.from_str(json.dumps(state))
    ours = wrapped(backend, source)
    now: dict[str, int] = ours.get_vocab()
    moved = [piece for piece, index in theirs.items() if now[piece] != index]
    if moved:
        raise UnsupportedModelError(
            f"the source tokenizer's vocabulary cannot be extended: '{moved[0]}' would get another "
            'id; use tokenizer.kind = "source" for a vocabulary of its own'
        )
    unreachable = len(added) - sum(_reached(state, added))
    logger.info(
        "tokenizer: %d pieces added to the source's %d; %d of them cannot be reached",
        len(added),
        len(source),
        unreachable,
    )
    return ours, {"source": len(source), "added": len(added), "unreachable": unreachable}


def backend_of(source: PreTrainedTokenizerFast) -> Tokenizer:
    """A copy of a tokenizer's backend, which cuts and pads nothing."""
    backend = Tokenizer.from_str(source.backend_tokenizer.to_str())
    backend.no_truncation()
    backend.no_padding()
    return backend


def wrapped(backend: Tokenizer, source: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    """The tokenizer around a backend, with the source's special tokens, inputs and length."""
    frame = frame_of(source)  # also refuses a tokenizer without the roles that are needed
    by_id, vocabulary = source.added_tokens_decoder, source.get_vocab()
    roles = {
        role: by_id[vocabulary[str(token)]]
        for role, token in source.special_tokens_map.items()
        if role in frame.roles
    }
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_input_names=list(frame.input_names),
        model_max_length=frame.max_length,
        clean_up_tokenization_spaces=False,
        **roles,
    )


def _learn(
    kind: str, section: recipe.Tokenizer, source: PreTrainedTokenizerFast, sample: Sample
) -> dict[str, Any]:
    """The model part of tokenizer.json of a vocabulary trained on text as the source reads it."""
    backend, frame = backend_of(source), frame_of(source)
    normaliser = backend.normalizer or normalizers.Sequence([])
    model: models.Model
    if kind == "byte-bpe":
        model = train_byte_bpe(sample, normaliser, backend.pre_tokenizer, section, frame)
    elif kind == "unigram":
        model = train_unigram(sample, normaliser, section, frame)
    else:
        model = train_wordpiece(sample, normaliser, section, frame, backend.pre_tokenizer)
    learnt: dict[str, Any] = json.loads(Tokenizer(model).to_str())["model"]
    return learnt


def _outside(state: dict[str, Any], known: Iterable[str]) -> list[tuple[str, int]]:
    """Added tokens that the model's own vocabulary lacks, by id.

    A backend gives such tokens the next free ids when it is loaded, so they have to enter the
    vocabulary before anything is put behind them.
    """
    pieces = set(known)
    outside = [token for token in state["added_tokens"] if token["content"] not in pieces]
    return sorted(
        ((token["content"], token["id"]) for token in outside), key=lambda entry: entry[1]
    )


def _add_merges(state: dict[str, Any], learnt: dict[str, Any], size: int) -> list[str]:
    vocabulary: dict[str, int] = state["model"]["vocab"]
    vocabulary |= dict(_outside(state, vocabulary))
    merges = [tuple(merge) for merge in state["model"]["merges"]]
    known = set(merges)
    added: list[str] = []
    for left, right in map(tuple, learnt["merges"]):
        if (left, right) in known or left not in vocabulary or right not in vocabulary:
            continue
        merges.append((left, right))
        if left + right not in vocabulary:
            vocabulary[left + right] = size + len(added)
            added.append(left + right)
    state["model"]["merges"] = merges
    return added


def _add_scored(state: dict[str, Any], learnt: dict[str, Any], size: int) -> list[str]:
    vocabulary: list[tuple[str, float]] = state["model"]["vocab"]
    outside = _outside(state, (piece for piece, _ in vocabulary))
    vocabulary += [(token, SPECIAL_SCORE) for token, _ in outside]
    known = {piece for piece, _ in vocabulary}
    scored = [(piece, score) for piece, score in learnt["vocab"] if piece not in known]
    if len(vocabulary) != size:
        raise UnsupportedModelError(
            f"the source tokenizer's {len(vocabulary)} pieces reach up to id {size - 1}; ids with "
            'gaps cannot be extended; use tokenizer.kind = "source" for a vocabulary of its own'
        )
    vocabulary += scored
    return [piece for piece, _ in scored]


def _add_pieces(state: dict[str, Any], learnt: dict[str, Any], size: int) -> list[str]:
    vocabulary: dict[str, int] = state["model"]["vocab"]
    vocabulary |= dict(_outside(state, vocabulary))
    ordered = sorted(learnt["vocab"], key=learnt["vocab"].__getitem__)
    added = [piece for piece in ordered if piece not in vocabulary]
    vocabulary |= {piece: size + index for index, piece in enumerate(added)}
    return added


ADD: dict[str, Callable[[dict[str, Any], dict[str, Any], int], list[str]]] = {
    "byte-bpe": _add_merges,
    "unigram": _add_scored,
    "wordpiece": _add_pieces,
}


def _reached(state: dict[str, Any], pieces: Sequence[str]) -> list[bool]:
    """Whether the model answers with a piece when a word (or the end of one) is spelt like it."""
    bare: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
    }
    bare |= dict.fromkeys(("normalizer", "pre_tokenizer", "post_processor", "decoder"))
    model = Tokenizer.from_str(json.dumps(bare | {"model": state["model"]}))
    if state["model"]["type"] != "WordPiece":
        return [model.encode(piece).tokens == [piece] for piece in pieces]
    starts = [piece for piece in state["model"]["vocab"] if len(piece) == 1]
    return [
        any(
            model.encode(start + piece.removeprefix(CONTINUES)).tokens == [start, piece]
            for start in starts
        )
        if piece.startswith(CONTINUES)
        else model.encode(piece).tokens == [piece]
        for piece in pieces
    ]
