"""A tiny causal model with random weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from lingraft.models.families import Family

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LLAMA = Family(
    model_type="llama",
    kind="causal",
    word_embeddings="model.embed_tokens.weight",
    decoder="lm_head.weight",
    output_bias=(),
    layers="model.layers",
    embedding_norm=(),
    head=("lm_head",),
    head_tensors=(),
    body_tensors=("model.norm.",),
    dropout_keys=("attention_dropout",),
    residual_sites=("self_attn", "mlp"),
    layer_output="mlp.down_proj.weight",
)


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
