"""Make parallel text and lexicons of many formats into one: `target TAB source`, checked.

`[embeddings]` of a recipe reads that form. Behind it stands the corpus stage of a stream of
sentence pairs: a document is a pair, its two sides two lines. So whoever reads sentences reads both
sides, and whoever reads documents reads pairs.

Read bilingual lexicons: the words of the source language that a target word means.

Read from tab-separated columns, or from MUSE's two words with a space (Conneau et al. 2018).
"""

from __future__ import annotations

import contextlib
import logging
from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.corpus import pairs
from lingraft.corpus.cleaning import scripts
from lingraft.corpus.cleaning.clean import normalise
from lingraft.corpus.cleaning.scripts import LanguageIdentifier
from lingraft.corpus.pairs import Pair
from lingraft.corpus.readers import lines, parallel
from lingraft.corpus.readers.lines import REPLACEMENT_CHARACTER, Counts, text_lines
from lingraft.corpus.result import check_result, log_result
from lingraft.corpus.split import SPLITS, SplitBounds, bounds, position, widened
from lingraft.corpus.stage import SplitFile
from lingraft.errors import DataError, RecipeError
from lingraft.files import path_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from lingraft import recipe


logger = logging.getLogger(__name__)

PAIR_SETTINGS = {"text", "max_characters", "scripts", "identify_language"}
STREAM_SETTINGS = PAIR_SETTINGS | {"valid", "test", "split_seed"}


def write_pairs(
    section: recipe.Corpus, languages: tuple[str, str], columns: tuple[int, int], path: Path
) -> dict[str, Any]:
    """Read parallel text, check it, and write it as TSV.

    Args:
        section: files, limits, and whether languages are identified.
        languages: of the source side and of the target side, as the files write them.
        columns: of a TSV file, those of source and target.
        path: replaced if it is there.

    Returns:
        read, dropped (by reason) and kept.

    Raises:
        RecipeError: a language is not valid, or a setting does not go with parallel text, or
            columns with its files.
        DataError: a file cannot be read or written, or no pair is left.
    """
    check_settings(section, PAIR_SETTINGS, "parallel text")
    files = parallel.files(section.text, languages)
    if columns != (0, 1) and not any(lines.kind(file) == ".tsv" for file in files):
        raise RecipeError("columns: is for .tsv files; in others the languages name the sides")
    reading = Counts()
    checker, good = checked(section, languages, columns, reading)
    return _write(good, path, (checker.dropped, reading.dropped))


def checked(
    section: recipe.Corpus, languages: tuple[str, str], columns: tuple[int, int], reading: Counts
) -> tuple[pairs.Checker, Iterator[pairs.Pair]]:
    """Return what counts bad pairs, and the good ones of parallel text; arguments as `write_pairs`.

    Raises:
        RecipeError: a language is not valid.
        DataError: a file cannot be read; as the pairs are asked for.
    """
    source, target = languages
    own = scripts.of_language(source), scripts.of_language(target, section.scripts)
    checker = pairs.Checker(*own, section.max_characters)
    if section.identify_language:
        checker.source_foreign = LanguageIdentifier(source).foreign
        checker.target_foreign = LanguageIdentifier(target).foreign
    return checker, checker.check(parallel.read(section.text, languages, reading, columns))


def write_lexicon(
    section: recipe.Corpus, languages: tuple[str, str], columns: tuple[int, int], path: Path
) -> dict[str, Any]:
    """Read lexicons, check them, and write them as TSV; arguments as `write_pairs`.

    Raises:
        RecipeError: a language or a column is not valid, or a setting does not go with a lexicon.
        DataError: a file cannot be read or written, or no pair is left.
    """
    check_settings(section, {"text"}, "a lexicon")
    if set(columns) != {0, 1}:
        raise RecipeError("columns: a lexicon has two, [0,1] or [1,0]")
    for language in languages:
        scripts.of_language(language, warn=False)
    found = read_lexicon(section.text, swap=columns[0] < columns[1])
    return _write(found.pairs, path, (found.dropped,))


def check_settings(section: recipe.Corpus, allowed: set[str], kind: str) -> None:
    """Refuse settings of [corpus] that would have no effect.

    Raises:
        RecipeError: one is given.
    """
    for name in section.model_dump(exclude_defaults=True):
        if name not in allowed:
            raise RecipeError(
                f"corpus.{name}: does not go with {kind}; allowed: {', '.join(sorted(allowed))}"
            )


