"""The source's vocabulary kept, trimmed, replaced, or with pieces added; or one that is given.

What is added leaves the ids of the source's pieces alone, its normaliser and its pre-tokenizer too:

- `extend` goes on with the source's merges on the target's text (`merges.py`). Every new piece can
  be reached, and text falls into the source's tokens or whole runs of them.
- `add` is `extend` where the source has merges, else `append`.
- `append` adds what a vocabulary has that is trained on the target's text by itself, in the
  source's own kind. Byte-pair merges go behind all of the source's, which can forestall them: such
  pieces cannot be reached, and are counted. Pieces of Unigram compete with the source's by the
  scores of their own training, and of WordPiece the longest piece wins, so text of the source's
  language can fall into other pieces than before.

Source: vocabulary extension before continued pretraining ("LAPT", Chau et al. 2020), for `append`.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

from lingraft.errors import RecipeError, UnsupportedModelError
from lingraft.recipe.run import KEEPING
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.algorithms import SPECIAL_SCORE, Sample
from lingraft.tokenizer.frame import frame_of, kept_ids, put_around
from lingraft.tokenizer.merges import bare_tokenizer, continue_merges
from lingraft.tokenizer.replacement import learn, replace
from lingraft.tokenizer.roles import check_padding, check_present
from lingraft.tokenizer.state import (
    BYTE_PIECE,
    chat_tokens,
    check_chat,
    check_continues,
    continues,
    dead_pattern,
    missing_bytes,
    outside,
    pieces_of,
    reserved_ids,
)
from lingraft.tokenizer.trimming import CONTINUES, trim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from transformers import PreTrainedTokenizerFast

    from lingraft import recipe

logger = logging.getLogger(__name__)

Made = tuple[dict[str, Any], dict[str, int] | None]


def make(
    section: recipe.Tokenizer,
    source: PreTrainedTokenizerFast | None,
    sentences: Callable[[], Iterable[str]],
    *,
    pad_id: int | None,
    seed: int,
    causal: bool = False,
) -> tuple[PreTrainedTokenizerFast, dict[str, int] | None]:
    """Make the target's tokenizer, whatever the recipe asks for.

    Args:
        section: what is asked for.
        source: the source's tokenizer; None where a model is trained from nothing.
        sentences: gives the training text anew at each call.
        pad_id: the id that the padding token must have; None where it does not matter.
        seed: as in `files.train`.
        causal: whether it is for a causal model, which needs no mask token and none around a text.
            A new vocabulary then follows the source in everything, as 'replace' does.

    Returns:
        The tokenizer; for one that keeps pieces of the source's, how many there are (`source`), how
        many were added (`added`) and how many of these no text can give (`unreachable`), or how
        many were left out (`removed`).

    Raises:
        RecipeError, DataError, UnsupportedModelError: as `files.train`; there is no source
        tokenizer to keep, it has another padding id than the model, or its kind does not allow it.
    """
    mode, given = check(section, source, pad_id=pad_id, causal=causal)
    if given is not None:
        _warn_of_case(given, f"tokenizer '{section.model}'")
        return given, None
    if source is None or mode not in (*KEEPING, "replace"):
        options: dict[str, Any] = {"pad_id": pad_id, "seed": seed, "causal": causal}
        return tokenizer_files.train(section, source, sentences, **options), None
    _warn_of_case(source, "the source tokenizer")
    state = tokenizer_files.state_of(source)
    if dead := dead_pattern(state):
        logger.warning("the source's %s", dead)
    if mode == "add":
        mode = "extend" if continues(state) else "append"
        section = section.model_copy(update={"new_pieces": section.vocab_size})
    if mode == "keep":
        kept = {"source": len(source), "added": 0, "unreachable": 0}
        return tokenizer_files.wrapped(state, source), kept
    limit = sys.maxsize if mode == "trim" else section.max_train_sentences  # what occurs, wherever
    sample = Sample(sentences, limit, seed)
    in_use = [*map(str, source.special_tokens_map.values()), str(source.chat_template or "")]
    new_state, counts = (
        _extend(section, state, sample, in_use)
        if mode == "extend"
        else CHANGES[mode](section, state, sample)
    )
    tokenizer = tokenizer_files.wrapped(new_state, source)
    _check(tokenizer, new_state, pad_id)
    if counts:
        summary = ", ".join(f"{number:,} {key}" for key, number in counts.items())
        logger.info("tokenizer: pieces: %s", summary)
    return tokenizer, counts


def check(
    section: recipe.Tokenizer,
    source: PreTrainedTokenizerFast | None,
    *,
    pad_id: int | None,
    causal: bool = False,
) -> tuple[str, PreTrainedTokenizerFast | None]:
    """Refuse what `make` cannot make, before any text is read; its arguments and errors.

    Returns:
        What is made, and the tokenizer that is given, if one is.
    """
    mode = _mode(section, source, causal=causal)
    if mode == "use":
        return mode, take(section, source, pad_id=pad_id, causal=causal)
    if source is not None and mode in (*KEEPING, "replace"):
        _check_source(source, pad_id, causal=causal)
        if mode == "extend":
            check_continues(tokenizer_files.state_of(source))
    return mode, None


def _mode(
    section: recipe.Tokenizer, source: PreTrainedTokenizerFast | None, *, causal: bool
) -> str:
    """Return the action to take: the recipe's, but 'replace' where 'new' means that."""
    action, algorithm = section.action, section.algorithm
    if source is None:
        if action not in ("new", "use") or (action == "new" and algorithm == "source"):
            key, value = ("algorithm", algorithm) if action == "new" else ("action", action)
            raise RecipeError(
                f"tokenizer.{key}: '{value}' needs a source model; a model trained from nothing "
                f"must say an algorithm of {', '.join(tokenizer_files.TRAINED)}"
            )
        return action
    check_chat(str(source.chat_template or ""), source.get_vocab(), algorithm)
    follows = causal or tokenizer_files.kind_of(source) == "sp-bpe"
    return "replace" if action == "new" and algorithm == "source" and follows else action


