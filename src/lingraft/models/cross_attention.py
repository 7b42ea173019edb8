"""Plug-in cross-attention (VECO: Luo et al. 2021, §2.2) in a stock encoder.

In every layer of BERT's kind, between self-attention and feed-forward, with its own projections,
residual and norm:

    c = Norm(a + W_o·Attention(Q = a, K = V = M))

where a is what self-attention and its residual give and M the last hidden states of the partner. It
hangs on the layer as a child, under the names of transformers' own cross-attention, and works
through hooks: only a forward pass that is given `MEMORY` and `MASK` has it, every other one is the
stock model's, bit for bit. Both travel as keyword arguments, so that a layer that is computed again
for the backward pass has them too.

No position information of its own: that of M and of a is in them.

The two streams of VECO over packed rows of pairs (eq. 2-9): a pair is two neighbouring segments of
a row, 1 and 2, 3 and 4 and so on. Its states H are those of the encoder, each side by itself; its
states S are those of the encoder with cross-attention plugged in, whose keys and values in every
layer are the last H of the other side of the pair, and of nothing else in the row.

Shape letters: N rows, T tokens in a row, D width of the hidden states, H heads, K width of a head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from lingraft.errors import UnsupportedModelError
from lingraft.models.modules import MODULES
from lingraft.models.packed import assemble, number_format, packed_attention
from lingraft.models.segments import Segments, codes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transformers import PreTrainedConfig, PreTrainedModel

    from lingraft.models.families import Family
    from lingraft.models.packed import PackedBatch, PackedModel


CHILD = MODULES["cross_attention"].child
MEMORY, MASK = "cross_memory_NTD", "cross_mask_N1TT"
"""Keyword arguments of the stock model's forward pass that plug it in."""
STANDARD_DEVIATION = 0.02
TOLERANCE = 1e-2
"""Tolerance of `packed.check_isolation`."""


