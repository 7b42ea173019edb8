"""Loading the source model: a stock model from a directory or the Hub, in fp32."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoConfig

from lingraft.errors import (
    LingraftError,
    RecipeError,
    UnsupportedModelError,
    is_memory_full,
)
from lingraft.models import loading
from lingraft.models.families import Family, check_config, family_of
from lingraft.models.graft import build
from lingraft.pretrained.load import DEEPEST, load_config, quiet_transformers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from transformers import PreTrainedConfig, PreTrainedModel

    from lingraft.recipe import Source

logger = logging.getLogger(__name__)

OLDER_SETTINGS = frozenset({"global_attn_every_n_layers", "global_rope_theta", "local_rope_theta"})
"""ModernBERT settings that transformers 5 reads but does not list."""

MASK = "mask_token_id"
"""EuroBERT's configuration has it; the others leave it to the tokenizer."""
LARGEST = 100_000_000_000
"""Parameters of a model that is trained from nothing: 400 GB in fp32."""


@dataclass(frozen=True)
class LoadedSource:
    """A source model and what its checkpoint lacked or held beside it."""

    model: PreTrainedModel
    family: Family
    missing: frozenset[str]
    unexpected: tuple[str, ...]


def load_model(
    name: str,
    revision: str | None = None,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> LoadedSource:
    """Load a source model in fp32 on the CPU, with the modules that it has.

    A masked language model may lack its head, or a part of it, which then starts fresh.

    Args:
        name: directory or Hub id.
        revision: branch, tag or commit on the Hub.
        settings: configuration values to change (dropout).
        options: of `from_pretrained`.

    Raises:
        DataError: there is no such checkpoint here, it is broken, or lacks tensors of another part.
        UnsupportedModelError: an architecture without a record in `FAMILIES`, or weights of another
            than config.json says.
    """
    config = load_config(name, revision)
    check_config(name, config.to_dict())
    family = family_of(config.model_type)
    own_code = getattr(config, "auto_map", None)  # which may make other tensors of what is there
    headless = family.kind == "masked" and not own_code
    model, info = loading.load(
        name,
        revision,
        settings,
        may_lack=lambda tensor: headless and _is_of_head(tensor, family),
        ignore_mismatched_sizes=True,  # reported below, with names
        **options,
    )
    if info["mismatched_keys"]:
        tensor, stored, expected = min(info["mismatched_keys"])
        raise UnsupportedModelError(
            f"source model '{name}': {len(info['mismatched_keys'])} tensors have other sizes than "
            f"its config.json says ('{tensor}' is {list(stored)}, not {list(expected)}); "
            "put back the config.json that belongs to the weights"
        )
    missing = frozenset(info["missing_keys"]) - _read_bias(model, family, info["missing_keys"])
    if missing:
        logger.warning(
            "source model '%s' lacks %d tensors; they start fresh: %s",
            name,
            len(missing),
            sorted(missing),
        )
    return LoadedSource(model.eval(), family, missing, tuple(sorted(info["unexpected_keys"])))


def _is_of_head(tensor: str, family: Family) -> bool:
    """Return whether a tensor belongs to the head of a masked language model."""
    own = {family.decoder, *family.output_bias}
    return tensor in own or tensor.startswith(family.head_tensors)


def _read_bias(model: PreTrainedModel, family: Family, missing: Collection[str]) -> set[str]:
    """Give an untied head the bias of its checkpoint, where transformers 4 stored it.

    Version 4 stores the bias under the first of its two names alone; version 5 reads an untied
    head's under the second, and says that it is missing.
    """
    first, *aliases = family.output_bias or ("",)
    names = {name for name in aliases if name in missing and first not in missing}
    for name in names:
        model.get_parameter(name).data.copy_(model.get_parameter(first))
    return names


def config_of(source: Source) -> PreTrainedConfig:
    """Return the configuration of the source, which may be `source.architecture`.

    Raises:
        DataError: as `load_config`.
        RecipeError: transformers does not accept the table.
        UnsupportedModelError: as `load_config`, or a setting that no record holds for.
    """
    if source.architecture is None:
        return load_config(str(source.model), source.revision)
    with _of_the_table():
        return _from_table(source.architecture)


def from_architecture(
    source: Source, vocab_size: int, special_ids: Mapping[str, int | None], seed: int
) -> LoadedSource:
    """Build a model with random weights from `source.architecture`, to train from nothing.

    Raises:
        RecipeError: transformers does not accept the table.
        UnsupportedModelError: a setting that no record holds for.
    """
    quiet_transformers()
    settings = dict(source.architecture or {})
    family = family_of(str(settings["model_type"]))
    with _of_the_table():
        stock = AutoConfig.for_model(family.model_type)
        special = {k: v for k, v in special_ids.items() if k != MASK or hasattr(stock, MASK)}
        config = _from_table(settings | {"vocab_size": vocab_size} | special)
        if family.decoder_list is not None:
            config.decoder_start_token_id = getattr(config, f"{family.decoder_start}_token_id")
        known = {*stock.to_dict(), *config.attribute_map}
        unknown = sorted(set(settings) - known - OLDER_SETTINGS)
        if unknown:
            raise RecipeError(
                f"source.architecture: {family.model_type} has no setting {', '.join(unknown)}"
            )
        model_class = loading.stock_class(config)
        assert model_class is not None, f"{family.model_type} has no class for its kind"
        _check_size(model_class, config)
        return LoadedSource(build(model_class, config, seed).eval(), family, frozenset(), ())


def _from_table(architecture: Mapping[str, Any]) -> PreTrainedConfig:
    settings = dict(architecture)
    config = AutoConfig.for_model(str(settings.pop("model_type")), **settings)
    check_config("source.architecture", config.to_dict())
    return config


@contextlib.contextmanager
def _of_the_table() -> Iterator[None]:
    """Turn what transformers (some values), torch and Python (others) raise into one line."""
    try:
        yield
    except LingraftError:
        raise
    except Exception as error:
        if is_memory_full(error):
            raise
        reason = " ".join(str(error).split())[:300]
        raise RecipeError(f"source.architecture: {reason}") from error


def _check_size(model_class: Any, config: PreTrainedConfig) -> None:
    """Refuse what no memory holds before it is allocated."""
    if not 1 <= config.num_hidden_layers <= DEEPEST:
        raise RecipeError(
            f"source.architecture: num_hidden_layers must be 1 to {DEEPEST}; "
            f"got {config.num_hidden_layers}"
        )
    with torch.device("meta"):
        parameters = sum(parameter.numel() for parameter in model_class(config).parameters())
    if parameters > LARGEST:
        raise RecipeError(
            f"source.architecture: has {parameters:,} parameters, {LARGEST:,} at most are allowed; "
            "choose smaller sizes"
        )