def _check_source(source: PreTrainedTokenizerFast, pad_id: int | None, *, causal: bool) -> None:
    """Refuse a source's tokenizer that cannot be kept."""
    check_padding(source.pad_token_id, pad_id)
    if not causal:
        frame_of(source)  # refuses a tokenizer without the roles that are needed


def _warn_of_case(tokenizer: PreTrainedTokenizerFast, whose: str) -> None:
    if tokenizer_files.lower_cases(tokenizer):
        logger.warning("%s lower-cases its text, and so does the model that gets it", whose)


def _check(new: PreTrainedTokenizerFast, state: dict[str, Any], pad_id: int | None) -> None:
    """Refuse a tokenizer that gives pieces other ids than were meant.

    Raises:
        UnsupportedModelError: it does, or the padding token has moved where it must not.
    """
    now: dict[str, int] = new.get_vocab()
    moved = [piece for piece, index in pieces_of(state).items() if now.get(piece) != index]
    if moved or (pad_id is not None and new.pad_token_id != pad_id):
        raise UnsupportedModelError(
            f"the source tokenizer's vocabulary cannot be changed: '{[*moved, new.pad_token][0]}' "
            'would get another id; use tokenizer.action = "new" for a vocabulary of its own'
        )


def _extend(
    section: recipe.Tokenizer, state: dict[str, Any], sample: Sample, in_use: Sequence[str]
) -> Made:
    """Go on with the source's merges on new text.

    Raises:
        UnsupportedModelError: it has none.
    """
    check_continues(state)
    vocabulary, end = _closed(state)
    lacking = _lacking(state)
    slots = reserved_ids(state, in_use) if section.use_reserved else []
    whole = vocabulary | {piece: end + index for index, piece in enumerate(lacking)}
    continuation = continue_merges(
        state | {"model": state["model"] | {"vocab": whole}},
        sample,
        max(0, section.new_pieces - len(lacking)),
        section.min_count,
        section.longest_piece,
    )
    new_pieces = [*lacking, *continuation.pieces]
    slot_pieces = dict(zip(slots, new_pieces, strict=False))
    dropped = {piece for piece, index in vocabulary.items() if index in slot_pieces}
    free = iter(range(end, end + len(new_pieces)))
    ids = {piece: index for index, piece in slot_pieces.items()}
    ids |= {piece: next(free) for piece in new_pieces[len(slot_pieces) :]}
    kept_pieces = {piece: index for piece, index in vocabulary.items() if piece not in dropped}
    merges = [*map(tuple, state["model"]["merges"]), *continuation.merges]
    new_state = state | {
        "model": state["model"] | {"vocab": kept_pieces | ids, "merges": merges},
        "added_tokens": [t for t in state["added_tokens"] if t["content"] not in dropped],
    }
    return new_state, _counts(vocabulary, new_state, list(ids))


def _append(section: recipe.Tokenizer, state: dict[str, Any], sample: Sample) -> Made:
    """Add the pieces that a vocabulary has which is trained on new text by itself."""
    learnt = learn(section, state, sample)
    vocabulary, end = _closed(state)
    lacking = _lacking(state)
    model = dict(state["model"])
    if learnt["type"] == "Unigram":
        if len(vocabulary) != end:
            raise UnsupportedModelError(
                f"the source tokenizer's {len(vocabulary)} pieces reach up to id {end - 1}; ids "
                'with gaps cannot be extended; use tokenizer.action = "new" for a vocabulary of '
                "its own"
            )
        known = {*vocabulary, *lacking}
        scored = [(piece, score) for piece, score in learnt["vocab"] if piece not in known]
        scored = [*((piece, SPECIAL_SCORE) for piece in lacking), *scored]
        special = [(token, SPECIAL_SCORE) for token in outside(state)]
        model["vocab"] = [*model["vocab"], *special, *scored]
        added = [piece for piece, _ in scored]
    elif learnt["type"] == "WordPiece":
        ordered = sorted(learnt["vocab"], key=learnt["vocab"].__getitem__)
        added = [piece for piece in ordered if piece not in vocabulary]
        model["vocab"] = vocabulary | {piece: end + index for index, piece in enumerate(added)}
    else:
        model["vocab"], model["merges"], added = _merged(vocabulary, lacking, model, learnt)
    new_state = state | {"model": model}
    return new_state, _counts(vocabulary, new_state, added)


