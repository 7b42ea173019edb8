"""Likelihood of whole documents under a causal model: every token, every byte of the text.

Bits per byte are the negative log-likelihood of a text over the bytes of its UTF-8 form: the text
is the same whatever the tokenizer, so models with different vocabularies compare. All tokens of the
text count, and the end-of-text token does not, as in lm-evaluation-harness.

A document of more tokens than the context is read in windows that follow one another, as in
training: each begins with the special tokens that the tokenizer puts before a text, and its first
tokens see little of what stands before them.

The first token of a text has nothing before it where the tokenizer puts no special token there. It
costs what its share among the text's own tokens says: the same rule for every model, and no prefix
that a model was not trained with.

Shape letters: D documents, I windows, P predicted tokens of all documents.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.errors import DataError
from lingraft.evaluation.intrinsic import MaskedTokens
from lingraft.evaluation.records import NEXT_TOKEN, Blocks, blocks
from lingraft.evaluation.scorer import HiddenItem
from lingraft.tokenizer.documents import before, cut
from lingraft.tokenizer.files import name_of, plain_backend
from lingraft.tokenizer.shards import without_special
from lingraft.tokenizer.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedTokenizerFast

    from lingraft.evaluation.intrinsic import Scores

Array = np.ndarray[Any, Any]

SCHEME = NEXT_TOKEN
HITS = (1, 5, 10)


@dataclass(frozen=True)
class DocumentText:
    """Held-out documents as one tokenizer reads them."""

    tokens: MaskedTokens
    """A window an item; its targets are the tokens that are counted there."""
    owners_I: Array
    """The document of each window."""
    first_D: Array
    """Nats of each document's first token where nothing stands before it, else 0."""
    counts_D: Array
    """Tokens of each document's text."""
    bytes_D: Array
    """Bytes of each document's UTF-8 text."""
    characters_D: Array
    unknown: int
    """Tokens that stand for text which the vocabulary lacks."""


def text_of(
    tokenizer: PreTrainedTokenizerFast, documents: Sequence[str], context: int
) -> DocumentText:
    """Make documents ready to be scored by a `Scorer` of a causal model.

    Args:
        tokenizer: of the model.
        documents: the texts; empty ones are left out.
        context: tokens that the model reads at once, which predict as many.

    Raises:
        DataError: no document has a token that could be predicted.
    """
    start_ids = before(tokenizer)
    backend = plain_backend(tokenizer)  # a special token that is spelt out is text
    encoded = backend.encode_batch_fast(list(documents), add_special_tokens=False)
    read_as = without_special(tokenizer)
    read = [entry.ids if read_as is None else read_as[entry.ids].tolist() for entry in encoded]
    texts = [(text, ids) for text, ids in zip(documents, read, strict=True) if ids]
    # None: a stride that windows once had; earlier results stay comparable.
    digest = hashlib.blake2b(f"{name_of(backend)} {context} None".encode(), digest_size=8)
    rows = [np.array([*start_ids, *ids], np.int64) for _, ids in texts]
    digest.update(b"".join(row.astype(np.int32).tobytes() for row in rows))
    owners, begins = cut(np.array(list(map(len, rows))), len(start_ids), context)
    if begins.any():  # windows that begin with special tokens are others than those without
        digest.update(np.array(start_ids, np.int32).tobytes())
    first = max(len(start_ids), 1)
    items = list[HiddenItem]()
    for owner, begin in zip(owners, begins, strict=True):
        window = rows[owner][begin : begin + context + 1].copy()
        window[: len(start_ids)] = start_ids
        items.append(HiddenItem(window[:-1], np.arange(first, len(window)) - 1, window[first:]))
    if not items:
        raise DataError("the evaluation text holds no document of two tokens; give more text")
    text_ids = np.concatenate([np.array(ids, np.int64) for _, ids in texts])
    first_ids = np.array([ids[0] for _, ids in texts])
    shares = np.bincount(text_ids) / len(text_ids)
    unknown = tokenizer.unk_token_id
    return DocumentText(
        MaskedTokens(items, digest.hexdigest(), SCHEME),
        owners,
        np.zeros(len(texts)) if start_ids else -np.log(shares[first_ids]),
        np.array([len(ids) for _, ids in texts]),
        np.array([len(text.encode()) for text, _ in texts]),
        np.array([len(text) for text, _ in texts]),
        0 if unknown is None else int((text_ids == unknown).sum()),
    )


