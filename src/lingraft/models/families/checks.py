"""Settings that transformers would load without a word, and no record holds for. No torch here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.errors import UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Mapping

BERT_LIKE = ("bert", "roberta", "xlm-roberta", "xlm-roberta-xl", "roberta-prelayernorm")
SETTINGS: dict[str, tuple[tuple[str, ...], object, str]] = {
    "position_embedding_type": (
        (*BERT_LIKE, "camembert", "electra"),
        "absolute",
        "transformers 5 has no relative positions for it",
    ),
    "tie_word_embeddings": (
        ("bart", "mbart", "m2m_100"),
        True,
        "encoder, decoder and output then have embeddings each",
    ),
    "scale_attn_by_inverse_layer_idx": (
        ("gpt2",),
        False,
        "attention is scaled by a layer's number, so no layer can be inserted",
    ),
}
"""By key of config.json: for which families, its default, which alone works, and why."""
ATTENTIONS = ("full_attention", "sliding_attention")
"""Attentions that packed rows are isolated for; not chunked or linear attention."""


def check_config(name: str, config: Mapping[str, Any]) -> None:
    """Refuse a checkpoint that its family's record does not hold for.

    Args:
        name: directory, Hub id or 'source.architecture', for the message.
        config: its config.json.

    Raises:
        UnsupportedModelError: its rows would leak, or a setting is another than the record's.
    """
    types = config.get("layer_types")
    unknown = sorted({*map(str, types)} - {*ATTENTIONS}) if isinstance(types, list) else []
    reasons = [f"has layers of type {kind}, in which rows would leak" for kind in unknown]
    for key, (families, works, reason) in SETTINGS.items():
        if config.get("model_type") in families and config.get(key, works) != works:
            reasons.append(f"{key} is {config[key]!r}: {reason}")
    if reasons:
        title = name if name == "source.architecture" else f"source model '{name}'"
        raise UnsupportedModelError(f"{title}: {'; '.join(reasons)}; choose another model")
