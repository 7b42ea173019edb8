"""An encoder–decoder of post-norm layers as BART: the same layers under other names.

Shape letters: P positions, D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from transformers import BartConfig, BartForConditionalGeneration

from lingraft.errors import UnsupportedModelError
from lingraft.models.graft import build
from lingraft.pretrained.load import first_position, longest_text

if TYPE_CHECKING:
    from transformers import EncoderDecoderModel, PreTrainedConfig

NORM_EPSILON = 1e-5
"""Epsilon that BART's classes fix."""
FIRST_POSITION = 2
"""BART's first position row."""
NAMES = {
    "attention.self.query": "self_attn.q_proj",
    "attention.self.key": "self_attn.k_proj",
    "attention.self.value": "self_attn.v_proj",
    "attention.output.dense": "self_attn.out_proj",
    "attention.output.LayerNorm": "self_attn_layer_norm",
    "crossattention.self.query": "encoder_attn.q_proj",
    "crossattention.self.key": "encoder_attn.k_proj",
    "crossattention.self.value": "encoder_attn.v_proj",
    "crossattention.output.dense": "encoder_attn.out_proj",
    "crossattention.output.LayerNorm": "encoder_attn_layer_norm",
    "intermediate.dense": "fc1",
    "output.dense": "fc2",
    "output.LayerNorm": "final_layer_norm",
}
"""A module of a layer -> the same in BART."""


def check(name: str, config: PreTrainedConfig) -> None:
    """Refuse an encoder that BART's classes cannot be.

    Raises:
        UnsupportedModelError: it is one.
    """
    reason = ""
    if getattr(config, "embedding_size", config.hidden_size) != config.hidden_size:
        reason = "its embeddings are narrower than its layers, and BART has no projection there"
    elif config.layer_norm_eps != NORM_EPSILON:
        reason = (
            f"its norms add {config.layer_norm_eps:g} to the variance (layer_norm_eps), BART's "
            f"always {NORM_EPSILON:g}, so that the states would be others"
        )
    if reason:
        raise UnsupportedModelError(f"{name}: --format bart: {reason}; use encoder-decoder")


def _config(model: EncoderDecoderModel) -> BartConfig:
    settings: Any = model.config  # of which transformers says that a stack's could be None
    encoder, decoder = settings.encoder, settings.decoder
    return BartConfig(
        vocab_size=encoder.vocab_size,
        max_position_embeddings=longest_text(encoder, encoder.pad_token_id),
        d_model=encoder.hidden_size,
        encoder_layers=encoder.num_hidden_layers,
        decoder_layers=decoder.num_hidden_layers,
        encoder_ffn_dim=encoder.intermediate_size,
        decoder_ffn_dim=encoder.intermediate_size,
        encoder_attention_heads=encoder.num_attention_heads,
        decoder_attention_heads=encoder.num_attention_heads,
        activation_function=encoder.hidden_act,
        dropout=encoder.hidden_dropout_prob,
        attention_dropout=encoder.attention_probs_dropout_prob,
        activation_dropout=0.0,
        init_std=encoder.initializer_range,
        scale_embedding=False,
        tie_word_embeddings=True,
        forced_eos_token_id=None,
        decoder_start_token_id=settings.decoder_start_token_id,
        pad_token_id=encoder.pad_token_id,
        bos_token_id=encoder.bos_token_id,
        eos_token_id=encoder.eos_token_id,
    )


@torch.no_grad()
def of(model: EncoderDecoderModel) -> BartForConditionalGeneration:
    """Return the same layers as BART: equal hidden states, and logits without the head's transform.

    BART has no token types: row 0 of theirs is added into the positions. Its position rows start at
    2, whatever the padding id, and count padding too: pad sources on the right.

    Args:
        model: as `assemble` gives it, of an encoder that `check` lets through.
    """
    tensors, encoder = model.state_dict(), model.get_encoder().config
    first = first_position(encoder, encoder.pad_token_id)
    state: dict[str, torch.Tensor] = {}
    base = f"decoder.{model.decoder.base_model_prefix}."
    for stack, prefix in (("encoder", "encoder."), ("decoder", base)):
        place = f"model.{stack}"
        embeddings = f"{prefix}embeddings"
        rows_PD = tensors[f"{embeddings}.position_embeddings.weight"][first:]
        rows_PD = rows_PD + tensors[f"{embeddings}.token_type_embeddings.weight"][0]
        unused = rows_PD.new_zeros(FIRST_POSITION, rows_PD.shape[1])
        state[f"{place}.embed_positions.weight"] = torch.cat([unused, rows_PD])
        state["model.shared.weight"] = tensors[f"{embeddings}.word_embeddings.weight"]
        for kind in ("weight", "bias"):
            norm = tensors[f"{embeddings}.LayerNorm.{kind}"]
            state[f"{place}.layernorm_embedding.{kind}"] = norm
        layers = f"{prefix}encoder.layer."
        for name in (name for name in tensors if name.startswith(layers)):
            index, _, rest = name.removeprefix(layers).partition(".")
            module, _, kind = rest.rpartition(".")
            state[f"{place}.layers.{index}.{NAMES[module]}.{kind}"] = tensors[name]
    target = build(BartForConditionalGeneration, _config(model), 0)
    absent, strays = target.load_state_dict(state, strict=False)
    assert not strays, f"{strays} have no place"
    target.tie_weights()
    lacking = set(absent) - {"final_logits_bias", *target.all_tied_weights_keys}
    assert not lacking, f"{lacking} have no weights"
    target.generation_config = model.generation_config
    return target.eval()
