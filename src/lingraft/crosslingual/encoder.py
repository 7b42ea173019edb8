"""The hidden states of every layer, of any stock encoder, and one vector a sentence from them.

Shape letters: L layers and the embeddings before them, N sentences, B sequences of a batch, T
tokens, D width.

Exact nearest neighbours by inner product, both ways, in bounded memory.

The product of two large sets is made in blocks, none of which is kept. Of each vector a few more
than K of the best are remembered, and multiplied again one by one in fp32, so that the rounding of
a block decides nothing. Equal vectors are searched once, and found in their order.

Shape letters: N queries, M vectors that are searched, D width, K neighbours, R and C rows and
columns of a block, P candidates.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import AutoModel

from lingraft.devices import device_for
from lingraft.errors import DataError, UnsupportedModelError
from lingraft.log import progress
from lingraft.models.rows import batches_by_length, padded
from lingraft.pretrained.load import load_config, load_model, longest_text
from lingraft.pretrained.tokenizers import padding_tokenizer
from lingraft.tokenizer import shards

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    from lingraft.crosslingual.settings import Pool

    Array = np.ndarray[Any, Any]


logger = logging.getLogger(__name__)

LONGEST = 512
"""Tokens of a sentence that are read at most, as in XTREME."""
SMALLEST = 1e-12
"""Smallest number that a vector is divided by, so that a vector of zeros stays one."""


def encoder_config(name: str) -> PreTrainedConfig:
    """Return the configuration of a checkpoint that is no encoder–decoder.

    Raises:
        DataError: there is none.
        UnsupportedModelError: it is an encoder–decoder.
    """
    config = load_config(name)
    if config.is_encoder_decoder:
        raise UnsupportedModelError(
            f"{name}: is an encoder–decoder, and the hidden states of an encoder alone are wanted; "
            "choose an encoder such as BERT, RoBERTa, XLM-R or ModernBERT"
        )
    return config


@dataclass(frozen=True)
class LayerStates:
    """The hidden states of some sequences."""

    places: list[int]
    """[B] where each stands among the sequences that were asked for."""
    states_LBTD: torch.Tensor
    """From the embeddings (0) to the last layer, in fp32."""
    mask_BT: torch.Tensor
    """True at tokens, False at padding."""


@dataclass(frozen=True)
class Encoder:
    """A pretrained encoder with its tokenizer."""

    name: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    max_tokens: int
    """Tokens that it reads at once, special tokens included."""

    @classmethod
    def load(cls, name: str) -> Encoder:
        """Load the encoder of a checkpoint, without its head, on a GPU if there is one.

        Args:
            name: directory or Hub id.

        Raises:
            DataError: the checkpoint is not there or broken, or its tokenizer cannot pad.
            UnsupportedModelError: it is an encoder–decoder, or transformers has no such class.
        """
        encoder_config(name)
        tokenizer = padding_tokenizer(name)
        model, _ = load_model(AutoModel, name)
        longest = longest_text(model.config, int(tokenizer.pad_token_id))
        return cls(name, model.train(mode=False).to(device_for()), tokenizer, longest)

    @property
    def num_layers(self) -> int:
        """Return the number of transformer layers; hidden states are one more."""
        return int(self.model.config.num_hidden_layers)

    @property
    def width(self) -> int:
        """Return the numbers of a hidden state."""
        return int(self.model.config.hidden_size)

    @torch.inference_mode()
    def hidden_states(
        self, sequences: Sequence[Sequence[int]], tokens: int = 4_096
    ) -> Iterator[LayerStates]:
        """Yield all layers' states in fp32 by stock attention, in batches of like lengths.

        Args:
            sequences: token ids with the special tokens, none longer than `max_tokens`.
            tokens: of a batch, padding included; a longer sequence has a batch to itself.
        """
        for places in batches_by_length(list(map(len, sequences)), tokens):
            rows = [sequences[place] for place in places]
            ids_BT, mask_BT = padded(rows, int(self.tokenizer.pad_token_id))
            device = self.model.device
            output = self.model(
                input_ids=ids_BT.to(device),
                attention_mask=mask_BT.long().to(device),
                output_hidden_states=True,
            )
            states = torch.stack([state.float() for state in output.hidden_states])
            yield LayerStates(places, states, mask_BT.to(device))


def sentence_vectors(
    encoder: Encoder, texts: Sequence[str], pool: Pool = "mean", layers: Sequence[int] | None = None
) -> Array:
    """[L, N, D] Return fp32 vectors of unit length; equal texts are encoded once.

    Args:
        encoder: any.
        texts: sentences; what is longer than the encoder reads, or `LONGEST`, is cut.
        pool: the mean over all tokens, special ones included (XTREME), or the first token.
        layers: 0 is the embeddings; all of them where it is None.

    Raises:
        DataError: the encoder gives states that are not finite.
    """
    layers = list(range(encoder.num_layers + 1)) if layers is None else list(layers)
    places: dict[str, int] = {}
    of_N = [places.setdefault(text, len(places)) for text in texts]
    distinct = list(places)
    limit = min(encoder.max_tokens, LONGEST)
    read_as = shards.without_special(encoder.tokenizer)
    encoded = shards.cut(encoder.tokenizer, distinct, limit, read_as)
    sequences = [ids.tolist() for ids in encoded["input_ids"]]
    if cut := sum(len(sequence) == limit for sequence in sequences):
        logger.info("%s: %s sentences have %d tokens or more", encoder.name, f"{cut:,}", limit)
    vectors_LND = np.empty((len(layers), len(distinct), encoder.width), dtype=np.float32)
    with progress(f"encode ({encoder.name})", len(distinct), "sentences") as ticker:
        for batch in encoder.hidden_states(sequences):
            pooled_LBD = _pooled(batch.states_LBTD[layers], batch.mask_BT.float(), pool)
            vectors_LND[:, batch.places] = pooled_LBD.cpu().numpy()
            ticker.advance(len(batch.places))
    if not np.isfinite(vectors_LND).all():
        raise DataError(
            f"{encoder.name}: its states are not finite (NaN or infinite), so nothing can be found "
            "with them; the weights are broken, or training went astray"
        )
    return vectors_LND if len(distinct) == len(of_N) else vectors_LND[:, of_N]


def _pooled(states_LBTD: torch.Tensor, weights_BT: torch.Tensor, pool: Pool) -> torch.Tensor:
    """[L, B, D] Return pooled states of unit length."""
    if pool == "cls":
        pooled_LBD = states_LBTD[:, :, 0]
    else:
        counts_B = weights_BT.sum(1).clamp_min(1)
        sums_LBD = torch.einsum("lbtd,bt->lbd", states_LBTD, weights_BT)
        pooled_LBD = sums_LBD / counts_B[:, None]
    return pooled_LBD / pooled_LBD.norm(dim=-1, keepdim=True).clamp_min(SMALLEST)


ROWS, COLUMNS = 1_024, 4_096
"""Size of a block, 16 MiB in fp32, whatever is searched."""
SPARE = 7
"""Candidates beyond K: so many others may be as near as rounding can tell."""
GATHERED = 1 << 20
"""Numbers of candidates' vectors that are held at once."""


