"""The corpus stage: raw text in; clean, distinct sentences out, one a line, in three splits.

For each split there is `SPLIT.txt` (UTF-8, a sentence a line, those of a document together and in
order) and `SPLIT.documents.npy` (int64: the line, counted from 0, at which each document starts).

The passes are those of `lingraft corpus`, one after the other in this process: which of two equal
sentences stays, and how much a small corpus holds out, can be said only when all has been read.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
from typing import TYPE_CHECKING, Any

from lingraft.corpus import finished
from lingraft.corpus.cleaning import sentences
from lingraft.corpus.cleaning.steps import SentenceFilter, document_steps
from lingraft.corpus.engine import duplicates, parts, shards
from lingraft.corpus.engine import plan as planning
from lingraft.corpus.engine.plan import Folder
from lingraft.corpus.engine.summary import add_up
from lingraft.corpus.readers import documents
from lingraft.corpus.readers.lines import EMPTY, Reading
from lingraft.corpus.result import check_result, log_result
from lingraft.corpus.split import SPLITS
from lingraft.corpus.split_file import SplitFile
from lingraft.errors import DataError
from lingraft.log import progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from lingraft import recipe
    from lingraft.corpus.engine.plan import Plan
    from lingraft.log import Ticker

logger = logging.getLogger(__name__)

PROGRESS_EVERY_DOCUMENTS = 256


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
    for source in documents.resolve(paths):
        for document in documents.read(source, section, reading):
            yield from split(document.text)
    for reason, count in reading.dropped.items():
        if reason != EMPTY:
            logger.warning("%s documents left out: %s", f"{count:,}", reason)


def prepare(section: recipe.Corpus, language: str, out: Path) -> dict[str, Any]:
    """Read, clean, filter, de-duplicate and split the corpus.

    The same inputs give the same bytes. Adding text moves no document to another split, but for
    the few that a small corpus holds out beyond its shares (`split.bounds`). A corpus that
    `lingraft corpus` made with the same settings is taken as it is.

    Args:
        section: what to read and what to keep.
        language: BCP 47 code.
        out: an existing folder; gets SPLIT.txt and SPLIT.documents.npy.

    Returns:
        Plain data: language, scripts, sources (name, bytes, documents), documents, sentences_in,
        dropped, changed and subset (counts by reason), splits (documents, sentences, characters),
        widened (splits for which more documents are held out than their shares give).

    Raises:
        RecipeError: the language or a script is not valid.
        DataError: something cannot be read or written, the text is in another script, or a split
            is empty.
    """
    made = finished.corpus_of(section, language)
    if made is not None:
        return finished.adopt(made, section, out)
    judge = SentenceFilter(section, language)
    plan = planning.make(section, language)
    documents.tell(section.text)
    folder, counts = Folder(out), shards.Counts()
    try:
        with contextlib.ExitStack() as stack:
            files = {name: SplitFile(out / f"{name}.txt") for name in SPLITS}
            for file in files.values():
                stack.callback(file.close)
            stack.callback(shutil.rmtree, folder.work, ignore_errors=True)
            folder.save(plan)
            _clean(folder, plan, judge)
            for decide, tasks in duplicates.tasks(plan).values():
                for task in range(tasks):
                    decide(folder, task)
            decisions = duplicates.Decisions(folder)
            for rank in range(len(plan.parts)):
                for row in shards.kept(decisions, rank, counts):
                    files[decisions.side(row["id"])].write(row["sentences"])
            counts.splits = {name: file.save() for name, file in files.items()}
            whole = add_up(folder, plan, counts)
    except OSError as error:
        raise DataError(
            f"{error.filename or out}: cannot be written: {error.strerror or error}; "
            "make room or choose another place; nothing was kept"
        ) from None
    result = {key: whole[key] for key in finished.KEPT}
    log_result(result, section)
    check_result(result, section)
    return result


def _clean(folder: Folder, plan: Plan, judge: SentenceFilter) -> None:
    """Pass 1, over all parts."""
    section, counted = plan.section, parts.Progress()
    on_disk = all(source.path is not None for part in plan.parts for source in part.sources)
    size = sum(part.bytes for part in plan.parts) / 1e6
    before = 0.0
    with progress("corpus", size if on_disk else None, "MB") as ticker:
        for rank, part in enumerate(plan.parts):
            found: Any = parts.documents(part, section, counted)
            found = _watched(found, counted, ticker, before)
            for step in document_steps(section, counted.tally).values():
                found = step(found)
            if section.near_duplicates:
                found = parts.keyed(found, counted)
            parts.write(found, section, judge, counted, folder.part(rank))
            before += sum(source["bytes"] for source in counted.sources) / 1e6
            ticker.update(before)


def _watched(
    found: Iterable[Any], counted: parts.Progress, ticker: Ticker, before: float
) -> Iterator[Any]:
    for document in found:
        if counted.reading.documents % PROGRESS_EVERY_DOCUMENTS == 0:
            ticker.update(before + counted.reading.bytes_read / 1e6)
        yield document
