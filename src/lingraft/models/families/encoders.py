"""Encoders: one record a family; names are those of the stock `...ForMaskedLM`."""

from __future__ import annotations

from lingraft.models.families import older
from lingraft.models.families.decoders import llama_like
from lingraft.models.families.record import Family, Identity


def _bert_like(model_type: str, prefix: str, logits: str, **changes: object) -> Family:
    fields: dict[str, object] = {
        "model_type": model_type,
        "word_embeddings": f"{prefix}.embeddings.word_embeddings.weight",
        "decoder": f"{logits}.decoder.weight",
        "output_bias": (f"{logits}.bias", f"{logits}.decoder.bias"),
        "layers": f"{prefix}.encoder.layer",
        "positions": (f"{prefix}.embeddings.position_embeddings.weight",),
        "cross_attention": True,
        "embedding_norm": (
            f"{prefix}.embeddings.token_type_embeddings.",
            f"{prefix}.embeddings.LayerNorm.",
        ),
    }
    return Family(**(fields | changes))  # type: ignore[arg-type]


ROBERTA_HEAD: dict[str, object] = {
    "head_tensors": ("lm_head.dense.", "lm_head.layer_norm."),
    "pad_decides_positions": True,
}

ENCODERS: dict[str, Family] = {
    "bert": _bert_like(
        "bert",
        "bert",
        "cls.predictions",
        head=("cls.predictions",),
        head_tensors=("cls.predictions.transform.",),
    ),
    "roberta": _bert_like("roberta", "roberta", "lm_head", **ROBERTA_HEAD),
    "xlm-roberta": _bert_like("xlm-roberta", "roberta", "lm_head", **ROBERTA_HEAD),
    "electra": _bert_like(
        "electra",
        "electra",
        "generator_lm_head",
        decoder="generator_lm_head.weight",
        output_bias=("generator_lm_head.bias",),
        embedding_norm=(
            "electra.embeddings.token_type_embeddings.",
            "electra.embeddings.LayerNorm.",
            "electra.embeddings_project.",
        ),
        head=("generator_predictions", "generator_lm_head"),
        head_tensors=("generator_predictions.",),
    ),
    "modernbert": Family(
        model_type="modernbert",
        word_embeddings="model.embeddings.tok_embeddings.weight",
        decoder="decoder.weight",
        output_bias=("decoder.bias",),
        layers="model.layers",
        embedding_norm=("model.embeddings.norm.",),
        head=("head", "decoder"),
        head_tensors=("head.",),
        body_tensors=("model.final_norm.",),
        dropout_keys=("embedding_dropout", "mlp_dropout", "attention_dropout"),
        per_layer=("layer_types",),
        first_layer_lacks="attn_norm.weight",
        residual_sites=("attn.out_drop", "mlp"),
        identity=Identity(("attn.Wo", "mlp.Wo")),
        older=older.modernbert,
        note="mmBERT and Ettin too; identity but before the first layer, which lacks a norm; 4.57 "
        "reads alike where global layers keep their rhythm",
    ),
    "camembert": _bert_like("camembert", "roberta", "lm_head", **ROBERTA_HEAD),
    "xlm-roberta-xl": _bert_like(
        "xlm-roberta-xl",
        "roberta",
        "lm_head",
        **ROBERTA_HEAD,
        embedding_norm=("roberta.embeddings.token_type_embeddings.",),
        body_tensors=("roberta.encoder.LayerNorm.",),
        residual_sites=("attention.output.dropout", "output.dense"),
        cross_attention=False,
        identity=Identity(("attention.output.dense", "output.dense")),
    ),
    "roberta-prelayernorm": _bert_like(
        "roberta-prelayernorm",
        "roberta_prelayernorm",
        "lm_head",
        **ROBERTA_HEAD,
        body_tensors=("roberta_prelayernorm.LayerNorm.",),
        cross_attention=False,
        identity=Identity(("attention.output.dense", "output.dense")),
    ),
    "eurobert": llama_like("eurobert", kind="masked", older=None),
    "gte": _bert_like(
        "gte",
        "gte",
        "lm_head",
        head_tensors=("lm_head.dense.", "lm_head.layer_norm."),
        output_bias=("lm_head.decoder.bias",),
        layers="gte.layers",
        positions=(),
        cross_attention=False,
        residual_sites=("post_attention_dropout", "post_mlp_dropout"),
        stored=(("gte.encoder.layer.", "gte.layers."), ("lm_head.norm.", "lm_head.layer_norm.")),
        older=None,
        note="gte-multilingual",
    ),
    "deberta-v2": _bert_like(
        "deberta-v2",
        "deberta",
        "cls.predictions",
        head=("cls.predictions",),
        head_tensors=("cls.predictions.transform.",),
        embedding_norm=(
            "deberta.embeddings.token_type_embeddings.",
            "deberta.embeddings.embed_proj.",
            "deberta.embeddings.LayerNorm.",
        ),
        positions=(),
        body_tensors=("deberta.encoder.rel_embeddings.", "deberta.encoder.LayerNorm."),
        cross_attention=False,
        attention="disentangled",
        other_positions="relative",
        note="mDeBERTa, DeBERTa v3: released without a head for masked tokens, which starts fresh; "
        "not those with a convolution",
    ),
    "distilbert": _bert_like(
        "distilbert",
        "distilbert",
        "",
        decoder="vocab_projector.weight",
        output_bias=("vocab_projector.bias",),
        layers="distilbert.transformer.layer",
        depth_key="n_layers",
        embedding_norm=("distilbert.embeddings.LayerNorm.",),
        head=("vocab_transform", "activation", "vocab_layer_norm", "vocab_projector"),
        head_tensors=("vocab_transform.", "vocab_layer_norm."),
        dropout_keys=("dropout", "attention_dropout"),
        residual_sites=("attention.out_lin", "ffn"),
        cross_attention=False,
        note="distil-mBERT too",
    ),
}
