"""The corpus stage: raw text in; clean, distinct sentences out, one a line, in three splits.

For each split there is `SPLIT.txt` (UTF-8, a sentence a line, those of a document together and in
order) and `SPLIT.documents.npy` (int64: the line, counted from 0, at which each document starts).

Text that is no finished corpus goes through the passes of `lingraft data clean`, in this process.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import shutil
from array import array
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft import recipe
from lingraft.corpus.cleaning import clean, scripts
from lingraft.corpus.inputs import digests
from lingraft.corpus.readers import documents
from lingraft.corpus.readers.documents import FINISHED, is_finished
from lingraft.corpus.readers.lines import HOLE, Counts
from lingraft.corpus.result import NOT_IN_SUBSET, PLACES
from lingraft.corpus.split import SPLITS, position
from lingraft.errors import DataError, reading, writing
from lingraft.files import path_of
from lingraft.rundir import read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from lingraft.corpus.split import Split

logger = logging.getLogger(__name__)

KEPT = (
    *("language", "scripts", "sources", "documents", "sentences_in"),
    *("dropped", "changed", "subset", "widened", "notices", "guesses", "splits"),
)
"""Keys of `corpus.json` that the stage tells of a corpus."""
MADE = "made"
"""Folder of the corpus until its splits are written."""
FREE = {"text", "max_train_sentences"}
"""Settings in which a run may differ from the corpus that it takes."""


def read_clean(paths: Iterable[str | Path], section: recipe.Corpus, language: str) -> Iterator[str]:
    """Give normalised sentences of any text, neither filtered nor de-duplicated.

    Args:
        paths: files, directories or 'hub:NAME'.
        section: columns, limits and sentence splitting; its own `text` is not read.
        language: BCP 47 code.

    Raises:
        RecipeError: the language code is not valid.
        DataError: a file cannot be read.
    """
    split = clean.splitter(language, split_sentences=section.split_sentences)
    seen = Counts()
    try:
        paths = list(paths)
        documents.tell(paths)
        for source in documents.laid_out(documents.resolve(paths), section):
            for document in documents.read(source, section, seen):
                yield from (text for text in split(document.text) if HOLE not in text)
    finally:  # also where nobody reads on
        seen.warn()


def prepare(section: recipe.Corpus, language: str, out: Path) -> dict[str, Any]:
    """Read, clean, filter, de-duplicate and split the corpus.

    The same inputs give the same bytes. Adding text moves no document to another split, but for
    the few that a small corpus holds out beyond its shares (`split.bounds`). A corpus that
    `lingraft data clean` made is taken as it is.

    Args:
        section: what to read and what to keep.
        language: BCP 47 code.
        out: an existing folder; gets SPLIT.txt and SPLIT.documents.npy.

    Returns:
        Plain data: language, scripts, sources (name, bytes, documents), documents, sentences_in,
        dropped, changed and subset (counts by reason), splits (documents, sentences, characters),
        widened (splits for which more documents are held out than their shares give), notices (what
        a user should be told of the text, a line each), guesses (how .txt files were read).

    Raises:
        RecipeError: the language or a script is not valid.
        DataError: something cannot be read or written, the text is in another script, or a split
            is empty; a finished corpus was made in another way, or is not the only text.
    """
    from lingraft.corpus.engine import job

    scripts.of_language(language, section.scripts)
    corpus = finished_corpus(section, language)
    mend = "make room or choose another place; nothing was kept"
    with writing(out, mend), contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, out / MADE, ignore_errors=True)
        if corpus is None:
            corpus = out / MADE
            job.make(section, language, corpus)
        files = {n: stack.enter_context(SplitFile(out / f"{n}.txt")) for n in SPLITS}
        result = _take(corpus, section.max_train_sentences, files)
    return {key: result[key] for key in KEPT}


def finished_corpus(section: recipe.Corpus, language: str) -> Path | None:
    """Return the folder of a finished corpus that the text is; None of other text.

    Where the section has a default the corpus decides.

    Raises:
        DataError: it was made in another way than asked for, or there is more text.
    """
    folder = path_of(section.text[0])
    if not any(is_finished(path_of(name)) for name in section.text):
        return None
    if len(section.text) > 1:
        raise DataError(
            f"{', '.join(section.text)}: a finished corpus must be the only text; give all sources "
            "to lingraft data clean, or each corpus a stream of its own"
        )
    record = read_json(folder / FINISHED)
    made = made_with(record).model_dump()
    asked, default = section.model_dump(), recipe.Corpus(text=section.text).model_dump()
    if section.decontaminate:  # by content: files move, and change
        asked["decontaminate"] = digests(section.decontaminate)
        made["decontaminate"] = record.get("evaluations")
    changes = [
        f"corpus.{key}"
        for key in asked
        if key not in FREE and asked[key] not in (made[key], default[key])
    ]
    if record["language"] != language:
        changes.insert(0, "language")
    if changes:
        raise DataError(
            f"{folder}: was made with another {', '.join(changes)}; leave that out, or make it "
            "again with lingraft data clean"
        )
    logger.info("%s: is taken as it is", folder)
    for notice in record["result"].get("notices", ()):
        logger.warning("%s: %s", folder, notice)
    return folder


def made_with(record: dict[str, Any]) -> recipe.Corpus:
    """Return the settings in a `corpus.json`, but for keys that an earlier version had."""
    keys = record["corpus"].keys() & recipe.Corpus.model_fields.keys()
    return recipe.Corpus.model_validate({key: record["corpus"][key] for key in keys})


def is_cut(section: recipe.Corpus) -> bool:
    """Return whether the lines of a corpus are sentences."""
    folder = path_of(section.text[0])
    made = made_with(read_json(folder / FINISHED)) if is_finished(folder) else section
    return made.split_sentences


class SplitFile:
    """File of a split while it is being written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.starts: array[int] = array("q")
        self.sentences = self.characters = 0
        self.file = path.open("wb")

    def __enter__(self) -> SplitFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def write(self, document: Sequence[str]) -> None:
        """Append the sentences of a document, if there are any."""
        if document:
            self.starts.append(self.sentences)
            self.sentences += len(document)
            self.characters += sum(map(len, document))
            self.file.write(("\n".join(document) + "\n").encode())

    def save(self) -> dict[str, int]:
        """Write the document starts; return the counts. Here a full disk shows up."""
        self.file.flush()
        np.save(self.path.with_suffix(".documents.npy"), np.array(self.starts, np.int64))
        return {
            "documents": len(self.starts),
            "sentences": self.sentences,
            "characters": self.characters,
        }


