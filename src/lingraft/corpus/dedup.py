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


class Seen:
    """The set of hashes seen so far, as sorted runs of growing size.

    A batch is looked up in every run by binary search, and becomes a run itself; a run that is not
    at least twice as long as the next is merged with it, so there are about log2(n / batch) runs
    and each hash is moved about that often. Memory: 8 bytes a distinct sentence, 24 at the peak of
    the largest merge.

    Two different sentences have the same hash with probability 2^-64. Among n distinct sentences,
    the expected number that is dropped wrongly is n(n - 1) / 2^65: 7e-5 for 50 million, 3 % for
    one billion.
    """

    def __init__(self) -> None:
        self.runs: list[NDArray[np.uint64]] = []

    def __len__(self) -> int:
        return sum(len(run) for run in self.runs)

    def fresh(self, batch: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which hashes of the batch occur for the first time, in it and ever; then remember them.

        Args:
            batch: uint64, in reading order.

        Returns:
            bool, the shape of `batch`; of equal hashes in the batch, only the first can be True.
        """
        distinct, first = np.unique(batch, return_index=True)
        unseen = np.ones(len(distinct), np.bool_)
        for run in self.runs:
            place = np.searchsorted(run, distinct)
            unseen &= run[np.minimum(place, len(run) - 1)] != distinct
        mask = np.zeros(len(batch), np.bool_)
        mask[first[unseen]] = True
        self._remember(distinct[unseen])
        return mask

    def _remember(self, run: NDArray[np.uint64]) -> None:
        if not len(run):
            return
        self.runs.append(run)
        while len(self.runs) > 1 and len(self.runs[-2]) < 2 * len(self.runs[-1]):
            merged = np.concatenate(self.runs[-2:])
            del self.runs[-2:]
            # Timsort, which merges the two sorted halves in linear time.
            merged.sort(kind="stable")
            self.runs.append(merged)
