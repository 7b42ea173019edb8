"""Drop training sentences that occur in the texts of an evaluation.

A sentence goes when it shares 13 words in a row with an evaluation text (Brown et al. 2020,
arXiv 2005.14165, appendix C), or, since many sentences and questions are shorter than that, when
the whole of it is a sentence of an evaluation text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lingraft.corpus import dedup
from lingraft.corpus.words import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

NGRAM_WORDS = 13
# Shorter sentences ("Yes." or "정말 좋아요") occur everywhere and give nothing away.
MIN_WORDS = 4


class Evaluations:
    """Hashes of what the evaluation texts consist of.

    Compared are words without case and punctuation (see `words`; in Chinese, Japanese and Thai
    13 words are 13 characters). Memory: 8 bytes a word of the evaluation texts.

    Args:
        texts: every text of the evaluations: premises, questions, contexts, answers.
        split: cuts a text into sentences, so that short sentences within a passage are found.
    """

    def __init__(self, texts: Iterable[str], split: Callable[[str], list[str]]) -> None:
        ngrams: list[NDArray[np.uint64]] = []
        sentences: list[NDArray[np.uint64]] = []
        for text in texts:
            tokens = words(text)
            ngrams.append(_ngrams(tokens))
            pieces = [tokens, *map(words, split(text))]
            sentences.append(dedup.hashes(" ".join(p) for p in pieces if len(p) >= MIN_WORDS))
        self.ngrams = _union(ngrams)
        self.sentences = _union(sentences)

    def contaminated(self, sentences: Sequence[str]) -> NDArray[np.bool_]:
        """Which training sentences occur in the evaluations.

        Returns:
            bool, an entry a sentence; True is to be dropped.
        """
        tokens = [words(sentence) for sentence in sentences]
        whole = dedup.hashes(map(" ".join, tokens))
        long_enough = np.fromiter((len(t) >= MIN_WORDS for t in tokens), np.bool_, len(tokens))
        found = _contains(self.sentences, whole) & long_enough
        grams = [_ngrams(sentence) for sentence in tokens]
        owners = np.repeat(np.arange(len(grams)), [len(gram) for gram in grams])
        found[owners[_contains(self.ngrams, _joined(grams))]] = True
        return found


def _ngrams(tokens: list[str]) -> NDArray[np.uint64]:
    starts = range(len(tokens) - NGRAM_WORDS + 1)
    return dedup.hashes(" ".join(tokens[start : start + NGRAM_WORDS]) for start in starts)


def _joined(parts: list[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    return np.concatenate([np.zeros(0, np.uint64), *parts])


def _union(parts: list[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    return np.unique(_joined(parts))


def _contains(run: NDArray[np.uint64], hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which hashes are in a sorted run."""
    if not len(run):
        return np.zeros(len(hashes), np.bool_)
    found: NDArray[np.bool_] = run[np.minimum(np.searchsorted(run, hashes), len(run) - 1)] == hashes
    return found
