"""Ranks of a causal model's next token: all, those new to its vocabulary, and the rest.

A piece is new where the source's vocabulary has none that is spelt like it. Ranks count from 1;
of tokens whose scores are equal each has the middle rank.

Shape letters: P predicted tokens of all documents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.tokenizer.vocabulary import Vocabulary

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from lingraft.evaluation.intrinsic import Scores
    from lingraft.evaluation.likelihood import Text

Array = np.ndarray[Any, Any]

HITS = (1, 5, 10)


def new_pieces(target: PreTrainedTokenizerFast, source: PreTrainedTokenizerFast) -> Array:
    """Return ids of a vocabulary's pieces that the source's lacks, special tokens left out.

    Args:
        target: the tokenizer that is judged.
        source: the source's.
    """
    source_pieces = set(Vocabulary.of(source).pieces)
    special = {*target.all_special_ids}
    pieces = enumerate(Vocabulary.of(target).pieces)
    ids = [i for i, piece in pieces if piece and piece not in source_pieces and i not in special]
    return np.array(ids, dtype=np.int64)


def by_piece(text: Text, scores: Scores, new: Array) -> dict[str, dict[str, float]]:
    """Rank the next token, for all tokens and apart for new and old pieces.

    Args:
        text: the documents.
        scores: of `intrinsic.measure` on them.
        new: ids, from `new_pieces`.

    Returns:
        Under `all`, `new` and `old`, where there are such tokens: positions, share (0 to 1),
        hits@1, hits@5, hits@10 (per cent), mean_rank, median_rank, loss (nats).
    """
    targets_P = np.concatenate([item.targets for item in text.tokens.items])
    is_new_P = np.isin(targets_P, new)
    groups = {"all": np.ones_like(is_new_P), "new": is_new_P, "old": ~is_new_P}
    if not len(new):
        groups = {"all": groups["all"]}
    return {name: _ranks(scores, mask_P) for name, mask_P in groups.items() if mask_P.any()}


def _ranks(scores: Scores, mask_P: Array) -> dict[str, float]:
    ranks = scores.rank_P[mask_P]
    return {
        "positions": len(ranks),
        "share": len(ranks) / len(mask_P),
        **{f"hits@{k}": 100 * float((ranks <= k).mean()) for k in HITS},
        "mean_rank": float(ranks.mean()),
        "median_rank": float(np.median(ranks)),
        "loss": float(scores.nats_P[mask_P].mean()),
    }
