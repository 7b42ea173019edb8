"""Special tokens that a text spells out, such as <mask>: they are text, or unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import models
from transformers import PreTrainedTokenizerFast

from lingraft.tokenizer.frame import special_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import BatchEncoding, PreTrainedTokenizerBase

Array = np.ndarray[Any, Any]


def without_special(tokenizer: PreTrainedTokenizerBase, dtype: type = np.int64) -> Array | None:
    """Return [V] each id, but unknown for special ones that a text can spell; None without any.

    Unigram segments a text into them, whatever its tokenizer is told, for they are its pieces.
    """
    unknown = tokenizer.unk_token_id
    if unknown is None or not isinstance(tokenizer, PreTrainedTokenizerFast):
        return None
    if not isinstance(tokenizer.backend_tokenizer.model, models.Unigram):
        return None
    read_as: Array = np.arange(max(tokenizer.get_vocab().values()) + 1, dtype=dtype)
    read_as[sorted(special_ids(tokenizer))] = unknown
    return read_as


def as_text(ids: Sequence[int], around: Sequence[int], read_as: Array | None) -> Array:
    """Return the token ids of a text in which only those around it are special.

    Args:
        ids: what a tokenizer makes of the text with `split_special_tokens`.
        around: 1 for each special token that stands around it (`special_tokens_mask`).
        read_as: of `without_special`.
    """
    row: Array = np.array(ids, dtype=np.int64)
    return row if read_as is None else np.where(around, row, read_as[row])


def cut(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], longest: int, read_as: Array | None
) -> BatchEncoding:
    """Tokenise texts so that only the tokens around them are special.

    Args:
        tokenizer: any.
        texts: one or more.
        longest: tokens, those around a text included; what is beyond is cut off.
        read_as: of `without_special`.

    Returns:
        `input_ids`, an array a text, and `special_tokens_mask`.
    """
    encoded = tokenizer(
        list(texts),
        truncation=True,
        max_length=longest,
        return_special_tokens_mask=True,
        split_special_tokens=True,
    )
    pairs = zip(encoded["input_ids"], encoded["special_tokens_mask"], strict=True)
    encoded["input_ids"] = [as_text(ids, around, read_as) for ids, around in pairs]
    return encoded
