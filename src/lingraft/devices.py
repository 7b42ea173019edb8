"""Device that computes: what a recipe or `--device` says, else a GPU where there is one.

torch is imported by the functions that need it, and named nowhere else: recipes and the command
line do without it.
"""

from __future__ import annotations

import importlib
from typing import Any, Literal

from lingraft.errors import RecipeError

Device = Literal["auto", "cpu", "cuda", "mps"]
_chosen: dict[str, Device] = {}


def choose(**chosen: Device) -> None:
    """Let this process compute on the device of its `command` or, which goes before, its `run`."""
    _chosen.update(chosen)


def device_for(name: Device = "auto") -> Any:
    """Return torch's device of this name; of 'auto' the chosen one, else CUDA's, else the CPU.

    Apple's is taken where it is named alone: nobody has tried it.

    Raises:
        RecipeError: it is not here.
    """
    torch = importlib.import_module("torch")
    asked = (name, _chosen.get("run", "auto"), _chosen.get("command", "auto"))
    wanted = next((one for one in asked if one != "auto"), None)
    here = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if wanted is None:
        wanted = "cuda" if here["cuda"] else "cpu"
    if not here.get(wanted, False):
        known = " or ".join(one for one, is_here in here.items() if is_here)
        raise RecipeError(f"device (hardware.device, --device): no {wanted} is here; use {known}")
    return torch.device(wanted)


def widest(device: Any) -> Any:
    """Return torch's format that sums are kept in: fp64, which Apple's GPUs lack."""
    torch = importlib.import_module("torch")
    return torch.float32 if device.type == "mps" else torch.float64
