"""The corpus stage of a stream of sentence pairs: a document is a pair, its two sides two lines.

So whoever reads sentences reads both sides, and whoever reads documents reads pairs.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from lingraft.corpus import aligned
from lingraft.corpus.readers import parallel
from lingraft.corpus.readers.lines import Reading
from lingraft.corpus.result import check_result, log_result
from lingraft.corpus.split import SPLITS, split_of
from lingraft.corpus.stage import SplitFile

if TYPE_CHECKING:
    from pathlib import Path

    from lingraft import recipe

SETTINGS = aligned.PAIR_SETTINGS | {"valid", "test", "split_seed"}


def prepare(section: recipe.Corpus, languages: tuple[str, str], out: Path) -> dict[str, Any]:
    """Read, check and split sentence pairs; which split a pair goes to is a function of its text.

    Args:
        section: files, limits, shares held out.
        languages: of the first side and of the second, as the files write them.
        out: an existing folder; gets SPLIT.txt and SPLIT.documents.npy.

    Returns:
        As `stage.prepare`.

    Raises:
        RecipeError: a language is not valid, or a setting does not go with pairs.
        DataError: a file cannot be read, or a split is empty.
    """
    aligned.check_settings(section, SETTINGS, "sentence pairs")
    reading = Reading()
    checker, found = aligned.checked(section, languages, (0, 1), reading)
    with contextlib.ExitStack() as stack:
        files = {name: stack.enter_context(SplitFile(out / f"{name}.txt")) for name in SPLITS}
        for pair in found:
            sides = [" ".join(side.split()) for side in (pair.source, pair.target)]
            side = split_of("\t".join(sides), section.split_seed, section.valid, section.test)
            files[side].write(sides)
        splits = {name: file.save() for name, file in files.items()}
    scripts = dict.fromkeys((*checker.source_scripts, *checker.target_scripts))
    result = {
        "language": "-".join(languages),
        "scripts": list(scripts),
        "sources": [
            {"name": str(path), "bytes": path.stat().st_size, "documents": None}
            for path in parallel.files(section.text, parallel.Layout(*languages))
        ],
        "documents": reading.documents,
        "sentences_in": 2 * reading.documents,
        "dropped": dict(sorted((checker.dropped + reading.dropped).items())),
        "changed": {},
        "subset": {},
        "widened": [],
        "splits": splits,
    }
    log_result(result, section)
    check_result(result, section)
    return result
