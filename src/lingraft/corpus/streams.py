"""Read the texts of a run: one stream, or several, each in a folder of its own."""

from __future__ import annotations

import functools
import itertools
import logging
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.corpus import aligned, inputs as text_inputs, stage
from lingraft.corpus.cleaning import clean, duplicates
from lingraft.corpus.cleaning.steps import mostly_lost
from lingraft.corpus.readers import parallel
from lingraft.corpus.readers.documents import ending
from lingraft.corpus.readers.lines import batched
from lingraft.corpus.result import HELD_OUT, check_result
from lingraft.corpus.split import SPLITS, Split
from lingraft.corpus.stage import SplitFile
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from lingraft.recipe import Recipe
    from lingraft.recipe.streams import Stream

logger = logging.getLogger(__name__)
VOCABULARY_ALPHA = 0.5
"""Exponent alpha: of several streams, one of N sentences gives a share of the vocabulary's text
proportional to N^alpha, as in XLM."""


def folder_of(corpus: Path, stream: Stream) -> Path:
    """Return where a stream's splits lie within the corpus stage's folder."""
    return corpus / stream.name if stream.name else corpus


def inputs(recipe: Recipe) -> list[Any]:
    """Return what the corpus stage reads, as parts of its fingerprint.

    Of a file's name only the end counts, which says how it is read.

    Raises:
        DataError: a text is missing.
    """
    parts: list[Any] = []
    for stream in recipe.texts:
        files = inputs_of(stream)
        names = tuple(ending(Path(f["name"])) if "bytes" in f else f["name"] for f in files)
        corpus = stream.corpus.model_copy(update={"text": names, "decontaminate": ()})
        anywhere = stream.model_copy(update={"corpus": corpus})
        single = [corpus, stream.language]
        parts += [*([anywhere] if recipe.streams else single), contents_of(stream)]
    return parts


def contents_of(stream: Stream) -> list[str]:
    """Return digests of the text of a stream; of Hub data sets the names.

    Raises:
        DataError: a file is missing.
    """
    if stream.pair is None:
        texts = text_inputs.texts(stream.corpus.text)
        return [*texts, *text_inputs.digests(stream.corpus.decontaminate)]
    files = parallel.files(stream.corpus.text, stream.pair)
    return [text_inputs.file_digest(path) for path in files]


def inputs_of(stream: Stream) -> list[dict[str, Any]]:
    """Return the files of a stream: name, and size in bytes and time of change where known.

    Raises:
        DataError: one is missing, or all are empty.
    """
    if stream.pair is None:
        files = text_inputs.inputs(stream.corpus.text)
    else:
        paths = parallel.files(stream.corpus.text, stream.pair)
        files = [text_inputs.entry(str(path), path) for path in paths]
    if files and all(file.get("bytes") == 0 for file in files):
        raise DataError(f"{files[0]['name']}: is empty; give files that hold text")
    return files


def prepare(recipe: Recipe, out: Path, written: Collection[str] = ()) -> dict[str, Any]:
    """Read, clean and split every stream.

    Args:
        recipe: names the streams.
        out: the folder.
        written: streams that models wrote, whose texts begin alike and are no test of anything.

    Returns:
        As `stage.prepare`; of several streams the sums, and each one's own under `streams`.

    Raises:
        RecipeError, DataError: as `stage.prepare`.
    """
    if not recipe.streams:
        (short,) = recipe.texts
        return stage.prepare(short.corpus, short.language, out)
    for stream in recipe.streams:  # all are there, before the first is read
        inputs_of(stream)
    results = {}
    folders = {folder_of(out, stream): stream for stream in recipe.streams}
    for folder, stream in folders.items():
        folder.mkdir()
        logger.info("corpus: stream '%s'", stream.name)
        try:
            results[stream.name] = (
                stage.prepare(stream.corpus, stream.language, folder)
                if stream.pair is None
                else aligned.prepare(stream.corpus, stream.pair, folder)
            )
        except DataError as error:
            raise DataError(f"stream '{stream.name}': {error}") from error
    given = {folder: one for folder, one in folders.items() if one.name not in written}
    remove_overlaps(given, results)
    for stream in recipe.streams:
        logger.info("corpus: stream '%s', without what others hold out", stream.name)
        check_result(results[stream.name], stream.corpus)
    return together(list(results.values())) | {"streams": results}


