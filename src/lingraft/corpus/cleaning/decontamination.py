"""Drop training sentences that occur in the texts of an evaluation.

A sentence goes when it shares 13 words in a row with an evaluation text (Brown et al. 2020,
arXiv 2005.14165, appendix C), or, since many sentences and questions are shorter than that, when
the whole of it is an evaluation text or a sentence of one. Whole sentences are compared by their
letters and digits alone, since Korean reviews are spaced in any way.
"""

from __future__ import annotations

import csv
import itertools
import json
import logging
import unicodedata
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import regex

from lingraft.corpus.cleaning import duplicates
from lingraft.corpus.cleaning.clean import normalise
from lingraft.corpus.readers import documents
from lingraft.corpus.readers.columns import opened_parquet
from lingraft.corpus.readers.layout import joined, width_of, words_of
from lingraft.corpus.readers.lines import (
    Counts,
    delimiter_of,
    kind,
    opened,
    reading_errors,
    text_lines,
)
from lingraft.errors import DataError
from lingraft.files import path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

logger = logging.getLogger(__name__)

FORMATS = (".txt", ".tsv", ".csv", ".json", ".jsonl", ".parquet")

NGRAM_WORDS = 13
MIN_LETTERS = 4
"""Shorter sentences and cells ("Yes.", "1", a label) say nothing of the evaluation they are in.

Counted in letters, since words depend on the spacing; so low, since a corpus holds a sentence once,
so that one dropped without need is no loss.
"""
RUN_SENTENCES = 5
"""A text of so many sentences is found too where it was cut into them."""


class Evaluations:
    """Hashes of the runs of words and the sentences of evaluation texts.

    Compared are words in NFKC without case, punctuation and invisible characters (see `words`; in
    Chinese and Japanese 13 words are 13 characters, in Thai 52: see `measured`), and the letters of
    whole sentences (see `letters`). Memory: 8 bytes a word of the evaluation texts.

    Args:
        texts: every text of the evaluations: premises, questions, contexts, answers.
        split: cuts a text into sentences, so that short sentences within a passage are found.
        min_letters: whole texts and sentences with fewer letters and digits do not count.
    """

    def __init__(
        self,
        texts: Iterable[str],
        split: Callable[[str], list[str]],
        min_letters: int = MIN_LETTERS,
    ) -> None:
        self.min_letters = max(min_letters, 1)
        self.longest = 0
        ngrams: list[NDArray[np.uint64]] = []
        sentences: list[NDArray[np.uint64]] = []
        for text in texts:
            ngrams.append(_ngrams(normalise(text)))  # as training sentences are
            pieces = [letters(piece) for piece in (text, *split(text))]
            self.longest = max(self.longest, len(pieces[0]))
            sentences.append(duplicates.hashes(p for p in pieces if len(p) >= self.min_letters))
        self.ngrams = _union(ngrams)
        self.sentences = _union(sentences)

    def contaminated(self, sentences: Sequence[str]) -> NDArray[np.bool_]:
        """Return which training sentences occur in the evaluations.

        Args:
            sentences: normalised, in the order of the text, so that a line that was cut is found.

        Returns:
            bool, an entry a sentence; True is to be dropped.
        """
        mask = np.zeros(len(sentences), np.bool_)
        pieces = [letters(sentence) for sentence in sentences]
        for count in range(1, RUN_SENTENCES + 1):
            mask |= self._runs(pieces, count)
        # Runs of words go on over the ends of sentences: hard-wrapped text has one at each line.
        tokens = [_words(sentence) for sentence in sentences]
        owners = np.repeat(np.arange(len(tokens)), [len(own) for own in tokens])
        runs = list(_spans(together := list(itertools.chain(*tokens))))
        for run in np.flatnonzero(
            duplicates.contains(self.ngrams, _hashes(together, runs))
        ).tolist():
            start, stop = runs[run]
            mask[owners[start] : owners[stop - 1] + 1] = True
        return mask

    def _runs(self, pieces: list[str], count: int) -> NDArray[np.bool_]:
        """Return which sentences are part of so many in a row that are a whole text together."""
        mask = np.zeros(len(pieces), np.bool_)
        runs: dict[int, str] = {}
        for first in range(len(pieces) - count + 1):
            run = "".join(pieces[first : first + count])
            own = pieces[first] and pieces[first + count - 1]  # else a shorter run is the same
            if own and self.min_letters <= len(run) <= self.longest:
                runs[first] = run
        firsts = np.fromiter(runs, np.int64, len(runs))
        found = duplicates.contains(self.sentences, duplicates.hashes(runs.values()))
        for first in firsts[found].tolist():
            mask[first : first + count] = True
        return mask


def _ngrams(text: str) -> NDArray[np.uint64]:
    tokens = _words(text)
    return _hashes(tokens, _spans(tokens))


def _words(text: str) -> list[str]:
    return words(unicodedata.normalize("NFKC", text))


def _spans(tokens: Sequence[str]) -> Iterable[tuple[int, int]]:
    """Return where runs of so many words begin and end."""
    return enumerate(ends(measured(tokens), NGRAM_WORDS))


def _hashes(tokens: Sequence[str], spans: Iterable[tuple[int, int]]) -> NDArray[np.uint64]:
    return duplicates.hashes(" ".join(tokens[start:stop]) for start, stop in spans)


