"""Static vectors of pieces and of words: learnt from text with gensim, or read from a file.

Shape letters: W words, U pieces of a vocabulary, N rows, E width of the static vectors.
"""

from __future__ import annotations

import logging
import math
import zlib
from array import array
from collections import Counter
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import regex
import torch

from lingraft.corpus.inputs import lines_of
from lingraft.corpus.readers.lines import Counts, batched, text_lines
from lingraft.errors import DataError, reading
from lingraft.files import path_of
from lingraft.models.embeddings.segmentation import Segmenter
from lingraft.optional import require
from lingraft.tokenizer.vocabulary import Canonical

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray
    from transformers import PreTrainedTokenizerFast

    from lingraft.models.embeddings.common import Material

logger = logging.getLogger(__name__)

WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
WORD_WIDTH = 100
MINIMUM_COUNT = 10
LEARNING_RATE = 0.05  # fastText's own
UNITS_READ = 5_000_000
FEWEST_EPOCHS, MOST_EPOCHS = 3, 20
NEGATIVES = 10
BUCKETS = 200_000  # of character n-grams; gensim's two million take gigabytes
SENTENCES_AT_ONCE = 1_000
MOST_WORDS = 200_000


@dataclass(frozen=True)
class WordVectors:
    """Words of a language with how often they occur and their vectors."""

    words: list[str]
    frequencies_W: NDArray[np.float64]
    """[W] counts, or shares up to a factor."""
    vectors_WE: NDArray[np.float32]
    """[W, E]"""


def in_memory(sentences: Iterable[Iterable[str]]) -> list[list[str]]:
    """Return text as the units that get a vector, each string held once: gensim reads it often."""
    names: dict[str, str] = {}
    return [[names.setdefault(unit, unit) for unit in sentence] for sentence in sentences]


def target_piece_vectors(material: Material) -> torch.Tensor:
    """Read or learn static vectors of the target's pieces.

    From `embeddings.target_vectors` where given, averaged over the words that each piece is in;
    else learnt from the training text as the target tokenizer cuts it.

    Args:
        material: tokenizer, text, resources and seed.

    Returns:
        [U, E] float32 of unit length; zero for pieces without a vector, those among them that the
        text has less than 10 times.

    Raises:
        DataError: gensim is not installed, or the vectors cannot be read; no piece is frequent
            enough.
    """
    tokenizer, path = material.target_tokenizer, material.resources.target_vectors
    if path is not None:
        words = read_word_vectors(path_of(path))
        return unit_length(average_over_words(words, Segmenter(tokenizer)))
    text = in_memory(map(str, ids) for ids in cut(tokenizer, _spread(material)))
    width, units = material.resources.vector_width, material.resources.vector_units or UNITS_READ
    learnt = learn(text, "pieces", width=width, seed=material.seed, units=units)
    vectors_UE = torch.zeros(Segmenter(tokenizer).size, learnt.vectors_WE.shape[1])
    vectors_UE[[int(word) for word in learnt.words]] = torch.from_numpy(learnt.vectors_WE)
    return unit_length(vectors_UE)


def target_word_vectors(material: Material) -> WordVectors:
    """Read vectors of the target language's words, or learn them from the training text.

    Raises:
        DataError: gensim is not installed, or the vectors cannot be read; no word is frequent
            enough.
    """
    return _word_vectors(material.resources.target_vectors, material.sentences(), material.seed)


def source_word_vectors(material: Material) -> WordVectors:
    """Read vectors of the source language's words, or learn them from `embeddings.source_text`.

    Raises:
        DataError: gensim is not installed, or vectors or text cannot be read; no word is frequent
            enough.
    """
    resources = material.resources
    sentences = islice(lines_of(resources.source_text), resources.max_sentences)
    return _word_vectors(resources.source_vectors, sentences, material.seed)


def _word_vectors(path: str | None, sentences: Iterable[str], seed: int) -> WordVectors:
    if path is not None:
        return read_word_vectors(path_of(path))
    text = in_memory(map(WORD.findall, sentences))
    return learn(text, "words", width=WORD_WIDTH, seed=seed, n_grams=True)


