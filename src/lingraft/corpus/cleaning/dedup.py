"""Exact de-duplication of sentences in 8 bytes each."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


def hashes(sentences: Iterable[str]) -> NDArray[np.uint64]:
    """A 64-bit BLAKE2b hash of each sentence; the same in every process and on every machine.

    Returns:
        uint64, an entry a sentence.
    """
    digests = b"".join(
        hashlib.blake2b(sentence.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        for sentence in sentences
    )
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def contains(run: NDArray[np.uint64], query: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which of some hashes are in a sorted run."""
    if not len(run):
        return np.zeros(len(query), np.bool_)
    matches: NDArray[np.bool_] = run[np.minimum(np.searchsorted(run, query), len(run) - 1)] == query
    return matches
