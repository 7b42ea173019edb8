"""The corpus stage of a stream of sentence pairs: a document is a pair, its two sides two lines.

So whoever reads sentences reads both sides, and whoever reads documents reads pairs.
"""

from __future__ import annotations

import contextlib
from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lingraft.corpus import aligned
from lingraft.corpus.readers import parallel
from lingraft.corpus.readers.lines import Reading
from lingraft.corpus.result import check_result, log_result
from lingraft.corpus.split import SPLITS, Bounds, bounds, position, widened
from lingraft.corpus.stage import SplitFile

if TYPE_CHECKING:
    from pathlib import Path

    from lingraft import recipe
    from lingraft.corpus.pairs import Checker
    from lingraft.corpus.split import Split

SETTINGS = aligned.PAIR_SETTINGS | {"valid", "test", "split_seed"}


def check(section: recipe.Corpus) -> None:
    """Refuse settings of [corpus] that would have no effect on sentence pairs.

    Raises:
        RecipeError: one is given.
    """
    aligned.check_settings(section, SETTINGS, "sentence pairs")


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
    check(section)
    limits = Bounds(section.test, section.test + section.valid)
    divided = _divide(section, languages, limits, out)
    wider = bounds(np.array(divided.places), section.valid, section.test)
    if wider != limits:  # few pairs: more are held out than the shares give
        divided = _divide(section, languages, wider, out)
    checker, reading = divided.checker, divided.reading
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
        "widened": widened(wider, section.valid, section.test),
        "splits": divided.splits,
    }
    log_result(result, section)
    check_result(result, section)
    return result


class _Divided(NamedTuple):
    checker: Checker
    reading: Reading
    places: array[float]
    """Of the pairs in [0, 1)."""
    splits: dict[Split, dict[str, int]]


def _divide(
    section: recipe.Corpus, languages: tuple[str, str], limits: Bounds, out: Path
) -> _Divided:
    reading, places = Reading(), array("d")
    checker, pairs = aligned.checked(section, languages, (0, 1), reading)
    with contextlib.ExitStack() as stack:
        files = {name: stack.enter_context(SplitFile(out / f"{name}.txt")) for name in SPLITS}
        for pair in pairs:
            sides = [" ".join(side.split()) for side in (pair.source, pair.target)]
            places.append(position("\t".join(sides), section.split_seed))
            files[limits.side(places[-1])].write(sides)
        return _Divided(checker, reading, places, {n: file.save() for n, file in files.items()})
