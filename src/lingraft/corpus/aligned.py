"""Parallel text and lexicons out of many formats into one: `target TAB source`, checked.

`[embeddings]` of a recipe reads that form. Behind it stands the corpus stage of a stream of
sentence pairs: a document is a pair, its two sides two lines. So whoever reads sentences reads both
sides, and whoever reads documents reads pairs.
"""

from __future__ import annotations

import collections
import contextlib
import logging
from array import array
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lingraft.corpus import lexicon, pairs
from lingraft.corpus.cleaning import scripts
from lingraft.corpus.cleaning.language_id import LanguageIdentifier
from lingraft.corpus.readers import lines, parallel
from lingraft.corpus.readers.lines import Reading
from lingraft.corpus.result import check_result, log_result
from lingraft.corpus.split import SPLITS, Bounds, bounds, position, widened
from lingraft.corpus.stage import SplitFile
from lingraft.errors import DataError, RecipeError, writing
from lingraft.paths import path_of
from lingraft.rundir import clear_temporary, write_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from lingraft import recipe
    from lingraft.corpus.pairs import Checker
    from lingraft.corpus.split import Split

logger = logging.getLogger(__name__)

PAIRS, LEXICON, COUNTS = "pairs.tsv", "lexicon.tsv", "counts.json"
PAIR_SETTINGS = {
    "text", "max_characters", "max_line_bytes", "min_script_share", "scripts", "identify_language",
    "min_language_probability",
}  # fmt: skip


def write_pairs(
    section: recipe.Corpus,
    languages: tuple[str, str],
    columns: tuple[int, int],
    folder: Path,
    *,
    force: bool = False,
) -> dict[str, Any]:
    """Read parallel text, check it, and write `folder/pairs.tsv` and `folder/counts.json`.

    Args:
        section: files, limits, and whether languages are identified.
        languages: of the source side and of the target side, as the files write them.
        columns: of a TSV file, those of source and target.
        folder: made if it is not there.
        force: replace a file that is there.

    Returns:
        read, dropped (by reason) and kept.

    Raises:
        RecipeError: a language is not valid, or a setting does not go with parallel text.
        DataError: a file cannot be read or written, no pair is left, or there is another file.
    """
    check_settings(section, PAIR_SETTINGS, "parallel text")
    reading = Reading()
    checker, checked_pairs = checked(section, languages, columns, reading)
    files = parallel.files(section.text, parallel.Layout(*languages))
    if columns != (0, 1) and not any(lines.kind(path) == ".tsv" for path in files):
        raise RecipeError(
            "columns: is for .tsv files; in others the languages say which side is which"
        )
    _check_free(folder, PAIRS, files, force=force)
    return _write(checked_pairs, folder, PAIRS, checker.dropped, reading.dropped)


def checked(
    section: recipe.Corpus, languages: tuple[str, str], columns: tuple[int, int], reading: Reading
) -> tuple[pairs.Checker, Iterator[pairs.Pair]]:
    """The good pairs of parallel text, and what counts the others; arguments as `write_pairs`.

    Raises:
        RecipeError: a language is not valid.
        DataError: a file cannot be read; as the pairs are asked for.
    """
    source, target = languages
    layout = parallel.Layout(source, target, columns, section.max_line_bytes)
    checker = pairs.Checker(
        scripts.of_language(source),
        scripts.of_language(target, section.scripts),
        section.max_characters,
        section.min_script_share,
    )
    if section.identify_language:
        probability = section.min_language_probability
        checker.source_foreign = LanguageIdentifier(source, probability).foreign
        checker.target_foreign = LanguageIdentifier(target, probability).foreign
    return checker, checker.check(parallel.read(section.text, layout, reading))