def _take(corpus: Path, n_sentences: int | None, files: dict[Split, SplitFile]) -> dict[str, Any]:
    """Write the splits of a finished corpus in the form that the other stages read.

    Args:
        corpus: its folder.
        n_sentences: so many training sentences, whose order is fixed by document and place in it,
            so that smaller parts are contained in larger ones; None takes all.
        files: of the splits.

    Returns:
        At least what `prepare` does.

    Raises:
        DataError: a split does not hold the sentences that were counted when it was made, as in a
            copy that was broken off.
    """
    record: dict[str, Any] = read_json(corpus / FINISHED)
    result: dict[str, Any] = {"notices": [], "guesses": []} | record["result"]
    section = made_with(record)
    for split, file in files.items():
        count, mask = 0, None
        if split == "train" and n_sentences is not None:
            mask = iter(_subset(corpus / split, section, n_sentences).tolist())
        for _, texts, _ in _documents(corpus / split):
            count += len(texts)
            chosen = list(itertools.islice(mask, len(texts))) if mask else [True] * len(texts)
            if all(chosen) or not section.whole_documents:
                file.write(list(itertools.compress(texts, chosen)))
        if count != (expected := result["splits"][split]["sentences"]):
            raise DataError(
                f"{corpus / split}: holds {count:,} sentences, and {FINISHED} says {expected:,}; "
                "copy the whole corpus again, or make it again"
            )
        if mask:
            result["subset"] = {NOT_IN_SUBSET: count - file.sentences}
            logger.info("corpus: %s left out: %s", f"{count - file.sentences:,}", NOT_IN_SUBSET)
    result["splits"] = {split: file.save() for split, file in files.items()}
    return result


def _subset(folder: Path, section: recipe.Corpus, n_sentences: int) -> NDArray[np.bool_]:
    """Return which training sentences come first in an order of their own, or of their documents.

    Of equal places the first comes first.
    """
    names = (
        name if section.whole_documents else f"{name}#{n}"
        for name, _, places in _documents(folder)
        for n in places
    )
    order = np.array(array("d", (position(n, section.split_seed, "subset") for n in names)))
    if n_sentences >= len(order):
        logger.warning(
            "corpus.max_train_sentences = %s asks for more than the %s training sentences there "
            "are",
            *(f"{n_sentences:,}", f"{len(order):,}"),
        )
        return np.ones(len(order), np.bool_)
    last = np.partition(order, n_sentences - 1)[n_sentences - 1]
    mask: NDArray[np.bool_] = order < last
    mask[np.flatnonzero(order == last)[: n_sentences - int(mask.sum())]] = True
    return mask


def _documents(folder: Path) -> Iterator[tuple[str, list[str], Sequence[int]]]:
    """Give name, sentences and their places in the whole document, of all documents of a split."""
    for shard in sorted(folder.glob("*.jsonl")):
        with reading(shard, "make the corpus again"), shard.open(encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                texts = row["text"].split("\n")
                yield row["id"], texts, row.get(PLACES) or range(len(texts))