class _Projections(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout_probability = heads, dropout
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(
        self, q_NTD: torch.Tensor, memory_NTD: torch.Tensor, mask_N1TT: torch.Tensor | Segments
    ) -> torch.Tensor:
        q_NHTK, k_NHTK, v_NHTK = (
            linear(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for linear, x in ((self.query, q_NTD), (self.key, memory_NTD), (self.value, memory_NTD))
        )
        probability = self.dropout_probability if self.training else 0.0
        mixed, _ = packed_attention(self, q_NHTK, k_NHTK, v_NHTK, mask_N1TT, dropout=probability)
        return mixed.flatten(-2)


class _Output(nn.Module):
    def __init__(self, width: int, epsilon: float, dropout: float) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.LayerNorm = nn.LayerNorm(width, eps=epsilon)
        self.dropout = nn.Dropout(dropout)


class CrossAttention(nn.Module):
    """Cross-attention of one layer."""

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        width, heads = int(config.hidden_size), int(config.num_attention_heads)
        self.self = _Projections(width, heads, float(config.attention_probs_dropout_prob))
        self.output = _Output(width, config.layer_norm_eps, float(config.hidden_dropout_prob))

    @torch.no_grad()
    def draw(self, generator: torch.Generator) -> None:
        """Draw fresh weights: N(0, 0.02), biases 0, norm 1 and 0."""
        for linear in (self.self.query, self.self.key, self.self.value, self.output.dense):
            linear.weight.normal_(0.0, STANDARD_DEVIATION, generator=generator)
            linear.bias.zero_()
        self.output.LayerNorm.reset_parameters()

    def forward(
        self, a_NTD: torch.Tensor, memory_NTD: torch.Tensor, mask_N1TT: torch.Tensor | Segments
    ) -> torch.Tensor:
        """Return the residual stream [N, T, D] behind cross-attention.

        Args:
            a_NTD: the residual stream behind self-attention.
            memory_NTD: the partners' last hidden states.
            mask_N1TT: added to the scores, or by segments.
        """
        mixed_NTD = self.output.dense(self.self(a_NTD, memory_NTD, mask_N1TT))
        return self.output.LayerNorm(a_NTD + self.output.dropout(mixed_NTD))

    def plug_in(self, _: nn.Module, __: Any, kwargs: dict[str, Any], output: Any) -> Any:
        """Follow self-attention, whose output is a tuple with the states first, as a hook."""
        if (memory_NTD := kwargs.get(MEMORY)) is None:
            return None
        states_NTD, *rest = output
        return (self(states_NTD, memory_NTD, kwargs[MASK]), *rest)


def insert(model: PreTrainedModel, family: Family, _size: int, seed: int = 0) -> None:
    """Put fresh cross-attention into every layer, in place.

    Args:
        model: a stock model without it, on the CPU.
        family: its record.
        seed: fixes the weights.

    Raises:
        UnsupportedModelError: the family has no place for it.
    """
    MODULES["cross_attention"].check_fits(family)
    generator = torch.Generator().manual_seed(seed)
    for layer in model.get_submodule(family.layers).children():
        assert CHILD not in dict(layer.named_children()), "the model has cross-attention already"
        cross = CrossAttention(model.config)
        cross.draw(generator)
        cross.train(model.training)
        layer.add_module(CHILD, cross)
        layer.get_submodule("attention").register_forward_hook(cross.plug_in, with_kwargs=True)


def settings(tensors: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Return the contents of cross_attention.json for cross-attention with these tensors."""
    return {
        "layers": sum(name.endswith(".self.query.weight") for name in tensors),
        "parameters": sum(tensor.numel() for tensor in tensors.values()),
    }


def partners(segments_NT: torch.Tensor) -> torch.Tensor:
    """Return the other segment [N, T] of each token's pair; padding is its own partner."""
    return torch.where(segments_NT > 0, ((segments_NT - 1) ^ 1) + 1, segments_NT)


def plugged_in(packed: PackedModel, batch: PackedBatch, memory_NTD: torch.Tensor) -> torch.Tensor:
    """Return the states S [N, T, D], of tokens that see their pair's other side alone.

    Args:
        packed: a model with cross-attention.
        batch: rows of pairs.
        memory_NTD: the states H of the same rows; detach them to stop their gradient.
    """
    segments_NT = batch.segments_NT
    if packed.by_segments:
        most = batch.bounds.segments + 3
        mask: Any = Segments(codes(partners(segments_NT), most), codes(segments_NT, most))
    else:
        allowed = partners(segments_NT)[:, None, :, None] == segments_NT[:, None, None, :]
        dtype = number_format(segments_NT.device.type, packed.model.dtype)
        mask = packed.additive(allowed, dtype)
    return packed.hidden(batch, **{MEMORY: memory_NTD, MASK: mask})


@torch.no_grad()
def check_pairs(packed: PackedModel, pad_id: int) -> float:
    """Compare pairs that share a row with each alone, and a pair with another partner, in fp32.

    Returns:
        The largest absolute difference of S between shared rows and rows of one pair, relative to
        the spread of S.

    Raises:
        UnsupportedModelError: pairs in one row see each other, or a side does not see its partner.
    """
    model, training = packed.model, packed.model.training
    model.eval()
    generator = np.random.default_rng(0)
    size = model.config.vocab_size
    sides = [generator.integers(0, size, length) for length in (5, 8, 4, 6, 7, 3)]
    sides = [np.where(side == pad_id, (pad_id + 1) % size, side) for side in sides]
    with torch.autocast(model.device.type, enabled=False):
        together = _states(packed, sides, [[0, 1, 2, 3, 4, 5]], pad_id)
        alone = _states(packed, sides, [[0, 1], [2, 3], [4, 5]], pad_id)
        swapped = _states(packed, sides, [[0, 3], [2, 1], [4, 5]], pad_id)
    model.train(training)
    spread = torch.cat(list(alone.values())).std().clamp_min(1e-6)
    difference = max(float((together[i] - alone[i]).abs().max() / spread) for i in alone)
    if not difference <= TOLERANCE or torch.equal(alone[0], swapped[0]):  # NaN too
        raise UnsupportedModelError(
            f"pairs in one row of this {packed.family.model_type} model see each other (relative "
            f"difference {difference:.2g}), or no partner; training on them would be wrong"
        )
    return difference


def _states(
    packed: PackedModel, sides: list[np.ndarray], rows: list[list[int]], pad_id: int
) -> dict[int, torch.Tensor]:
    """Return S of each side by its index."""
    nothing = [np.zeros(0, np.int64)] * len(sides)
    width = max(sum(len(sides[index]) for index in row) for row in rows) + 2
    batch = assemble(sides, nothing, nothing, rows, width, pad_id).to(packed.model.device)
    states_NTD = plugged_in(packed, batch, packed.hidden(batch))
    return {
        index: states_NTD[number][batch.segments_NT[number] == segment]
        for number, row in enumerate(rows)
        for segment, index in enumerate(row, 1)
    }
