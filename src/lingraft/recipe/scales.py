"""Sizes that grow with budget and text: tokens of a step, learning rate, pieces of a vocabulary."""

from __future__ import annotations

import math

SMALLEST_STEP, LARGEST_STEP = 9, 16
"""Powers of two: the tokens of a step."""
NARROW_RATE = 2e-3
"""The peak learning rate that won at 256, the same for all parts."""
FASTER = 4.0
"""How many times the rate of the rest the embeddings learn at, where that was measured."""
SIZES, LARGEST = ((3e6, 4_000), (3e7, 8_000), (3e8, 16_000), (3e9, 32_000)), 50_000
"""Characters below which a vocabulary has so many pieces; of the largest texts."""
FEWEST_TOKENS = 300_000
"""With fewer tokens of training a model may be no better than unigrams: none was measured."""
TOKENS_A_PIECE = 50
"""Fewer training tokens for each piece are called too few by the report as well."""


def batch_for(tokens: float) -> int:
    """Tokens of a step: 1,024 at 1.2 M of training, with their root from there; a power of two."""
    power = round(math.log2(1_024 * math.sqrt(max(tokens, 1) / 1.2e6)))
    return 1 << min(LARGEST_STEP, max(SMALLEST_STEP, power))


def rate_by_step(step: int, whole: float) -> float:
    """The rate of a source's layers: half of the whole in steps of 1,024 tokens, all from 4,096.

    Between them with the root of the step (Malladi et al. 2022, for Adam).
    """
    by_root = whole / 2 * math.sqrt(step / 1_024)
    return float(f"{min(whole, max(whole / 2, by_root)):.2g}")


def vocabulary_for(characters: int, tokens: float = math.inf) -> int:
    """Pieces of a new vocabulary: by the text, but no more than training can teach.

    Args:
        characters: of the training text.
        tokens: of training; `TOKENS_A_PIECE` of them for each piece.
    """
    by_text = next((pieces for most, pieces in SIZES if characters < most), LARGEST)
    sizes = (*(size for _, size in SIZES), LARGEST)
    taught = [pieces for pieces in sizes if pieces * TOKENS_A_PIECE <= tokens]
    return min(by_text, max(taught, default=SIZES[0][1]))
