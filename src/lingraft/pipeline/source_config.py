"""The source by its config.json, as it lies on this machine: nothing loaded, nothing downloaded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError, UnsupportedModelError
from lingraft.models.families import FAMILIES, Family, check_config, family_of
from lingraft.models.modules import in_folder
from lingraft.pretrained.checkpoints import check_shards, folder_of, refuse_code, without_config

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lingraft.recipe import Recipe

WIDTH = ("hidden_size", "n_embd", "d_model", "dim")


def width_of(config: Mapping[str, Any]) -> int | None:
    """Return the width of a hidden state, which config.json has under one name or another."""
    return next((config[key] for key in WIDTH if type(config.get(key)) is int), None)


@dataclass(frozen=True)
class SourceConfig:
    """What config.json says of a source."""

    config: dict[str, Any]
    """Empty where nothing is on this machine; of an architecture the recipe's table."""
    family: Family | None = None
    """None where nothing is on this machine."""
    folder: Path | None = None
    """None of an architecture, too."""

    @property
    def width(self) -> int | None:
        """Return the width of its hidden states; None where config.json does not say."""
        return width_of(self.config)

    @property
    def depth(self) -> int | None:
        """Return the layers of all its stacks; None where config.json does not say."""
        if self.family is None:
            return None
        first = self.config.get(self.family.depth_key)
        own = [self.config.get(stack.depth_key) for stack in self.family.lists]
        depths = [first if depth is None else depth for depth in own]  # T5's decoder is as deep
        known = [depth for depth in depths if type(depth) is int]
        return sum(known) if len(known) == len(depths) else None

    @property
    def vocabulary(self) -> int | None:
        """Return the rows of its embeddings; None where config.json does not say."""
        rows = self.config.get("vocab_size")
        return rows if type(rows) is int else None


def source_of(recipe: Recipe) -> SourceConfig:
    """Find the recipe's source.

    Raises:
        DataError: there is no such model, or its configuration is broken.
        UnsupportedModelError: it is of no known family, or has modules.
    """
    architecture = recipe.source.architecture
    if architecture is None:
        return config_in(str(recipe.source.model), recipe.source.revision)
    check_config("source.architecture", architecture)
    return SourceConfig(architecture, family_of(str(architecture["model_type"])))


def config_in(name: str, revision: str | None, *, is_source: bool = True) -> SourceConfig:
    """Find a model, of the Hub's in the cache alone.

    Args:
        name: directory or Hub id.
        revision: on the Hub.
        is_source: one that is none may have modules without which it is a model, too.

    Raises:
        DataError, UnsupportedModelError: as `source_of`.
    """
    folder = local_folder(name, revision)
    if folder is None:
        return SourceConfig({})
    check_shards(folder)
    config = _read(folder)
    model_type = str(config.get("model_type", "unknown"))
    refuse_code(name, config, model_type in FAMILIES)
    check_config(name, config)
    family = family_of(model_type)
    for module in in_folder(folder):
        if is_source:
            raise UnsupportedModelError(
                f"source model '{folder}': has {module.part}, which cannot be grafted onto; "
                "choose the model without them"
            )
        if not module.exportable:
            raise UnsupportedModelError(
                f"{name}: has {module.part}, which no stock class has, so it is not "
                "looked at; lingraft.load opens it"
            )
    return SourceConfig(config, family, folder)


def local_folder(name: str, revision: str | None) -> Path | None:
    """Find where a model lies, in the Hub's cache too; None where it is not on this machine."""
    path = folder_of(name)
    if path is not None:
        return path
    from huggingface_hub import try_to_load_from_cache  # a second's import, only for Hub ids

    config_path = try_to_load_from_cache(name, "config.json", revision=revision)
    return Path(config_path).parent if isinstance(config_path, str) else None


def _read(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        raise without_config(str(folder), folder)
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path}: not valid JSON ({error}); save or download the model again"
        ) from None
    if not isinstance(config, dict):
        raise DataError(f"{path}: holds no JSON object; save or download the model again")
    return config
