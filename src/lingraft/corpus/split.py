"""Tell which documents train and which are held out: a function of the document's id.

Every id has a place in [0, 1). Test documents are those with the lowest places, validation
documents come next, up to the shares asked for. So adding text never moves a document from one side
to the other, and two runs with the same `split_seed` hold out the same documents whatever else they
do. Only where the shares give a small corpus fewer than `LEAST` documents are more of the lowest
ones taken; these can go back to training when text is added.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
RANKED: tuple[Split, ...] = ("test", "valid", "train")
"""Whose copy stays of what occurs on several sides: held-out text must not change."""
LEAST = 5
"""So many documents are held out where the share gives fewer, but not more than a tenth of all."""
FEWEST = 3
"""Number of documents, one a side: of fewer, no more is held out than the shares give."""


def position(document_id: str, seed: int, purpose: str = "split") -> float:
    """Return a number in [0, 1), fixed by id, seed and purpose, and uniform over ids."""
    digest = hashlib.blake2b(f"{purpose}\0{seed}\0{document_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


@dataclass(frozen=True)
class SplitBounds:
    """Ends of the sides in [0, 1).

    Attributes:
        test: test documents have lower places.
        valid: validation documents have lower places that are no test documents'.
    """

    test: float
    valid: float

    def side(self, place: float) -> Split:
        """Return the side of a document at a place."""
        return RANKED[int(self.ranks(np.float64(place)))]

    def ranks(self, places: NDArray[np.float64] | np.float64) -> NDArray[np.int8]:
        """Return for each place the index of its side in `RANKED`."""
        ranks = np.asarray(places >= self.test, np.int8)
        return ranks + (ranks & np.asarray(places >= self.valid, np.int8))


def split_of(document_id: str, seed: int, valid: float, test: float) -> Split:
    """Return the side of a document by the shares alone, as in all but small corpora."""
    return SplitBounds(test, test + valid).side(position(document_id, seed))


def widened(limits: SplitBounds, valid: float, test: float) -> list[Split]:
    """Return the splits for which more is held out than their shares give."""
    wider: dict[Split, bool] = {
        "valid": valid > 0 and limits.valid > test + valid,
        "test": limits.test > test,
    }
    return [name for name, more in wider.items() if more]


def bounds(places: NDArray[np.float64], valid: float, test: float) -> SplitBounds:
    """Return where the sides end, for the documents there are.

    Args:
        places: of every document with a sentence that passed the filters; repetitions do not count.
        valid: share of documents for validation.
        test: share of documents for the final test.

    Returns:
        The shares, or more where a share gives fewer than `LEAST` documents.
    """
    places = np.unique(places)
    least = min(LEAST, max(1, len(places) // 10)) if len(places) >= FEWEST else 0

    def end(share: float, first: int, bound: float) -> float:
        by_share = int(np.searchsorted(places, bound)) - first
        if share <= 0 or by_share >= least or first + least >= len(places):
            return bound
        return float(places[first + least])

    test_end = end(test, 0, test)
    return SplitBounds(test_end, end(valid, int(np.searchsorted(places, test_end)), test + valid))
