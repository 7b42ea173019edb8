"""Values of config.json and generation_config.json, tried before anything is made of them."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import torch
from transformers import GenerationConfig

from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from transformers import PreTrainedConfig


TEXTS = (
    *("cache_implementation", "early_stopping", "num_assistant_tokens_schedule"),
    *("speculation_type", "stop_strings", "transformers_version"),
)
"""Keys of a generation configuration that hold text; the others hold numbers."""
SWITCHES = (
    *("do_sample", "use_cache", "renormalize_logits", "return_dict_in_generate"),
    *("output_attentions", "output_hidden_states", "output_logits", "output_scores"),
)
WRITTEN = ("bos_token_id", "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id")
"""Special ids that a model reads or writes by itself, so that each needs a row."""


def check_values(where: str, settings: Mapping[str, Any]) -> None:
    """Refuse numbers that JSON does not have, and special ids that are no ids.

    Args:
        where: the file, for the message.
        settings: what it holds.

    Raises:
        DataError: it holds such a value.
    """
    for key, value in settings.items():
        try:
            json.dumps(value, allow_nan=False, default=str)
        except ValueError:
            raise _wrong(where, key, value, "must be finite") from None
        if key.endswith("_token_id") and not _are_ids(value):
            raise _wrong(where, key, value, "must be an id, a list of ids or null")


def check_generation(where: str, generation: GenerationConfig) -> None:
    """Refuse settings of `generate()` of another type than it reads.

    Raises:
        DataError: there is such a setting.
    """
    known, settings = GenerationConfig().to_dict(), generation.to_dict()
    check_values(where, settings)
    for key in settings.keys() & known.keys() - {*TEXTS}:
        if isinstance(settings[key], str):
            raise _wrong(where, key, settings[key], "must be no text")
    for key in SWITCHES:
        if not isinstance(settings.get(key), bool | None):
            raise _wrong(where, key, settings[key], "must be true, false or null")
    generation.validate()


def try_decoding(model: Any) -> None:
    """Make of a model's generation configuration what `generate()` makes of it.

    Raises:
        Exception: of transformers or torch, over a value that it does not take.
    """
    generation, ids_BT = copy.deepcopy(model.generation_config), torch.zeros(1, 2, dtype=torch.long)
    rows = model.config.get_text_config(decoder=True).vocab_size
    for key in WRITTEN:
        ids = getattr(generation, key)
        if any(not 0 <= index < rows for index in _listed(ids)):
            raise ValueError(f"{key} is {ids}, and the model has rows 0 to {rows - 1}")
    if generation.decoder_start_token_id is None:  # mBART leaves it to the language
        generation.decoder_start_token_id = 0
    model._prepare_special_tokens(generation, kwargs_has_attention_mask=True, device="cpu")
    model._get_logits_processor(
        generation, input_ids_seq_length=2, encoder_input_ids=ids_BT, device="cpu"
    )
    for key in ("max_length", "max_new_tokens", "num_beams", "num_return_sequences"):
        if (value := getattr(generation, key)) is not None and not value >= 1:
            raise ValueError(f"{key} must be at least 1; got {value!r}")


def try_initialising(model: Any) -> None:
    """Draw all weights of a model on the meta device, where drawing costs nothing.

    Raises:
        Exception: of torch, over a spread that is none.
    """
    for module in model.modules():
        module._is_hf_initialized = False
    model.initialize_weights()


def check_tensors(name: str, config: PreTrainedConfig, missing: Iterable[str]) -> None:
    """Refuse a checkpoint without tensors, which would be drawn at random; a pooler is not needed.

    Raises:
        DataError: there are such.
    """
    if lacking := sorted(key for key in missing if "pooler." not in key):
        raise DataError(
            f"source model '{name}': its weights lack {len(lacking)} tensors of a "
            f"{config.model_type} model, as config.json says ('{lacking[0]}' is one); put back the "
            "config.json that belongs to the weights, or save or download the model again"
        )


def _are_ids(value: Any) -> bool:
    return all(type(index) is int for index in _listed(value))


def _listed(ids: Any) -> list[Any]:
    """Return ids as a list: none, one or several."""
    return ids if isinstance(ids, list) else [] if ids is None else [ids]


def _wrong(where: str, key: str, value: Any, right: str) -> DataError:
    return DataError(f"{where}: {key} is {value!r}, but {right}; correct it")
