"""Sizes of the tiny models of all families."""

from __future__ import annotations

DEPTH, WIDTH, LONGEST = 2, 32, 128
BERT_SHAPE = {"hidden_size": WIDTH, "num_hidden_layers": DEPTH, "num_attention_heads": 2}
BERT_SHAPE |= {"intermediate_size": 48, "max_position_embeddings": LONGEST}
BERT_SHAPE |= {"initializer_range": 0.1}
SHAPES: dict[str, dict[str, object]] = {
    "bert": BERT_SHAPE,
    "roberta": BERT_SHAPE | {"max_position_embeddings": LONGEST + 2, "type_vocab_size": 1},
    "xlm-roberta": BERT_SHAPE | {"max_position_embeddings": LONGEST + 2, "type_vocab_size": 1},
    "electra": BERT_SHAPE | {"embedding_size": 16},
    "modernbert": BERT_SHAPE
    | {"layer_types": ["full_attention"] * DEPTH, "embedding_dropout": 0.1, "mlp_dropout": 0.1},
}
BART_SHAPE: dict[str, object] = {
    f"{stack}_{key}": value
    for stack in ("encoder", "decoder")
    for key, value in (("layers", DEPTH), ("attention_heads", 2), ("ffn_dim", 48))
} | {"d_model": WIDTH, "max_position_embeddings": LONGEST, "init_std": 0.1}
T5_SHAPE = {"d_model": WIDTH, "d_kv": 16, "d_ff": 48, "num_layers": DEPTH, "num_heads": 2}
SHAPES |= {
    "bart": BART_SHAPE,
    "mbart": BART_SHAPE | {"scale_embedding": True},
    "m2m_100": BART_SHAPE | {"scale_embedding": True},
    "t5": T5_SHAPE | {"initializer_factor": 0.5},
    "mt5": T5_SHAPE | {"initializer_factor": 0.5},
}
RANGE = {"initializer_range": 0.1}
LLAMA_SHAPE = BERT_SHAPE | {"num_key_value_heads": 1}
LAYERS = {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 4}
GEMMA_SHAPE = LLAMA_SHAPE | LAYERS | {"head_dim": 16}
SHAPES |= {
    "gpt2": {"n_embd": WIDTH, "n_layer": DEPTH, "n_head": 2, "n_positions": LONGEST} | RANGE,
    "llama": LLAMA_SHAPE | {"tie_word_embeddings": True},
    "mistral": LLAMA_SHAPE | {"sliding_window": 4},
    "qwen2": LLAMA_SHAPE | LAYERS | {"use_sliding_window": True, "tie_word_embeddings": True},
    "qwen3": LLAMA_SHAPE | {"head_dim": 8, "tie_word_embeddings": True},
    "gemma": LLAMA_SHAPE | {"head_dim": 16},
    "gemma2": GEMMA_SHAPE | {"query_pre_attn_scalar": 16, "final_logit_softcapping": 3.0},
    "gemma3_text": GEMMA_SHAPE,
    "smollm3": LLAMA_SHAPE | {"no_rope_layers": [1, 0]},
    "ministral": GEMMA_SHAPE,
    "ministral3": LLAMA_SHAPE | {"head_dim": 16, "sliding_window": 4},
    "helium": LLAMA_SHAPE | {"head_dim": 16},
    "olmo": LLAMA_SHAPE,
    "olmo2": LLAMA_SHAPE,
    "cohere2": LLAMA_SHAPE | LAYERS | {"logit_scale": 0.5},
    "nanochat": LLAMA_SHAPE | {"final_logit_softcapping": 3.0},
    "olmo3": LLAMA_SHAPE | LAYERS,
    "phi": LLAMA_SHAPE | {"resid_pdrop": 0.1},
    "hyperclovax": LLAMA_SHAPE
    | {"logits_scaling": 3.0, "embedding_multiplier": 2.0, "residual_multiplier": 0.5}
    | {"attention_multiplier": 0.25},
    "phi3": LLAMA_SHAPE | {"sliding_window": 4, "resid_pdrop": 0.1},
    "gpt_neox": BERT_SHAPE,
    "opt": RANGE
    | {"hidden_size": WIDTH, "word_embed_proj_dim": 16, "ffn_dim": 48, "num_hidden_layers": DEPTH}
    | {"num_attention_heads": 2, "max_position_embeddings": LONGEST, "init_std": 0.1},
    "bloom": {"hidden_size": WIDTH, "n_layer": DEPTH, "n_head": 2, "hidden_dropout": 0.1} | RANGE,
    "xglm": {"d_model": WIDTH, "ffn_dim": 48, "num_layers": DEPTH, "attention_heads": 2}
    | {"max_position_embeddings": LONGEST, "init_std": 0.1},
    "exaone4": LLAMA_SHAPE | LAYERS,
    "granite": LLAMA_SHAPE
    | {"logits_scaling": 3.0, "embedding_multiplier": 2.0, "residual_multiplier": 0.5},
    "apertus": LLAMA_SHAPE | {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
    "camembert": BERT_SHAPE | {"max_position_embeddings": LONGEST + 2, "type_vocab_size": 1},
    "xlm-roberta-xl": BERT_SHAPE | {"max_position_embeddings": LONGEST + 2, "type_vocab_size": 1},
    "roberta-prelayernorm": BERT_SHAPE
    | {"max_position_embeddings": LONGEST + 2, "type_vocab_size": 1},
    "eurobert": LLAMA_SHAPE,
    "distilbert": {"dim": WIDTH, "n_layers": DEPTH, "n_heads": 2, "hidden_dim": 48}
    | {"max_position_embeddings": LONGEST}
    | RANGE,
    "gte": BERT_SHAPE,
    "deberta-v2": BERT_SHAPE
    | {"relative_attention": True, "position_buckets": 8, "norm_rel_ebd": "layer_norm"}
    | {"share_att_key": True, "pos_att_type": ["p2c", "c2p"], "type_vocab_size": 0}
    | {"position_biased_input": False},
}
ENCODERS = ("bert", "roberta", "xlm-roberta", "electra", "modernbert")
"""Encoders for whole runs; the contract tests have those of all families."""
STARTS = {"t5": "pad_token_id", "mt5": "pad_token_id"}
"""What a decoder starts with; all others with the end of a sentence."""
