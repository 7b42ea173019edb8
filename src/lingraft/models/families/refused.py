"""What is not grafted onto, and why. No torch here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lingraft.errors import UnsupportedModelError
from lingraft.pretrained.checkpoints import quantised

if TYPE_CHECKING:
    from collections.abc import Mapping

_STATE_SPACE = (
    "its layers are of several kinds with other tensors, and what they carry along a row cannot be "
    "kept apart by a mask, so rows would leak"
)
_EXPERTS = (
    "a mixture of experts routes tokens by what trained routers know, and needs a loss that "
    "balances them, which lingraft does not have; choose a dense model"
)
REFUSED = {
    "umt5": "transformers 5 divides its logits by √d_model, which the released weights do not "
    "expect; choose mt5",
    "marian": "transformers draws its table of positions anew when it loads it; choose m2m_100",
    "t5gemma": "its encoder and decoder have embeddings each; choose t5 or mt5",
    "encoder-decoder": "it is two models in one, for translation; give the encoder that it was "
    "made from",
    "albert": "all its layers are the same, so none can be inserted; choose bert or roberta",
    "rembert": "its input and output embeddings have widths of their own; choose xlm-roberta",
    "xmod": "its layers hold an adapter for each language; choose xlm-roberta",
    "mpnet": "its layers share one table of relative positions, which no record can name yet; "
    "choose roberta",
    "gemma4_text": "its rows of embeddings are made for each layer, so no layer can be inserted; "
    "choose gemma3_text",
    "gemma3n_text": "its rows of embeddings are made for each layer, so no layer can be inserted; "
    "choose gemma3_text",
    "qwen3_5_text": f"{_STATE_SPACE}; choose qwen3",
    "qwen3_next": f"{_STATE_SPACE}; choose qwen3",
    "lfm2": f"{_STATE_SPACE}; choose llama or qwen3",
    "mamba": f"{_STATE_SPACE}; choose llama or qwen3",
    "llama4_text": _EXPERTS,
    "mixtral": _EXPERTS,
    "qwen2_moe": _EXPERTS,
    "qwen3_moe": _EXPERTS,
    "gpt_oss": _EXPERTS,
}
"""By `model_type`."""
TEXT_OF = {
    "gemma3": "choose a text model, such as google/gemma-3-1b-pt",
    "gemma3n": "choose a text model, such as google/gemma-3-1b-pt",
    "gemma4": "choose a text model, such as google/gemma-3-1b-pt",
    "mistral3": "choose a text model, such as mistralai/Mistral-7B-v0.3",
    "qwen2_vl": "choose a text model, such as Qwen/Qwen2.5-1.5B",
    "qwen2_5_vl": "choose a text model, such as Qwen/Qwen2.5-1.5B",
    "qwen3_vl": "choose a text model, such as Qwen/Qwen3-0.6B",
    "qwen3_5": "choose a text model, such as Qwen/Qwen3-0.6B",
    "llama4": "choose a text model, such as meta-llama/Llama-3.2-1B",
    "mllama": "choose a text model, such as meta-llama/Llama-3.2-1B",
}
"""For models that see or hear: which of the same house reads text alone."""
TOWERS = ("vision_config", "audio_config", "vision_tower")
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
BERT_LIKE = (
    *("bert", "roberta", "xlm-roberta", "xlm-roberta-xl", "roberta-prelayernorm", "camembert"),
    "electra",
)


@dataclass(frozen=True)
class Setting:
    """A value of config.json that a family's record holds for."""

    families: tuple[str, ...]
    key: str
    default: object
    """What transformers takes where config.json has none."""
    works: object
    reason: str
    """Why no other value does, and what to do."""


SETTINGS = (
    Setting(
        BERT_LIKE,
        "position_embedding_type",
        "absolute",
        "absolute",
        "transformers 5 has no relative positions for it and would read it as another model; "
        "choose one with absolute positions",
    ),
    Setting(
        ("bart", "mbart", "m2m_100"),
        "tie_word_embeddings",
        True,
        True,
        "encoder, decoder and output then have embeddings each; choose a model that shares them",
    ),
    Setting(
        ("gpt2",),
        "scale_attn_by_inverse_layer_idx",
        False,
        False,
        "its attention is scaled by a layer's number, so no layer can be inserted; choose another "
        "model",
    ),
    Setting(
        ("deberta-v2",),
        "legacy",
        True,
        True,
        "its head is another than the one that lingraft knows; choose xlm-roberta",
    ),
    Setting(
        ("deberta-v2",),
        "position_biased_input",
        True,
        False,
        "only DeBERTa with relative positions alone is known; set it to false, as DeBERTa v2, v3 "
        "and mDeBERTa have it",
    ),
    Setting(
        ("deberta-v2",),
        "conv_kernel_size",
        0,
        0,
        "a convolution reads across the texts that share a row; choose mDeBERTa or DeBERTa v3",
    ),
    Setting(
        ("modernbert",),
        "decoder_bias",
        True,
        True,
        "its head is known with an output bias alone; choose a model that has one",
    ),
)
ATTENTIONS = ("full_attention", "sliding_attention")
"""What packed rows are isolated for; not chunked or linear attention."""


def check_config(name: str, config: Mapping[str, Any]) -> None:
    """Refuse a checkpoint that is no dense text model with weights that can be trained.

    Args:
        name: directory, Hub id or 'source.architecture', for the message.
        config: its config.json.

    Raises:
        UnsupportedModelError: it has a vision or audio tower, quantised weights, experts, layers
            whose attention cannot be packed, or a setting that its family's record does not hold
            for.
    """
    reason = _reason(str(config.get("model_type")), config)
    if reason:
        title = name if name == "source.architecture" else f"source model '{name}'"
        raise UnsupportedModelError(f"{title}: {reason}")


def _reason(model_type: str, config: Mapping[str, Any]) -> str | None:
    if any(config.get(key) for key in TOWERS):
        advice = TEXT_OF.get(model_type, "choose a model that reads text alone")
        return f"a {model_type} model has a tower for images or sound; {advice}"
    if reason := quantised(config):
        return reason
    if model_type in REFUSED:
        return None  # `family_of` says why
    counts = [config.get(key) for key in EXPERTS]
    if any(isinstance(count, int) and count > 1 for count in counts):
        return _EXPERTS
    types = config.get("layer_types")
    unknown = sorted({*map(str, types)} - {*ATTENTIONS}) if isinstance(types, list) else []
    if unknown:
        return (
            f"has layers of type {', '.join(unknown)}, in which rows would leak; choose a model "
            "with full or sliding attention"
        )
    for setting in SETTINGS:
        value = config.get(setting.key, setting.default)
        if model_type in setting.families and value != setting.works:
            return f"{setting.key} is {json.dumps(value)}: {setting.reason}"
    return None