def nats(text: DocumentText, scores: Scores) -> Array:
    """Return the negative log-likelihood [D] of each document.

    Args:
        text: the documents.
        scores: of `intrinsic.measure` on `text.tokens`.
    """
    return np.bincount(text.owners_I, scores.nats_I, len(text.first_D)) + text.first_D


def likelihood(text: DocumentText, scores: Scores) -> dict[str, float | int]:
    """Average over the text; arguments as `nats`.

    Returns:
        bits_per_byte, bits_per_character; documents, bytes, characters, tokens (of the text), and
        unknown (tokens that stand for text which the vocabulary lacks, whose likelihood is not that
        of the text).
    """
    bits = float(nats(text, scores).sum()) / math.log(2)
    size, characters = int(text.bytes_D.sum()), int(text.characters_D.sum())
    return {
        "bits_per_byte": bits / size,
        "bits_per_character": bits / characters,
        "documents": len(text.bytes_D),
        "bytes": size,
        "characters": characters,
        "tokens": int(text.counts_D.sum()),
        "unknown": text.unknown,
    }


def likelihood_blocks(text: DocumentText, scores: Scores) -> dict[str, Blocks]:
    """Return bits by block of the documents, for paired intervals; arguments as `nats`."""
    bits_D = nats(text, scores) / math.log(2)
    sizes = {"bits_per_byte": text.bytes_D, "bits_per_character": text.characters_D}
    return {name: blocks(bits_D, size) for name, size in sizes.items()}


def new_pieces(target: PreTrainedTokenizerFast, source: PreTrainedTokenizerFast) -> Array:
    """Return ids of a vocabulary's pieces that the source spells none like, but special tokens.

    Args:
        target: the tokenizer that is judged.
        source: the source's.
    """
    source_pieces = set(Vocabulary.of(source).pieces)
    special = {*target.all_special_ids}
    pieces = enumerate(Vocabulary.of(target).pieces)
    ids = [i for i, piece in pieces if piece and piece not in source_pieces and i not in special]
    return np.array(ids, dtype=np.int64)


def by_piece(text: DocumentText, scores: Scores, new: Array) -> dict[str, dict[str, float]]:
    """Rank the next token, for all tokens and apart for new and old pieces.

    Ranks count from 1; of tokens whose scores are equal each has the middle rank.

    Args:
        text: the documents.
        scores: of `intrinsic.measure` on them.
        new: ids, from `new_pieces`.

    Returns:
        Under `all`, `new` and `old`, where there are such tokens: positions, share (0 to 1),
        hits@1, hits@5, hits@10 (per cent), mean_rank, median_rank, loss (nats).
    """
    is_new_P = np.isin(np.concatenate([item.targets for item in text.tokens.items]), new)
    groups = {"all": np.ones_like(is_new_P), "new": is_new_P, "old": ~is_new_P}
    if not len(new):
        groups = {"all": groups["all"]}
    return {name: _ranks(scores, mask_P) for name, mask_P in groups.items() if mask_P.any()}


def _ranks(scores: Scores, mask_P: Array) -> dict[str, float]:
    ranks = scores.rank_P[mask_P]
    return {
        "positions": len(ranks),
        "share": len(ranks) / len(mask_P),
        **{f"hits@{k}": 100 * float((ranks <= k).mean()) for k in HITS},
        "mean_rank": float(ranks.mean()),
        "median_rank": float(np.median(ranks)),
        "loss": float(scores.nats_P[mask_P].mean()),
    }
