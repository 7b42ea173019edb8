"""Rows of a source's matrices that no training made: not finite, without length, or far too long.

Such a row decides every gradient that it has a part in, and every mean and norm.

Shape letters: V vocabulary, D width.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import torch

from lingraft.errors import DataError
from lingraft.log import counted
from lingraft.tokenizer.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transformers import PreTrainedTokenizerBase

    from lingraft.models.source import LoadedSource

OUTLYING = 30.0
"""Times the median length of all rows; the longest rows of sound models have some five times it."""
MOST = 0.01
"""Share of a matrix' rows that is mended; a matrix with more is refused."""
NAMED = 5
ZERO = "zero"
MENDED = "they start as the mean of the others"
AS_IT_IS = "the model is taken as it is; download it again if you did not know that"

logger = logging.getLogger(__name__)


def find(
    rows_VD: torch.Tensor, vocabulary: Vocabulary | None = None, name: str | None = None
) -> dict[int, str]:
    """Find the damaged rows of a matrix.

    Args:
        rows_VD: embeddings or an output projection.
        vocabulary: whose pieces must have a row with a length; rows of special tokens (padding)
            and of no piece need not. None looks for no such rows.
        name: of a source whose rows are to be mended.

    Returns:
        By id, in their order, what is wrong with its row.

    Raises:
        DataError: too much of the matrix is damaged to be mended.
    """
    lengths_V = torch.linalg.vector_norm(rows_VD.detach(), dim=1, dtype=torch.float32)
    finite_V = lengths_V.isfinite()
    usual_V = finite_V & (lengths_V > 0)  # rows without a piece may be zero, and many
    longest = OUTLYING * float(lengths_V[usual_V].median()) if usual_V.any() else 0.0
    wrong = dict.fromkeys(_ids(finite_V & (lengths_V > longest)), f"{OUTLYING:g} times too long")
    wrong |= dict.fromkeys(_ids(~finite_V), "not finite")
    if name and (len(wrong) > MOST * len(rows_VD) or not usual_V.any()):
        raise DataError(
            f"source model '{name}': {len(wrong):,} of the {len(rows_VD):,} rows of a matrix of "
            f"its pieces are not finite or more than {OUTLYING:g} times as long as others, or all "
            "are zero; download the weights again, or choose another model"
        )
    forms = vocabulary.canonical if vocabulary is not None else []
    wrong |= {i: ZERO for i in _ids(lengths_V == 0) if i < len(forms) and forms[i] is not None}
    return dict(sorted(wrong.items()))


def described(
    damaged: Mapping[int, str], tokenizer: PreTrainedTokenizerBase, then: str = MENDED
) -> list[str]:
    """Name damaged rows, a line for each kind of damage; `then` says what becomes of them."""
    lines = []
    for what in dict.fromkeys(damaged.values()):
        ids = [index for index, damage in damaged.items() if damage == what]
        pieces = zip(ids, tokenizer.convert_ids_to_tokens(ids[:NAMED]), strict=False)
        named = ", ".join(f"{index} '{piece}'" for index, piece in pieces)
        more = ", …" if len(ids) > NAMED else ""
        count = counted(len(ids), "row")
        lines.append(f"{count} of the source's pieces: {what} ({named}{more}); {then}")
    return lines


def tell(
    name: str, damaged: Mapping[int, str], tokenizer: PreTrainedTokenizerBase, then: str = MENDED
) -> None:
    """Log damaged rows of a model as warnings."""
    for line in described(damaged, tokenizer, then):
        logger.warning("%s: %s", name, line)


def mend(name: str, loaded: LoadedSource, tokenizer: PreTrainedTokenizerBase) -> dict[int, str]:
    """Give damaged rows of word embeddings and output projection the mean of the others, in place.

    Args:
        name: of the source, for messages.
        loaded: the source.
        tokenizer: its own.

    Returns:
        As `find`, of both matrices.

    Raises:
        DataError: as `find`.
    """
    model, damaged = loaded.model, dict[int, str]()
    vocabulary = Vocabulary.of(tokenizer)
    for matrix in {loaded.family.word_embeddings, loaded.family.decoder}:
        rows_VD = model.get_parameter(matrix).data
        found = find(rows_VD, vocabulary, name)
        if found:
            sound_V = rows_VD.any(dim=1)
            sound_V[[*found]] = False
            rows_VD[[*found]] = rows_VD[sound_V].mean(dim=0)
        damaged |= found
    return damaged


def _ids(where_V: torch.Tensor) -> list[int]:
    return where_V.nonzero().flatten().tolist()
