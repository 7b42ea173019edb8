"""The source's vocabulary kept, trimmed, replaced, or with pieces added; or one that is given.

What is added leaves the ids of the source's pieces alone, its normaliser and its pre-tokenizer too:

- `extend` goes on with the source's merges on the target's text (`merges.py`). Every new piece can
  be reached, and text falls into the source's tokens or whole runs of them.
- `add` is `extend` where the source has merges, else `append`.
- `append` adds what a vocabulary has that is trained on the target's text by itself, in the
  source's own kind. Byte-pair merges go behind all of the source's, which can forestall them: such
  pieces cannot be reached. Pieces of Unigram compete with the source's by the
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
from lingraft.tokenizer.algorithms import SPECIAL_SCORE
from lingraft.tokenizer.frame import frame_of, kept_ids, put_around
from lingraft.tokenizer.merges import Sample, continue_merges
from lingraft.tokenizer.state import continues, missing_bytes, outside, pieces_of
from lingraft.tokenizer.trimming import Made, learn, replace, trim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from transformers import PreTrainedTokenizerFast

    from lingraft import recipe

logger = logging.getLogger(__name__)


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
        many were added (`added`), or how many were left out (`removed`).

    Raises:
        RecipeError, DataError, UnsupportedModelError: as `files.train`; there is no source
        tokenizer to keep, it has another padding id than the model, or its kind does not allow it.
    """
    if section.action == "use":
        return take(section, source, pad_id=pad_id, causal=causal), None
    mode = check(section, source, pad_id=pad_id, causal=causal)
    if source is None or mode == "new":
        options: dict[str, Any] = {"pad_id": pad_id, "seed": seed, "causal": causal}
        made = tokenizer_files.train(section, source, sentences, **options)
        _check_padding(made, pad_id, "the new tokenizer")
        return made, None
    state = tokenizer_files.state_of(source)
    if mode == "add":
        mode = "extend" if continues(state) else "append"
        section = section.model_copy(update={"new_pieces": section.vocab_size})
    if mode == "keep":
        return tokenizer_files.wrapped(state, source), {"source": len(source), "added": 0}
    limit = sys.maxsize if mode == "trim" else section.max_train_sentences  # what occurs, wherever
    new_state, counts = CHANGES[mode](section, state, Sample(sentences, limit, seed))
    tokenizer = tokenizer_files.wrapped(new_state, source)
    _check_padding(tokenizer, pad_id, "the new tokenizer")
    now: dict[str, int] = tokenizer.get_vocab()
    moved = [piece for piece, index in pieces_of(new_state).items() if now.get(piece) != index]
    if moved:
        raise UnsupportedModelError(
            f"the source tokenizer's vocabulary cannot be changed: '{moved[0]}' would get another "
            'id; use tokenizer.action = "new" for a vocabulary of its own'
        )
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
) -> str:
    """Refuse what `make` cannot make, before any text is read; its arguments and errors.

    Returns:
        The recipe's action, but 'replace' where 'new' means that.
    """
    action: str = section.action
    algorithm = section.algorithm
    if source is None:
        if action not in ("new", "use") or (action == "new" and algorithm == "source"):
            raise RecipeError(
                f"tokenizer.action: '{action}' needs a source model; a model trained from nothing "
                f"must say an algorithm of {', '.join(tokenizer_files.TRAINED)}"
            )
    elif action == "new" and algorithm == "source":
        follows = causal or tokenizer_files.kind_of(source) == "sp-bpe"
        action = "replace" if follows else "new"
    if source is not None and action in (*KEEPING, "replace"):
        _check_padding(source, pad_id, "the source tokenizer")
        if not causal:
            frame_of(source)  # refuses a tokenizer without the roles that are needed
        if action == "extend" and not continues(tokenizer_files.state_of(source)):
            raise UnsupportedModelError(
                "tokenizer.action: 'extend' goes on with the source's merges, and it has none; "
                "use 'append'"
            )
    if action == "use":
        take(section, source, pad_id=pad_id, causal=causal)
    return action


def _check_padding(tokenizer: PreTrainedTokenizerFast, pad_id: int | None, name: str) -> None:
    """Refuse a padding token at another id than the one that a model counts positions from."""
    if pad_id is not None and tokenizer.pad_token_id != pad_id:
        raise UnsupportedModelError(
            f"{name} has its padding token at id {tokenizer.pad_token_id}, and the source counts "
            f"positions from {pad_id}; set pad_token_id in its config.json right, or let a "
            "tokenizer be trained"
        )


def _extend(section: recipe.Tokenizer, state: dict[str, Any], sample: Sample) -> Made:
    """Go on with the source's merges on new text."""
    vocabulary, end = _closed(state)
    lacking, model = missing_bytes(state), state["model"]
    whole = vocabulary | {piece: end + index for index, piece in enumerate(lacking)}
    characters, learnt = continue_merges(
        state | {"model": model | {"vocab": whole}},
        sample,
        max(0, section.new_pieces - len(lacking)),
    )
    added = [*lacking, *characters, *(left + right for left, right in learnt)]
    pieces = vocabulary | {piece: end + index for index, piece in enumerate(added)}
    merges = [*map(tuple, model["merges"]), *learnt]
    new_state = state | {"model": model | {"vocab": pieces, "merges": merges}}
    return new_state, {"source": len(vocabulary), "added": len(added)}


def _append(section: recipe.Tokenizer, state: dict[str, Any], sample: Sample) -> Made:
    """Add the pieces that a vocabulary has which is trained on new text by itself."""
    learnt = learn(section, state, sample)
    vocabulary, end = _closed(state)
    lacking, model = missing_bytes(state), dict(state["model"])
    if learnt["type"] == "Unigram":
        if len(vocabulary) != end:
            raise UnsupportedModelError(
                "the source tokenizer's ids have gaps, so it cannot be extended; use "
                'tokenizer.action = "new" for a vocabulary of its own'
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
    return state | {"model": model}, {"source": len(vocabulary), "added": len(added)}


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


CHANGES: dict[str, Callable[[recipe.Tokenizer, dict[str, Any], Sample], Made]] = {
    "extend": _extend,
    "append": _append,
    "replace": replace,
    "trim": trim,
}
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
    name = f"tokenizer '{section.model}'"
    given = tokenizer_files.load(str(section.model), section.revision)
    frame = frame_of(given, causal=causal, kind=tokenizer_files.kind_of(given), name=name)
    _check_padding(given, pad_id, name)
    state = tokenizer_files.state_of(given)
    if source is None:
        return tokenizer_files.wrapped(state, given)
    if lacking := sorted(kept_ids(source).keys() - (given.get_vocab() | kept_ids(given)).keys()):
        raise UnsupportedModelError(
            f"{name} lacks {', '.join(lacking[:4])}, which the source needs; use 'replace'"
        )
    new = tokenizer_files.wrapped(state, given, source.model_input_names)
    templates = [
        [f"{piece.rpartition(':')[0]}:0" for piece in template]
        for template in (frame.single, frame.pair)
    ]
    if TYPES not in source.model_input_names and templates[1] != list(frame.pair):
        put_around(new.backend_tokenizer, *templates)
    return new
