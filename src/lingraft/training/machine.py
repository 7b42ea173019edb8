"""Machine of a run: its abilities, and how it is set up for training.

The encoder's layers, and `hardware.compile`: torch.compile of each for itself.

Layer by layer, not the whole model: one compilation serves all layers of a kind, and what stands
around them (masks, packed rows, the head on masked tokens) stays plain Python.

Loss scaling for fp16 (Micikevicius et al. 2018), which cards before Ampere have and not bf16.

Gradients of a loss times 65,536 keep their digits in fp16. Where they overflow, the step is skipped
and the factor halved; after 2,000 good steps it is doubled. All of it happens on the device, but
what is logged.
"""

from __future__ import annotations

import ctypes
import datetime as dt
import importlib.metadata
import importlib.util
import logging
import os
import platform
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import GradientAccumulationPlugin, InitProcessGroupKwargs
from transformers.modeling_layers import GradientCheckpointingLayer

from lingraft import devices
from lingraft.devices import device_for
from lingraft.errors import RecipeError
from lingraft.models.segments import MOST_GRAPHS
from lingraft.rundir import ENVIRONMENT, read_json, write_record

if TYPE_CHECKING:
    from torch import nn

    from lingraft.recipe import Hardware
    from lingraft.rundir import Run

logger = logging.getLogger(__name__)


PACKAGES = (
    "lingraft", "torch", "transformers", "tokenizers", "accelerate", "safetensors", "numpy",
    "sentencepiece",
)  # fmt: skip
DIVIDES = ("FSDP", "DEEPSPEED", "MEGATRON_LM", "PARALLELISM_CONFIG")
"""Launch options of accelerate that divide a model their own way: ACCELERATE_USE_…"""
GLIBC_M_TRIM_THRESHOLD, GLIBC_M_TOP_PAD, GLIBC_M_MMAP_MAX = -1, -2, -4


def multiplies_bf16(name: devices.Device = "auto") -> bool:
    """Return whether bf16 is fast here: by a GPU that has it, or a CPU with AMX or AVX512-BF16."""
    device = device_for(name)
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu" or platform.machine() not in ("x86_64", "AMD64"):
        return False
    return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())


def resolve_precision(hardware: Hardware) -> str:
    """Return 'bf16', 'fp16' or 'fp32'.

    Raises:
        RecipeError: a device does not have what was asked for.
    """
    on_gpu, precision = device_for(hardware.device).type == "cuda", hardware.precision
    if precision == "auto":
        return "bf16" if multiplies_bf16(hardware.device) else "fp16" if on_gpu else "fp32"
    if precision == "bf16" and on_gpu and not multiplies_bf16(hardware.device):
        raise RecipeError('hardware.precision: this GPU has no bf16; use "fp16", "fp32" or "auto"')
    if precision == "fp16" and not on_gpu:
        raise RecipeError('hardware.precision: "fp16" needs CUDA; use "bf16", "fp32" or "auto"')
    return precision


def accelerator_for(hardware: Hardware, folder: Path) -> Accelerator:
    """Set up the device, the processes and the precision of a run; one per process.

    Raises:
        RecipeError: the machine, or how the processes were started, does not fit the recipe.
    """
    divides = [name for name in DIVIDES if os.environ.get(f"ACCELERATE_USE_{name}") == "true"]
    if divides:
        raise RecipeError(
            f"accelerate launch was told to use {divides[0]} (by an option, or its config file); "
            'launch without it and set hardware.sharding="fsdp2"'
        )
    devices.choose(run=hardware.device)
    precision = resolve_precision(hardware)
    on_cpu = device_for().type == "cpu"
    if on_cpu:
        keep_freed_memory()
    if hardware.sharding == "fsdp2" and precision == "fp16":
        raise RecipeError('hardware.sharding: "fsdp2" does not go with fp16; set precision="fp32"')
    AcceleratorState._reset_state()  # else it keeps the first run's precision for the process
    return Accelerator(
        cpu=on_cpu,  # without it, accelerate does not see several processes on a CPU
        mixed_precision="no" if precision == "fp32" else precision,
        # whatever its launcher or config file says: batches are added up, and compiled, by us
        gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=1),
        dynamo_backend="no",
        log_with=list(hardware.trackers) or None,
        project_dir=str(folder),
        kwargs_handlers=[InitProcessGroupKwargs(timeout=dt.timedelta(days=1))],
    )


