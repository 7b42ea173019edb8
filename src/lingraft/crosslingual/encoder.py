"""The hidden states of every layer, of any stock encoder, and one vector a sentence from them.

Shape letters: L layers and the embeddings before them, N sentences, B sequences of a batch, T
tokens, D width.
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
from lingraft.models.padding import batches_by_length, padded
from lingraft.pretrained.load import load_config, load_model, longest_text
from lingraft.pretrained.tokenizers import padding_tokenizer
from lingraft.tokenizer import spelled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    read_as = spelled.without_special(encoder.tokenizer)
    encoded = spelled.cut(encoder.tokenizer, distinct, limit, read_as)
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
