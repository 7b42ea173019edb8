"""The one result row: a measured number, with what is needed to compare it."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

Blocks = tuple[tuple[float, float], ...]


def _finite(blocks: Any) -> Any:
    """None of blocks of which one was not finite, which is null in a file."""
    return None if blocks and any(None in block for block in blocks) else blocks


class Score(BaseModel):
    """One measured number of one model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    metric: str
    """`SCHEME/NAME` on masked tokens (mask-only/perplexity), `bits_per_character`, …; of a task
    `task/NAME/SCORE`, in per cent."""
    value: Annotated[float, BeforeValidator(lambda value: math.nan if value is None else value)]
    """Null in a file is a number that was not finite."""
    n: int
    """How many things the value is a mean over: masked positions, words, or examples."""
    masks: str
    """Fingerprint of the masks or the scored examples: values compare only where it is equal."""
    blocks: Annotated[Blocks | None, BeforeValidator(_finite)] = None
    """Sum and count of the averaged quantity by block of the test text (by hash of the sentence or
    document), for paired bootstrap intervals. Perplexity's are those of its logarithm, the loss in
    nats; those of scores in per cent are of the share. Task scores that are no means have jackknife
    values of the blocks, whose mean is the score. None where it was not kept, where papers do not
    report the score, or the test set has too few blocks."""
