"""Pass 2: which documents and sentences occurred before, over all parts.

Of what is alike the first is kept, in the order of the parts, as where everything is read in one
go. A decision is an array of the numbers (int64, ascending) of what is dropped, counted over the
parts in their order.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import numpy as np

from lingraft.corpus.engine.parts import NOT_TRAINING, writing_errors
from lingraft.corpus.near_duplicates import BANDS

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from lingraft.corpus.engine.plan import Folder

logger = logging.getLogger(__name__)

NEAR, EXACT, SUBSET = "near", "exact", "subset"


def repeated(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The indices, ascending, at which a key stands that stands at an earlier index too."""
    order = np.argsort(keys, kind="stable")
    again = keys[order[1:]] == keys[order[:-1]]
    return np.sort(order[1:][again]).astype(np.int64)


class Decisions:
    """What pass 2 has found so far, and where each part begins in its count.

    Args:
        folder: every part of it has been cleaned.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.plan = folder.plan()
        self.parts = [folder.part(rank) for rank in range(len(self.plan.parts))]
        documents = [len(np.load(part / "tallies.npy", "r")) for part in self.parts]
        sentences = [len(np.load(part / "hashes.npy", "r")) for part in self.parts]
        self.first_document = np.concatenate([[0], np.cumsum(documents)])
        self.first_sentence = np.concatenate([[0], np.cumsum(sentences)])
        self.loaded: dict[Path, NDArray[np.int64]] = {}

    def owners(self, rank: int) -> NDArray[np.int64]:
        """For each sentence of a part the index of its document."""
        lengths = np.load(self.parts[rank] / "tallies.npy", "r")[:, 0]
        return np.repeat(np.arange(len(lengths)), lengths)

    def fresh_documents(self, rank: int) -> NDArray[np.bool_]:
        """Which documents of a part are no near-duplicates."""
        names = range(BANDS) if self.plan.section.near_duplicates else ()
        paths = [self.folder.decision(NEAR, band) for band in names]
        return self._left(self.first_document, rank, paths)

    def fresh_sentences(self, rank: int) -> NDArray[np.bool_]:
        """Which sentences of a part did not occur before.

        Those of near-duplicate documents are not looked at, and True.
        """
        names = range(self.plan.buckets) if self.plan.section.deduplicate else ()
        paths = [self.folder.decision(EXACT, bucket) for bucket in names]
        return self._left(self.first_sentence, rank, paths)

    def wanted_sentences(self, rank: int) -> NDArray[np.bool_]:
        """Which sentences of a part are not beyond the number of training sentences asked for."""
        asked = self.plan.section.sentences is not None
        paths = [self.folder.decision(SUBSET)] if asked else []
        return self._left(self.first_sentence, rank, paths)

    def _left(self, firsts: NDArray[np.int64], rank: int, paths: list[Path]) -> NDArray[np.bool_]:
        """Which of the things in a part no decision drops."""
        start, end = int(firsts[rank]), int(firsts[rank + 1])
        left = np.ones(end - start, np.bool_)
        for path in paths:
            if path not in self.loaded:
                self.loaded[path] = np.load(path, "r")
            dropped = self.loaded[path]
            first, last = np.searchsorted(dropped, [start, end])
            left[dropped[first:last] - start] = False
        return left


def find_near(folder: Folder, band: int) -> None:
    """Find the documents whose key in one band occurred before, and write the decision.

    Memory: 24 bytes a document at the peak.
    """
    parts = range(len(folder.plan().parts))
    keys = [np.load(folder.part(rank) / "bands.npy", "r")[:, band] for rank in parts]
    _save(folder.decision(NEAR, band), repeated(np.concatenate(keys)))


def find_exact(folder: Folder, bucket: int) -> None:
    """Find the sentences of one bucket of hashes that occurred before, and write the decision.

    Near-duplicate documents do not count. Memory: 32 bytes a sentence of the bucket at the peak.
    """
    decisions = Decisions(folder)
    hashes, places = [], []
    for rank, part in enumerate(decisions.parts):
        found = np.load(part / "hashes.npy", "r")
        mine = found % np.uint64(decisions.plan.buckets) == bucket
        mine &= decisions.fresh_documents(rank)[decisions.owners(rank)]
        hashes.append(found[mine])
        places.append(np.flatnonzero(mine) + decisions.first_sentence[rank])
    again = repeated(np.concatenate(hashes))
    _save(folder.decision(EXACT, bucket), np.concatenate(places)[again])


def choose_subset(folder: Folder) -> None:
    """Find the training sentences beyond the number asked for, and write the decision.

    The order does not depend on the number, so that smaller sets are contained in larger ones.
    """
    decisions = Decisions(folder)
    wanted = decisions.plan.section.sentences
    assert wanted is not None
    positions, places = [], []
    for rank, part in enumerate(decisions.parts):
        found = np.load(part / "positions.npy")
        kept = decisions.fresh_sentences(rank) & (found != NOT_TRAINING)
        kept &= decisions.fresh_documents(rank)[decisions.owners(rank)]
        positions.append(found[kept])
        places.append(np.flatnonzero(kept) + decisions.first_sentence[rank])
    order = np.argsort(np.concatenate(positions), kind="stable")
    if wanted >= len(order):
        logger.warning(
            "corpus.sentences = %s asks for more than the %s training sentences there are",
            f"{wanted:,}",
            f"{len(order):,}",
        )
    _save(folder.decision(SUBSET), np.sort(np.concatenate(places)[order[wanted:]]))


def _save(path: Path, dropped: NDArray[np.int64]) -> None:
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with writing_errors(path):
            with partial.open("wb") as file:
                np.save(file, dropped)
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
