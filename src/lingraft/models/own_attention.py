"""The packed forward pass of models that attend by code of their own.

Their attention cannot be replaced, but it takes a mask [N, 1, T, T], which keeps sentences apart.

Shape letters: N rows, T tokens in a row, H heads, D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lingraft.models.packed import PackedModel

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from lingraft.models.packed import PackedBatch


class PackedOwn(PackedModel):
    """A model whose class adds the mask to its scores (XGLM)."""

    def attend(self, *, packed: bool) -> None:
        """As the class does, packed or not."""

    @staticmethod
    def takes_attention(model: PreTrainedModel) -> bool:
        """The class's own is kept; `check_isolation` says whether the mask holds."""
        return model.config._attn_implementation == "eager"


class PackedAlibi(PackedOwn):
    """A model whose scores fall with the distance, by a slope for each head (BLOOM).

    The class makes them from a padding mask [N, T]; here each token counts within its sentence.
    Only differences of positions act, but in bf16 small positions are the exact ones.
    """

    def hidden(self, batch: PackedBatch, **more: Any) -> torch.Tensor:
        """Last hidden states [N, T, D]."""
        body: Any = self.model.base_model
        stock = type(body).build_alibi_tensor

        def build(_: torch.Tensor, num_heads: int, dtype: torch.dtype) -> torch.Tensor:
            along_row = stock(body, torch.ones_like(batch.input_ids_NT), num_heads, dtype)
            rows, tokens = batch.input_ids_NT.shape
            index_NHT = batch.positions_NT[:, None].expand(rows, num_heads, tokens)
            return (
                along_row.view(rows, num_heads, tokens).gather(2, index_NHT).flatten(0, 1)[:, None]
            )

        body.build_alibi_tensor = build
        try:
            output = body(
                input_ids=batch.input_ids_NT,
                attention_mask=self.mask(batch),
                use_cache=False,
                **more,
            )
        finally:
            del body.build_alibi_tensor
        states_NTD: torch.Tensor = output.last_hidden_state
        return states_NTD


class PackedDisentangled(PackedOwn):
    """A model whose scores depend on the distance of two tokens, by learned vectors (DeBERTa).

    The class takes a padding mask [N, T] alone; its layers take one [N, 1, T, T].
    """

    def hidden(self, batch: PackedBatch, **more: Any) -> torch.Tensor:
        """Last hidden states [N, T, D]."""
        body: Any = self.model.base_model
        embedded_NTD = body.embeddings(
            input_ids=batch.input_ids_NT,
            position_ids=batch.positions_NT,
            mask=batch.segments_NT > 0,
        )
        states_NTD: torch.Tensor = body.encoder(
            embedded_NTD, self.mask(batch) == 0, output_hidden_states=False, **more
        ).last_hidden_state
        return states_NTD
