"""Denoising for encoder–decoders: span corruption (T5) and text infilling (BART).

What a family's own pretraining did, the phase goes on with (`Masking.scheme`):

- spans (Raffel et al. 2020, §3.1.4): round(rate · n) of a sentence's n tokens, in spans of 3 on
  average, by the arithmetic of T5's `random_spans_noise_mask`. A sentinel, another for each span,
  stands in the encoder's input for what is gone; the decoder writes each sentinel and the span.
- infilling (Lewis et al. 2020, §2.2): round(rate · n) tokens in spans whose lengths are drawn from
  a Poisson distribution (λ = 3, zero allowed), a single <mask> for each; the decoder writes the
  whole sentence.

The special tokens around a sentence stay where they are, on both sides; spans lie between them.
The corruption is a function of the sentence and a 64-bit key, as in `mlm`.

Differs from the papers: T5 corrupts stretches of 568 tokens, BART documents whose sentences it also
puts into another order; here a unit is a sentence, as in all of lingraft's objectives. At least one
token is hidden.

Shape letters: T tokens of all sentences, S sentences, n tokens of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lingraft.errors import RecipeError
from lingraft.training.objectives.common import Array, Corrupted, TokenIds, of_one_term

if TYPE_CHECKING:
    from lingraft.recipe import Masking


MEAN_SPAN = 3.0
"""Tokens; λ of BART's."""


def spans_mask(length: int, rate: float, mean_span: float, generator: np.random.Generator) -> Array:
    """Return [n] which tokens are noise: T5's `random_spans_noise_mask`.

    A sentence begins with text and ends with noise, and the two take turns.

    Args:
        length: n.
        rate: share of noise.
        mean_span: of a span of noise, in tokens.
        generator: draws where spans begin and end.
    """
    padded = max(length, 2)
    noise = min(max(int(np.round(padded * rate)), 1), padded - 1)
    spans = min(max(int(np.round(noise / mean_span)), 1), noise, padded - noise)
    text_sizes = _cut(padded - noise, spans, generator)
    sizes = np.stack([text_sizes, _cut(noise, spans, generator)], 1).ravel()
    return np.repeat(np.arange(2 * spans) % 2 == 1, sizes)[:length]


def _cut(number: int, parts: int, generator: np.random.Generator) -> Array:
    """Draw [parts] random sizes above 0 that add up to a number."""
    ends = 1 + np.sort(generator.permutation(number - 1)[: parts - 1])
    return np.diff(np.concatenate([[0], ends, [number]]))


def span_corrupted(
    text: Array, sentinels: tuple[int, ...], masking: Masking, generator: np.random.Generator
) -> tuple[Array, Array]:
    """Return the encoder's input and the decoder's output of a sentence, without what is around.

    Args:
        text: [n] its tokens.
        sentinels: as many as there are spans at most; a longer sentence has longer spans.
        masking: rate.
        generator: draws the spans.
    """
    mean = max(MEAN_SPAN, len(text) * masking.rate / len(sentinels))
    noise = spans_mask(len(text), masking.rate, mean, generator)
    return _with_sentinels(text, noise, sentinels), _with_sentinels(text, ~noise, sentinels)


def _with_sentinels(text: Array, noise: Array, sentinels: tuple[int, ...]) -> Array:
    """Replace each stretch of noise by one sentinel, each time the next."""
    begins = noise & ~np.concatenate([[False], noise[:-1]])
    number = np.cumsum(begins) - 1
    marked = np.where(begins, np.array(sentinels)[np.minimum(number, len(sentinels) - 1)], text)
    return marked[~noise | begins]


def infilled(text: Array, mask: int, masking: Masking, generator: np.random.Generator) -> Array:
    """Replace spans of the sentence by a mask token each.

    No two spans touch: each has a place of its own between two tokens that stay.

    Args:
        text: [n] its tokens.
        mask: stands for a span.
        masking: rate.
        generator: draws lengths and places.
    """
    noise = min(max(int(np.round(len(text) * masking.rate)), 1), len(text))
    places = len(text) - noise + 1
    lengths: list[int] = []
    while sum(lengths) < noise:
        lengths.append(int(generator.poisson(MEAN_SPAN)))
    lengths = lengths[:places]
    lengths[-1] += noise - sum(lengths)
    span_places = np.sort(generator.permutation(places)[: len(lengths)])
    spans = dict(zip(span_places.tolist(), lengths, strict=True))
    pieces, at = list[int](), 0
    for place in range(places):
        if place in spans:
            pieces.append(mask)
            at += spans[place]
        pieces.extend(text[at : at + 1].tolist())
        at += 1
    return np.array(pieces, np.int64)


def corrupt(
    ids: Array, lengths: Array, keys: Array, vocabulary: TokenIds, masking: Masking
) -> Corrupted:
    """Hide spans of every sentence; arguments as in `mlm.corrupt`.

    Raises:
        RecipeError: sentinels are asked for that the vocabulary lacks.
    """
    if masking.scheme == "spans" and not vocabulary.sentinels:
        raise RecipeError(
            "masking.scheme: 'spans' needs sentinels (<extra_id_0> …), which this vocabulary "
            "lacks; set infilling"
        )
    around = np.array([index for index in vocabulary.special if index != vocabulary.unk])
    sources, targets = [], []
    for sentence, key in zip(np.split(ids, np.cumsum(lengths)[:-1]), keys, strict=True):
        row, generator = sentence.astype(np.int64), np.random.default_rng(int(key))
        inner = np.flatnonzero(~np.isin(row, around))
        first, end = (int(inner[0]), int(inner[-1]) + 1) if len(inner) else (0, 0)
        before, text, after = row[:first], row[first:end], row[end:]
        written = text
        if not len(text):
            hidden = text
        elif masking.scheme == "spans":
            hidden, written = span_corrupted(text, vocabulary.sentinels, masking, generator)
        else:
            assert vocabulary.mask is not None, "infilling needs a mask token"
            hidden = infilled(text, vocabulary.mask, masking, generator)
        sources.append(np.concatenate([before, hidden, after]))
        targets.append(np.concatenate([before, written, after]))
    return Corrupted(
        np.concatenate(sources),
        np.zeros(0, np.int64),
        np.concatenate(targets),
        np.array([len(source) for source in sources]),
        np.array([len(target) for target in targets]),
    )


DENOISE = of_one_term(
    "denoise",
    summary="spans of a sentence hidden from the encoder, written by the decoder",
    paper="T5: Raffel et al. 2020, §3.1.4; BART: Lewis et al. 2020, §2.2",
    corrupt=corrupt,
    kind="seq2seq",
)
