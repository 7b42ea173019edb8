"""The machine that a model trains on: its memory and its number format. No torch of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lingraft.devices import device_for

AMPERE = 8.0
"""The compute capability from which NVIDIA's GPUs multiply bf16; V100 and T4 have a lower one."""
FILLED = 0.9
"""Share of a machine's memory that can be used."""


@dataclass(frozen=True)
class Machine:
    """Where a model trains."""

    bytes: int
    is_gpu: bool
    bf16: bool = True
    """Whether 'auto' is taken for bf16; a guess where nobody asked the processor."""

    @property
    def name(self) -> str:
        """For messages."""
        return "this GPU" if self.is_gpu else "this machine"

    @property
    def usable(self) -> int:
        """Bytes that can be filled."""
        return int(self.bytes * FILLED)


def this_machine() -> Machine:
    """The GPU if there is one, else main memory, of which a container may have less."""
    if (gpu := _gpu()) is not None:
        return gpu
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [memory, *filter(None, [_control_group()])]
    return Machine(min(limits), is_gpu=False, bf16=_multiplies_bf16())


def _gpu() -> Machine | None:
    """The GPU that torch uses, or where torch is not loaded the first one that it may see.

    Then NVIDIA's own program is asked, which names whole GPUs, and no others.
    """
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        if device_for().type != "cuda":
            return None
        size = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
        bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
        return Machine(int(size), is_gpu=True, bf16=bool(bf16))
    name = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    program = shutil.which("nvidia-smi")
    if name in ("", "-1") or program is None:
        return None
    query = [program, "--query-gpu=memory.total,compute_cap", "--format=csv,noheader,nounits"]
    chosen = [] if name.startswith("MIG-") else [f"--id={name}"]
    try:
        done = subprocess.run(
            query + chosen, capture_output=True, text=True, check=True, timeout=20
        )
        size, capability = done.stdout.splitlines()[0].split(",")
        return Machine(int(size) << 20, is_gpu=True, bf16=float(capability) >= AMPERE)
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def _control_group() -> int | None:
    """What a container may take; None without a limit."""
    path = Path("/sys/fs/cgroup/memory.max")
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _multiplies_bf16() -> bool:
    """As `training.machine` asks torch: AMX, or AVX512 with bf16."""
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "amx_bf16" in flags or "avx512_bf16" in flags