def _union(parts: list[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    return np.unique(np.concatenate([np.zeros(0, np.uint64), *parts]))


# Scripts that put no spaces between words: a character counts as a word.
WORD = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*|"
    r"[\p{L}\p{N}--[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]]"
    r"[\p{L}\p{N}\p{M}--[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]]*",
    regex.VERSION1,
)

# Of these scripts, which spell words by their sounds, about so many characters make a word.
SPELT = regex.compile(r"[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")
SPELT_CHARACTERS = 4

NO_LETTER = regex.compile(r"[^\p{L}\p{N}\p{M}]+")


def letters(text: str) -> str:
    """Return the letters (with their marks) and digits of a text, of one case and width (NFKC).

    White space and punctuation go: what is left is the same however somebody spaced the text.
    """
    return str(NO_LETTER.sub("", unicodedata.normalize("NFKC", text).casefold()))


def words(text: str) -> list[str]:
    """Return the words of a text, case folded, without punctuation.

    A word is a run of letters, marks and digits between other characters (in Korean an eojeol
    without its punctuation); in scripts that do not part words (Chinese, Japanese, Thai, Lao,
    Khmer, Burmese) it is a character with its marks.
    """
    return list(WORD.findall(text.casefold()))


def measured(tokens: Sequence[str]) -> Sequence[int]:
    """Return how far a text reaches before each of its words, and at the end, in quarters of one.

    Four characters of Thai, Lao, Khmer and Burmese are as long as a word; one of Chinese or
    Japanese counts as one, as it does in `words`.
    """
    if not SPELT.search("".join(tokens)):
        return range(0, SPELT_CHARACTERS * len(tokens) + 1, SPELT_CHARACTERS)
    quarters = (1 if SPELT.match(token) else SPELT_CHARACTERS for token in tokens)
    return list(accumulate(quarters, initial=0))


def ends(reach: Sequence[int], size: int) -> Sequence[int]:
    """Return where the runs of `size` words end that start at the first word, at the second ….

    Args:
        reach: of `measured`.
        size: of a run.

    Returns:
        An entry for each run that the text is long enough for; none for a text of fewer words.
    """
    if isinstance(reach, range):
        return range(size, len(reach))
    stops = np.searchsorted(reach, np.array(reach[:-1]) + SPELT_CHARACTERS * size)
    return [stop for stop in stops.tolist() if stop < len(reach)]


def files_of(names: Iterable[str | Path], *, warn: bool = False) -> list[Path]:
    """Return the files that names of files and directories stand for, in a fixed order.

    Args:
        names: of `corpus.decontaminate`.
        warn: log which files of directories are not read.

    Raises:
        DataError: nothing of that name, an unknown kind of file, a directory without any.
    """
    paths: list[Path] = []
    for name in names:
        path = path_of(name)
        inside = documents.walk(path) if path.is_dir() else [path]
        readable = [file for file in inside if file.is_file() and kind(file) in FORMATS]
        others = [file for file in inside if file not in readable and not documents.is_about(file)]
        if not readable:
            raise DataError(
                f"{name}: is not there, or no evaluation; corpus.decontaminate takes files and "
                f"directories of {' '.join(FORMATS)}"
            )
        if warn and others:
            logger.warning(
                "corpus.decontaminate: %s: not read, so that their texts stay: %s",
                *(path, documents.kinds(others)),
            )
        paths += readable
    return paths


def texts_of(names: Iterable[str | Path]) -> Iterator[str]:
    """Give every text of evaluations: cells of tables, strings of JSON, lines of plain text.

    Raises:
        DataError: a file is missing, unreadable, broken or of an unknown kind.
    """
    for path in files_of(names):
        try:
            yield from _strings(_values(path))
        except DataError:
            raise
        except (csv.Error, RecursionError, ValueError) as error:
            raise DataError(f"{path}: is broken ({error}); correct it, or leave it out") from None


def _values(path: Path) -> Any:
    """Give what a file holds: lines, cells of lines, a value of JSON or one a line, or rows."""
    if kind(path) == ".parquet":
        with opened_parquet(path) as file:
            return file.read().to_pylist()
    if kind(path) in (".json", ".jsonl"):
        with reading_errors(path), opened(path) as stream:
            data = stream.read()
        try:
            return json.loads(data)
        except json.JSONDecodeError:
            return [json.loads(line) for line in filter(bytes.strip, data.splitlines())]
    reading = Counts()
    lines = list(text_lines(path, reading))
    if reading.dropped:
        raise DataError(
            f"{path}: {reading.dropped.total():,} of its lines cannot be read "
            f"({', '.join(reading.dropped)}), so that their texts would stay in the corpus; "
            "correct it, for example: iconv -f EUC-KR -t UTF-8"
        )
    if kind(path) == ".csv":
        csv.field_size_limit(1 << 30)
        parted = {",", delimiter_of(lines[0] if lines else "")}  # it may have no header
        return [list(csv.reader((f"{line}\n" for line in lines), delimiter=d)) for d in parted]
    if kind(path) == ".tsv":
        return [line.split("\t") for line in lines]
    wrapped = width_of(lines)
    return [*lines, *(joined(lines, wrapped, words_of(lines)) if wrapped[0] else ())]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)
