"""The hidden states of every layer, of any stock encoder.

Shape letters: L layers and the embeddings before them, B sequences, T tokens, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from transformers import AutoModel

from lingraft.errors import UnsupportedModelError
from lingraft.models.padding import batches_by_length, padded
from lingraft.pretrained.load import (
    check_rows,
    load_config,
    load_model,
    longest_text,
    padding_tokenizer,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase


def encoder_config(name: str, revision: str | None = None) -> PreTrainedConfig:
    """The configuration of a checkpoint that is no encoder–decoder.

    Raises:
        DataError: there is none.
        UnsupportedModelError: it is an encoder–decoder.
    """
    config = load_config(name, revision)
    if config.is_encoder_decoder:
        raise UnsupportedModelError(
            f"{name}: is an encoder–decoder, and the hidden states of an encoder alone are wanted; "
            "choose an encoder such as BERT, RoBERTa, XLM-R or ModernBERT"
        )
    return config


@dataclass(frozen=True)
class Layers:
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
    def load(cls, name: str, revision: str | None = None) -> Encoder:
        """The encoder of a checkpoint, without its head, on a GPU if there is one.

        Args:
            name: directory or Hub id.
            revision: branch, tag or commit on the Hub.

        Raises:
            DataError: the checkpoint is not there or broken, or its tokenizer cannot pad.
            UnsupportedModelError: it is an encoder–decoder, or transformers has no such class.
        """
        encoder_config(name, revision)
        tokenizer = padding_tokenizer(name, revision)
        model, _ = load_model(AutoModel, name, revision)
        check_rows(name, tokenizer, model.config)
        longest = longest_text(model.config, int(tokenizer.pad_token_id))
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return cls(name, model.train(mode=False).to(device), tokenizer, longest)

    @property
    def num_layers(self) -> int:
        """Transformer layers; there are as many hidden states and one more, the embeddings."""
        return int(self.model.config.num_hidden_layers)

    @property
    def width(self) -> int:
        """Numbers of a hidden state."""
        return int(self.model.config.hidden_size)

    @torch.inference_mode()
    def hidden_states(
        self, sequences: Sequence[Sequence[int]], tokens: int = 4_096
    ) -> Iterator[Layers]:
        """All layers' states, in batches of like lengths.

        Args:
            sequences: token ids with the special tokens, none longer than `max_tokens`.
            tokens: of a batch, padding included; a longer sequence has a batch to itself.

        Yields:
            Each sequence once; the longest come first.
        """
        for places in batches_by_length(list(map(len, sequences)), tokens):
            yield self._batch(places, [sequences[place] for place in places])

    def _batch(self, places: list[int], sequences: list[Sequence[int]]) -> Layers:
        ids_BT, mask_BT = padded(sequences, int(self.tokenizer.pad_token_id))
        width = ids_BT.shape[1]
        assert width <= self.max_tokens, f"{width} tokens, the model reads {self.max_tokens}"
        device = self.model.device
        output = self.model(
            input_ids=ids_BT.to(device),
            attention_mask=mask_BT.long().to(device),
            output_hidden_states=True,
        )
        states = torch.stack([state.float() for state in output.hidden_states])
        return Layers(places, states, mask_BT.to(device))
