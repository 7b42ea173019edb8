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
from lingraft.corpus.cleaning import scripts, sentences
from lingraft.corpus.inputs import digests
from lingraft.corpus.readers import documents
from lingraft.corpus.readers.folders import FINISHED, is_finished
from lingraft.corpus.readers.lines import HOLE, Reading
from lingraft.corpus.result import NOT_IN_SUBSET, PLACES
from lingraft.corpus.split import SPLITS, position
from lingraft.errors import DataError, writing
from lingraft.paths import path_of
from lingraft.rundir import read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from lingraft.corpus.split import Split

logger = logging.getLogger(__name__)

KEPT = (
    *("language", "scripts", "sources", "documents", "sentences_in"),
    *("dropped", "changed", "subset", "widened", "notices", "guesses", "splits"),
)
"""What the stage tells of a corpus, of all that stands in `corpus.json`."""
MADE = "made"
"""Folder of the corpus until its splits are written."""
FREE = {"text", "max_train_sentences"}
"""Settings in which a run may differ from the corpus that it takes."""


def read_clean(paths: Iterable[str | Path], section: recipe.Corpus, language: str) -> Iterator[str]:
    """Normalised sentences of any text, neither filtered nor de-duplicated.

    Args:
        paths: files, directories or 'hub:NAME'.
        section: columns, limits and sentence splitting; its own `text` is not read.
        language: BCP 47 code.

    Raises:
        RecipeError: the language code is not valid.
        DataError: a file cannot be read.
    """
    split = sentences.splitter(language, split_sentences=section.split_sentences)
    reading = Reading()
    try:
        paths = list(paths)
        documents.tell(paths)
        for source in documents.laid_out(documents.resolve(paths), section):
            for document in documents.read(source, section, reading):
                yield from (text for text in split(document.text) if HOLE not in text)
    finally:  # also where nobody reads on
        reading.warn()


def prepare(section: recipe.Corpus, language: str, out: Path) -> dict[str, Any]:
    """Read, clean, filter, de-duplicate and split the corpus.

    The same inputs give the same bytes. Adding text moves no document to another split, but for
    the few that a small corpus holds out beyond its shares (`split.bounds`). A corpus that
    `lingraft data clean` made with the same settings is taken as it is.

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
            is empty.
    """
    scripts.of_language(language, section.scripts)
    from lingraft.corpus.engine import job

    corpus, limit = finished_corpus(section, language), section.max_train_sentences
    mend = "make room or choose another place; nothing was kept"
    with writing(out, mend, inside=True), contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, out / MADE, ignore_errors=True)
        if corpus is None:
            corpus, limit = out / MADE, None
            job.make(section, language, corpus)
        files = {n: stack.enter_context(SplitFile(out / f"{n}.txt")) for n in SPLITS}
        result = _take(corpus, limit, files)
    return {key: result[key] for key in KEPT}


def finished_corpus(section: recipe.Corpus, language: str) -> Path | None:
    """The folder of a finished corpus that the text is, if its settings are those asked for.

    Where the section has a default the corpus decides. With other settings than the corpus's its
    documents are read and cleaned like any others. Both are logged.
    """
    folder = path_of(section.text[0])
    if len(section.text) != 1 or not is_finished(folder):
        return None
    record = read_json(folder / FINISHED)
    actual = recipe.Corpus.model_validate(record["corpus"]).model_dump()
    expected, default = section.model_dump(), recipe.Corpus(text=section.text).model_dump()
    if section.decontaminate:  # by content: files move, and change
        expected["decontaminate"] = digests(section.decontaminate)
        actual["decontaminate"] = record.get("evaluations")
    differ = [key for key in expected if expected[key] != actual[key] and key not in FREE]
    changes = [f"corpus.{key}" for key in differ if expected[key] != default[key]]
    if record["language"] != language:
        changes.insert(0, "language")
    if changes:
        logger.info("%s: was made with another %s; is cleaned again", folder, ", ".join(changes))
        if actual["split_sentences"] and not expected["split_sentences"]:
            logger.warning(
                "%s: its lines were cut into sentences, and stay so; make it with "
                "split_sentences=false",
                folder,
            )
        return None
    settings = ", ".join(f"{key} = {actual[key]}" for key in differ) or "the default settings"
    logger.info("%s: is taken as it is, made with %s", folder, settings)
    for notice in record["result"].get("notices", ()):
        logger.warning("%s: %s", folder, notice)
    return folder


class SplitFile:
    """One split while it is being written."""

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
        """Write the document starts; the counts. What a full disk refuses shows up here."""
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
    """
    record: dict[str, Any] = read_json(corpus / FINISHED)
    result: dict[str, Any] = record["result"]
    for split, file in files.items():
        rows = _documents(corpus / split)
        if split == "train" and n_sentences is not None:
            section = recipe.Corpus.model_validate(record["corpus"])
            names = (
                name if section.whole_documents else f"{name}#{n}"
                for name, _, at in rows
                for n in at
            )
            positions = array("d", (position(n, section.split_seed, "subset") for n in names))
            from lingraft.corpus.engine.decisions import lowest

            mask = lowest(np.array(positions, np.float64), n_sentences)
            _check_whole(corpus, split, len(mask), result)
            choice = iter(mask.tolist())
            for _, texts, _ in _documents(corpus / split):
                chosen = list(itertools.islice(choice, len(texts)))
                if all(chosen) or not section.whole_documents:
                    file.write(list(itertools.compress(texts, chosen)))
            left_out = result["subset"].get(NOT_IN_SUBSET, 0) + len(mask) - file.sentences
            result["subset"] = {NOT_IN_SUBSET: left_out}
        else:
            for _, texts, _ in rows:
                file.write(texts)
            _check_whole(corpus, split, file.sentences, result)
    result["splits"] = {split: file.save() for split, file in files.items()}
    return {"notices": [], "guesses": []} | result


def _check_whole(corpus: Path, split: Split, n_sentences: int, result: dict[str, Any]) -> None:
    """Refuse a corpus of which something is missing, as in a copy that was broken off.

    Raises:
        DataError: a split does not hold the sentences that were counted when it was made.
    """
    expected = result["splits"][split]["sentences"]
    if n_sentences != expected:
        raise DataError(
            f"{corpus / split}: holds {n_sentences:,} sentences, and {FINISHED} says "
            f"{expected:,}; copy the whole corpus again, or make it again"
        )


def _documents(folder: Path) -> Iterator[tuple[str, list[str], Sequence[int]]]:
    """Name, sentences and their places in the whole document, of every document of a split."""
    for shard in sorted(folder.glob("*.jsonl")):
        with shard.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    row = json.loads(line)
                    texts = row["text"].split("\n")
                    yield row["id"], texts, row.get(PLACES) or range(len(texts))
                except (ValueError, KeyError, TypeError, AttributeError):
                    raise DataError(
                        f"{shard}: line {number} is no document; make the corpus again"
                    ) from None
