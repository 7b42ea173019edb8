"""Perplexity, hits@k, MRR and mean rank of masked tokens (Lee et al. 2021, Table 2).

The masks are fixed by (tokenizer, text, seed, rate, scheme): `fingerprint` names them, and two
results compare only where their fingerprints are equal. All averages are over tokens, never over
batches.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from lingraft.devices import widest
from lingraft.errors import DataError
from lingraft.evaluation.records import Blocks, blocks
from lingraft.evaluation.scorer import HiddenItem
from lingraft.log import progress
from lingraft.training.objectives import denoise, mlm
from lingraft.training.objectives.mlm import sentence_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.evaluation.scorer import Scorer
    from lingraft.recipe import Masking
    from lingraft.training.objectives.common import TokenIds

Array = np.ndarray[Any, Any]

SCHEMES: tuple[Literal["bert", "mask-only"], ...] = ("bert", "mask-only")
DENOISING = ("spans", "infilling")
HITS = (1, 3, 5, 10)


@dataclass(frozen=True)
class MaskedTokens:
    """Held-out sentences with their hidden tokens."""

    items: list[HiddenItem]
    fingerprint: str
    scheme: str

    @property
    def positions(self) -> int:
        return sum(len(item.targets) for item in self.items)


def mask_text(
    sentences: Sequence[Array],
    vocabulary: TokenIds,
    tokenizer_fingerprint: str,
    masking: Masking,
    seed: int,
) -> MaskedTokens:
    """Hide tokens of every sentence: a function of its place in the text and the seed.

    Args:
        sentences: token ids of each sentence, special tokens included.
        vocabulary: special and mask ids.
        tokenizer_fingerprint: names the tokenizer.
        masking: rate and scheme.
        seed: another seed, other masks.

    Raises:
        DataError: there is no sentence with a token to hide.
    """
    items: list[HiddenItem] = []
    digest = hashlib.blake2b(digest_size=8)
    digest.update(f"{tokenizer_fingerprint} {masking.rate} {masking.scheme} {seed}".encode())
    if sentences:
        lengths = np.array([len(ids) for ids in sentences])
        keys = sentence_keys(np.arange(len(sentences)), seed)
        objective = denoise if masking.scheme in DENOISING else mlm
        hidden = objective.corrupt(np.concatenate(sentences), lengths, keys, vocabulary, masking)
        for parts in zip(*hidden.by_sentence(lengths), strict=True):
            item = (
                HiddenItem(*parts) if objective is mlm else _written(parts[0], parts[2], vocabulary)
            )
            for part in (item.ids, item.masked, item.targets):
                digest.update(part.astype(np.int32).tobytes())
            items.append(item)
    if not any(len(item.targets) for item in items):
        raise DataError("the evaluation text holds no token that could be masked; give more text")
    return MaskedTokens(items, digest.hexdigest(), masking.scheme)


def _written(ids: Array, target: Array, vocabulary: TokenIds) -> HiddenItem:
    """Return an item whose words a decoder writes; special tokens among them are not asked for."""
    places = np.flatnonzero(~np.isin(target, vocabulary.special))
    return HiddenItem(ids, places, target[places], target)


def ranks(logits_MV: torch.Tensor, targets_M: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rank of each target, from 1, and how many other tokens tie with it.

    Ties count half: rank = 1 + #{higher} + #{equal} / 2, so that a collapsed model does not look
    perfect.

    Args:
        logits_MV: fp32 logits.
        targets_M: token ids.
    """
    gold_M1 = logits_MV.gather(1, targets_M[:, None])
    higher_M = _count(~(logits_MV <= gold_M1))  # a NaN is no less: such a model has no good rank
    equal_M = (_count(logits_MV == gold_M1) - 1).clamp(min=0)
    wide = widest(logits_MV.device)
    return 1 + higher_M.to(wide) + equal_M.to(wide) / 2, equal_M


def _count(true_MV: torch.Tensor) -> torch.Tensor:
    """Count true values in each row; on a CPU numpy counts eight times as fast as torch sums."""
    if true_MV.device.type == "cpu":
        return torch.from_numpy(np.count_nonzero(true_MV.numpy(), axis=1))
    return true_MV.sum(1)


