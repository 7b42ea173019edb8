"""Keys of config.json that transformers 4.57 reads and version 5 stores elsewhere. No torch.

Version 4.57 takes the default where a key is missing, without a word, and computes other logits.
Each function takes a config.json of version 5 and returns the keys to add; a family's record names
its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

WITH_THE_BASE = ("rope_theta", "partial_rotary_factor")
"""Keys of `rope_parameters` that stood beside `rope_scaling`, not in it."""


def rope(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return rotary positions with one base for all layers (Llama, Qwen, Mistral, OLMo 2 …)."""
    parameters = config.get("rope_parameters")
    if not parameters:
        return {}
    settings = {key: parameters[key] for key in WITH_THE_BASE if key in parameters}
    return settings | {"rope_scaling": _scaling(parameters)}


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return `rope`'s keys where one base holds for all layers: for models without a record."""
    return rope(config) if "rope_theta" in (config.get("rope_parameters") or {}) else {}


def phi(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return `rope`'s keys for Phi 3, which takes three keys in `rope_scaling` and no others."""
    settings = rope(config)
    if (scaling := settings.get("rope_scaling")) is not None:
        factors = {key: scaling[key] for key in ("short_factor", "long_factor") if key in scaling}
        settings["rope_scaling"] = {"type": scaling["rope_type"], **factors}
    return settings


def neox(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return `rope`'s keys, and those of GPT-NeoX's own names."""
    parameters = config.get("rope_parameters") or {}
    names = {"rope_theta": "rotary_emb_base", "partial_rotary_factor": "rotary_pct"}
    settings = {name: parameters[key] for key, name in names.items() if key in parameters}
    return rope(config) | settings


def olmo(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return rotary positions of which those of full attention alone are scaled (OLMo 3)."""
    parameters = config.get("rope_parameters") or {}
    return rope({"rope_parameters": parameters.get("full_attention", parameters)})


def gemma(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return rotary positions with a base for each type of layer (Gemma 3)."""
    parameters = config.get("rope_parameters") or {}
    if "full_attention" not in parameters:
        return rope(config)
    local = parameters.get("sliding_attention", parameters["full_attention"])
    return olmo(config) | {"rope_local_base_freq": local["rope_theta"]}


def modernbert(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return two bases, and a rhythm of global layers.

    ModernBERT 4.57 counts its global layers from layer 0 in a fixed rhythm. An inserted layer can
    break the rhythm; then the model reads alike there only for texts shorter than half the local
    window.
    """
    parameters = config.get("rope_parameters") or {}
    kinds = {"global_rope_theta": "full_attention", "local_rope_theta": "sliding_attention"}
    thetas = {k: parameters[kind]["rope_theta"] for k, kind in kinds.items() if kind in parameters}
    return thetas | {"global_attn_every_n_layers": _rhythm(config["layer_types"])}


def _scaling(parameters: Mapping[str, Any]) -> dict[str, Any] | None:
    if parameters.get("rope_type", "default") == "default":
        return None
    return {key: value for key, value in parameters.items() if key not in WITH_THE_BASE}


def _rhythm(layer_types: list[str]) -> int:
    """Return the n for which each n-th layer from 0 on is global; the nearest if there is none."""

    def wrong(n: int) -> int:
        return sum((i % n == 0) != (kind == "full_attention") for i, kind in enumerate(layer_types))

    return min(range(1, len(layer_types) + 1), key=wrong)
