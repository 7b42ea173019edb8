"""Loading the source model: a stock model from a directory or the Hub, in fp32.

A source without its weights: its tensors on torch's meta device, tied as they are on disk.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from safetensors import safe_open
from transformers import AutoConfig

from lingraft.errors import RecipeError, UnsupportedModelError
from lingraft.models import loading
from lingraft.models.families import Family, check_config, family_of
from lingraft.models.graft import build, is_tied, untie
from lingraft.pretrained.checkpoints import place_of, weight_files
from lingraft.pretrained.load import (
    check_positions,
    load_config,
    one_line,
    quiet_transformers,
    with_adapters,
)
from lingraft.rundir import read_json

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from transformers import PreTrainedConfig, PreTrainedModel

    from lingraft.recipe import Source


logger = logging.getLogger(__name__)

OLDER_SETTINGS = frozenset({"global_attn_every_n_layers", "global_rope_theta", "local_rope_theta"})
"""ModernBERT settings that transformers 5 reads but does not list."""
MASK = "mask_token_id"
"""EuroBERT's configuration has it; the others leave it to the tokenizer."""
TABLE = ("source.architecture: transformers does not accept it", "correct the table")


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
    head: tuple[str, ...] = ()
    if family.kind == "masked" and not own_code:
        head = (family.decoder, *family.output_bias, *family.head_tensors)
    model, info = loading.load(
        name,
        revision,
        settings,
        may_lack=lambda tensor: tensor.startswith(head),
        ignore_mismatched_sizes=True,  # reported below, with names
        **options,
    )
    if info["mismatched_keys"]:
        tensor, stored, expected = min(info["mismatched_keys"])
        raise UnsupportedModelError(
            f"source model '{name}': '{tensor}' is {list(stored)}, and not {list(expected)} as its "
            "config.json says; put back the config.json that belongs to the weights"
        )
    if missing := frozenset(info["missing_keys"]):
        names = sorted(missing)
        logger.warning("'%s' lacks %d tensors; they start fresh: %s", name, len(names), names)
    return LoadedSource(model.eval(), family, missing, tuple(sorted(info["unexpected_keys"])))


def config_of(source: Source) -> PreTrainedConfig:
    """Return the configuration of the source, which may be `source.architecture`.

    Raises:
        DataError: as `load_config`, or transformers does not accept the table.
        UnsupportedModelError: as `load_config`, or a setting that no record holds for.
    """
    if source.architecture is None:
        return load_config(str(source.model), source.revision)
    with one_line(*TABLE):
        return _from_table(source.architecture)


def from_architecture(
    source: Source, vocab_size: int, special_ids: Mapping[str, int | None], seed: int
) -> LoadedSource:
    """Build a model with random weights from `source.architecture`, to train from nothing.

    Raises:
        DataError: transformers does not accept the table.
        RecipeError: the family has no such setting.
        UnsupportedModelError: a setting that no record holds for.
    """
    quiet_transformers()
    settings = dict(source.architecture or {})
    family = family_of(str(settings["model_type"]))
    with one_line(*TABLE):
        stock = AutoConfig.for_model(family.model_type)
        special = {k: v for k, v in special_ids.items() if k != MASK or hasattr(stock, MASK)}
        config = _from_table(settings | {"vocab_size": vocab_size} | special)
        if family.decoder_list is not None:
            config.decoder_start_token_id = getattr(config, f"{family.decoder_start}_token_id")
        if unknown := {*settings} - {*stock.to_dict(), *config.attribute_map} - OLDER_SETTINGS:
            names = ", ".join(sorted(unknown))
            raise RecipeError(f"source.architecture: {family.model_type} has no setting {names}")
        model = build(loading.stock_class(config), config, seed)
    return LoadedSource(model.eval(), family, frozenset(), ())


def _from_table(architecture: Mapping[str, Any]) -> PreTrainedConfig:
    settings = dict(architecture)
    config = AutoConfig.for_model(str(settings.pop("model_type")), **settings)
    check_positions("source.architecture", config)
    check_config("source.architecture", config.to_dict())
    return config


def load_shapes(folder: Path, name: str | None = None) -> LoadedSource:
    """Build a source on the meta device, as `load_model` loads it.

    Without weights beside config.json its class alone says which tensors there are.

    Args:
        folder: of the model.
        name: of the source, which may be an adapter; None where it is the folder.

    Raises:
        DataError, UnsupportedModelError: as `load_model`.
    """
    if not weight_files(folder):
        config = load_config(str(folder))
        with torch.device("meta"):
            model = build(loading.stock_class(config), config, seed=0)
        loaded = LoadedSource(model.eval(), family_of(config.model_type), frozenset(), ())
    else:
        loaded = load_model(str(folder), device_map="meta")
    if weight_files(folder) and not is_tied(loaded.model):
        # transformers ties a head stored beside the embeddings if both are equal
        tied = bool(loaded.model.config.tie_word_embeddings)
        matrices = {loaded.family.word_embeddings, loaded.family.decoder}
        found = stored(folder, loaded.family, matrices) if tied else {}
        if len(found) == len(matrices):
            tied = torch.equal(*found.values())
        elif tied:  # of another format, in which one is stored under both names
            tied = bool(read_json(folder / "config.json").get("tie_word_embeddings", tied))
        loaded.model.tie_weights() if tied else untie(loaded.model)
    adapters = place_of(name or str(folder)).adapters
    return replace(loaded, model=with_adapters(loaded.model, adapters))


def stored(folder: Path, family: Family, names: Collection[str]) -> dict[str, torch.Tensor]:
    """Read some tensors of a checkpoint, by the model's names; of .safetensors alone.

    Checkpoints without a head, and OpenAI's GPT-2, leave out the name of the body, and some name
    tensors otherwise.

    Raises:
        DataError: a file is broken.
    """
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        broken = one_line(f"{path}: not a safetensors file", "save or download the model again")
        with broken, safe_open(path, "pt") as file:
            for key in file.keys():  # noqa: SIM118 - it is no dict
                own = key
                for stored_name, own_name in family.stored:
                    own = own.replace(stored_name, own_name)
                if name := next((n for n in names if f".{n}".endswith(f".{own}")), None):
                    found[name] = file.get_tensor(key)
    return found
