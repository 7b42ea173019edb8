"""A RoBERTa by its size, and text that is made up as token ids, which a benchmark trains on.

Lengths are log-normal. Half of the tokens follow from the token before them (a fixed permutation),
the others are drawn by Zipf's law, so that a model has something to learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from transformers import AutoConfig

from lingraft.errors import RecipeError
from lingraft.tokenizer.shards import SMALL, Tokens
from lingraft.training.objectives.common import TokenIds

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

HEAD_WIDTH = 64


@dataclass(frozen=True)
class Shape:
    """A RoBERTa with translation layers, by its size."""

    layers: int
    """Translation layers included."""
    width: int
    vocabulary: int

    @classmethod
    def parse(cls, written: str) -> Shape:
        """Read `LAYERSxWIDTHxVOCABULARY`.

        Raises:
            RecipeError: it is something else.
        """
        numbers = written.lower().replace("×", "x").split("x")
        if len(numbers) != 3 or not all(n.isdecimal() and len(n) < 9 for n in numbers):
            raise RecipeError(
                f"--shape {written}: write LAYERSxWIDTHxVOCABULARY, for instance 14x768x50000"
            )
        shape = cls(*(int(number) for number in numbers))
        fewest = SMALLEST_VOCABULARY
        is_large = shape.layers >= 3 and shape.width and shape.vocabulary >= fewest
        if not is_large or shape.width % HEAD_WIDTH:
            raise RecipeError(
                f"--shape {written}: 3 layers at least (two are translation layers), "
                f"a width that {HEAD_WIDTH} divides, and {fewest} pieces at least"
            )
        return shape

    def config(self, longest: int) -> PreTrainedConfig:
        """The configuration of the source, without translation layers.

        Args:
            longest: tokens of the longest sentence.
        """
        return AutoConfig.for_model(
            "roberta",
            vocab_size=self.vocabulary,
            hidden_size=self.width,
            num_hidden_layers=self.layers - 2,
            num_attention_heads=self.width // HEAD_WIDTH,
            intermediate_size=4 * self.width,
            max_position_embeddings=max(512, longest) + PAD + 1,
            type_vocab_size=1,
        )


Array = np.ndarray[Any, Any]

BOS, PAD, EOS, UNKNOWN = 0, 1, 2, 3
ORDINARY = 4
"""The first token that is not special; the last one of the vocabulary is the mask."""
SMALLEST_VOCABULARY = 16


@dataclass(frozen=True)
class TextShape:
    """Lengths of made-up sentences, in tokens with the two special ones."""

    mean: float = 30.0
    spread: float = 0.6
    """Standard deviation of the logarithm; 0 gives all sentences one length."""
    longest: int = 128
    sentences: int = 4_096

    def check(self) -> None:
        """Refuse what gives no sentences.

        Raises:
            RecipeError: a number is out of range.
        """
        if not 3 <= self.mean <= self.longest:
            raise RecipeError(
                f"--mean-length: must be between 3 and --longest ({self.longest}); "
                f"got {self.mean:g}"
            )

    def lengths(self, generator: np.random.Generator) -> Array:
        """[S] drawn lengths; clipping at both ends moves the mean a little."""
        centre = np.log(self.mean) - self.spread**2 / 2
        samples = generator.lognormal(centre, self.spread, self.sentences)
        return np.clip(np.rint(samples), 3, self.longest).astype(np.int32)


def token_ids(vocab_size: int) -> TokenIds:
    """The special tokens of a made-up vocabulary.

    Raises:
        RecipeError: it is too small.
    """
    if vocab_size < SMALLEST_VOCABULARY:
        raise RecipeError(
            f"a vocabulary of {vocab_size} is too small; {SMALLEST_VOCABULARY} pieces at least"
        )
    mask = vocab_size - 1
    return TokenIds(vocab_size, mask, PAD, (BOS, PAD, EOS, UNKNOWN, mask))


def made_up(shape: TextShape, vocab_size: int, seed: int = 0) -> Tokens:
    """Sentences between the two special tokens.

    Args:
        shape: how many, and how long.
        vocab_size: rows of the vocabulary, special tokens included.
        seed: another seed, another text of the same language.
    """
    shape.check()
    ordinary = max(token_ids(vocab_size).special) - ORDINARY  # the mask token is the last piece
    follower = np.random.default_rng(0).permutation(ordinary)
    generator = np.random.default_rng([1, seed])
    lengths = shape.lengths(generator)
    frequencies = 1 / np.arange(1, ordinary + 1)
    cumulated = np.cumsum(frequencies / frequencies.sum())
    width = int(lengths.max())
    size = (len(lengths), width)
    pieces = np.minimum(np.searchsorted(cumulated, generator.random(size)), ordinary - 1)
    follows = generator.random(size) < 0.5
    for column in range(1, width):
        before = pieces[:, column - 1]
        pieces[:, column] = np.where(follows[:, column], follower[before], pieces[:, column])
    ids = pieces + ORDINARY
    ids[:, 0] = BOS
    ids[np.arange(len(lengths)), lengths - 1] = EOS
    tokens = ids[np.arange(width)[None] < lengths[:, None]]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64)
    return Tokens(tokens.astype(np.uint16 if vocab_size <= SMALL else np.uint32), offsets, lengths)
