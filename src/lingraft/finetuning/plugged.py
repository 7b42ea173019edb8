"""A model with its cross-attention plugged in, and a head on both of its states.

An input x is read with its partner y, its translation. H are the last states of the encoder alone;
S those with cross-attention to the other side's H. The label of x is predicted from [H_x ; S_x],
that of y from [H_y ; S_y]; both have one head (Luo et al. 2021, §3.1).

Shape letters: B inputs, T tokens of the longest, D width, C labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from lingraft.errors import UnsupportedModelError
from lingraft.finetuning import head_settings
from lingraft.models.cross_attention import MASK, MEMORY, STANDARD_DEVIATION
from lingraft.models.modules import MODULES, in_folder
from lingraft.models.packed import PackedModel, number_format
from lingraft.models.source import load_model

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from transformers import PreTrainedModel

    Inputs = Mapping[str, torch.Tensor]

TENSORS = "plugged.safetensors"
"""The head, beside the encoder and its cross-attention."""


class Head(nn.Module):
    """Head on the states of texts, tokens or spans.

    Of texts on the first position, as RoBERTa's: dropout, 2D → D, tanh, dropout, D → C. Of tokens
    on every position: dropout, 2D → C. Of spans on every position, without dropout as stock heads
    are, 2D → 2: the answer's first and last token.
    """

    def __init__(self, kind: str, width: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.kind = kind
        self.dropout = nn.Dropout(0.0 if kind == "span" else dropout)
        is_text = kind in ("sequence", "score")
        self.dense = nn.Linear(2 * width, width) if is_text else None
        self.out_proj = nn.Linear(width if is_text else 2 * width, outputs)

    def forward(self, x_BTE: torch.Tensor) -> dict[str, torch.Tensor]:
        """Map states [B, T, 2D] to logits [B, C] or [B, T, C], or those of start and end [B, T]."""
        if self.dense is not None:
            x_BTE = torch.tanh(self.dense(self.dropout(x_BTE[:, 0])))
        logits = self.out_proj(self.dropout(x_BTE))
        if self.kind != "span":
            return {"logits": logits}
        start_BT, end_BT = logits.unbind(-1)
        return {"start_logits": start_BT, "end_logits": end_BT}


class Plugged(nn.Module):
    """An encoder with cross-attention and a head."""

    def __init__(self, model: PreTrainedModel, head: nn.Module) -> None:
        """Freeze the head for masked words, which is kept as it is.

        Args:
            model: a stock model with cross-attention.
            head: its linear maps are drawn here.
        """
        super().__init__()
        self.model, self.head = model, head
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


def build(folder: Path, kind: str, outputs: int, settings: Mapping[str, Any]) -> Plugged:
    """Load a checkpoint with cross-attention, under a head that is drawn.

    Args:
        folder: of the checkpoint.
        kind: what a coder reads: sequence, score, token or span.
        outputs: of the head.
        settings: of its configuration, to be changed.
    """
    model = load_model(str(folder), settings=settings).model
    config = model.config
    rates = [getattr(config, key, None) for key in head_settings.CLASSIFIER]
    share = next((rate for rate in rates if rate is not None), config.hidden_dropout_prob)
    head = Head(kind, int(config.hidden_size), outputs, float(share))
    plugged = Plugged(model, head)
    head_settings.predict_in_fp32(head, outputs)
    return plugged
