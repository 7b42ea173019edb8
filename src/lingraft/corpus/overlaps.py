"""Nothing that is learnt is held out as well, whichever stream it is in.

A corpus of text keeps a sentence once. A pair is kept as a whole, so that a sentence with several
translations is in several pairs; and what is in two streams is split in each. So training text
goes that is validation or test text anywhere, and validation text that is test text. A side of a
pair, or a line that was not cut, can hold several sentences: it is compared whole, and by each.
"""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.corpus.cleaning import dedup, sentences
from lingraft.corpus.readers.lines import batched
from lingraft.corpus.result import HELD_OUT, check_result
from lingraft.corpus.split import SPLITS, Split
from lingraft.corpus.stage import SplitFile
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from lingraft.recipe.streams import Stream

logger = logging.getLogger(__name__)

BATCH_LINES = 65_536


def remove(streams: Mapping[Path, Stream], results: Mapping[str, dict[str, Any]]) -> None:
    """Delete it, of a text the sentences and of pairs the pairs, and count it.

    Args:
        streams: folder → stream, each with SPLIT.txt and SPLIT.documents.npy.
        results: of the streams by name, as `stage.prepare` gives them; corrected in place.

    Raises:
        DataError: nothing is left of a split.
    """
    held_out = np.zeros(0, np.uint64)
    for split in reversed(SPLITS):
        for folder, stream in streams.items() if len(held_out) else ():
            mask = _held(folder / f"{split}.txt", stream, held_out)
            if mask.any():
                result = results[stream.name]
                counts, gone = _without(folder, split, mask, whole=stream.pair is not None)
                result["splits"][split] = counts
                dropped = result["dropped"]
                result["dropped"] = dropped | {HELD_OUT: dropped.get(HELD_OUT, 0) + gone}
                unit = "pairs" if stream.pair else "sentences"
                logger.info(
                    "corpus: %s: %s %s of %s left out: %s",
                    *(stream.name, f"{gone:,}", unit, split, HELD_OUT),
                )
                try:
                    check_result(result, stream.corpus)
                except DataError as error:
                    raise DataError(f"stream '{stream.name}': {error}") from None
        if split != "train":
            batches = [
                dedup.hashes(itertools.chain(*batch))
                for folder, stream in streams.items()
                for batch in _texts(folder / f"{split}.txt", stream)
            ]
            held_out = np.unique(np.concatenate([held_out, *batches]))


def _texts(path: Path, stream: Stream) -> Iterator[Sequence[Sequence[str]]]:
    """What the lines are compared by, each whole and by its sentences if it was not cut.

    They come in batches of lines.
    """
    whole = stream.pair is None and stream.corpus.split_sentences
    splitters = [sentences.splitter(code, split_sentences=True) for code in stream.languages]
    with path.open(encoding="utf-8") as file:
        lines = (line.removesuffix("\n") for line in file)
        both = zip(lines, itertools.cycle(splitters), strict=False)  # a side of a pair is a line
        texts = ((line,) if whole else (line, *split(line)) for line, split in both)
        yield from batched(texts, BATCH_LINES)


def _held(path: Path, stream: Stream, held_out: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which lines of a file are held out, or hold a sentence that is; `held_out` is sorted."""
    masks = [np.zeros(0, np.bool_)]
    for batch in _texts(path, stream):
        found = dedup.contains(held_out, dedup.hashes(itertools.chain(*batch)))
        counts = np.fromiter(map(len, batch), np.int64, len(batch))
        masks.append(np.logical_or.reduceat(found, np.cumsum(counts) - counts))
    return np.concatenate(masks)


def _without(
    folder: Path, split: Split, mask: NDArray[np.bool_], *, whole: bool
) -> tuple[dict[str, int], int]:
    """Write a split anew; its counts, and how many sentences or whole documents went."""
    path, gone = folder / f"{split}.txt", 0
    starts = np.load(path.with_suffix(".documents.npy"))
    old = path.rename(path.with_suffix(".before"))
    with old.open(encoding="utf-8") as lines, SplitFile(path) as file:
        for start, end in itertools.pairwise(itertools.chain(starts, [len(mask)])):
            texts = [next(lines).removesuffix("\n") for _ in range(start, end)]
            going = mask[start:end]
            if whole:
                gone += bool(going.any())
                going = np.full(len(going), going.any())
            else:
                gone += int(going.sum())
            file.write([text for text, goes in zip(texts, going, strict=True) if not goes])
        counts = file.save()
    old.unlink()
    return counts, gone
