"""A tiny causal model with random weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from lingraft.models.families import FAMILIES

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LLAMA = FAMILIES["llama"]


def llama(*, tied: bool = True, **changes: object) -> PreTrainedModel:
    """Two layers, 320 rows, 128 positions."""
    settings: dict[str, object] = {
        "vocab_size": 320,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": 128,
        "pad_token_id": 1,
    } | changes
    config = AutoConfig.for_model("llama", **settings, tie_word_embeddings=tied)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(1)
        model = AutoModelForCausalLM.from_config(config)
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    return model.float().eval()
