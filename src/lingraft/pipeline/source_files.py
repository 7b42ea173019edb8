"""The source as it lies on this machine: no torch, nothing loaded, nothing downloaded.

The headers of its files also say how large a target will be.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from lingraft.errors import DataError, UnsupportedModelError
from lingraft.models.families import DECODER, FAMILIES, Family, check_config, family_of
from lingraft.models.kinds import KINDS
from lingraft.models.modules import Stack, in_folder, wanted_by
from lingraft.models.parts import goes_with_place, layer_index, sizes_by_part, tied_once
from lingraft.pipeline.memory import WIDTH
from lingraft.pretrained.checkpoints import check_shards, folder_of, refuse_code, without_config

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lingraft.recipe import Recipe

SIZES = re.compile(
    r"(num|n|d)_(hidden_layers|layers?|heads?|attention_heads|key_value_heads|model|kv|ff|embd|positions)"
    r"|(encoder|decoder)_(layers|attention_heads|ffn_dim)|n?_?dim|hidden_dim|head_dim"
    r"|(vocab|hidden|intermediate|embedding|type_vocab)_size|max_position_embeddings"
)
"""Keys of config.json that are counted with before any class has looked at them."""
MADE_ANEW = (
    ".attn.bias",
    ".attn.masked_bias",
    ".attention.bias",
    ".attention.masked_bias",
    ".rotary_emb.inv_freq",
)
"""Endings of buffers that old checkpoints of GPT-2, GPT-NeoX and Llama hold."""


def tensor_shapes(folder: Path) -> dict[str, tuple[int, ...]] | None:
    """Names and shapes of a checkpoint's tensors, from the headers; None without .safetensors.

    Raises:
        DataError: a header is broken.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, "numpy") as file:
                names = list(file.keys())  # not a mapping: it does not iterate
                shapes |= {name: tuple(file.get_slice(name).get_shape()) for name in names}
        except (SafetensorError, OSError) as error:
            raise DataError(
                f"{path}: not a safetensors file ({error}); save or download the model again"
            ) from None
    return shapes or None


