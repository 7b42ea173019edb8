"""A split of a corpus on disk: `SPLIT.txt`, a sentence a line, and where its documents start."""

from __future__ import annotations

import contextlib
import logging
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from io import BufferedWriter
    from pathlib import Path

logger = logging.getLogger(__name__)


@dataclass
class SplitFile:
    """One split while it is being written."""

    path: Path
    starts: array[int] = field(default_factory=lambda: array("q"))
    sentences: int = 0
    characters: int = 0
    file: BufferedWriter = field(init=False)

    def __post_init__(self) -> None:
        self.file = self.path.open("wb")

    def write(self, document: Sequence[str]) -> None:
        """Append the sentences of a document, if there are any."""
        if document:
            self.starts.append(self.sentences)
            self.sentences += len(document)
            self.characters += sum(map(len, document))
            self.file.write(("\n".join(document) + "\n").encode())

    def close(self) -> None:
        """Close the text; what a full disk refuses shows up here at the latest."""
        self.file.close()

    def save(self) -> dict[str, int]:
        """Write the document starts; the counts."""
        starts = np.frombuffer(self.starts, np.int64) if self.starts else np.zeros(0, np.int64)
        np.save(self.path.with_suffix(".documents.npy"), starts)
        return {
            "documents": len(starts),
            "sentences": self.sentences,
            "characters": self.characters,
        }


def cut(file: SplitFile, positions: array[float], wanted: int) -> dict[str, int]:
    """Keep the `wanted` sentences whose positions come first; ties go by the order of the lines.

    A smaller set is contained in every larger one, since the order does not depend on `wanted`.
    """
    if wanted >= len(positions):
        logger.warning(
            "corpus.sentences = %s asks for more than the %s training sentences there are",
            f"{wanted:,}",
            f"{len(positions):,}",
        )
        return file.save()
    keep = np.zeros(len(positions), np.bool_)
    keep[np.argsort(np.frombuffer(positions, np.float64), kind="stable")[:wanted]] = True
    whole = file.path.with_suffix(".whole")
    file.path.replace(whole)
    subset = SplitFile(file.path)
    starts = np.frombuffer(file.starts, np.int64)
    kept_per_document = np.add.reduceat(keep, starts, dtype=np.int64)
    kept_per_document = kept_per_document[kept_per_document > 0]
    subset.starts.extend((np.cumsum(kept_per_document) - kept_per_document).tolist())
    subset.sentences = wanted
    with contextlib.closing(subset), whole.open("rb") as lines:
        for line, kept in zip(lines, keep, strict=True):
            if kept:
                subset.file.write(line)
                subset.characters += len(line.decode()) - 1
    whole.unlink()
    return subset.save()
