"""A corpus that `lingraft corpus` made, taken into a run as it is."""

from __future__ import annotations

import contextlib
import json
import logging
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft import recipe
from lingraft.corpus.cleaning import evaluations
from lingraft.corpus.readers.documents import FINISHED, is_finished
from lingraft.corpus.split import SPLITS, position
from lingraft.corpus.split_file import SplitFile, cut
from lingraft.errors import DataError
from lingraft.rundir import read_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

logger = logging.getLogger(__name__)

NOT_IN_SUBSET = "not in the subset"
PLACES = "places"
"""Of a row: the places of its sentences in the whole document, where some were left out."""
KEPT = (
    *("language", "scripts", "sources", "documents", "sentences_in"),
    *("dropped", "changed", "subset", "widened", "splits"),
)
"""What the corpus stage tells of a corpus, of all that stands in `corpus.json`."""
FREE = {"text", "sentences"}
"""Settings in which a run may differ from the corpus that it takes."""


def corpus_of(section: recipe.Corpus, language: str) -> Path | None:
    """The folder of a finished corpus that the text is, if its settings are those asked for.

    Where the section has a default the corpus decides. With other settings than the corpus's its
    documents are read and cleaned like any others. Both are logged.
    """
    if len(section.text) != 1:
        return None
    folder = Path(section.text[0]).expanduser()
    if not is_finished(folder):
        return None
    made = read_json(folder / FINISHED)
    theirs = evaluations.located(recipe.Corpus.model_validate(made["corpus"])).model_dump()
    ours = evaluations.located(section).model_dump()
    default = recipe.Corpus(text=section.text).model_dump()
    differ = [key for key in ours if ours[key] != theirs[key] and key not in FREE]
    other = [f"corpus.{key}" for key in differ if ours[key] != default[key]]
    if made["language"] != language:
        other.insert(0, "language")
    if other:
        logger.info("%s: was made with another %s; is cleaned again", folder, ", ".join(other))
        return None
    settings = ", ".join(f"{key} = {theirs[key]}" for key in differ) or "the default settings"
    logger.info("%s: is taken as it is, made with %s", folder, settings)
    return folder


def adopt(folder: Path, section: recipe.Corpus, out: Path) -> dict[str, Any]:
    """Write the splits of a finished corpus in the form that the other stages read.

    Args:
        folder: of the corpus.
        section: `sentences` asks for a part of the training sentences; their order is fixed by
            document and place in it, so that smaller parts are contained in larger ones.
        out: an existing folder; gets SPLIT.txt and SPLIT.documents.npy.

    Returns:
        As `stage.prepare`.

    Raises:
        DataError: a shard is broken or cannot be read, or the splits cannot be written.
    """
    made: dict[str, Any] = read_json(folder / FINISHED)
    result, seed = made["result"], recipe.Corpus.model_validate(made["corpus"]).split_seed
    positions: array[float] = array("d")
    counts = {}
    try:
        for split in SPLITS:
            file = SplitFile(out / f"{split}.txt")
            with contextlib.closing(file):
                for name, sentences, places in _documents(folder / split):
                    file.write(sentences)
                    if split == "train" and section.sentences is not None:
                        positions.extend(position(f"{name}#{n}", seed, "subset") for n in places)
            counts[split] = file.save()
            if split == "train" and section.sentences is not None:
                before = counts[split]["sentences"]
                counts[split] = cut(file, positions, section.sentences)
                left_out = before - counts[split]["sentences"]
                result["subset"] = {NOT_IN_SUBSET: left_out}
    except OSError as error:
        raise DataError(
            f"{error.filename or out}: cannot be read or written: {error.strerror or error}; "
            "nothing was kept"
        ) from None
    result["splits"] = counts
    return {key: result[key] for key in KEPT if key in result}


def _documents(folder: Path) -> Iterator[tuple[str, list[str], Sequence[int]]]:
    """Name, sentences and their places in the whole document, of every document of a split."""
    for shard in sorted(folder.glob("*.jsonl")):
        with shard.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    row = json.loads(line)
                    sentences = row["text"].split("\n")
                    yield row["id"], sentences, row.get(PLACES) or range(len(sentences))
                except (ValueError, KeyError, TypeError, AttributeError):
                    raise DataError(
                        f"{shard}: line {number} is no document; make the corpus again"
                    ) from None