def _lacking(state: dict[str, Any]) -> list[str]:
    """Return the bytes to add before anything else, and tell of them."""
    if lacking := missing_bytes(state):
        logger.info(
            "tokenizer: %d bytes that the source's vocabulary lacks are added, without which text "
            "would be lost",
            len(lacking),
        )
    return lacking


def _merged(
    vocabulary: dict[str, int], lacking: list[str], model: dict[str, Any], learnt: dict[str, Any]
) -> tuple[dict[str, int], list[tuple[str, str]], list[str]]:
    """Return pieces and merges of both, those learnt behind the source's, and the pieces added."""
    merges = [(left, right) for left, right in model["merges"]]
    known_merges, end, added = set(merges), max(vocabulary.values()) + 1, list(lacking)
    if model["byte_fallback"]:  # else every character is made of bytes that are there
        single = [piece for piece in learnt["vocab"] if len(piece) == 1]
        added += [piece for piece in sorted(single) if piece not in vocabulary]
    pieces = vocabulary | {piece: end + index for index, piece in enumerate(added)}
    for left, right in map(tuple, learnt["merges"]):
        if (left, right) in known_merges or left not in pieces or right not in pieces:
            continue
        merges.append((left, right))
        if left + right not in pieces:
            pieces[left + right] = end + len(added)
            added.append(left + right)
    return pieces, merges, added


def _closed(state: dict[str, Any]) -> tuple[dict[str, int], int]:
    """Return all pieces of a tokenizer, added tokens too, and the id behind the last."""
    vocabulary = pieces_of(state) | outside(state)
    return vocabulary, max(vocabulary.values()) + 1


def _counts(vocabulary: dict[str, int], state: dict[str, Any], added: list[str]) -> dict[str, int]:
    spelt = [piece for piece in added if not BYTE_PIECE.fullmatch(piece)]
    unreachable = len(spelt) - sum(_reached(state, spelt))
    return {"source": len(vocabulary), "added": len(added), "unreachable": unreachable}


CHANGES: dict[str, Callable[[recipe.Tokenizer, dict[str, Any], Sample], Made]] = {
    "append": _append,
    "replace": replace,
    "trim": trim,
}


def _reached(state: dict[str, Any], pieces: Sequence[str]) -> list[bool]:
    """Return for each piece whether the model answers with it to a word (or word end) spelt so."""
    model = bare_tokenizer(state["model"])
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


TYPES = "token_type_ids"


def take(
    section: recipe.Tokenizer,
    source: PreTrainedTokenizerFast | None,
    *,
    pad_id: int | None,
    causal: bool,
) -> PreTrainedTokenizerFast:
    """Return the tokenizer that the recipe names: its pieces, their ids, and how it cuts text.

    What the model reads is the source's: one that tells no first sentence from a second is given
    no types of tokens.

    Args:
        section: names it.
        source: the source's tokenizer; None where a model is trained from nothing.
        pad_id: the id that the padding token must have; None where it does not matter.
        causal: whether it is for a causal model.

    Raises:
        DataError: it is missing or broken.
        UnsupportedModelError: it lacks a token that the model needs, or has another padding id.
    """
    name = str(section.model)
    whose = f"tokenizer '{name}'"
    tokenizer = tokenizer_files.load(name, section.revision)
    frame = frame_of(tokenizer, causal=causal, kind=tokenizer_files.kind_of(tokenizer), name=whose)
    check_padding(tokenizer.pad_token_id, pad_id, whose)
    if source is None:
        return tokenizer_files.wrapped(tokenizer_files.state_of(tokenizer), tokenizer)
    present = tokenizer.get_vocab() | kept_ids(tokenizer)
    needed = (*kept_ids(source), *chat_tokens(str(source.chat_template or "")))
    check_present(present, needed, whose)
    state = tokenizer_files.state_of(tokenizer)
    new = tokenizer_files.wrapped(state, tokenizer, source.model_input_names)
    if source.chat_template and not new.chat_template:
        new.chat_template = source.chat_template
    templates = [
        [f"{piece.rsplit(':', 1)[0]}:0" for piece in template]
        for template in (frame.single, frame.pair)
    ]
    if TYPES not in source.model_input_names and templates[1] != list(frame.pair):
        put_around(new.backend_tokenizer, *templates)
    return new
