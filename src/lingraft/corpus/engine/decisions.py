"""Decide what is held out, and which documents and sentences occurred before, over all parts.

Of what is alike that on the side of the test is kept, else that on the side of validation, and of
what is on one side the first in the order of the parts: so text that is added, wherever it is read,
takes nothing away from what is held out. Memory: 34 bytes for each of `AT_ONCE` keys, 16 for a
document.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lingraft.corpus.cleaning.clean import REASONS
from lingraft.corpus.cleaning.duplicates import BANDS
from lingraft.corpus.cleaning.steps import mostly_lost
from lingraft.corpus.split import SplitBounds, bounds
from lingraft.files import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

    from numpy.typing import NDArray

    from lingraft import recipe
    from lingraft.corpus.engine.plan import Folder

AT_ONCE = 12_000_000
"""Keys that are compared in memory; of more, first those with one remainder, then those with …."""
DOCUMENTS, SENTENCES, BOUNDS = "documents", "sentences", "bounds"
Keys = tuple["NDArray[np.uint64]", "NDArray[np.int8]", "NDArray[np.bool_]"]
"""Keys of the things of a part, the ranks of their sides, and whether they are looked at."""


def document_type(section: recipe.Corpus) -> np.dtype[Any]:
    """Return the columns of a document: place in the split, sentences by `clean.REASONS`, bands."""
    bands = BANDS if section.near_duplicates else 0
    return np.dtype([("place", "f8"), ("tally", "i4", (len(REASONS),)), ("bands", "u8", (bands,))])


SENTENCE_TYPE = np.dtype([("hash", "u8"), ("size", "i4")])
"""Columns of a sentence that the filters leave: its hash and characters."""


@dataclass(frozen=True)
class Stored:
    """Files stored of a part, and its place among all parts.

    An array is opened where it is needed: there may be thousands of parts.
    """

    files: dict[str, Path]
    places: dict[str, slice]

    def column(self, kind: str, name: str) -> NDArray[Any]:
        """Return a column of its documents or sentences, in memory."""
        return np.array(np.load(self.files[kind], "r")[name])

    @property
    def owners(self) -> NDArray[np.int64]:
        """Return for each sentence the index of its document."""
        counts = self.column(DOCUMENTS, "tally")[:, 0]
        return np.repeat(np.arange(len(counts)), counts)

    @property
    def has_text(self) -> NDArray[np.bool_]:
        """Return of which documents the filters leave a sentence."""
        return np.asarray(self.column(DOCUMENTS, "tally")[:, 0] > 0)


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


def read_bounds(folder: Folder) -> SplitBounds:
    """Return the decision where the sides end."""
    return SplitBounds(*np.load(folder.decision(BOUNDS)).tolist())


class Decider:
    """Decisions on all documents and sentences of a job whose parts have been cleaned.

    Args:
        folder: of the job; gets the decisions.
    """

    def __init__(self, folder: Folder) -> None:
        self.section = folder.plan().section
        self.parts = list(stored(folder))
        places = [p.column(DOCUMENTS, "place")[p.has_text] for p in self.parts]
        self.limits = bounds(np.concatenate(places), self.section.valid, self.section.test)
        self.folder = folder
        self.near, self.again = (
            np.lib.format.open_memmap(
                folder.decision(kind), "w+", np.bool_, (self.parts[-1].places[kind].stop,)
            )
            for kind in (DOCUMENTS, SENTENCES)
        )

    def decide(self) -> None:
        """Write all decisions: near-duplicate documents, repeated sentences, the bounds."""
        for band in range(BANDS if self.section.near_duplicates else 0):
            self._find(DOCUMENTS, functools.partial(self._bands, band), self.near)
        if self.section.deduplicate:
            self._find(SENTENCES, self._hashes, self.again)
            for part in self.parts if self.section.whole_documents else ():
                again, owners = self.again[part.places[SENTENCES]], part.owners
                sizes, count = part.column(SENTENCES, "size"), len(part.has_text)
                again[:] = mostly_lost(again, sizes, owners, count)[owners]
        self.near.flush()
        self.again.flush()
        with replacing(self.folder.decision(BOUNDS)) as partial, partial.open("wb") as file:
            np.save(file, np.array([self.limits.test, self.limits.valid]))

    def _ranks(self, part: Stored) -> NDArray[np.int8]:
        """Return for each document the index of its side in `RANKED`."""
        return self.limits.ranks(part.column(DOCUMENTS, "place"))

    def _bands(self, band: int, part: Stored) -> Keys:
        """Return the keys of documents; one of which the filters leave nothing is no copy."""
        return part.column(DOCUMENTS, "bands")[:, band], self._ranks(part), part.has_text

    def _hashes(self, part: Stored) -> Keys:
        """Return the keys of sentences; those of near-duplicate documents do not count."""
        fresh = ~self.near[part.places[DOCUMENTS]]
        owners = part.owners
        return part.column(SENTENCES, "hash"), self._ranks(part)[owners], fresh[owners]

    def _find(self, kind: str, keys_of: Callable[[Stored], Keys], found: NDArray[np.bool_]) -> None:
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
            found[np.concatenate(places)[again]] = True
