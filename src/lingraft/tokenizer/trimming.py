"""A vocabulary without the pieces that a text never has.

Text whose pieces are all kept falls into the same pieces as before:

- Unigram: the best segmentation is still there, and the worst score, from which the score of an
  unknown character follows, is kept with its piece.
- WordPiece: the longest piece that fitted still fits.
- byte-level BPE: kept with a piece are the pieces that its merges pass through, in their order, and
  the 256 bytes, so that any other text can be spelt, too.

Special tokens stay, by their roles, and so does every token that was added to the vocabulary.

Source: SPEC A.7 (`--resized-dict-map` of VECO's code, Luo et al. 2021).
"""

from __future__ import annotations

import json
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from lingraft.log import progress
from lingraft.tokenizer.extension import backend_of, wrapped
from lingraft.tokenizer.files import kind_of, plain_backend
from lingraft.tokenizer.vocabulary import BYTE_OF, BYTE_PIECE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Set

    from transformers import PreTrainedTokenizerFast

SENTENCES = 1_000
"""That are encoded at once."""


def pieces_in(tokenizer: PreTrainedTokenizerFast, sentences: Iterable[str]) -> set[int]:
    """Ids of the pieces that occur in text; a literal special token is text."""
    backend, found, left = plain_backend(tokenizer), set[int](), iter(sentences)
    with progress("vocabulary: reading", None, "sentences") as ticker:
        count = 0
        while batch := list(islice(left, SENTENCES)):
            for encoded in backend.encode_batch(batch, add_special_tokens=False):
                found.update(encoded.ids)
            count += len(batch)
            ticker.update(count)
    return found


def trim(
    source: PreTrainedTokenizerFast, occurring: Set[int], up_to: int = -1
) -> tuple[PreTrainedTokenizerFast, list[int]]:
    """Leave out the pieces that do not occur.

    Args:
        source: the tokenizer; it is not changed.
        occurring: ids of pieces that are kept, with what they need (see the top of this file).
        up_to: ids up to this one stay as they are (position rows can depend on the padding id).

    Returns:
        The smaller tokenizer, and the old id of each of its ids.

    Raises:
        UnsupportedModelError: the tokenizer is of none of the three kinds, or lacks a role.
    """
    kind = kind_of(source)
    state: dict[str, Any] = json.loads(backend_of(source).to_str())
    ids: dict[str, int] = source.get_vocab()
    piece_of = {index: piece for piece, index in ids.items()}
    keep = {index for index in ids.values() if index in occurring or index <= up_to}
    added = set(source.added_tokens_decoder) | set(source.all_special_ids)
    model = state["model"]
    if kind == "byte-bpe":
        rank = {tuple(merge): order for order, merge in enumerate(model["merges"])}
        passed = {part for index in keep - added for part in _passed(piece_of[index], rank)}
        keep |= {ids[piece] for piece in passed | set(BYTE_OF) if piece in ids}
    elif kind == "unigram":
        scores = [score for _, score in model["vocab"]]
        keep.add(scores.index(min(scores)))
        if model.get("byte_fallback"):
            keep |= {index for piece, index in ids.items() if BYTE_PIECE.fullmatch(piece)}
    kept = sorted(keep | added)
    _renumber(state, kind, {piece_of[old]: new for new, old in enumerate(kept)})
    return wrapped(Tokenizer.from_str(json.dumps(state)), source), kept


def _passed(piece: str, rank: dict[tuple[str, ...], int]) -> Iterator[str]:
    """What merging a piece's characters, the earliest merge first, passes through."""
    parts = list(piece)
    while True:
        ranked = [(rank[pair], at) for at, pair in enumerate(pairwise(parts)) if pair in rank]
        if not ranked:
            return
        _, at = min(ranked)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
        yield parts[at]


def _renumber(state: dict[str, Any], kind: str, new: dict[str, int]) -> None:
    """Write the new ids wherever tokenizer.json names one."""
    model = state["model"]
    if kind == "unigram":
        scores = dict(map(tuple, model["vocab"]))
        unknown = model["unk_id"]
        model["unk_id"] = unknown if unknown is None else new[model["vocab"][unknown][0]]
        model["vocab"] = [(piece, scores.get(piece, min(scores.values()))) for piece in new]
    else:
        model["vocab"] = new
    if kind == "byte-bpe":
        model["merges"] = [
            (left, right)
            for left, right in model["merges"]
            if left in new and right in new and left + right in new
        ]
    for token in state["added_tokens"]:
        token["id"] = new[token["content"]]
    processor = state["post_processor"]
    for step in processor["processors"] if processor["type"] == "Sequence" else [processor]:
        for role in ("cls", "sep"):
            if role in step:
                step[role] = (step[role][0], new[step[role][0]])
        for name, token in step.get("special_tokens", {}).items():
            token["ids"] = [new[piece] for piece in token["tokens"]]
            assert name in new, f"the template's {name} is no token"
