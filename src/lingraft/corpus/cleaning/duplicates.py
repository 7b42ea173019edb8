"""Find repeated sentences by hashes, and near-duplicate documents by MinHash, in any source.

A document is a set of shingles (runs of characters). MinHash signatures of two sets agree in a
place with probability s, their Jaccard similarity (Broder 1997); a band of `ROWS` places agrees
with probability s^ROWS, and one of `BANDS` bands with 1 - (1 - s^ROWS)^BANDS (Leskovec et al.,
Mining of Massive Datasets, 3.4). With 14 bands of 8 rows (as datatrove and FineWeb have), two
documents are taken for duplicates with probability 0.92 at s = 0.8, 0.56 at 0.7, 0.05 at 0.5 and
0.0009 at 0.3.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from lingraft.corpus.cleaning.clean import normalise

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

NEAR_DUPLICATE = "near duplicate"
BANDS, ROWS = 14, 8
# About three words of English, four of Korean; needs no words, which not all scripts part.
SHINGLE_CHARACTERS = 16
# 112 permutations of a block fit the cache of a core.
BLOCK_SHINGLES = 512

BASE = np.uint64(0x9E3779B97F4A7C15)
MIX_1, MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def band_keys(text: str) -> NDArray[np.uint64]:
    """Return a hash of every band of a text's signature.

    Returns:
        uint64 [BANDS]; equal to another text's where the signatures agree in that band.
    """
    places_BR = signature(text).reshape(BANDS, ROWS).astype(np.uint64)
    keys_B = np.zeros(BANDS, np.uint64)
    for place in range(ROWS):
        keys_B = _mix(keys_B * BASE + places_BR[:, place])
    return keys_B


def signature(text: str) -> NDArray[np.uint32]:
    """Return the MinHash signature of a text.

    Case and the kind and amount of white space do not count; a text shorter than a shingle is one
    shingle.

    Returns:
        uint32 [BANDS * ROWS].
    """
    hashes_S = _shingles(text)  # repetitions change no minimum
    smallest_P = np.full(BANDS * ROWS, np.iinfo(np.uint32).max, np.uint32)
    for start in range(0, len(hashes_S), BLOCK_SHINGLES):
        block_S = hashes_S[start : start + BLOCK_SHINGLES]
        permuted_PS = FACTORS_P[:, None] * block_S + OFFSETS_P[:, None]
        np.minimum(smallest_P, permuted_PS.min(axis=1), out=smallest_P)
    return smallest_P


def _shingles(text: str) -> NDArray[np.uint32]:
    folded = normalise(text).casefold().encode("utf-32-le", "surrogatepass")
    codes = np.frombuffer(folded, "<u4").astype(np.uint64) + np.uint64(1)
    size = min(SHINGLE_CHARACTERS, len(codes))
    if not size:
        return np.zeros(1, np.uint32)
    places = len(codes) - size + 1
    total = np.zeros(places, np.uint64)
    for offset in range(size):
        total = total * BASE + codes[offset : offset + places]
    return (_mix(total) >> np.uint64(32)).astype(np.uint32)


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix by the finaliser of SplitMix64 (Steele et al. 2014): bits depend on every bit."""
    values = (values ^ (values >> np.uint64(30))) * MIX_1
    values = (values ^ (values >> np.uint64(27))) * MIX_2
    return values ^ (values >> np.uint64(31))


# Odd factors and offsets: x -> factor x + offset modulo 2^32 is one to one. Drawn with SplitMix64,
# since numpy's generators may change from version to version.
_DRAWN = _mix(np.arange(1, 2 * BANDS * ROWS + 1, dtype=np.uint64) * BASE) >> np.uint64(32)
OFFSETS_P = _DRAWN[BANDS * ROWS :].astype(np.uint32)
FACTORS_P = _DRAWN[: BANDS * ROWS].astype(np.uint32) | np.uint32(1)


def hashes(sentences: Iterable[str]) -> NDArray[np.uint64]:
    """Return a 64-bit BLAKE2b hash of each sentence, the same on every machine.

    Returns:
        uint64, an entry a sentence.
    """
    digests = b"".join(
        hashlib.blake2b(sentence.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        for sentence in sentences
    )
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def contains(run: NDArray[np.uint64], query: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which of some hashes are in a sorted run."""
    if not len(run):
        return np.zeros(len(query), np.bool_)
    return np.asarray(run[np.minimum(np.searchsorted(run, query), len(run) - 1)] == query)
