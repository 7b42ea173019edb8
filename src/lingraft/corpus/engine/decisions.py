"""Decide what is held out, and which documents and sentences occurred before, over all parts.

Of what is alike that on the side of the test is kept, else that on the side of validation, and of
what is on one side the first in the order of the parts: so text that is added, wherever it is read,
takes nothing away from what is held out. Memory: 34 bytes for each of `AT_ONCE` keys, 24 for a
document, and 24 for a training sentence where a number of them is asked for.
"""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lingraft.corpus.cleaning.clean import DUPLICATE, KEPT, REASONS
from lingraft.corpus.cleaning.near_duplicates import BANDS
from lingraft.corpus.cleaning.steps import mostly_lost
from lingraft.corpus.result import NOT_IN_SUBSET
from lingraft.corpus.split import RANKED, Bounds, bounds
from lingraft.rundir import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

    from numpy.typing import NDArray

    from lingraft import recipe
    from lingraft.corpus.engine.plan import Folder

logger = logging.getLogger(__name__)

TRAIN = RANKED.index("train")
AT_ONCE = 12_000_000
"""Keys that are compared in memory; of more, first those with one remainder, then those with …."""
SENTENCE_REASONS = (KEPT, DUPLICATE, NOT_IN_SUBSET)
"""What the numbers of decisions on sentences say."""
DOCUMENTS, SENTENCES, BOUNDS = "documents", "sentences", "bounds"
Keys = tuple["NDArray[np.uint64]", "NDArray[np.int8]", "NDArray[np.bool_]"]
"""Of a part: a key for each thing, the rank of its side, and whether it is looked at."""


def document_type(section: recipe.Corpus) -> np.dtype[Any]:
    """What is known of a document: its place in the split, sentences by `clean.REASONS`, bands."""
    bands = BANDS if section.near_duplicates else 0
    return np.dtype([("place", "f8"), ("tally", "i4", (len(REASONS),)), ("bands", "u8", (bands,))])


SENTENCE_TYPE = np.dtype([("hash", "u8"), ("size", "i4"), ("position", "f8")])
"""Of a sentence that the filters leave: its hash, characters, and place in the subset's order."""


@dataclass(frozen=True)
class Stored:
    """What was stored of a part, and where it stands among all parts.

    An array is opened where it is needed: there may be thousands of parts.
    """

    files: dict[str, Path]
    places: dict[str, slice]

    def column(self, kind: str, name: str) -> NDArray[Any]:
        """A column of its documents or sentences, in memory."""
        return np.array(np.load(self.files[kind], "r")[name])

    @property
    def owners(self) -> NDArray[np.int64]:
        """For each sentence the index of its document."""
        counts = self.column(DOCUMENTS, "tally")[:, 0]
        return np.repeat(np.arange(len(counts)), counts)


def stored(folder: Folder) -> Iterator[Stored]:
    """Give the parts of a job in their order; all of them have been cleaned."""
    ends = {DOCUMENTS: 0, SENTENCES: 0}
    for rank in range(len(folder.plan().parts)):
        files = {kind: folder.part(rank, f".{kind}.npy") for kind in ends}
        sizes = {kind: len(np.load(path, "r")) for kind, path in files.items()}
        places = {kind: slice(end, end + sizes[kind]) for kind, end in ends.items()}
        ends = {kind: place.stop for kind, place in places.items()}
        yield Stored(files, places)


def repeated(keys: NDArray[np.uint64], ranks: NDArray[np.int8]) -> NDArray[np.int64]:
    """Give the indices, ascending, of keys that stand somewhere else too and stay there.

    Args:
        keys: uint64 [N].
        ranks: int8 [N]; of equal keys that of the lowest rank stays, and of these the first.
    """
    order = np.lexsort((ranks, keys))
    again = keys[order[1:]] == keys[order[:-1]]
    return np.sort(order[1:][again]).astype(np.int64)


def read_bounds(folder: Folder) -> Bounds:
    """Give the decision where the sides end."""
    return Bounds(*np.load(folder.decision(BOUNDS)).tolist())


