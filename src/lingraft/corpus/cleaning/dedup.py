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


BUCKETS = 16
BOUNDS = np.arange(1, BUCKETS, dtype=np.uint64) << np.uint64(60)
"""Where the buckets of the first four bits begin, but for the first."""


class Seen:
    """The set of hashes seen so far, as sorted runs of growing size in 16 buckets.

    A batch is looked up in every run of its buckets by binary search, and becomes a run itself; a
    run that is not at least twice as long as the next is merged with it, so there are about
    log2(n / batch) runs and each hash is moved about that often. Memory: 8 bytes a distinct
    sentence, and 16 bytes for those of the bucket that is being merged.

    Two different sentences have the same hash with probability 2^-64. Among n distinct sentences,
    the expected number that is dropped wrongly is n(n - 1) / 2^65: 7e-5 for 50 million, 3 % for
    one billion.
    """

    def __init__(self) -> None:
        self.buckets: list[list[NDArray[np.uint64]]] = [[] for _ in range(BUCKETS)]

    def __len__(self) -> int:
        return sum(len(run) for runs in self.buckets for run in runs)

    def fresh(self, batch: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which hashes of the batch occur for the first time, in it and ever; then remember them.

        Args:
            batch: uint64, in reading order.

        Returns:
            bool, the shape of `batch`; of equal hashes in the batch, only the first can be True.
        """
        distinct, first = np.unique(batch, return_index=True)
        cuts = np.searchsorted(distinct, BOUNDS)
        mask = np.zeros(len(batch), np.bool_)
        parts = zip(self.buckets, np.split(distinct, cuts), np.split(first, cuts), strict=True)
        for runs, hashes_here, first_here in parts:
            unseen = np.ones(len(hashes_here), np.bool_)
            for run in runs:
                unseen &= ~contains(run, hashes_here)
            mask[first_here[unseen]] = True
            _remember(runs, hashes_here[unseen])
        return mask


def _remember(runs: list[NDArray[np.uint64]], run: NDArray[np.uint64]) -> None:
    if not len(run):
        return
    runs.append(run)
    while len(runs) > 1 and len(runs[-2]) < 2 * len(runs[-1]):
        merged = np.concatenate(runs[-2:])
        del runs[-2:]
        # Timsort, which merges the two sorted halves in linear time.
        merged.sort(kind="stable")
        runs.append(merged)