def _write(found: Iterable[Pair], path: Path, dropped: Sequence[Counter[str]]) -> dict[str, Any]:
    """Write pairs; log and return their counts."""
    n_kept = pairs.write_tsv(found, path, dropped)
    reasons = dict(sorted(sum(dropped, Counter()).items()))
    counts = {"read": n_kept + sum(reasons.values()), "dropped": reasons, "kept": n_kept}
    for reason, count in reasons.items():
        logger.info("pairs: %s left out: %s", f"{count:,}", reason)
    logger.info("pairs: %s of %s kept", f"{n_kept:,}", f"{counts['read']:,}")
    return counts


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
    limits = SplitBounds(section.test, section.test + section.valid)
    counts, places = _divide(section, languages, limits, out)
    wider = bounds(np.array(places), section.valid, section.test)
    if wider != limits:  # few pairs: more are held out than the shares give
        counts, _ = _divide(section, languages, wider, out)
    result = counts | {
        "language": "-".join(languages),
        "sources": [
            {"name": str(path), "bytes": path.stat().st_size, "documents": None}
            for path in parallel.files(section.text, languages)
        ],
        "sentences_in": 2 * counts["documents"],
        "changed": {},
        "subset": {},
        "widened": widened(wider, section.valid, section.test),
        "notices": [],
        "guesses": [],
    }
    log_result(result, section)
    check_result(result, section)
    return result


def _divide(
    section: recipe.Corpus, languages: tuple[str, str], limits: SplitBounds, out: Path
) -> tuple[dict[str, Any], array[float]]:
    """Write the splits; return counts, and the places of the pairs in [0, 1)."""
    reading, places = Counts(), array("d")
    checker, good = checked(section, languages, (0, 1), reading)
    with contextlib.ExitStack() as stack:
        files = {name: stack.enter_context(SplitFile(out / f"{name}.txt")) for name in SPLITS}
        for pair in good:
            sides = [" ".join(side.split()) for side in (pair.source, pair.target)]
            places.append(position("\t".join(sides), section.split_seed))
            files[limits.side(places[-1])].write(sides)
        counts = {
            "scripts": list(dict.fromkeys((*checker.source_scripts, *checker.target_scripts))),
            "documents": reading.documents,
            "dropped": dict(sorted((checker.dropped + reading.dropped).items())),
            "splits": {name: file.save() for name, file in files.items()},
        }
    return counts, places


NOT_TWO_COLUMNS, EMPTY = "not two columns", "an empty side"
TOO_LONG, DAMAGED, DUPLICATE = "longer than a word or phrase", "damaged characters", "duplicate"
MAX_CHARACTERS = 100


@dataclass(frozen=True)
class Lexicon:
    """Words with their translations."""

    pairs: list[Pair]
    """Normalised, in the order of the files, each once."""
    translations: dict[str, list[str]]
    """For a target word its translations, in the order of the files, each once."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Lines and entries left out, by reason."""


def _reason(entry: Pair) -> str | None:
    if not all(entry):
        return EMPTY
    if max(map(len, entry)) > MAX_CHARACTERS:
        return TOO_LONG
    return DAMAGED if any(REPLACEMENT_CHARACTER in side for side in entry) else None


def read_lexicon(names: Sequence[str | Path], *, swap: bool = False) -> Lexicon:
    """Read lexicon files.

    Args:
        names: text files, perhaps compressed, of two columns with a tab between them, or of two
            words with space.
        swap: False where the word of the target language comes first, True
            where that of the source language does.

    Returns:
        Every pair once; `dropped` counts what was left out.

    Raises:
        DataError: a file cannot be read, or no pair is usable.
    """
    reading, lexicon, entries = Counts(), Lexicon([], {}), set[Pair]()
    for line in (line for name in names for line in text_lines(path_of(name), reading)):
        cells = line.split("\t") if "\t" in line else line.split()
        if len(cells) != 2:
            if cells:
                reading.drop(NOT_TWO_COLUMNS)
            continue
        entry = Pair(normalise(cells[swap]), normalise(cells[not swap]))
        if reason := DUPLICATE if entry in entries else _reason(entry):
            lexicon.dropped[reason] += 1
            continue
        entries.add(entry)
        lexicon.pairs.append(entry)
        lexicon.translations.setdefault(entry.target, []).append(entry.source)
    lexicon.dropped.update(reading.dropped)
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in lexicon.dropped.items())
    if not lexicon.pairs:
        raise DataError(
            f"{names[0]}: holds no pair of words (left out: {reasons or 'none'}); give two columns "
            "separated by a tab (scripts/convert_dictionary.py makes them of FreeDict and StarDict)"
        )
    logger.info("lexicon: %s pairs; left out: %s", f"{len(lexicon.pairs):,}", reasons or "none")
    return lexicon
