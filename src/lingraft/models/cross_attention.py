"""Plug-in cross-attention (VECO: Luo et al. 2021, §2.2) in a stock encoder.

In every layer, between self-attention and feed-forward, with its own projections, residual and norm
(post-norm, as BERT; pre-norm, as ModernBERT):

    post-norm: c = Norm(a + W_o·Attention(Q = a, K = V = M))
    pre-norm: c = a + W_o·Attention(Q = Norm(a), K = V = M)

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

from lingraft.errors import DataError
from lingraft.models.modules import MODULES
from lingraft.models.packed import packed_attention

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transformers import PreTrainedConfig, PreTrainedModel

    from lingraft.models.families import CrossSite, Family
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

    def __init__(self, config: PreTrainedConfig, site: CrossSite) -> None:
        super().__init__()
        width, dropout = int(config.hidden_size), float(getattr(config, site.dropout))
        heads = int(config.num_attention_heads)
        self.pre_norm = site.pre_norm is not None
        self.self = _Projections(width, heads, float(getattr(config, site.attention_dropout)))
        self.output = _Output(width, float(getattr(config, site.norm_epsilon)), dropout)
        self.layer_input_NTD: torch.Tensor | None = None
        """Input of a pre-norm layer that runs: self-attention's output will be added to it."""

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
        """Return the addition to the residual stream [N, T, D].

        Args:
            a_NTD: the residual stream behind self-attention.
            memory_NTD: the partners' last hidden states.
            mask_N1TT: added to the scores, or by segments.
        """
        queries_NTD = self.output.LayerNorm(a_NTD) if self.pre_norm else a_NTD
        mixed_NTD = self.self(queries_NTD, memory_NTD, mask_N1TT)
        return self.output.dropout(self.output.dense(mixed_NTD))


def _before(cross: CrossAttention) -> Any:
    """Return the hook on a pre-norm layer's input norm: no module sees the sum with self-attention.

    On that norm, not on the layer: what computes activations again calls the layer's `forward`, and
    so no hook of its own.
    """

    def hook(_: nn.Module, arguments: tuple[Any, ...]) -> None:
        cross.layer_input_NTD = arguments[0]

    return hook


def _behind(cross: CrossAttention) -> Any:
    """Return the hook on self-attention, whose output is a tuple with the states first."""

    def hook(_: nn.Module, __: Any, kwargs: dict[str, Any], output: tuple[Any, ...]) -> Any:
        memory_NTD = kwargs.get(MEMORY)
        input_NTD, cross.layer_input_NTD = cross.layer_input_NTD, None
        if memory_NTD is None:
            return None
        states_NTD, *rest = output
        if cross.pre_norm:
            assert input_NTD is not None, "the layer did not say what it was given"
            added_NTD = cross(input_NTD + states_NTD, memory_NTD, kwargs[MASK])
            return (states_NTD + added_NTD, *rest)  # the layer adds its input
        added_NTD = cross(states_NTD, memory_NTD, kwargs[MASK])
        return (cross.output.LayerNorm(states_NTD + added_NTD), *rest)

    return hook


def insert(model: PreTrainedModel, family: Family, size: int, seed: int = 0) -> None:
    """Put fresh cross-attention into every layer, in place.

    Args:
        model: a stock model without it, on the CPU.
        family: its record.
        size: how many layers the model has.
        seed: fixes the weights.

    Raises:
        UnsupportedModelError: the family has no place for it.
        DataError: the model has another number of layers.
    """
    MODULES["cross_attention"].check_fits(family)
    site = family.cross_site
    assert site is not None
    layers = list(model.get_submodule(family.layers).children())
    if len(layers) != size:
        raise DataError(
            f"cross-attention for {size} layers does not fit a model of {len(layers)}; "
            "copy the whole folder again"
        )
    generator = torch.Generator().manual_seed(seed)
    for layer in layers:
        assert CHILD not in dict(layer.named_children()), "the model has cross-attention already"
        cross = CrossAttention(model.config, site)
        cross.draw(generator)
        cross.train(model.training)
        layer.add_module(CHILD, cross)
        if site.pre_norm is not None:
            layer.get_submodule(site.pre_norm).register_forward_pre_hook(_before(cross))
        layer.get_submodule(site.behind).register_forward_hook(_behind(cross), with_kwargs=True)


def settings(tensors: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Return the contents of cross_attention.json for cross-attention with these tensors."""
    return {
        "layers": sum(name.endswith(".self.query.weight") for name in tensors),
        "parameters": sum(tensor.numel() for tensor in tensors.values()),
    }
