"""Modules that add parameters to a stock model, as records. No torch here.

To add a module, add a record to `MODULES`, its part to `recipe/base.py`, a key of the same name to
[graft], and a file of the same name with what `Module.code` asks for.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from lingraft.errors import UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from lingraft.models.families import Family
    from lingraft.recipe import Graft


@dataclass(frozen=True)
class Stack:
    """The layers that a module is put into."""

    family: Family
    depth: int
    layer_width: int
    """Width of the hidden states."""
    layer_parameters: int
    """Parameters of one layer."""


@dataclass(frozen=True)
class Module:
    """Record of one kind of module."""

    part: str
    """Part, of `recipe.PARTS`; also the key in [graft], the file of the code, and the stem of the
    files beside a checkpoint's weights."""
    child: str
    """Name of the module within the stock module that it stands behind."""
    size_key: str
    """Name of the size in the settings file."""
    exportable: bool
    """Whether the stock tensors alone are a model worth having: then they keep the name under which
    transformers looks for weights."""
    account: str
    """Note on a fresh tensor, with the place {size}."""
    card: str
    """Description of the module in the model card, with the place {size}."""
    size: Callable[[int | str, Stack], int]
    """From the key's value in [graft]; 0 has none."""
    fits: Callable[[Family], bool] = lambda _: True
    """Whether a family has a place for it."""

    def owns(self, name: str) -> bool:
        """Return whether a tensor belongs to the module."""
        return f".{self.child}." in name

    def wanted(self, graft: Graft) -> int | str:
        """Return the key's value; 0 where the recipe does not ask for the module."""
        return cast("int | str", getattr(graft, self.part))

    def check_fits(self, family: Family) -> None:
        """Refuse a family that has no place for the module.

        Raises:
            UnsupportedModelError: it has none.
        """
        if not self.fits(family):
            raise UnsupportedModelError(
                f"graft.{self.part}: a {family.model_type} model has no known place for it"
            )

    @property
    def settings_file(self) -> str:
        return f"{self.part}.json"

    @property
    def tensors_file(self) -> str:
        return f"{self.part}.safetensors"

    @property
    def code(self) -> Any:
        """Import the file of the part's name: `insert(model, family, size, seed)`, `settings`."""
        return importlib.import_module(f"lingraft.models.{self.part}")


def adapter_width(setting: int | str, stack: Stack) -> int:
    """Return the bottleneck's width that a recipe asks for; 0 for no adapters.

    'matched' is the width at which all adapters together have as nearly as can be as many
    parameters as two implicit translation layers: 384 for 12 layers of width 768.
    """
    if setting != "matched":
        return int(setting)
    parameters = 2 * stack.layer_parameters / (len(stack.family.residual_sites) * stack.depth)
    return max(1, round((parameters - stack.layer_width) / (2 * stack.layer_width + 1)))


MODULES: dict[str, Module] = {
    "adapters": Module(
        part="adapters",
        child="adapter",
        size_key="width",
        exportable=False,
        account="adapter of width {size}",
        card="bottleneck adapters of width {size} in every layer",
        size=adapter_width,
        fits=lambda family: family.decoder_list is None,
    ),
    "cross_attention": Module(
        part="cross_attention",
        child="crossattention",
        size_key="layers",
        exportable=True,
        account="cross-attention, in all {size} layers",
        card="cross-attention that can be plugged into its {size} layers",
        size=lambda setting, stack: stack.depth if setting else 0,
        fits=lambda family: family.cross_attention,
    ),
}


def owner_of(name: str) -> Module | None:
    """Return the module that a tensor belongs to; None for a stock tensor."""
    return next((module for module in MODULES.values() if module.owns(name)), None)


def owners_of(names: Iterable[str]) -> list[Module]:
    """Return the modules that a model with these tensors has."""
    names = list(names)
    return [module for module in MODULES.values() if any(map(module.owns, names))]


def in_folder(folder: Path) -> list[Module]:
    """Return the modules that a checkpoint has."""
    return [module for module in MODULES.values() if (folder / module.settings_file).is_file()]


def wanted_by(graft: Graft) -> list[Module]:
    """Return the modules that a recipe asks for."""
    return [module for module in MODULES.values() if module.wanted(graft)]
