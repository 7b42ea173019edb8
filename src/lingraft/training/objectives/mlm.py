"""Masked language modelling (Devlin et al. 2019), masked anew every epoch (Liu et al. 2019).

The corruption of a sentence is a function of its tokens and a 64-bit key, never of the batch, the
number of processes or the model: random numbers come from a counter-based hash, one per token, all
sentences of a batch at once.

Differs from the paper: exactly round(rate * n + u) of a sentence's n ordinary tokens are predicted
(u uniform in [-0.5, 0.5)), at least one, as in fairseq, but never a special token, which fairseq
allows; the random replacements are never special tokens, which transformers' collator allows.

Shape letters: T tokens of all sentences, S sentences, M predicted tokens, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lingraft.training.objectives.common import Array, Corrupted, TokenIds, of_one_term

if TYPE_CHECKING:
    from lingraft.recipe import Masking

KEEP_SHARE, RANDOM_SHARE = 0.1, 0.1
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def hash64(values: Array) -> Array:
    """Mix uint64 elementwise by SplitMix64's finaliser (Steele et al. 2014)."""
    x = values.astype(np.uint64) + GOLDEN
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def uniform(values: Array) -> Array:
    """Map a hash to float64 in [0, 1)."""
    return (hash64(values) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def sentence_keys(indices: Array, *numbers: int) -> Array:
    """Return each sentence's key from its index and any number of seeds (seed, phase, epoch …)."""
    key = np.zeros(1, dtype=np.uint64)  # an array: numpy's scalars warn where arrays wrap around
    for number in numbers:
        key = hash64(key ^ np.uint64(number % 2**64))
    return hash64(indices.astype(np.uint64) ^ key)


def corrupt(
    ids: Array, lengths: Array, keys: Array, vocabulary: TokenIds, masking: Masking
) -> Corrupted:
    """Choose the tokens to predict, and hide these.

    Args:
        ids: [T] token ids of the sentences, one after the other.
        lengths: [S] tokens in each.
        keys: [S] uint64, from `sentence_keys`.
        vocabulary: special and mask ids.
        masking: rate and scheme.
    """
    assert vocabulary.mask is not None, "masked words need a mask token"
    num_sentences = len(lengths)
    owner = np.repeat(np.arange(num_sentences), lengths)
    starts = np.cumsum(lengths) - lengths
    place = (np.arange(len(ids)) - starts[owner]).astype(np.uint64)
    with np.errstate(over="ignore"):
        token_keys = hash64(keys[owner] + place * GOLDEN)
        ordinary = ~np.isin(ids, vocabulary.special)
        available = np.bincount(owner[ordinary], minlength=num_sentences)
        rounding = uniform(keys ^ GOLDEN)
        num_masked = np.floor(masking.rate * available + rounding).astype(np.int64)
        num_masked = np.minimum(np.maximum(num_masked, 1), available)
        masked = _smallest(owner, token_keys, ordinary, num_masked)
        targets = ids[masked].astype(np.int64)
        hidden = ids.astype(np.int64)
        hidden[masked] = vocabulary.mask
        if masking.scheme == "bert":
            draw = uniform(token_keys[masked] ^ np.uint64(1))
            pick = (uniform(token_keys[masked] ^ np.uint64(2)) * len(vocabulary.ordinary)).astype(
                np.int64
            )
            is_random = (draw >= KEEP_SHARE) & (draw < KEEP_SHARE + RANDOM_SHARE)
            hidden[masked[is_random]] = vocabulary.ordinary[pick[is_random]]
            hidden[masked[draw < KEEP_SHARE]] = targets[draw < KEEP_SHARE]
    return Corrupted(hidden, masked, targets)


def _smallest(owner: Array, token_keys: Array, ordinary: Array, num_masked: Array) -> Array:
    """Return each sentence's `num_masked` ordinary tokens with the smallest keys, ascending."""
    candidates = np.flatnonzero(ordinary)
    order = candidates[np.lexsort((token_keys[candidates], owner[candidates]))]
    counts = np.bincount(owner[candidates], minlength=len(num_masked))
    starts = np.cumsum(counts) - counts
    rank = np.arange(len(order)) - starts[owner[order]]
    return np.sort(order[rank < num_masked[owner[order]]])


MLM = of_one_term(
    "mlm",
    summary="masked language modelling: hidden tokens (15 % by default) are predicted",
    paper="Devlin et al. 2019; dynamic masking: Liu et al. 2019",
    corrupt=corrupt,
)
