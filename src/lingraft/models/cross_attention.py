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

Shape letters: N rows, T tokens in a row, D width of the hidden states, H heads, K width of a head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from lingraft.models.modules import MODULES
from lingraft.models.packed import packed_attention

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transformers import PreTrainedConfig, PreTrainedModel

    from lingraft.models.families import Family
    from lingraft.models.segments import Segments

CHILD = MODULES["cross_attention"].child
MEMORY, MASK = "cross_memory_NTD", "cross_mask_N1TT"
"""Keyword arguments of the stock model's forward pass that plug it in."""
STANDARD_DEVIATION = 0.02


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