def _spread(material: Material) -> Iterator[str]:
    """Yield the sentences to learn from: with `embeddings.vector_units` every so many-th alone."""
    budget, every = material.resources.vector_units, 1
    if budget is not None:
        first = list(islice(material.sentences(), SENTENCES_AT_ONCE))
        units = sum(map(len, cut(material.target_tokenizer, first)))
        count = sum(1 for _ in material.sentences())
        every = max(1, FEWEST_EPOCHS * units * count // max(1, len(first) * budget))
    return islice(material.sentences(), 0, None, every)


def cut(tokenizer: PreTrainedTokenizerFast, sentences: Iterable[str]) -> Iterator[list[int]]:
    """Yield the ids of each sentence's pieces, without special tokens around them."""
    for some in batched(sentences, SENTENCES_AT_ONCE):
        yield from tokenizer(
            some,
            add_special_tokens=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
        )["input_ids"]


def learn(
    text: list[list[str]],
    name: str,
    *,
    width: int,
    seed: int,
    n_grams: bool = False,
    units: int = UNITS_READ,
) -> WordVectors:
    """Learn static vectors on one thread; the same text and seed give the same vectors.

    CBOW with 10 negative samples and a window of 5 (Mikolov et al. 2013), with character n-grams of
    3 to 6 if asked for (Bojanowski et al. 2017). The text is read as often as makes `units` units,
    at least 3 times (as in FOCUS) and at most 20: vectors of a few hundred thousand words that are
    read 3 times all point the same way. The pieces of a tokenizer have none: their spelling is the
    tokenizer's, not the language's.

    Units that occur less than 10 times (FOCUS, Dobler and de Melo 2023) get no vector.

    Args:
        text: sentences as units.
        name: of the units, for messages.
        width: of the vectors.
        seed: of the first vectors and of the samples.
        n_grams: add the vectors of character n-grams.
        units: to be read, every reading of the text counted.

    Raises:
        DataError: gensim is not installed, or no unit is frequent enough.
    """
    counts = Counter(chain.from_iterable(text))
    if max(counts.values(), default=0) < MINIMUM_COUNT:
        raise DataError(
            f"resources: the text has no {name} that occur {MINIMUM_COUNT} times, for static "
            "vectors; give more text, or use embeddings.init = 'mean'"
        )
    models = require("gensim.models", "embeddings.init: learning static vectors", "vectors")
    extra: dict[str, Any] = {"min_n": 3, "max_n": 6, "bucket": BUCKETS} if n_grams else {}
    model = (models.FastText if n_grams else models.Word2Vec)(
        text,
        vector_size=width,
        window=5,
        min_count=MINIMUM_COUNT,
        negative=NEGATIVES,
        epochs=min(MOST_EPOCHS, max(FEWEST_EPOCHS, math.ceil(units / counts.total()))),
        alpha=LEARNING_RATE,
        workers=1,
        seed=seed % 2**32,
        hashfxn=_hash,
        **extra,
    )
    words: list[str] = list(model.wv.index_to_key)
    logger.info("static vectors of %s %s, %d wide", f"{len(words):,}", name, width)
    frequencies_W = np.array([counts[word] for word in words], dtype=np.float64)
    return WordVectors(words, frequencies_W, np.array(model.wv.vectors, dtype=np.float32))


def _hash(text: str) -> int:
    """Hash a string alike in every process, which Python's own hash does not."""
    return zlib.crc32(text.encode())


def read_word_vectors(path: Path) -> WordVectors:
    """Read word2vec's text format: a line with count and width, then a word and its numbers a line.

    At most the first 200,000 words are read. Such files are sorted by frequency, which is taken to
    be one over the rank (Zipf's law).

    Args:
        path: a .vec file, perhaps compressed (.gz .xz).

    Raises:
        DataError: there is no such file, or it is not in this format.
    """
    lines = text_lines(path, Counts())
    vectors: dict[str, NDArray[np.float32]] = {}
    with reading(path, "give vectors in word2vec's text format (.vec)"):
        _, width = map(int, next(lines, "").split())
        for line in islice(lines, MOST_WORDS):
            word, *numbers = line.rstrip().rsplit(" ", width)
            vectors.setdefault(word, np.array(numbers, dtype=np.float32))
        vectors_WE = np.stack(list(vectors.values()))
        if vectors_WE.shape[1:] != (width,) or not np.isfinite(vectors_WE).all():
            raise ValueError(f"a line is not a word and {width} finite numbers")
    return WordVectors(list(vectors), 1.0 / np.arange(1, len(vectors) + 1), vectors_WE)


def average_over_words(words: WordVectors, segment: Segmenter) -> torch.Tensor:
    """Average the vectors of the words that each piece is in, weighted by frequency.

    Source: WECHSEL (Minixhofer et al. 2022), §3.1, for vectors without n-grams. It needs no
    spelling of the piece, so that half a character has a vector too.

    Args:
        words: of the language.
        segment: cuts words into pieces.

    Returns:
        [U, E] float32; zero for pieces that no word has.
    """
    pieces, owners = array("q"), array("q")
    for number, word in enumerate(words.words):
        ids = sorted(set(segment(Canonical(True, word.encode()))))
        pieces.extend(ids)
        owners.extend([number] * len(ids))
    vectors_WE = torch.from_numpy(words.vectors_WE)
    weights_W = torch.from_numpy(words.frequencies_W).float()
    sums_UE = torch.zeros(segment.size, vectors_WE.shape[1])
    totals_U = torch.zeros(segment.size)
    piece_N, owner_N = torch.tensor(pieces), torch.tensor(owners)
    for begin in range(0, len(piece_N), 100_000):
        some = slice(begin, begin + 100_000)
        weights_N = weights_W[owner_N[some]]
        sums_UE.index_add_(0, piece_N[some], vectors_WE[owner_N[some]] * weights_N[:, None])
        totals_U.index_add_(0, piece_N[some], weights_N)
    return sums_UE / totals_U.clamp_min(torch.finfo(torch.float32).tiny)[:, None]


def unit_length(vectors_NE: torch.Tensor) -> torch.Tensor:
    """Scale rows [N, E] to length one; zero rows stay zero."""
    lengths_N = vectors_NE.norm(dim=1, keepdim=True)
    return vectors_NE / torch.where(lengths_N > 0, lengths_N, 1.0)
