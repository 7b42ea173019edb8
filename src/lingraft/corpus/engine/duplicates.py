"""Pass 2: what is held out, and which documents and sentences occurred before, over all parts.

Of what is alike that on the side of the test is kept, else that on the side of validation, and of
what is on one side the first in the order of the parts: so text that is added, wherever it is read,
takes nothing away from what is held out. A decision is an array of the numbers (int64, ascending)
of what is dropped, counted over the parts in their order; that on the split is the two bounds.
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING

import numpy as np

from lingraft.corpus.cleaning.near_duplicates import BANDS
from lingraft.corpus.cleaning.steps import mostly_lost
from lingraft.corpus.engine.parts import writing_errors
from lingraft.corpus.split import RANKED, Bounds, Split, bounds, position, widened
from lingraft.rundir import replacing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from lingraft.corpus.engine.plan import Folder, Plan

logger = logging.getLogger(__name__)

SPLIT, NEAR, EXACT, SUBSET = "split", "near", "exact", "subset"
TRAIN = RANKED.index("train")


def repeated(keys: NDArray[np.uint64], ranks: NDArray[np.int8]) -> NDArray[np.int64]:
    """The indices, ascending, at which a key stands that stands somewhere else too and stays there.

    Args:
        keys: uint64 [N].
        ranks: int8 [N]; of equal keys that of the lowest rank stays, and of these the first.
    """
    order = np.lexsort((ranks, keys))
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

    @functools.cached_property
    def bounds(self) -> Bounds:
        """Where the sides end."""
        test, valid = np.load(self.folder.decision(SPLIT)).tolist()
        return Bounds(test, valid)

    def widened(self) -> list[Split]:
        """The splits for which more is held out than their shares give."""
        return widened(self.bounds, self.plan.section.valid, self.plan.section.test)

    def side(self, name: str) -> Split:
        """The side that a document is on."""
        return self.bounds.side(position(name, self.plan.section.split_seed))

    def ranks(self, rank: int) -> NDArray[np.int8]:
        """For each document of a part the index of its side in `RANKED`."""
        return self.bounds.ranks(np.load(self.parts[rank] / "split.npy"))

    def fresh_documents(self, rank: int) -> NDArray[np.bool_]:
        """Which documents of a part are no near-duplicates."""
        names = range(BANDS) if self.plan.section.near_duplicates else ()
        paths = [self.folder.decision(NEAR, band) for band in names]
        return self._left(self.first_document, rank, paths)

    def fresh_sentences(self, rank: int) -> NDArray[np.bool_]:
        """Which sentences of a part did not occur before; of whole documents, most of them.

        Those of near-duplicate documents are not looked at, and True.
        """
        names = range(self.plan.buckets) if self.plan.section.deduplicate else ()
        paths = [self.folder.decision(EXACT, bucket) for bucket in names]
        left = self._left(self.first_sentence, rank, paths)
        if not self.plan.section.whole_documents:
            return left
        owners, sizes = self.owners(rank), np.load(self.parts[rank] / "sizes.npy")
        documents = int(self.first_document[rank + 1] - self.first_document[rank])
        fresh: NDArray[np.bool_] = ~mostly_lost(~left, sizes, owners, documents)[owners]
        return fresh

    def wanted_sentences(self, rank: int) -> NDArray[np.bool_]:
        """Which sentences of a part are not beyond the number of training sentences asked for.

        Of whole documents, none of whose sentences is.
        """
        has_subset = self.plan.section.max_train_sentences is not None
        paths = [self.folder.decision(SUBSET)] if has_subset else []
        left = self._left(self.first_sentence, rank, paths)
        if self.plan.section.whole_documents:
            owners = self.owners(rank)
            left &= (np.bincount(owners, ~left) == 0)[owners]
        return left

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


def tasks(plan: Plan) -> dict[str, tuple[Callable[[Folder, int], None], int]]:
    """What pass 2 decides, in this order: by name, what makes a decision, and how many tasks."""
    section = plan.section
    decisions = {
        SPLIT: (find_bounds, 1),
        NEAR: (find_near, BANDS if section.near_duplicates else 0),
        EXACT: (find_exact, plan.buckets if section.deduplicate else 0),
        SUBSET: (choose_subset, int(section.max_train_sentences is not None)),
    }
    return {name: task for name, task in decisions.items() if task[1]}


def find_bounds(folder: Folder, _: int) -> None:
    """Find where the sides end, and write the decision.

    Memory: 16 bytes a document at the peak.
    """
    section, places = folder.plan().section, []
    for rank in range(len(folder.plan().parts)):
        mask = _has_text(folder.part(rank))
        places.append(np.load(folder.part(rank) / "split.npy")[mask])
    limits = bounds(np.concatenate(places), section.valid, section.test)
    _save(folder.decision(SPLIT), np.array([limits.test, limits.valid]))


def _has_text(part: Path) -> NDArray[np.bool_]:
    """Of which documents of a part the filters leave a sentence."""
    mask: NDArray[np.bool_] = np.load(part / "tallies.npy", "r")[:, 0] > 0
    return mask


def find_near(folder: Folder, band: int) -> None:
    """Find the documents whose key in one band occurred before, and write the decision.

    One of which the filters leave nothing is no copy to keep. Memory: 34 bytes a document at the
    peak.
    """
    decisions = Decisions(folder)
    keys, ranks, places = [], [], []
    for rank, part in enumerate(decisions.parts):
        mask = _has_text(part)
        # A copy: a part that stays mapped is an open file, and there may be thousands of parts.
        keys.append(np.load(part / "bands.npy", "r")[mask, band])
        ranks.append(decisions.ranks(rank)[mask])
        places.append(np.flatnonzero(mask) + decisions.first_document[rank])
    again = repeated(np.concatenate(keys), np.concatenate(ranks))
    _save(folder.decision(NEAR, band), np.concatenate(places)[again])


def find_exact(folder: Folder, bucket: int) -> None:
    """Find the sentences of one bucket of hashes that occurred before, and write the decision.

    Near-duplicate documents do not count. Memory: 34 bytes a sentence of the bucket at the peak.
    """
    decisions = Decisions(folder)
    hashes, places, ranks = [], [], []
    for rank, part in enumerate(decisions.parts):
        part_hashes = np.load(part / "hashes.npy", "r")
        mask = part_hashes % np.uint64(decisions.plan.buckets) == bucket
        owners = decisions.owners(rank)
        mask &= decisions.fresh_documents(rank)[owners]
        hashes.append(part_hashes[mask])
        ranks.append(decisions.ranks(rank)[owners[mask]])
        places.append(np.flatnonzero(mask) + decisions.first_sentence[rank])
    again = repeated(np.concatenate(hashes), np.concatenate(ranks))
    _save(folder.decision(EXACT, bucket), np.concatenate(places)[again])


def choose_subset(folder: Folder, _: int) -> None:
    """Find the training sentences beyond the number asked for, and write the decision.

    The order does not depend on the number, so that smaller sets are contained in larger ones.
    """
    decisions = Decisions(folder)
    n_sentences = decisions.plan.section.max_train_sentences
    assert n_sentences is not None
    positions, places = [], []
    for rank, part in enumerate(decisions.parts):
        part_positions = np.load(part / "positions.npy")
        wanted_documents = decisions.fresh_documents(rank) & (decisions.ranks(rank) == TRAIN)
        mask = decisions.fresh_sentences(rank) & wanted_documents[decisions.owners(rank)]
        positions.append(part_positions[mask])
        places.append(np.flatnonzero(mask) + decisions.first_sentence[rank])
    in_subset = lowest(np.concatenate(positions), n_sentences)
    _save(folder.decision(SUBSET), np.concatenate(places)[~in_subset])


def lowest(positions: NDArray[np.float64], n_sentences: int) -> NDArray[np.bool_]:
    """Which training sentences come first by their positions; of equal ones the first."""
    if n_sentences >= len(positions):
        logger.warning(
            "corpus.max_train_sentences = %s is more than the %s training sentences that there are",
            f"{n_sentences:,}",
            f"{len(positions):,}",
        )
    mask = np.zeros(len(positions), np.bool_)
    mask[np.argsort(positions, kind="stable")[:n_sentences]] = True
    return mask


def _save(path: Path, decision: NDArray[np.int64] | NDArray[np.float64]) -> None:
    with writing_errors(path), replacing(path) as partial, partial.open("wb") as file:
        np.save(file, decision)
