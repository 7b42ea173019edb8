"""Bottleneck adapters (Houlsby et al. 2019) in a stock model, and the checkpoint that holds them.

An adapter computes x + W_up·gelu(W_down·x). Two stand in every layer: behind the attention's output
projection and its dropout, and behind the feed-forward network's, each before the residual is added
(SPEC H.2). They hang on stock modules as children with a forward hook, so that every stock tensor
keeps its name.

No stock class has them, so a checkpoint with adapters is not a stock checkpoint. Its stock tensors
lie in `model.without-adapters.safetensors`, a name under which transformers does not look unless it
is told to: `AutoModel.from_pretrained` stops with an error instead of loading another model.

Differs from the reference code of the paper: gelu is exact, not its approximation by tanh.

Shape letters: D width of the hidden states, W width of the bottleneck.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModelForMaskedLM
from transformers.utils.hub import cached_file

from lingraft.errors import DataError
from lingraft.models.families import family_of
from lingraft.models.parts import ADAPTER, ADAPTERS_FILE, is_adapter
from lingraft.pretrained.checkpoints import folder_of
from lingraft.pretrained.load import load_model, one_line
from lingraft.rundir import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transformers import PreTrainedModel

    from lingraft.models.families import Family

STANDARD_DEVIATION = 1e-3
CUT = 2.0
"""Draws beyond so many standard deviations are drawn again."""
TENSORS_FILE = "adapters.safetensors"
VARIANT = "without-adapters"


class Bottleneck(nn.Module):
    """One adapter."""

    def __init__(self, layer_width: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.down = nn.Linear(layer_width, width)
        self.up = nn.Linear(width, layer_width)
        limit = CUT * STANDARD_DEVIATION
        for linear in (self.down, self.up):
            nn.init.zeros_(linear.bias)
            nn.init.trunc_normal_(
                linear.weight, 0.0, STANDARD_DEVIATION, -limit, limit, generator=generator
            )

    def forward(self, x_D: torch.Tensor) -> torch.Tensor:
        """[…, D] to [..., D]."""
        return x_D + self.up(nn.functional.gelu(self.down(x_D)))


def _apply(module: nn.Module, _: Any, output: torch.Tensor) -> torch.Tensor:
    return module.get_submodule(ADAPTER)(output)


def insert(model: PreTrainedModel, family: Family, width: int, seed: int = 0) -> None:
    """Put fresh adapters into every layer, in place: weights N(0, 1e-3) cut at 2 sd, biases 0.

    Args:
        model: a stock model without adapters, on the CPU.
        family: its record.
        width: of the bottleneck.
        seed: fixes the weights.
    """
    assert not present(model), "the model has adapters already"
    generator = torch.Generator().manual_seed(seed)
    for layer in model.get_submodule(family.layers).children():
        layer_width = int(layer.get_parameter(family.layer_output).shape[0])
        for site in family.adapter_sites:
            module = layer.get_submodule(site)
            module.add_module(ADAPTER, Bottleneck(layer_width, width, generator))
            module.register_forward_hook(_apply)


def tensors(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """The adapters' parameters by name; none in a stock model."""
    return {name: value.detach() for name, value in model.named_parameters() if is_adapter(name)}


def present(model: PreTrainedModel) -> bool:
    """Whether the model has adapters."""
    return bool(tensors(model))


def save(model: PreTrainedModel, folder: Path) -> None:
    """Write configuration, stock tensors and adapters of a model that has them."""
    ours = tensors(model)
    stock = {name: value for name, value in model.state_dict().items() if not is_adapter(name)}
    model.save_pretrained(folder, state_dict=stock, variant=VARIANT)
    save_file(
        {name: value.cpu().contiguous() for name, value in ours.items()}, folder / TENSORS_FILE
    )
    first = next(name for name in ours if name.endswith(".down.weight"))
    settings = {
        "width": int(ours[first].shape[0]),
        "nonlinearity": "gelu",
        "parameters": sum(value.numel() for value in ours.values()),
        "adapters": sum(name.endswith(".down.weight") for name in ours),
        "stock_tensors": f"model.{VARIANT}.safetensors",
    }
    write_json(folder / ADAPTERS_FILE, settings)


def load(
    name: str,
    revision: str | None = None,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> tuple[PreTrainedModel, dict[str, Any]]:
    """A masked language model with its adapters, where the checkpoint has some.

    Args:
        name: directory or Hub id.
        revision: branch, tag or commit on the Hub.
        settings: configuration values to change.
        options: of `from_pretrained`.

    Returns:
        The model in fp32 on the CPU, and what transformers says of the loading.

    Raises:
        DataError: the checkpoint or the adapters' files are broken, or do not fit each other.
        UnsupportedModelError: as `pretrained.load_model`.
    """
    found = _file(name, ADAPTERS_FILE, revision)
    model, info = load_model(
        AutoModelForMaskedLM,
        name,
        revision,
        settings,
        variant=VARIANT if found else None,
        **options,
    )
    if found:
        insert(model, family_of(model.config.model_type), int(read_json(found)["width"]))
        _fill(model, _file(name, TENSORS_FILE, revision), name)
        model.eval()
    return model, info


def _fill(model: PreTrainedModel, path: Path | None, name: str) -> None:
    ours = tensors(model)
    try:
        stored = load_file(path) if path else {}
    except SafetensorError as error:
        raise DataError(
            f"{path}: the adapters are broken ({error}); copy or make them again"
        ) from error
    shapes = ({key: t.shape for key, t in found.items()} for found in (ours, stored))
    if next(shapes) != next(shapes):
        raise DataError(
            f"model '{name}': {TENSORS_FILE} does not hold the adapters that {ADAPTERS_FILE} and "
            "config.json speak of; copy the whole folder again"
        )
    with torch.no_grad():
        for key, tensor in ours.items():
            tensor.copy_(stored[key])


def _file(name: str, file: str, revision: str | None) -> Path | None:
    """A file of a checkpoint; None where it has no such file."""
    folder = folder_of(name)
    if folder is not None:
        path = folder / file
        return path if path.is_file() else None
    with one_line(f"source model '{name}' cannot be loaded", "try again, or give a directory"):
        found = cached_file(
            name,
            file,
            revision=revision,
            _raise_exceptions_for_gated_repo=False,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
    return Path(found) if found else None