def together(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Add up the counts of several streams' corpora."""
    summed = {key: sum(result[key] for result in results) for key in ("documents", "sentences_in")}
    counted = {
        key: dict(sum((Counter(result[key]) for result in results), Counter()))
        for key in ("dropped", "changed", "subset")
    }
    return {
        "language": ", ".join(dict.fromkeys(result["language"] for result in results)),
        "scripts": list(dict.fromkeys(script for r in results for script in r["scripts"])),
        "sources": [source for result in results for source in result["sources"]],
        "splits": {split: added(result["splits"][split] for result in results) for split in SPLITS},
        **summed,
        **counted,
        "notices": [f"{r['language']}: {line}" for r in results for line in r["notices"]],
        "guesses": [line for r in results for line in r["guesses"]],
        "widened": [split for split in SPLITS if any(split in r["widened"] for r in results)],
    }


def added(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    """Add up counts under the same keys; a sum of 0 stays."""
    total: dict[str, int] = {}
    for count in counts:
        total = {key: total.get(key, 0) + value for key, value in count.items()}
    return total


def shares(sizes: Sequence[float], alpha: float) -> np.ndarray[Any, Any]:
    """Return of each stream N_i^alpha / Σ N_j^alpha (Lample & Conneau 2019, eq. 1).

    Args:
        sizes: sentences N_i, above 0.
        alpha: 1 as large as they are, 0 all alike.
    """
    powers = np.asarray(sizes, np.float64) ** alpha
    return np.asarray(powers / powers.sum())


def rebalanced(
    texts: Sequence[Callable[[], Iterable[str]]], sizes: Sequence[int], alpha: float, limit: int
) -> Iterator[str]:
    """Give sentences of several streams in their shares, those of a stream together and in order.

    A stream that is to give more than it has is read again and again; one that is to give less
    gives sentences that are spread evenly.

    Args:
        texts: each gives a stream's sentences anew.
        sizes: how many they are.
        alpha: as in `shares`.
        limit: give at most so many; never more than there are in all, up to rounding.
    """
    total = min(limit, sum(sizes))
    for text, size, share in zip(texts, sizes, shares(sizes, alpha), strict=True):
        passes, rest = divmod(max(1, round(total * share)), size)
        for _ in range(passes):
            yield from text()
        for index, sentence in enumerate(text() if rest else ()):
            if (index + 1) * rest // size > index * rest // size:
                yield sentence


def read_lines(path: Path) -> Iterator[str]:
    """Give the sentences of a corpus file."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n")


def vocabulary_text(
    recipe: Recipe, corpus: Path, read: Callable[[Path], Iterator[str]] = read_lines
) -> Iterator[str]:
    """Give the text of the vocabulary, of several streams in the wanted shares.

    To trim a vocabulary all of them are read: the question is what occurs, and not how often.

    Args:
        recipe: names the streams, and those of the vocabulary.
        corpus: the corpus stage's folder.
        read: reads a corpus file.
    """
    names = recipe.tokenizer.streams or [stream.name for stream in recipe.texts]
    texts_of = [stream for stream in recipe.texts if stream.name in names]
    paths = [folder_of(corpus, stream) / "train.txt" for stream in texts_of]
    if recipe.tokenizer.action == "trim":
        return itertools.chain.from_iterable(map(read, paths))
    if len(paths) == 1:
        return read(paths[0])
    sizes = [sum(1 for _ in read_lines(path)) for path in paths]
    texts = [functools.partial(read, path) for path in paths]
    return rebalanced(texts, sizes, VOCABULARY_ALPHA, recipe.tokenizer.max_train_sentences)


BATCH_LINES = 65_536


def remove_overlaps(streams: Mapping[Path, Stream], results: Mapping[str, dict[str, Any]]) -> None:
    """Delete what is learnt and held out as well, whichever stream it is in, and count it.

    A corpus of text keeps a sentence once. A pair is kept as a whole, so that a sentence with
    several translations is in several pairs; and what is in two streams is split in each. So
    training text goes that is validation or test text anywhere, and validation text that is test
    text: of a text the sentences (where documents are kept whole, those that are mostly such text),
    of pairs the pairs. A side of a pair, or a line that was not cut, can hold several sentences: it
    is compared whole, and by each.

    Args:
        streams: folder → stream, each with SPLIT.txt and SPLIT.documents.npy.
        results: of the streams by name, as `stage.prepare` gives them; corrected in place.
    """
    held_out = np.zeros(0, np.uint64)
    for split in reversed(SPLITS):
        for folder, stream in streams.items() if len(held_out) else ():
            mask = _held(folder / f"{split}.txt", stream, held_out)
            if mask.any():
                result = results[stream.name]
                result["splits"][split], gone = _without(folder, split, mask, stream)
                if not gone:
                    continue
                result["dropped"] = dict(Counter(result["dropped"]) + Counter({HELD_OUT: gone}))
                unit = "pairs" if stream.pair else "sentences"
                logger.info(
                    "corpus: %s: %s %s of %s left out: %s",
                    *(stream.name, f"{gone:,}", unit, split, HELD_OUT),
                )
        if split != "train":
            batches = [
                duplicates.hashes(itertools.chain(*batch))
                for folder, stream in streams.items()
                for batch in _texts(folder / f"{split}.txt", stream)
            ]
            held_out = np.unique(np.concatenate([held_out, *batches]))


def _texts(path: Path, stream: Stream) -> Iterator[Sequence[Sequence[str]]]:
    """Give what lines are compared by, each whole and by its sentences if it was not cut.

    They come in batches of lines.
    """
    whole = stream.pair is None and stage.is_cut(stream.corpus)
    splitters = [clean.splitter(code, split_sentences=True) for code in stream.languages]
    with path.open(encoding="utf-8") as file:
        lines = (line.removesuffix("\n") for line in file)
        both = zip(lines, itertools.cycle(splitters), strict=False)  # a side of a pair is a line
        texts = ((line,) if whole else (line, *split(line)) for line, split in both)
        yield from batched(texts, BATCH_LINES)


def _held(path: Path, stream: Stream, held_out: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which lines of a file are held out, or hold a sentence that is, by sorted hashes."""
    masks = [np.zeros(0, np.bool_)]
    for batch in _texts(path, stream):
        found = duplicates.contains(held_out, duplicates.hashes(itertools.chain(*batch)))
        counts = np.fromiter(map(len, batch), np.int64, len(batch))
        masks.append(np.logical_or.reduceat(found, np.cumsum(counts) - counts))
    return np.concatenate(masks)


def _without(
    folder: Path, split: Split, mask: NDArray[np.bool_], stream: Stream
) -> tuple[dict[str, int], int]:
    """Write a split anew; return its counts, and how many sentences or documents went."""
    path, gone = folder / f"{split}.txt", 0
    starts = np.load(path.with_suffix(".documents.npy"))
    old = path.rename(path.with_suffix(".before"))
    with old.open(encoding="utf-8") as lines, SplitFile(path) as file:
        for start, end in itertools.pairwise(itertools.chain(starts, [len(mask)])):
            texts = [next(lines).removesuffix("\n") for _ in range(start, end)]
            going = mask[start:end]
            if stream.bilingual:
                going = np.full(len(going), going.any())
            elif stream.corpus.whole_documents:
                sizes, owners = np.array(list(map(len, texts))), np.zeros(len(texts), np.int64)
                going = mostly_lost(going, sizes, owners, 1)[owners]
            gone += bool(going.any()) if stream.bilingual else int(going.sum())
            file.write([text for text, goes in zip(texts, going, strict=True) if not goes])
        counts = file.save()
    old.unlink()
    return counts, gone
