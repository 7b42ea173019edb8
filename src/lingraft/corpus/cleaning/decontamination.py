"""Drop training sentences that occur in the texts of an evaluation.

A sentence goes when it shares 13 words in a row with an evaluation text (Brown et al. 2020,
arXiv 2005.14165, appendix C), or, since many sentences and questions are shorter than that, when
the whole of it is an evaluation text or a sentence of one. Whole sentences are compared by their
letters and digits alone, since Korean reviews are spaced in any way.
"""

from __future__ import annotations

import itertools
import unicodedata
from typing import TYPE_CHECKING

import numpy as np

from lingraft.corpus.cleaning import dedup
from lingraft.corpus.cleaning.clean import normalise
from lingraft.corpus.cleaning.words import ends, letters, measured, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

NGRAM_WORDS = 13
MIN_LETTERS = 4
"""Shorter sentences and cells ("Yes.", "1", a label) say nothing of the evaluation they are in.

Counted in letters, since words depend on the spacing; so low, since a corpus holds a sentence once,
so that one dropped without need is no loss.
"""
RUN_SENTENCES = 5
"""A text of so many sentences is found too where it was cut into them."""


class Evaluations:
    """Hashes of what the evaluation texts consist of.

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
            sentences.append(dedup.hashes(p for p in pieces if len(p) >= self.min_letters))
        self.ngrams = _union(ngrams)
        self.sentences = _union(sentences)

    def contaminated(self, sentences: Sequence[str]) -> NDArray[np.bool_]:
        """Which training sentences occur in the evaluations.

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
        for run in np.flatnonzero(dedup.contains(self.ngrams, _hashes(together, runs))).tolist():
            start, stop = runs[run]
            mask[owners[start] : owners[stop - 1] + 1] = True
        return mask

    def _runs(self, pieces: list[str], count: int) -> NDArray[np.bool_]:
        """Which sentences are part of so many in a row that are a whole text together."""
        mask = np.zeros(len(pieces), np.bool_)
        runs: dict[int, str] = {}
        for first in range(len(pieces) - count + 1):
            run = "".join(pieces[first : first + count])
            own = pieces[first] and pieces[first + count - 1]  # else a shorter run is the same
            if own and self.min_letters <= len(run) <= self.longest:
                runs[first] = run
        firsts = np.fromiter(runs, np.int64, len(runs))
        for first in firsts[dedup.contains(self.sentences, dedup.hashes(runs.values()))].tolist():
            mask[first : first + count] = True
        return mask


def _ngrams(text: str) -> NDArray[np.uint64]:
    tokens = _words(text)
    return _hashes(tokens, _spans(tokens))


def _words(text: str) -> list[str]:
    return words(unicodedata.normalize("NFKC", text))


def _spans(tokens: Sequence[str]) -> Iterable[tuple[int, int]]:
    """Where runs of so many words begin and end."""
    return enumerate(ends(measured(tokens), NGRAM_WORDS))


def _hashes(tokens: Sequence[str], spans: Iterable[tuple[int, int]]) -> NDArray[np.uint64]:
    return dedup.hashes(" ".join(tokens[start:stop]) for start, stop in spans)


def _union(parts: list[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    return np.unique(np.concatenate([np.zeros(0, np.uint64), *parts]))