@dataclass(frozen=True)
class Scores:
    """Sums over the hidden tokens of each sentence; I sentences, P hidden tokens of all."""

    positions_I: Array
    nats_I: Array
    hits_I: dict[int, Array]
    """By k: tokens of rank k or better."""
    reciprocal_I: Array
    """Sum of 1 / rank."""
    rank_I: Array
    ties: int
    nats_P: Array
    """Loss of each hidden token, in the order of the items."""
    rank_P: Array

    def metrics(self) -> dict[str, float]:
        """Average over all hidden tokens.

        Returns:
            perplexity, loss (nats), hits@k (percent), mrr (0 to 1), mr (rank from 1), positions,
            ties.
        """
        positions = int(self.positions_I.sum())
        loss = float(self.nats_I.sum()) / positions
        return {
            "perplexity": math.exp(min(loss, 700.0)),
            "loss": loss,
            **{f"hits@{k}": 100 * int(hits.sum()) / positions for k, hits in self.hits_I.items()},
            "mrr": float(self.reciprocal_I.sum()) / positions,
            "mr": float(self.rank_I.sum()) / positions,
            "positions": positions,
            "ties": self.ties,
        }

    def blocks(self) -> dict[str, Blocks]:
        """Return sums and positions by block of the text; hits are counted, not in percent."""
        sums = {
            "loss": self.nats_I,
            **{f"hits@{k}": hits for k, hits in self.hits_I.items()},
            "mrr": self.reciprocal_I,
            "mr": self.rank_I,
        }
        return {name: blocks(of, self.positions_I) for name, of in sums.items()}


def measure(scorer: Scorer, text: MaskedTokens) -> Scores:
    """Score every hidden token of masked text."""
    number = len(text.items)
    positions_I = np.array([len(item.targets) for item in text.items], dtype=np.int64)
    nats_I, reciprocal_I, rank_I = np.zeros(number), np.zeros(number), np.zeros(number)
    hits_I = {k: np.zeros(number, dtype=np.int64) for k in HITS}
    targets_P = np.concatenate([item.targets for item in text.items])
    first_I = np.cumsum(positions_I) - positions_I
    nats_P, rank_P = np.zeros(len(targets_P)), np.zeros(len(targets_P))
    ties = done = 0
    with progress(f"evaluating ({text.scheme})", text.positions, "tokens") as ticker:
        for where, logits_MV in scorer.logits(text.items):
            place_M = first_I[where[:, 0]] + where[:, 1]
            gold_M = targets_P[place_M]
            targets_M = torch.from_numpy(gold_M.astype(np.int64)).to(logits_MV.device)
            nats_M = torch.nn.functional.cross_entropy(logits_MV, targets_M, reduction="none")
            tied_M, equal_M = ranks(logits_MV, targets_M)
            owner_M, rank_M = where[:, 0], tied_M.cpu().numpy()
            nats_P[place_M], rank_P[place_M] = nats_M.double().cpu().numpy(), rank_M
            np.add.at(nats_I, owner_M, nats_P[place_M])
            np.add.at(reciprocal_I, owner_M, 1 / rank_M)
            np.add.at(rank_I, owner_M, rank_M)
            for k, hits in hits_I.items():
                np.add.at(hits, owner_M, rank_M <= k)
            ties += int((equal_M > 0).sum())
            done += len(where)
            ticker.update(done)
    return Scores(positions_I, nats_I, hits_I, reciprocal_I, rank_I, ties, nats_P, rank_P)


def unigram_entropy(counts: Array, targets: Array, ordinary: Array) -> float:
    """Return the targets' cross-entropy in nats under the training text's token frequencies.

    One is added to each count. The frequencies are over the tokens that can be targets: special
    tokens, which stand around every sentence, are never asked for. The unknown one is where it
    stands in a causal model's text. A model that scores no better has learnt nothing but
    frequencies.

    Args:
        counts: [V] occurrences of each token in the training text.
        targets: [M] the hidden tokens.
        ordinary: ids of the tokens that can be targets, `TokenIds.ordinary`.
    """
    smoothed = np.zeros(len(counts))
    possible = np.union1d(ordinary, targets)
    smoothed[possible] = counts[possible] + 1
    return float(-np.log(smoothed[targets] / smoothed.sum()).mean())
