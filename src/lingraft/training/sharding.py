"""FSDP2: weights, gradients and optimizer state divided over the processes (Zhao et al. 2023).

torch's `fully_shard` does it; accelerate keeps device, processes and precision, since its own FSDP
plugin knows no CPU. Each encoder layer is a unit, gathered when it computes; the rest is another,
so that tied embeddings stay one tensor. Weights are gathered in fp32, under autocast as with whole
models: the numbers are those of DDP up to the order of additions.

Every gathering is a collective: all processes must come by, with as many micro-batches of each
objective.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
from dataclasses import replace
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from lingraft.training.machine import encoder_layers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from accelerate import Accelerator

    from lingraft.recipe import Hardware
    from lingraft.training.data import Step


def prepare(
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    hardware: Hardware,
    accelerator: Accelerator,
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Set a module and its optimizer up for the processes there are.

    Args:
        module: the same weights on every process, on its device; sharded in place where
            `hardware.sharding` asks for it and there are several processes.
        optimizer: of its parameters, with or without state; goes on to hold the shards.
        hardware: how the machine is used.
        accelerator: device, processes, precision.

    Returns:
        What to call, and what to step with.
    """
    if hardware.sharding == "none" or accelerator.num_processes == 1:
        return accelerator.prepare(module, optimizer)
    shard(module, optimizer, accelerator)
    return (
        # no wrapper of its own, just the precision
        accelerator.prepare_model(module, device_placement=False, evaluation_mode=True),
        accelerator.prepare_optimizer(optimizer, device_placement=False),
    )


def shard(module: nn.Module, optimizer: torch.optim.Optimizer, accelerator: Accelerator) -> None:
    """Divide a module's parameters, and the optimizer's state of them, in place."""
    mesh = init_device_mesh(accelerator.device.type, (accelerator.num_processes,))
    before: list[torch.Tensor] = list(module.parameters())
    for layer in encoder_layers(module):
        fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)
    shards = dict(zip(before, module.parameters(), strict=True))
    for group in optimizer.param_groups:
        # rows of a matrix are no parameter of the module, and stay whole
        group["params"] = [shards.get(parameter, parameter) for parameter in group["params"]]
    states: dict[torch.Tensor, Any] = {
        shards.get(parameter, parameter): {
            name: _part_of(value, shards[parameter]) if parameter in shards else value
            for name, value in state.items()
        }
        for parameter, state in optimizer.state.items()
    }
    optimizer.state.clear()
    optimizer.state.update(states)


def _part_of(value: Any, like: nn.Parameter) -> Any:
    """Return this process's part of a moment; a step count stays as it is."""
    if not isinstance(value, torch.Tensor) or value.shape != like.shape or value.dim() == 0:
        return value
    assert isinstance(like, DTensor)
    return distribute_tensor(value, like.device_mesh, like.placements, src_data_rank=None)


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Put a tensor together from its shards; others stay as they are."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def settle(module: nn.Module) -> None:
    """Let go of gathered weights: a forward pass without a backward one keeps some."""
    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.reshard()


@contextlib.contextmanager
def gathered(module: nn.Module, accelerator: Accelerator) -> Iterator[None]:
    """Gather all weights of a module on the main process for a while, as plain tensors on the CPU.

    Tied ones stay tied. Nothing changes on the other processes, or where nothing is sharded.
    """
    places = [
        (owner, name, parameter)
        for owner in module.modules()
        for name, parameter in owner.named_parameters(recurse=False, remove_duplicate=False)
        if isinstance(parameter, DTensor)
    ]
    plain: dict[nn.Parameter, nn.Parameter] = {}
    for parameter in dict.fromkeys(parameter for _, _, parameter in places):
        full = whole(parameter.detach())  # one at a time: no device holds the model
        if accelerator.is_main_process:
            plain[parameter] = nn.Parameter(full.cpu(), parameter.requires_grad)
    try:
        if plain:
            for owner, name, parameter in places:
                setattr(owner, name, plain[parameter])
        yield
    finally:
        for owner, name, parameter in places:
            setattr(owner, name, parameter)


def level(step: Step, module: nn.Module, accelerator: Accelerator) -> Step:
    """Give all processes as many micro-batches of each objective where they compute together.

    Objectives differ in the passes that they take, and in the parameters that they reach. All
    processes have micro-batches of the same ones, in the same order (`data.lay_out`). What is added
    is the last one of the objective again, with weight 0.
    """
    if not isinstance(module, FSDPModule):
        return step
    weighed = zip(step.micro_batches, step.weights, strict=True)
    groups = [list(group) for _, group in groupby(weighed, key=lambda pair: pair[0].objective)]
    most = largest([len(group) for group in groups], accelerator)
    for group, number in zip(groups, most, strict=True):
        group += [(group[-1][0], 0.0)] * (int(number) - len(group))
    batches, weights = zip(*chain(*groups), strict=True)
    return replace(step, micro_batches=list(batches), weights=list(weights))


@functools.cache
def _hosts() -> distributed.ProcessGroup:
    return distributed.new_group(backend="gloo", timeout=dt.timedelta(days=1))


def largest(numbers: list[float], accelerator: Accelerator) -> list[float]:
    """Return the largest of all processes' numbers, each, by processors: no GPU is waited for."""
    if accelerator.num_processes == 1:
        return numbers
    tensor = torch.tensor(numbers, dtype=torch.float64)
    group = None if accelerator.device.type == "cpu" else _hosts()
    distributed.all_reduce(tensor, op=distributed.ReduceOp.MAX, group=group)
    return tensor.tolist()


def all_finite(parameters: Iterable[torch.Tensor], accelerator: Accelerator) -> bool:
    """Return whether no number of any process's part is infinite or NaN."""
    parts = (p.to_local() if isinstance(p, DTensor) else p for p in parameters)
    broken = torch.stack([~part.isfinite().all() for part in parts]).sum()  # read once
    return int(accelerator.reduce(broken, reduction="sum")) == 0
