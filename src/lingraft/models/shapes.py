"""A source without its weights: its tensors on torch's meta device, tied as they are on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open

from lingraft.errors import DataError
from lingraft.models import loading
from lingraft.models.families import family_of
from lingraft.models.graft import build, is_tied, untie
from lingraft.models.source import LoadedSource, load_model
from lingraft.pretrained.checkpoints import WEIGHTS
from lingraft.pretrained.load import load_config
from lingraft.rundir import read_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from lingraft.models.families import Family


def load_shapes(folder: Path) -> LoadedSource:
    """Build a source on the meta device, as `load_model` loads it.

    Without weights beside config.json its class alone says which tensors there are.

    Raises:
        DataError, UnsupportedModelError: as `load_model`.
    """
    if not any(match for pattern in WEIGHTS for match in folder.glob(pattern)):
        config = load_config(str(folder))
        model_class = loading.stock_class(config)
        assert model_class is not None, f"{config.model_type} has no class for its kind"
        with torch.device("meta"):
            model = build(model_class, config, seed=0)
        return LoadedSource(model.eval(), family_of(config.model_type), frozenset(), ())
    loaded = load_model(str(folder), device_map="meta")
    if not is_tied(loaded.model):
        if _is_tied_by_values(folder, loaded):
            loaded.model.tie_weights()
        else:
            untie(loaded.model)
    return loaded


def _is_tied_by_values(folder: Path, loaded: LoadedSource) -> bool:
    """Return whether transformers ties a head stored beside the embeddings: if both are equal."""
    said = bool(loaded.model.config.tie_word_embeddings)
    matrices = {loaded.family.word_embeddings, loaded.family.decoder}
    found = dict(stored(folder, loaded.family, matrices)) if said else {}
    if len(found) == len(matrices):
        return torch.equal(*found.values())
    # of another format, in which one is stored under both names
    return said and bool(read_json(folder / "config.json").get("tie_word_embeddings", said))


def stored(
    folder: Path, family: Family, names: Collection[str]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Read some tensors of a checkpoint, by the model's names; of .safetensors alone.

    Raises:
        DataError: a file is broken.
    """
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, "pt") as file:
                own_names = stored_names(family, file.keys())
                for name in sorted(own_names.keys() & set(names)):
                    yield name, file.get_tensor(own_names[name])
        except (SafetensorError, OSError) as error:
            raise DataError(
                f"{path}: not a safetensors file ({error}); save or download the model again"
            ) from None


def stored_names(family: Family, names: Iterable[str]) -> dict[str, str]:
    """Map the model's names of tensors to those that a checkpoint stores them by.

    Checkpoints without a head, and OpenAI's GPT-2, leave out the name of the body, and some name
    tensors otherwise.
    """
    names = list(names)
    body = family.layers.split(".", 1)[0] + "."
    whole = family.kind == "seq2seq" or any(name.startswith(body) for name in names)
    own_names = {}
    for name in names:
        own = name
        for stored_name, own_name in family.stored:
            own = own.replace(stored_name, own_name)
        in_head = own == family.decoder or own.startswith(family.head_tensors)
        own_names[own if whole or in_head else body + own] = name
    return own_names