@dataclass(frozen=True)
class Neighbours:
    """The nearest of each query, best first; among equals the first in order."""

    scores_NK: Array
    """fp32."""
    places_NK: Array
    """int64."""


class Side:
    """The distinct vectors of a set."""

    def __init__(self, x_ND: Array, k: int, device: torch.device) -> None:
        numbers: dict[bytes, int] = {}
        x_ND = np.ascontiguousarray(x_ND, dtype=np.float32)
        self.number_N = np.array([numbers.setdefault(x.tobytes(), len(numbers)) for x in x_ND])
        self.size, order_N = len(x_ND), np.argsort(self.number_N, kind="stable")
        first_U = np.searchsorted(self.number_N[order_N], np.arange(len(numbers) + 1))
        at_UK = first_U[:-1, None] + np.arange(k)
        is_there_UK = at_UK < first_U[1:, None]
        places_UK = np.where(is_there_UK, order_N[np.minimum(at_UK, self.size - 1)], self.size)
        self.places_UK = torch.from_numpy(places_UK).to(device)  # of equal vectors the first K
        self.x_UD = torch.from_numpy(x_ND[order_N[first_U[:-1]]]).to(device)

    def __len__(self) -> int:
        return len(self.x_UD)

    def candidates(self, rows: slice, other: Side, most: int) -> torch.Tensor:
        """Return the nearest of some vectors, of equal ones any."""
        x_RD = self.x_UD[rows]
        shape, device = (len(x_RD), most), x_RD.device
        best_RP = torch.full(shape, -torch.inf, device=device)
        found_RP = torch.full(shape, -1, dtype=torch.int64, device=device)
        for columns in _parts(len(other), COLUMNS):
            products_RC = x_RD @ other.x_UD[columns].T
            gains = (products_RC.amax(1) > best_RP[:, -1]).nonzero().flatten()
            top, at = products_RC[gains].topk(min(most, products_RC.shape[1]), dim=1)
            values = torch.cat([best_RP[gains], top], dim=1)
            found = torch.cat([found_RP[gains], at + columns.start], dim=1)
            best_RP[gains], order = values.topk(most, dim=1)
            found_RP[gains] = found.gather(1, order)
        return found_RP

    def neighbours(self, other: Side, k: int, report: Callable[[int], None] | None) -> Neighbours:
        """Rank the candidates; every product is summed by itself."""
        most, width, k = min(k + SPARE, len(other)), self.x_UD.shape[1], min(k, other.size)
        scores_UK = torch.empty(len(self), k)
        places_UK = torch.empty(len(self), k, dtype=torch.int64)
        for block in _parts(len(self), ROWS):
            candidates_RP = self.candidates(block, other, most)
            for part in _parts(len(candidates_RP), max(1, GATHERED // (most * width))):
                rows = slice(block.start + part.start, block.start + part.stop)
                products_RP = (self.x_UD[rows, None] * other.x_UD[candidates_RP[part]]).sum(-1)
                places_RPK = other.places_UK[candidates_RP[part]]
                scores_RPK = products_RP[:, :, None].expand(places_RPK.shape)
                scores_RPK = scores_RPK.masked_fill(places_RPK == other.size, -torch.inf)
                places_RQ, order_RQ = places_RPK.flatten(1).sort(dim=1)
                scores_RQ = scores_RPK.flatten(1).gather(1, order_RQ)
                scores_RQ, order_RQ = scores_RQ.sort(dim=1, descending=True, stable=True)
                scores_UK[rows] = scores_RQ[:, :k].cpu()
                places_UK[rows] = places_RQ.gather(1, order_RQ)[:, :k].cpu()
            if report is not None:
                report(block.stop)
        return Neighbours(scores_UK.numpy()[self.number_N], places_UK.numpy()[self.number_N])


def both_ways(
    x_ND: Array, y_MD: Array, k: int = 1, report: Callable[[int], None] | None = None
) -> tuple[Neighbours, Neighbours]:
    """Return the k nearest in `y_MD` of every vector of `x_ND`, and the other way round: exact.

    On the GPU if there is one. Memory beyond the two sets: a copy of each, a block, and K + 7
    numbers and places a vector. Scores are fp32.

    Args:
        x_ND: fp32; of unit length where cosines are wanted. None may be empty.
        y_MD: fp32, as wide.
        k: neighbours of each; as many as there are where there are fewer.
        report: told how many rows of `x_ND` are done.
    """
    device = device_for()
    with torch.inference_mode():
        x, y = Side(x_ND, k, device), Side(y_MD, k, device)
        return x.neighbours(y, k, report), y.neighbours(x, k, None)


def _parts(number: int, size: int) -> Iterator[slice]:
    for start in range(0, number, size):
        yield slice(start, min(number, start + size))
