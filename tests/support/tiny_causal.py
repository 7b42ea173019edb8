"""Tiny causal models of many architectures with their tokenizers, as they are published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from causal_tokenizers import build

if TYPE_CHECKING:
    from pathlib import Path

TOKENIZERS = {"gpt2": "gpt2", "llama": "llama-3", "mistral": "llama-2", "qwen2": "qwen"}
TOKENIZERS |= {"qwen3": "qwen", "gemma2": "gemma", "gemma3_text": "gemma", "olmo2": "gpt2"}
TOKENIZERS |= {"smollm3": "llama-3", "granite": "gpt2"}
"""By `model_type`; some have no padding token, some put nothing between two texts."""
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 128}
LLAMA = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 16}
LLAMA |= {"num_key_value_heads": 1, "intermediate_size": 48, "max_position_embeddings": 128}
WINDOW = {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]}
WINDOW |= {"query_pre_attn_scalar": 16}  # as wide as a head, as Gemma's small models have it
SHAPES = {"gpt2": GPT2, "gemma2": LLAMA | WINDOW, "gemma3_text": LLAMA | WINDOW}
SHAPES["gpt_neox"] = LLAMA | {"num_key_value_heads": None}
SHAPES |= {"exaone4": LLAMA | {"sliding_window": None, "layer_types": ["full_attention"] * 2}}


def save(folder: Path, family: str) -> Path:
    """The folder of a model with its tokenizer; its configuration names no padding token."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    words = build(TOKENIZERS[family])
    ids = {"vocab_size": len(words), "pad_token_id": None}
    ids |= {"bos_token_id": words.bos_token_id, "eos_token_id": words.eos_token_id}
    shape = SHAPES.get(family, LLAMA) | ids | {"initializer_range": 0.1}
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(3)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **shape))
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    model.float().save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
