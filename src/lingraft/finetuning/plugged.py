"""A model with its cross-attention plugged in, and a head on both of its states.

An input x is read with its partner y, its translation. H are the last states of the encoder alone;
S those with cross-attention to the other side's H. The label of x is predicted from [H_x ; S_x],
that of y from [H_y ; S_y]; both have one head (Luo et al. 2021, §3.1).

Shape letters: B inputs, T tokens of the longest, D width, C labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file
from torch import nn

from lingraft.errors import UnsupportedModelError
from lingraft.finetuning import dropout, last_layer
from lingraft.models.cross_attention import MASK, MEMORY, STANDARD_DEVIATION
from lingraft.models.families import family_of
from lingraft.models.modules import MODULES, in_folder
from lingraft.models.packed import PackedModel, number_format
from lingraft.models.source import load_model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from transformers import PreTrainedModel

    from lingraft.finetuning.recipe import PlugIn

    Inputs = Mapping[str, torch.Tensor]

TENSORS = "plugged.safetensors"
"""The head, beside the encoder and its cross-attention."""


class TextHead(nn.Module):
    """Head on the first position, as RoBERTa's: dropout, 2D → D, tanh, dropout, D → C."""

    def __init__(self, width: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.dense = nn.Linear(2 * width, width)
        self.out_proj = nn.Linear(width, outputs)

    def forward(self, x_BTE: torch.Tensor) -> dict[str, torch.Tensor]:
        """Map states [B, T, 2D] to logits [B, C]."""
        x_BD = torch.tanh(self.dense(self.dropout(x_BTE[:, 0])))
        return {"logits": self.out_proj(self.dropout(x_BD))}


class TokenHead(nn.Module):
    """Head on every position: dropout, 2D → C."""

    def __init__(self, width: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(2 * width, outputs)

    def forward(self, x_BTE: torch.Tensor) -> dict[str, torch.Tensor]:
        """Map states [B, T, 2D] to logits [B, T, C]."""
        return {"logits": self.out_proj(self.dropout(x_BTE))}


class SpanHead(nn.Module):
    """Head on every position, 2D → 2: the answer's first and last token."""

    def __init__(self, width: int, outputs: int, dropout: float) -> None:
        del outputs, dropout  # a stock head for spans has neither
        super().__init__()
        self.out_proj = nn.Linear(2 * width, 2)

    def forward(self, x_BTE: torch.Tensor) -> dict[str, torch.Tensor]:
        """Map states [B, T, 2D] to logits of start and end, [B, T] each."""
        start_BT, end_BT = self.out_proj(x_BTE).unbind(-1)
        return {"start_logits": start_BT, "end_logits": end_BT}


HEADS: dict[str, Any] = {
    "sequence": TextHead,
    "score": TextHead,
    "token": TokenHead,
    "span": SpanHead,
}
"""By a coder's head; a parse has no translation that it could be read with."""


class Plugged(nn.Module):
    """An encoder with cross-attention and a head."""

    def __init__(self, model: PreTrainedModel, head: nn.Module, *, stop_gradient: bool) -> None:
        """Freeze the head for masked words, which is kept as it is.

        Args:
            model: a stock model with cross-attention.
            head: one of `HEADS`; its linear maps are drawn here.
            stop_gradient: whether the partner's states are constants for S.
        """
        super().__init__()
        self.model, self.head, self.stop_gradient = model, head, stop_gradient
        model.requires_grad_(False)
        model.base_model.requires_grad_(True)
        for module in head.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=STANDARD_DEVIATION)
                nn.init.zeros_(module.bias)

    def states(self, inputs: Inputs, **more: torch.Tensor) -> torch.Tensor:
        """Return the last hidden states [B, T, D]; H, or S with what `read_with` gives."""
        return self.model.base_model(**inputs, **more).last_hidden_state

    def read_with(self, memory_BTD: torch.Tensor, partner: Inputs) -> dict[str, torch.Tensor]:
        """Return the inputs that plug cross-attention in.

        Args:
            memory_BTD: the partner's H.
            partner: its inputs; nobody looks at its padding.
        """
        memory_BTD = memory_BTD.detach() if self.stop_gradient else memory_BTD
        visible_B11T = partner["attention_mask"][:, None, None, :].bool()
        dtype = number_format(memory_BTD.device.type, memory_BTD.dtype)
        return {MEMORY: memory_BTD, MASK: PackedModel.additive(visible_B11T, dtype)}

    def forward(
        self, own: Inputs, partner: Inputs, *, both: bool
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor] | None]:
        """Return the outputs of the inputs, and those of their partners with `both`."""
        own_BTD, partner_BTD = self.states(own), self.states(partner)
        plugged_BTD = self.states(own, **self.read_with(partner_BTD, partner))
        outputs = self.head(torch.cat((own_BTD, plugged_BTD), dim=-1))
        if not both:
            return outputs, None
        plugged_BTD = self.states(partner, **self.read_with(own_BTD, own))
        return outputs, self.head(torch.cat((partner_BTD, plugged_BTD), dim=-1))


def check(folder: Path, name: str) -> None:
    """Refuse a checkpoint that has nothing to plug in.

    Raises:
        UnsupportedModelError: it has no cross-attention.
    """
    if MODULES["cross_attention"] not in in_folder(folder):
        raise UnsupportedModelError(
            f"model '{name}': has no cross-attention to plug in; give a model of the method veco "
            "(docs/guides/translation.md), or fine-tune it plugged out (plug=out)"
        )


def built(
    folder: Path,
    kind: str,
    outputs: int,
    settings: Mapping[str, Any],
    plug_in: PlugIn,
    rows: Sequence[int] | None,
) -> Plugged:
    """Load a checkpoint with cross-attention, and with the head that it has if that fits.

    Args:
        folder: of the checkpoint.
        kind: a key of `HEADS`.
        outputs: of the head.
        settings: of its configuration, to be changed.
        plug_in: whether gradients stop.
        rows: of the head, as `last_layer.places` finds them; the names stand in config.json.
    """
    check(folder, str(folder))
    model = load_model(str(folder), settings=settings).model
    config, site = model.config, family_of(model.config.model_type).cross_site
    assert site is not None
    rates = [getattr(config, key, None) for key in dropout.CLASSIFIER]
    share = next((rate for rate in rates if rate is not None), getattr(config, site.dropout))
    head = HEADS[kind](int(config.hidden_size), outputs, float(share))
    plugged = Plugged(model, head, stop_gradient=plug_in.stop_gradient)
    path = folder / TENSORS
    stored = load_file(path) if path.is_file() else {}
    shapes = {name: tensor.shape for name, tensor in head.state_dict().items()}
    if {name: tensor.shape for name, tensor in stored.items()} == shapes:
        if rows is not None:
            head.load_state_dict(stored)
        last_layer.keep(head, rows, folder)
    last_layer.predict_in_fp32(head, outputs)
    return plugged
