"""Causal models: one record a family; names are those of the stock `...ForCausalLM`.

Encoder–decoders: one record a family.
"""

from __future__ import annotations

from lingraft.models.families import older
from lingraft.models.families.record import DECODER, Family, Identity, LayerList

PROJECTIONS = Identity(("self_attn.o_proj", "mlp.down_proj"))
"""Identity of pre-norm layers; LLaMA Pro's rule."""
POST_NORMS = ("post_attention_layernorm", "post_feedforward_layernorm")
"""The norms behind attention and feed-forward, where the residual is added to what they give.

Zeroed projections before them are the identity too, but a trap: a norm blows the first small step
of the optimizer up to full size, so the norms themselves are silenced."""
AFTER_POST_NORMS: dict[str, object] = {"identity": Identity(POST_NORMS)}
GEMMA: dict[str, object] = {
    "per_layer": ("layer_types",),
    "identity": Identity(POST_NORMS, -1.0),
    "logits_cap": "final_logit_softcapping",
}


def llama_like(model_type: str, **changes: object) -> Family:
    """Return a family whose tensors are called as Llama's; `changes` are where it differs."""
    identity = changes.get("identity", PROJECTIONS)
    assert isinstance(identity, Identity)
    fields: dict[str, object] = {
        "model_type": model_type,
        "kind": "causal",
        "word_embeddings": "model.embed_tokens.weight",
        "decoder": "lm_head.weight",
        "layers": "model.layers",
        "body_tensors": ("model.norm.",),
        "dropout_keys": ("attention_dropout",),
        "residual_sites": identity.modules,
        "identity": identity,
    }
    return Family(**(fields | changes))  # type: ignore[arg-type]


def _fairseq_like(model_type: str, stack: str, norm: str, **changes: object) -> Family:
    fields: dict[str, object] = {
        "word_embeddings": f"{stack}.embed_tokens.weight",
        "layers": f"{stack}.layers",
        "body_tensors": (f"{stack}.{norm}.",),
        "dropout_keys": ("dropout", "attention_dropout"),
        "identity": Identity(("self_attn.out_proj", "fc2")),
    }
    return llama_like(model_type, **(fields | changes))


DECODERS: dict[str, Family] = {
    "gpt2": llama_like(
        "gpt2",
        word_embeddings="transformer.wte.weight",
        positions=("transformer.wpe.weight",),
        layers="transformer.h",
        depth_key="n_layer",
        body_tensors=("transformer.ln_f.",),
        dropout_keys=("resid_pdrop", "embd_pdrop", "attn_pdrop"),
        residual_sites=("attn.resid_dropout", "mlp"),
        identity=Identity(("attn.c_proj", "mlp.c_proj")),
    ),
    "llama": llama_like(
        "llama", note="Llama 1 to 3, SmolLM 1 and 2, and most models named after it"
    ),
    "mistral": llama_like("mistral", window_everywhere=True),
    "qwen2": llama_like(
        "qwen2",
        per_layer=("layer_types",),
        own_pattern=True,
        note="Qwen 2 and 2.5; only vocabularies with Qwen's own pattern",
    ),
    "qwen3": llama_like("qwen3", per_layer=("layer_types",)),
    "gemma": llama_like("gemma"),
    "gemma2": llama_like(
        "gemma2", **GEMMA, note="4.57 needs attn_implementation='eager': others leave out softcaps"
    ),
    "gemma3_text": llama_like(
        "gemma3_text",
        **(GEMMA | {"older": older.gemma}),
        note="270m and 1b; larger ones see images",
    ),
    "smollm3": llama_like(
        "smollm3",
        per_layer=("layer_types", "no_rope_layers"),
        note="layers without rotary positions stay so",
    ),
    "ministral": llama_like("ministral", per_layer=("layer_types",)),
    "ministral3": llama_like("ministral3", window_everywhere=True, older=None),
    "helium": llama_like("helium"),
    "olmo": llama_like("olmo", body_tensors=()),
    "olmo2": llama_like("olmo2", **AFTER_POST_NORMS),
    "olmo3": llama_like("olmo3", per_layer=("layer_types",), older=older.olmo, **AFTER_POST_NORMS),
    "phi": llama_like(
        "phi",
        output_bias=("lm_head.bias",),
        body_tensors=("model.final_layernorm.",),
        dropout_keys=("resid_pdrop", "embd_pdrop", "attention_dropout"),
        identity=Identity(("self_attn.dense", "mlp.fc2")),
        note="Phi 1 to 2, EEVE 2.8B",
    ),
    "phi3": llama_like(
        "phi3",
        window_everywhere=True,
        dropout_keys=("resid_pdrop", "embd_pdrop", "attention_dropout"),
        residual_sites=("resid_attn_dropout", "resid_mlp_dropout"),
        older=older.phi,
        note="Phi 3 and 4",
    ),
    "gpt_neox": llama_like(
        "gpt_neox",
        word_embeddings="gpt_neox.embed_in.weight",
        layers="gpt_neox.layers",
        body_tensors=("gpt_neox.final_layer_norm.",),
        dropout_keys=("hidden_dropout", "attention_dropout"),
        residual_sites=("post_attention_dropout", "post_mlp_dropout"),
        identity=Identity(("attention.dense", "mlp.dense_4h_to_h")),
        stored=(("embed_out.", "lm_head."),),
        older=older.neox,
        note="Pythia, Polyglot-Ko",
    ),
    "opt": _fairseq_like(
        "opt",
        "model.decoder",
        "final_layer_norm",
        positions=("model.decoder.embed_positions.weight",),
        embedding_norm=("model.decoder.project_in.",),
        head_tensors=("model.decoder.project_out.",),
        identity=Identity(("self_attn.out_proj", "fc2"), where=("do_layer_norm_before", True)),
        note="identity but for opt-350m, which is post-LN",
    ),
    "bloom": llama_like(
        "bloom",
        word_embeddings="transformer.word_embeddings.weight",
        layers="transformer.h",
        depth_key="n_layer",
        embedding_norm=("transformer.word_embeddings_layernorm.",),
        body_tensors=("transformer.ln_f.",),
        dropout_keys=("hidden_dropout", "attention_dropout"),
        identity=Identity(
            ("self_attention.dense", "mlp.dense_4h_to_h"),
            where=("apply_residual_connection_post_layernorm", False),
        ),
        attention="alibi",
        other_positions="ALiBi",
    ),
    "xglm": _fairseq_like(
        "xglm",
        "model",
        "layer_norm",
        depth_key="num_layers",
        attention="own",
        other_positions="sinusoidal",
    ),
    "exaone4": llama_like("exaone4", per_layer=("layer_types",), **AFTER_POST_NORMS),
    "cohere2": llama_like(
        "cohere2",
        per_layer=("layer_types",),
        logits_multiplied_by="logit_scale",
        note="Command R7B; layers of full attention have no rotary positions",
    ),
    "nanochat": llama_like(
        "nanochat",
        body_tensors=(),
        identity=Identity(("self_attn.o_proj", "mlp.fc2")),
        logits_cap="final_logit_softcapping",
        older=None,
    ),
    "granite": llama_like("granite", logits_divided_by="logits_scaling"),
    "hyperclovax": llama_like(
        "hyperclovax",
        logits_multiplied_by="logits_scaling",
        identity=Identity(("post_norm1", "post_norm2"), where=("use_post_norm", True)),
        older=None,
        note="HyperCLOVA X SEED Think; the smaller SEED models are Llamas",
    ),
    "apertus": llama_like(
        "apertus", note="logits in 4.57 to 0.003: it keeps numbers of the activation in bf16"
    ),
}


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
