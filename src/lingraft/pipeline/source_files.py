"""The source as it lies on this machine: no torch, nothing loaded, nothing downloaded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError, UnsupportedModelError
from lingraft.models.families import FAMILIES, Family, check_config, family_of
from lingraft.models.modules import in_folder
from lingraft.pipeline.sizes import is_tied, named_as_in, tensor_shapes
from lingraft.pretrained.checkpoints import folder_of, refuse_code, without_config

if TYPE_CHECKING:
    from lingraft.recipe import Recipe


@dataclass(frozen=True)
class SourceFiles:
    """What is known of a source before it is loaded."""

    config: dict[str, Any]
    """Of config.json or the recipe's table; empty where nothing is on this machine."""
    family: Family | None = None
    """None where nothing is on this machine."""
    folder: Path | None = None
    """None of an architecture, too."""

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]] | None:
        """Tensors under the family's names; None without .safetensors."""
        if self.family is None or self.folder is None:
            return None
        shapes = tensor_shapes(self.folder)
        return None if shapes is None else named_as_in(self.family, shapes)

    @property
    def tied(self) -> bool | None:
        """Whether the output projection is the word embeddings; None: nobody knows yet."""
        if self.family is None or self.shapes is None:
            return None
        return is_tied(self.config, self.family, self.shapes)


def source_of(recipe: Recipe) -> SourceFiles:
    """Find the recipe's source.

    Raises:
        DataError: there is no such model, or its configuration is broken.
        UnsupportedModelError: it is of another family, or has modules.
    """
    architecture = recipe.source.architecture
    if architecture is not None:
        check_config("source.architecture", architecture)
        return SourceFiles(architecture, family_of(str(architecture["model_type"])))
    return files_of(str(recipe.source.model), recipe.source.revision)


def files_of(name: str, revision: str | None) -> SourceFiles:
    """Find a model, of the Hub's in the cache alone.

    Raises:
        DataError, UnsupportedModelError: as `source_of`.
    """
    folder = local_folder(name, revision)
    if folder is None:
        return SourceFiles({})
    config = _config(folder)
    model_type = str(config.get("model_type", "unknown"))
    refuse_code(name, config, model_type in FAMILIES)
    check_config(name, config)
    family = family_of(model_type)
    for module in in_folder(folder):
        raise UnsupportedModelError(
            f"source model '{folder}': has {module.part}, which cannot be grafted onto; "
            "choose the model without them"
        )
    return SourceFiles(config, family, folder)


def local_folder(name: str, revision: str | None) -> Path | None:
    """Where a model lies on this machine, in the Hub's cache too; None where it does not."""
    path = folder_of(name)
    if path is not None:
        return path
    from huggingface_hub import try_to_load_from_cache  # a second's import, only for Hub ids

    config_path = try_to_load_from_cache(name, "config.json", revision=revision)
    return Path(config_path).parent if isinstance(config_path, str) else None


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        raise without_config(str(folder), folder)
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(
            f"{path}: not valid JSON ({error}); save or download the model again"
        ) from None
    if not isinstance(config, dict):
        raise DataError(f"{path}: holds no JSON object; save or download the model again")
    return config
