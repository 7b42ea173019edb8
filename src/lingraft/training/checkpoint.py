"""Checkpoints of a phase: weights, optimizer, position. A resumed run is the straight run.

Random numbers need no saving: order, masks and dropout are functions of (seed, phase, step,
process).

A checkpoint holds the whole weights and moments, however many processes wrote it and whether they
were divided over them; so it can be resumed with any other number.

A checkpoint is a folder `checkpoint-STEP` that is renamed into place when it is whole; older ones
are deleted after that.

The weights of the last looks, whose mean may count (fairseq's average_checkpoints), lie
in a file of their own each, until there are enough later ones. A phase that goes on from a
checkpoint writes those again that came after it, bit for bit.
"""

from __future__ import annotations

import re
import shutil
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from lingraft.errors import DataError, is_memory_full
from lingraft.files import removed_on_failure, write_json, writing
from lingraft.pretrained import checkpoints
from lingraft.rundir import read_json
from lingraft.training import sharding
from lingraft.training.beside import Writer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import nn

NAME, LEFTOVER = re.compile(r"checkpoint-(\d+)"), re.compile(r"checkpoint-\d+|partial-.+")
STABLE, OLD = "stable", "partial-old"
"""Folder of what a cooldown begins with; it stays when the phase is done. And what is replaced."""
ROOM = 6
"""Times the weights must be free on a disk for it: it takes three, and as much comes after."""
BROKEN = (
    OSError,
    LookupError,
    RuntimeError,
    ValueError,
    EOFError,
    SafetensorError,
    UnpicklingError,
)
"""Errors that reading a damaged file raises."""
AGAIN = "delete the folder to start the phase again"
LOOKS = "looks"


def latest(folder: Path) -> Path | None:
    """Return the newest whole checkpoint of a phase; what its cooldown begins with is one."""
    states = [path / "state.json" for path in (*_stable(folder), *folder.glob("checkpoint-*"))]
    steps = {int(read_json(state)["step"]): state.parent for state in states if state.is_file()}
    return max(steps.items(), default=(0, None))[1]


def last_state(folder: Path) -> dict[str, Any]:
    """Return the state that a phase goes on from; nothing where it begins."""
    path = latest(folder)
    return read_json(path / "state.json") if path else {}


def last_step(folder: Path) -> int:
    """Return the step that a phase goes on from; 0 where it begins."""
    return int(last_state(folder).get("step", 0))


def _stable(folder: Path) -> list[Path]:
    """Return the folder of what a cooldown begins with, if kept; a kill may leave its old name."""
    return [path for path in (folder / STABLE, folder / OLD) if (path / "state.json").is_file()][:1]


def stable_state(folder: Path) -> dict[str, Any]:
    """Return the state with which the cooldown of a phase begins; nothing where it was not kept."""
    return next((read_json(path / "state.json") for path in _stable(folder)), {})


def leftovers(folder: Path) -> list[Path]:
    """Return the checkpoints of a phase, and those that a kill left half-written."""
    return [path for path in sorted(folder.glob("*")) if LEFTOVER.fullmatch(path.name)]


def weights(model: nn.Module, *, keep: bool = True, copy: bool = False) -> dict[str, torch.Tensor]:
    """Return a model's tensors, tied ones once, whole, on the CPU; a collective if it is sharded.

    Args:
        model: the unwrapped model.
        keep: False for a process that only gives its shards.
        copy: also of what lies on the CPU already, since training goes on meanwhile.
    """
    tensors: dict[str, torch.Tensor] = {}
    for name, parameter in model.named_parameters():  # named_parameters gives tied tensors once
        tensor = sharding.whole(parameter.detach())  # one at a time: no device holds the model
        if keep:
            tensors[name] = tensor.to("cpu", copy=copy).contiguous()
    return tensors


def moments(
    optimizer: torch.optim.Optimizer, *, keep: bool = True, copy: bool = False
) -> dict[str, Any]:
    """Return an optimizer's state as one process has it, on the CPU; arguments as `weights`."""
    state = optimizer.state_dict()
    whole: dict[int, dict[str, Any]] = {}
    for number, values in state["state"].items():
        for name, value in values.items():
            tensor = sharding.whole(value)
            if keep:
                whole.setdefault(number, {})[name] = tensor.to("cpu", copy=copy)
    return state | {"state": whole}