class Decider:
    """Decides on all documents and sentences of a job whose parts have been cleaned.

    Args:
        folder: of the job; gets the decisions.
    """

    def __init__(self, folder: Folder) -> None:
        self.section = folder.plan().section
        self.parts = list(stored(folder))
        self.limits = Bounds(0, 0)
        self.folder = folder
        self.near, self.codes = (
            np.lib.format.open_memmap(
                folder.decision(kind), "w+", dtype, (self.parts[-1].places[kind].stop,)
            )
            for kind, dtype in ((DOCUMENTS, np.bool_), (SENTENCES, np.uint8))
        )

    def decide(self) -> None:
        """Write all decisions."""
        section = self.section
        self.limits = bounds(
            np.concatenate([p.column(DOCUMENTS, "place")[_has_text(p)] for p in self.parts]),
            section.valid,
            section.test,
        )
        for band in range(BANDS if section.near_duplicates else 0):
            self._find(DOCUMENTS, functools.partial(self._bands, band), self.near, True)
        if section.deduplicate:
            code = SENTENCE_REASONS.index(DUPLICATE)
            self._find(SENTENCES, self._hashes, self.codes, code)
            if section.whole_documents:
                self._keep_whole(code)
        if section.max_train_sentences is not None:
            self._choose(section.max_train_sentences)
        self.near.flush()
        self.codes.flush()
        with replacing(self.folder.decision(BOUNDS)) as partial, partial.open("wb") as file:
            np.save(file, np.array([self.limits.test, self.limits.valid]))

    def _ranks(self, part: Stored) -> NDArray[np.int8]:
        """For each document the index of its side in `RANKED`."""
        return self.limits.ranks(part.column(DOCUMENTS, "place"))

    def _bands(self, band: int, part: Stored) -> Keys:
        """One of which the filters leave nothing is no copy to keep."""
        return part.column(DOCUMENTS, "bands")[:, band], self._ranks(part), _has_text(part)

    def _hashes(self, part: Stored) -> Keys:
        """Sentences of near-duplicate documents do not count."""
        fresh = ~self.near[part.places[DOCUMENTS]]
        owners = part.owners
        return part.column(SENTENCES, "hash"), self._ranks(part)[owners], fresh[owners]

    def _find(
        self, kind: str, keys_of: Callable[[Stored], Keys], found: NDArray[Any], mark: int
    ) -> None:
        """Mark what stands somewhere else too and stays there."""
        remainders = -(-len(found) // AT_ONCE)
        for remainder in range(remainders):
            keys, ranks, places = [], [], []
            for part in self.parts:
                part_keys, part_ranks, mask = keys_of(part)
                if remainders > 1:
                    mask = mask & (part_keys % np.uint64(remainders) == remainder)
                keys.append(part_keys[mask])
                ranks.append(part_ranks[mask])
                places.append(np.flatnonzero(mask) + part.places[kind].start)
            again = repeated(np.concatenate(keys), np.concatenate(ranks))
            found[np.concatenate(places)[again]] = mark

    def _keep_whole(self, code: int) -> None:
        """Of whole documents all goes or nothing."""
        for part in self.parts:
            codes, owners = self.codes[part.places[SENTENCES]], part.owners
            count = part.places[DOCUMENTS].stop - part.places[DOCUMENTS].start
            lost = mostly_lost(codes == code, part.column(SENTENCES, "size"), owners, count)
            codes[:] = np.where(lost[owners], code, 0)

    def _choose(self, n_sentences: int) -> None:
        """Leave out the training sentences beyond the number asked for.

        The order does not depend on the number, so that smaller sets are contained in larger ones.
        """
        positions, masks = [], []
        for part in self.parts:
            trains = (self._ranks(part) == TRAIN) & ~self.near[part.places[DOCUMENTS]]
            masks.append((self.codes[part.places[SENTENCES]] == 0) & trains[part.owners])
            positions.append(part.column(SENTENCES, "position")[masks[-1]])
        in_subset = lowest(np.concatenate(positions), n_sentences)
        beyond = np.concatenate(masks)
        beyond[beyond] = ~in_subset
        self.codes[beyond] = SENTENCE_REASONS.index(NOT_IN_SUBSET)
        for part in self.parts if self.section.whole_documents else ():
            codes, owners = self.codes[part.places[SENTENCES]], part.owners
            beyond = codes == SENTENCE_REASONS.index(NOT_IN_SUBSET)
            torn = np.bincount(owners, beyond)[owners] > 0
            codes[torn] = SENTENCE_REASONS.index(NOT_IN_SUBSET)


def _has_text(part: Stored) -> NDArray[np.bool_]:
    """Tell of which documents the filters leave a sentence."""
    mask: NDArray[np.bool_] = part.column(DOCUMENTS, "tally")[:, 0] > 0
    return mask


def lowest(positions: NDArray[np.float64], n_sentences: int) -> NDArray[np.bool_]:
    """Tell which training sentences come first by their positions; of equal ones the first."""
    if n_sentences >= len(positions):
        logger.warning(
            "corpus.max_train_sentences = %s asks for more than the %s training sentences there "
            "are",
            f"{n_sentences:,}",
            f"{len(positions):,}",
        )
        return np.ones(len(positions), np.bool_)
    last = np.partition(positions, n_sentences - 1)[n_sentences - 1]
    mask: NDArray[np.bool_] = positions < last
    mask[np.flatnonzero(positions == last)[: n_sentences - int(mask.sum())]] = True
    return mask
