"""Encoder–decoders: one record a family."""

from __future__ import annotations

from lingraft.models.families.record import DECODER, Family, Identity, LayerList


def _bart_like(model_type: str, *, positions: bool, norm: bool, final: bool) -> Family:
    stacks = ("model.encoder", "model.decoder")
    return Family(
        model_type=model_type,
        word_embeddings="model.shared.weight",
        embedding_aliases=tuple(f"{stack}.embed_tokens.weight" for stack in stacks),
        decoder="lm_head.weight",
        output_bias=("final_logits_bias",) if positions else (),
        layers="model.encoder.layers",
        depth_key="encoder_layers",
        decoder_list=LayerList("model.decoder.layers", "decoder_layers", DECODER),
        positions=tuple(f"{stack}.embed_positions.weight" for stack in stacks) if positions else (),
        position_modules=tuple(f"{stack}.embed_positions" for stack in stacks),
        pad_decides_positions=not positions,
        embedding_norm=tuple(f"{stack}.layernorm_embedding." for stack in stacks) if norm else (),
        body_tensors=tuple(f"{stack}.layer_norm." for stack in stacks) if final else (),
        dropout_keys=("dropout", "attention_dropout", "activation_dropout"),
        identity=Identity(("self_attn.out_proj", "encoder_attn.out_proj", "fc2"))
        if final
        else None,
        kind="seq2seq",
        corruption="infilling",
    )


def _t5_like(model_type: str, head_scale_key: str | None) -> Family:
    return Family(
        model_type=model_type,
        word_embeddings="shared.weight",
        embedding_aliases=("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"),
        decoder="lm_head.weight",
        layers="encoder.block",
        depth_key="num_layers",
        decoder_list=LayerList("decoder.block", "num_decoder_layers", DECODER),
        first_layer_has="layer.0.SelfAttention.relative_attention_bias.weight",
        body_tensors=("encoder.final_layer_norm.", "decoder.final_layer_norm."),
        head_scale_key=head_scale_key,
        decoder_start="pad",
        dropout_keys=("dropout_rate",),
        identity=Identity(("SelfAttention.o", "EncDecAttention.o", "DenseReluDense.wo")),
        kind="seq2seq",
        corruption="spans",
    )


ENCODER_DECODERS: dict[str, Family] = {
    "bart": _bart_like("bart", positions=True, norm=True, final=False),
    "mbart": _bart_like("mbart", positions=True, norm=True, final=True),
    "m2m_100": _bart_like("m2m_100", positions=False, norm=False, final=True),
    "t5": _t5_like("t5", "scale_decoder_outputs"),
    "mt5": _t5_like("mt5", None),
}
