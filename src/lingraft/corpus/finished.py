"""A corpus that `lingraft corpus` made, taken into a run as it is."""

from __future__ import annotations

import contextlib
import json
import logging
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft import recipe
from lingraft.corpus import evaluations
from lingraft.corpus.readers import FINISHED
from lingraft.corpus.split import SPLITS, position
from lingraft.corpus.split_file import SplitFile, cut
from lingraft.errors import DataError
from lingraft.rundir import read_json

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = logging.getLogger(__name__)

NOT_IN_SUBSET = "not in the subset"
FREE = {"text", "sentences"}
"""Settings in which a run may differ from the corpus that it takes."""


def corpus_of(section: recipe.Corpus, language: str) -> Path | None:
    """The folder of a finished corpus that the text is, if it was made with the same settings.

    With other settings its documents are read and cleaned like any others, which is logged.
    """
    if len(section.text) != 1:
        return None
    folder = Path(section.text[0]).expanduser()
    if not (folder / FINISHED).is_file():
        return None
    made = read_json(folder / FINISHED)
    theirs = evaluations.located(recipe.Corpus.model_validate(made["corpus"])).model_dump()
    ours = evaluations.located(section).model_dump()
    other = [f"corpus.{k}" for k in ours if ours[k] != theirs[k] and k not in FREE]
    if made["language"] != language:
        other.insert(0, "language")
    if other:
        logger.info("%s: was made with another %s; is cleaned again", folder, ", ".join(other))
        return None
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
    result: dict[str, Any] = read_json(folder / FINISHED)["result"]
    positions: array[float] = array("d")
    counts = {}
    try:
        for split in SPLITS:
            file = SplitFile(out / f"{split}.txt")
            with contextlib.closing(file):
                for name, sentences in _documents(folder / split):
                    file.write(sentences)
                    if split == "train" and section.sentences is not None:
                        seed = section.split_seed
                        positions.extend(
                            position(f"{name}#{index}", seed, "subset")
                            for index in range(len(sentences))
                        )
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
    kept = ("language", "scripts", "sources", "documents", "sentences_in", "dropped", "changed")
    return {key: result[key] for key in (*kept, "subset")} | {"splits": counts}


def _documents(folder: Path) -> Iterator[tuple[str, list[str]]]:
    for shard in sorted(folder.glob("*.jsonl")):
        with shard.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    row = json.loads(line)
                    yield row["id"], row["text"].split("\n")
                except (ValueError, KeyError, TypeError, AttributeError):
                    raise DataError(
                        f"{shard}: line {number} is no document; make the corpus again"
                    ) from None