def keep_freed_memory() -> None:
    """Tell glibc to keep large freed blocks; else each step faults gigabytes of fresh pages in.

    Does nothing on other systems.
    """
    if not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc":
        return
    libc = ctypes.CDLL("libc.so.6")
    libc.mallopt(GLIBC_M_MMAP_MAX, 0)
    libc.mallopt(GLIBC_M_TRIM_THRESHOLD, 2**31 - 1)
    libc.mallopt(GLIBC_M_TOP_PAD, 64 << 20)


def environment(accelerator: Accelerator, command: str) -> dict[str, Any]:
    """Return what a reader needs to reproduce a run; no names of users, machines or folders."""
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "command": command,
        **{package: importlib.metadata.version(package) for package in PACKAGES},
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "cpu": _cpu_name(),
        "devices": gpus if accelerator.device.type == "cuda" else [accelerator.device.type],
        "processes": accelerator.num_processes,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "precision": accelerator.mixed_precision.replace("no", "fp32"),
        "started": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }


def note_environment(run: Run, now: dict[str, Any], *, trains: bool = False) -> None:
    """Write `environment.json`: the newest command, and what the model was last trained on.

    Where nothing trains, as where the licence alone has changed, what was there before stays.

    Args:
        run: the run.
        now: of this process, as `environment`.
        trains: a phase begins.
    """
    path = run.path / ENVIRONMENT
    known = read_json(path) if path.is_file() and not trains else now
    write_record(path, known | {"command": now["command"]})


def _cpu_name() -> str:
    path = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*:\s*(.*)$", path.read_text(), re.M) if path.exists() else []
    return next(iter(names), platform.processor() or "unknown")


LONG_ENOUGH = 50_000_000
"""Tokens of a phase from which compiling should pay; a guess on the safe side, not measured."""


def encoder_layers(module: nn.Module) -> list[nn.Module]:
    """Return a stock model's layers in order, as transformers marks them for checkpointing."""
    return [part for part in module.modules() if isinstance(part, GradientCheckpointingLayer)]


def compile_layers(module: nn.Module, hardware: Hardware, even_tokens: float = 0.0) -> bool:
    """Let the encoder's layers run compiled, in place; names of parameters stay as they are.

    Args:
        module: what trains.
        hardware: whether the recipe asks.
        even_tokens: tokens of all passes that have one shape, so that nothing is compiled again.

    Returns:
        Whether they do.
    """
    wanted = hardware.compile
    if wanted == "auto":
        wanted = even_tokens >= LONG_ENOUGH and importlib.util.find_spec("triton") is not None
        if wanted:
            logger.info("layers are compiled; the first steps take longer (hardware.compile)")
    if wanted:
        for layer in encoder_layers(module):
            layer.compile(recompile_limit=MOST_GRAPHS)
    return bool(wanted)


SMALLEST = 2.0**-8
"""With a factor below this the gradients are not finite for another reason."""


class LossScale:
    """The factor of a phase in fp16; of other formats there is none, and nothing happens."""

    def __init__(self, accelerator: Accelerator) -> None:
        """Give the accelerator, which multiplies and steps, a fresh one."""
        self.scaler: torch.amp.GradScaler | None = None
        if accelerator.mixed_precision == "fp16":
            self.scaler = torch.amp.GradScaler(accelerator.device.type)
        accelerator.scaler = self.scaler
        self.skipped = torch.zeros((), dtype=torch.int64, device=accelerator.device)

    @property
    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint; wait for the device."""
        if self.scaler is None:
            return {}
        return {**self.scaler.state_dict(), "skipped": int(self.skipped)}

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint's state."""
        if self.scaler is not None:
            self.scaler.load_state_dict(state)
            self.skipped.fill_(state.get("skipped", 0))

    def take_out(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide the gradients by the factor."""
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)

    def note(self, norm: torch.Tensor | None) -> None:
        """Count the step as skipped where its gradients are not finite."""
        if self.scaler is not None and norm is not None:
            self.skipped += ~norm.isfinite()

    def row(self, norm: float | None) -> tuple[float | None, dict[str, Any]]:
        """Return the norm that counts, None of a skipped step, and columns of the log."""
        if self.scaler is None:
            return norm, {}
        scale = self.scaler.get_scale()
        if norm is not None and not norm < float("inf") and scale >= SMALLEST:
            norm = None
        return norm, {"loss_scale": scale, "skipped_steps": int(self.skipped)}