def save(
    folder: Path,
    step: int,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    state: dict[str, Any],
    *,
    main: bool = True,
    writer: Writer | None = None,
    stable: bool = False,
) -> Path:
    """Write `checkpoint-STEP`, then delete older ones; called by all processes.

    Args:
        folder: the phase's folder.
        step: optimizer steps taken.
        model: the unwrapped model.
        optimizer: its state covers the trained tensors alone.
        state: plain data to go on from.
        main: whether this process writes; another one only gives its shards.
        writer: writes, perhaps beside training; None: before this returns.
        stable: write `stable` instead, and delete nothing.
    """
    path = folder / (STABLE if stable else f"checkpoint-{step:08d}")
    writer = writer or Writer(threaded=False)
    writer.wait()  # so that no more than one copy is in memory
    copy = writer.thread is not None
    tensors = weights(model, keep=main, copy=copy)
    moved = moments(optimizer, keep=main, copy=copy)
    if main:
        writer.start(_write, path, tensors, moved, state)
    return path


def _write(
    path: Path, tensors: dict[str, torch.Tensor], moved: dict[str, Any], state: dict[str, Any]
) -> None:
    folder = path.parent
    partial = folder / f"partial-{path.name.removeprefix('checkpoint-')}"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    with removed_on_failure(partial):
        with writing(partial):
            save_file(tensors, partial / "model.safetensors")
            torch.save(moved, partial / "optimizer.pt")
        write_json(partial / "state.json", state)
        checkpoints.write(partial)
    if path.exists():
        shutil.rmtree(folder / OLD, ignore_errors=True)
        path.replace(folder / OLD)
    partial.replace(path)
    for entry in leftovers(folder):
        if entry != path and not (path.name == STABLE and NAME.fullmatch(entry.name)):
            shutil.rmtree(entry)


def has_room(folder: Path, model: nn.Module) -> bool:
    """Return whether the disk has room for what a cooldown begins with and what comes after."""
    weights = sum(4 * parameter.numel() for parameter in model.parameters())
    return shutil.disk_usage(folder).free >= ROOM * weights


def save_best(folder: Path, save: Callable[[Path], None]) -> None:
    """Write the weights to the phase's `best`, whole or not at all."""
    partial, best = folder / "best.partial", folder / "best"
    shutil.rmtree(partial, ignore_errors=True)
    with removed_on_failure(partial):
        save(partial)
    shutil.rmtree(best, ignore_errors=True)
    partial.replace(best)


def load(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Put a checkpoint back; returns its state.

    Raises:
        DataError: the checkpoint is broken.
    """
    checkpoints.check(path, AGAIN)
    try:
        tensors = load_file(path / "model.safetensors")
        moments = torch.load(path / "optimizer.pt", map_location="cpu", weights_only=True)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(tensors[name])
        optimizer.load_state_dict(moments)
    except BROKEN as error:
        if is_memory_full(error):
            raise
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path}: checkpoint cannot be read ({reason}); {AGAIN}") from error
    return read_json(path / "state.json")


def keep_look(folder: Path, model: nn.Module, step: int, looks: int, *, main: bool = True) -> None:
    """Write the weights of a look, and delete those that will not count; called by all processes.

    Args:
        folder: the phase's.
        model: the unwrapped model.
        step: optimizer steps taken.
        looks: how many count.
        main: whether this process writes; another one only gives its shards.

    Raises:
        DataError: they cannot be written.
    """
    tensors = weights(model, keep=main)
    if not main:
        return
    place = folder / LOOKS
    place.mkdir(exist_ok=True)
    with writing(place):
        partial = place / "partial"
        save_file(tensors, partial)
        partial.replace(place / f"step-{step:08d}.safetensors")
    there = kept_looks(folder)
    before = [path for number, path in there.items() if number <= step]
    later = [path for number, path in there.items() if number > step]  # of a killed run
    for path in (*before[:-looks], *later):
        path.unlink()
    checkpoints.write(place, there[step])


def kept_looks(folder: Path) -> dict[int, Path]:
    """Return the files of the looks that are there, by step, the earliest first."""
    paths = sorted((folder / LOOKS).glob("step-*.safetensors"))
    return {int(path.stem.removeprefix("step-")): path for path in paths}


@torch.no_grad()
def put_mean(folder: Path, model: nn.Module) -> list[int]:
    """Give a model the arithmetic mean of the looks' weights, summed in fp32 in their order.

    Returns:
        Their steps.
    """
    checkpoints.check(folder / LOOKS, AGAIN)
    looks = kept_looks(folder)
    sums: dict[str, torch.Tensor] = {}
    for path in looks.values():
        for name, tensor in load_file(path).items():
            sums[name] = sums[name] + tensor.float() if name in sums else tensor.float()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            parameter.copy_(sums[name] / len(looks))
    return list(looks)


def clear_looks(folder: Path) -> None:
    """Delete the weights of the looks."""
    shutil.rmtree(folder / LOOKS, ignore_errors=True)