def named_as_in(
    family: Family, stored: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """A checkpoint's tensors under the names that the model gives them.

    Checkpoints without a head, and OpenAI's GPT-2, leave out the name of the body, some name
    tensors otherwise, and old ones hold masks and frequencies, which the class makes anew.
    """
    return {own: stored[name] for own, name in stored_names(family, stored).items()}


def stored_names(family: Family, stored: Iterable[str]) -> dict[str, str]:
    """The model's names of a checkpoint's tensors -> those that they are stored by."""
    stored = list(stored)
    body = family.layers.split(".", 1)[0] + "."
    whole = family.kind == "seq2seq" or any(name.startswith(body) for name in stored)
    names = {}
    for name in stored:
        if name.endswith(MADE_ANEW):
            continue
        own = name
        for stored_name, own_name in family.stored:
            own = own.replace(stored_name, own_name)
        in_head = own == family.decoder or own.startswith(family.head_tensors)
        names[own if whole or in_head else body + own] = name
    return names


def depth_and_width(
    config: Mapping[str, Any], family: Family, recipe: Recipe
) -> tuple[int, int] | None:
    """Layers of a target, and their width, where nothing but the source's config.json is known.

    Returns:
        None where it lacks one of them. A decoder whose depth it leaves open is as deep as the
        encoder, as in T5's.
    """
    width = next((config[key] for key in WIDTH if config.get(key)), 0)
    first = config.get(family.depth_key, 0)
    own = (config.get(layers.depth_key) for layers in family.lists)
    depths = [first if depth is None else depth for depth in own]
    if not all(type(number) is int and number > 0 for number in (width, *depths)):
        return None
    return sum(depth + recipe.graft.places.number(depth) for depth in depths), width


def grafted_sizes(
    shapes: dict[str, tuple[int, ...]], family: Family, recipe: Recipe, *, tied: bool = True
) -> dict[str, int]:
    """Parameters of the target by part, from the source's tensors and the recipe.

    Args:
        shapes: the source's tensors.
        family: its record.
        recipe: vocabulary size and inserted layers.
        tied: whether the output projection is the word embeddings.

    Raises:
        DataError: the checkpoint has no layers where the family keeps them.
    """
    known_shapes = {name: shape for name, shape in shapes.items() if _is_known(name, family)}
    layers = [
        index for index in (layer_index(name, family) for name in known_shapes) if index is not None
    ]
    if not layers or family.word_embeddings not in known_shapes:
        raise DataError(
            f"the source's weights hold no {family.model_type} {KINDS[family.kind].title} "
            f"(no '{family.layers}.…'); put back the config.json that belongs to them"
        )
    sizes = {name: math.prod(shape) for name, shape in known_shapes.items()}
    sizes = {name: sizes[name] for name in tied_once(sizes, family, tied=tied)}
    vocabulary = recipe.tokenizer.most_rows(known_shapes[family.word_embeddings][0])
    for name in {family.word_embeddings, family.decoder} & sizes.keys():
        sizes[name] = vocabulary * known_shapes[name][1]
    if family.decoder_list is None:  # an encoder–decoder's output bias is a buffer
        sizes |= dict.fromkeys(family.output_bias[: 1 if tied else None], vocabulary)
    else:
        sizes = {name: size for name, size in sizes.items() if name not in family.output_bias}
    totals = sizes_by_part(sizes, family, frozenset())
    places = recipe.graft.places
    last = one_layer = 0
    for layer_list in family.lists:
        last = max(
            index for index in layers if layer_list.first <= index < layer_list.first + DECODER
        )
        # the last layer has all tensors; ModernBERT's first lacks one
        one_layer = sum(
            size
            for name, size in sizes.items()
            if layer_index(name, family) == last and not goes_with_place(name, family)
        )
        inserted = places.number(last - layer_list.first + 1)
        totals["itl"] += inserted * one_layer
    if family.first_layer_lacks and places.before and places.before + last > 0:
        missing = sizes.get(f"{family.layers}.{last}.{family.first_layer_lacks}", 0)
        totals["itl"] -= missing
        totals["body"] += missing
    if family.decoder_list is not None:
        return totals
    layer_width = _width(known_shapes, f"{family.layers}.{last}.{family.layer_output}")
    depth = last + 1 + places.number(last + 1)
    stack = Stack(family, depth, layer_width, one_layer)
    for module in wanted_by(recipe.graft):
        size = module.size(module.wanted(recipe.graft), stack)
        totals[module.part] = module.parameters(size, stack)
    return totals


def _width(shapes: Mapping[str, tuple[int, ...]], name: str) -> int:
    """Return the first size of a tensor, which must be there."""
    if name not in shapes:
        raise DataError(f"the source's weights lack '{name}'; save or download the model again")
    return shapes[name][0]


def _is_known(name: str, family: Family) -> bool:
    exact = {family.word_embeddings, family.decoder, *family.positions, *family.embedding_aliases}
    exact |= set(family.output_bias)
    prefixes = (
        *family.embedding_norm,
        *family.head_tensors,
        *family.body_tensors,
        *(f"{layer_list.layers}." for layer_list in family.lists),
    )
    return name in exact or name.startswith(prefixes)


def is_tied(
    config: Mapping[str, Any], family: Family, shapes: Mapping[str, tuple[int, ...]]
) -> bool:
    """Whether a checkpoint's output projection is its word embeddings.

    Args:
        config: its config.json; where it does not say, causal models are as their tensors are.
        family: its record.
        shapes: its tensors.
    """
    stored = family.kind == "causal" and family.decoder in shapes
    return bool(config.get("tie_word_embeddings", not stored))


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


def files_of(name: str, revision: str | None, *, is_source: bool = True) -> SourceFiles:
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
        return SourceFiles({})
    check_shards(folder)
    config = _config(folder)
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
        config = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path}: not valid JSON ({error}); save or download the model again"
        ) from None
    if not isinstance(config, dict):
        raise DataError(f"{path}: holds no JSON object; save or download the model again")
    for key, value in config.items():
        if SIZES.fullmatch(key) and not isinstance(value, int | None):
            raise DataError(
                f"{path}: {key} is {value!r}, but must be a whole number; put back the config.json "
                "that belongs to the weights"
            )
    return config


def _no_number(constant: str) -> float:
    raise ValueError(f"{constant} is no number there")