def write_lexicon(
    section: recipe.Corpus,
    languages: tuple[str, str],
    columns: tuple[int, int],
    folder: Path,
    *,
    force: bool = False,
) -> dict[str, Any]:
    """Read lexicons, check them, and write `folder/lexicon.tsv` and `folder/counts.json`.

    Args:
        section: the files.
        languages: of the source and of the target.
        columns: those of source and target; also says whether headwords are of the source.
        folder: made if it is not there.
        force: replace a file that is there.

    Returns:
        read, dropped (by reason) and kept.

    Raises:
        RecipeError: a language is not valid, or a setting does not go with a lexicon.
        DataError: a file cannot be read or written, no pair is left, there is another file, or
            more words would fit their languages' scripts if the sides were swapped.
    """
    check_settings(section, {"text"}, "a lexicon")
    source, target = map(scripts.of_language, languages)
    checker = pairs.Checker(source, target)
    wide = set(columns) != {0, 1}
    swap = wide or columns[0] < columns[1]
    translations = lexicon.read(section.text, swap=swap, columns=columns if wide else None)
    collections.deque(checker.check(translations.pairs), maxlen=0)  # refuses swapped sides
    _check_free(folder, LEXICON, [path_of(name) for name in section.text], force=force)
    return _write(translations.pairs, folder, LEXICON, translations.dropped)


def check_settings(section: recipe.Corpus, allowed: set[str], kind: str) -> None:
    """Refuse settings of [corpus] that would have no effect.

    Raises:
        RecipeError: one is given.
    """
    settings = section.model_dump(exclude_defaults=True)
    for name in settings:
        if name not in allowed:
            raise RecipeError(
                f"corpus.{name}: does not go with {kind}; allowed: {', '.join(sorted(allowed))}"
            )


def _check_free(folder: Path, name: str, files: Sequence[Path], *, force: bool) -> None:
    """Refuse to replace a file that is there, unless it may be, or a source.

    Raises:
        DataError: it would be replaced.
    """
    sources = {file.resolve() for file in files}
    for output in (folder / name, folder / COUNTS):
        if output.resolve() in sources:
            raise DataError(f"{output}: is a source, and would be replaced; choose another --out")
        if output.exists() and not force:
            raise DataError(
                f"{output}: is there already; choose another --out, or replace it with --force"
            )


def _write(
    found: Iterable[pairs.Pair], folder: Path, name: str, *dropped: Counter[str]
) -> dict[str, Any]:
    """Write pairs and their counts; log and return these.

    Raises:
        DataError: no pair is left, or a file cannot be written.
    """
    with writing(folder, "choose another --out"):
        folder.mkdir(parents=True, exist_ok=True)
        clear_temporary(folder)
    n_kept = pairs.write_tsv(_some(found, folder, dropped), folder / name)
    reasons = dict(sorted(sum(dropped, Counter()).items()))
    counts = {"read": n_kept + sum(reasons.values()), "dropped": reasons, "kept": n_kept}
    write_json(folder / COUNTS, counts)
    for reason, count in reasons.items():
        logger.info("pairs: %s left out: %s", f"{count:,}", reason)
    logger.info("pairs: %s of %s kept", f"{n_kept:,}", f"{counts['read']:,}")
    return counts


def _some(
    checked_pairs: Iterable[pairs.Pair], folder: Path, dropped: Iterable[Counter[str]]
) -> Iterator[pairs.Pair]:
    """Give the pairs; an error in place of none, before a file that is there is replaced."""
    empty = True
    for pair in checked_pairs:
        empty = False
        yield pair
    if empty:
        counts = sum(dropped, Counter()).items()
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in counts) or "none"
        raise DataError(
            f"{folder}: no pair is left (dropped: {reasons}); check the files, the languages and "
            "the columns"
        )


STREAM_SETTINGS = PAIR_SETTINGS | {"valid", "test", "split_seed"}


def check_stream(section: recipe.Corpus) -> None:
    """Refuse settings of [corpus] that would have no effect on sentence pairs.

    Raises:
        RecipeError: one is given.
    """
    check_settings(section, STREAM_SETTINGS, "sentence pairs")


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
    check_stream(section)
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
        "notices": [],
        "guesses": [],
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
    checker, pairs = checked(section, languages, (0, 1), reading)
    with contextlib.ExitStack() as stack:
        files = {name: stack.enter_context(SplitFile(out / f"{name}.txt")) for name in SPLITS}
        for pair in pairs:
            sides = [" ".join(side.split()) for side in (pair.source, pair.target)]
            places.append(position("\t".join(sides), section.split_seed))
            files[limits.side(places[-1])].write(sides)
        return _Divided(checker, reading, places, {n: file.save() for n, file in files.items()})
