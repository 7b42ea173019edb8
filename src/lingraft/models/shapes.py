"""A source without its weights: its tensors on torch's meta device, tied as they are on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from safetensors import safe_open

from lingraft.models import loading
from lingraft.models.families import family_of
from lingraft.models.graft import build, is_tied, untie
from lingraft.models.source import LoadedSource, load_model
from lingraft.pretrained.checkpoints import weight_files
from lingraft.pretrained.load import load_config, one_line
from lingraft.rundir import read_json

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from lingraft.models.families import Family


def load_shapes(folder: Path) -> LoadedSource:
    """Build a source on the meta device, as `load_model` loads it.

    Without weights beside config.json its class alone says which tensors there are.

    Raises:
        DataError, UnsupportedModelError: as `load_model`.
    """
    if not weight_files(folder):
        config = load_config(str(folder))
        with torch.device("meta"):
            model = build(loading.stock_class(config), config, seed=0)
        return LoadedSource(model.eval(), family_of(config.model_type), frozenset(), ())
    loaded = load_model(str(folder), device_map="meta")
    if not is_tied(loaded.model):
        # transformers ties a head stored beside the embeddings if both are equal
        tied = bool(loaded.model.config.tie_word_embeddings)
        matrices = {loaded.family.word_embeddings, loaded.family.decoder}
        found = stored(folder, loaded.family, matrices) if tied else {}
        if len(found) == len(matrices):
            tied = torch.equal(*found.values())
        elif tied:  # of another format, in which one is stored under both names
            tied = bool(read_json(folder / "config.json").get("tie_word_embeddings", tied))
        loaded.model.tie_weights() if tied else untie(loaded.model)
    return loaded


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
