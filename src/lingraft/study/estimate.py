"""What cells cost: tokens, floating-point operations, disk; and how long they will take here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lingraft.devices import device_for
from lingraft.pipeline import preflight
from lingraft.training import throughput

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingraft.recipe import Recipe
    from lingraft.study.rows import EndRow, TaskRow
    from lingraft.study.steps import TaskPlan

EFFICIENCY = 0.3
"""Share of a large matrix product's speed that training reaches; small models reach less."""
MEASURED_SECONDS = 2.0
START_SECONDS = 10.0
"""Of a cell's process: loading libraries and model, and evaluation of a small model."""
BYTES_PER_WEIGHT = 4


@dataclass(frozen=True)
class Cost:
    """What a step of a cell takes."""

    tokens: float
    flops: float | None
    """None where the size of the model is not known before it is built."""
    parameters: int | None = None
    body: int | None = None
    """Parameters outside the embeddings."""
    phases: dict[str, float] = field(default_factory=dict)
    """Tokens of each phase of training."""

    @property
    def unit(self) -> str:
        """Of a progress bar: tokens where operations are not known, or too few to count in it."""
        return "GFLOP" if self.flops and self.flops >= 1e10 else "tokens"

    def amount(self, unit: str) -> float:
        """In such a unit."""
        return (self.flops or 0.0) / 1e9 if unit == "GFLOP" else self.tokens


UNKNOWN = Cost(0.0, None)


@dataclass(frozen=True)
class Speed:
    """How fast this machine trains."""

    flops_per_second: float
    """Of all cells that run at a time together."""
    overhead_seconds: float
    """A cell."""
    basis: str
    """Where the number is from."""

    def seconds(self, costs: Sequence[Cost]) -> float | None:
        """Time for cells; None if the cost of one is not known."""
        if any(cost.flops is None for cost in costs):
            return None
        flops = sum(cost.flops or 0.0 for cost in costs)
        return flops / self.flops_per_second + len(costs) * self.overhead_seconds


def cost_of(recipe: Recipe) -> Cost:
    """What a cell takes; checks its recipe on the way.

    Parameters stand for operations (`throughput.flops_per_token`). Embedding rows are looked up,
    and multiplied only where a token is predicted.

    Raises:
        LingraftError: the recipe cannot work.
    """
    plan = preflight.check(recipe)
    phases = {phase["name"]: float(phase["tokens_estimate"]) for phase in plan.phases}
    tokens = sum(phases.values())
    if plan.parameters is None:
        return Cost(tokens, None, phases=phases)
    flops = 0.0
    rows = plan.by_part.get("embeddings", 0)
    for phase, entry in zip(plan.recipe.phases, plan.phases, strict=True):
        share = 1.0 if phase.objective == "clm" else phase.masking.rate
        predicted = rows * share / (2 if plan.tied is False else 1)  # half are of the input alone
        passes = plan.parameters - rows + predicted
        trained = float(entry["trainable"] or 0)
        if {"embeddings", "all"} & set(phase.train):
            trained += predicted - rows
        flops += phases[phase.name] * throughput.flops_per_token(passes, max(trained, 0.0))
    return Cost(tokens, flops, plan.parameters, plan.parameters - rows, phases)


def fine_tuning(model: Cost, plan: TaskPlan) -> Cost:
    """What one fine-tuning takes of a model whose training costs so much.

    The trainings that choose a learning rate are shared out among the seeds.
    """
    body, flops = model.body, None
    runs = 1 + len(plan.section.learning_rates) / len(plan.section.seeds)
    if body is not None:
        # Of training, and of a forward pass through what is scored.
        train, forward = throughput.flops_per_token(body, body), 2 * body
        flops = runs * (plan.train_tokens * train + plan.read_tokens * forward)
    return Cost(runs * (plan.train_tokens + plan.read_tokens), flops)


def total(costs: Sequence[Cost]) -> Cost:
    """Of several steps together."""
    tokens = sum(cost.tokens for cost in costs)
    has_flops = all(cost.flops is not None for cost in costs)
    return Cost(tokens, sum(cost.flops or 0.0 for cost in costs) if has_flops else None)


def order(costs: Sequence[Cost]) -> list[int]:
    """Indices, cheapest first; equal ones as they come."""
    has_flops = all(cost.flops is not None for cost in costs)
    return sorted(
        range(len(costs)),
        key=lambda index: (costs[index].flops or 0.0) if has_flops else costs[index].tokens,
    )


def measured(
    ended: Iterable[tuple[Cost, EndRow | TaskRow]], device: str, cores: int, jobs: int
) -> Speed | None:
    """The speed of finished cells on a machine like this one; None if there is none.

    Args:
        ended: cost and end of cells that are done.
        device: as `EndRow.machine` names it.
        cores: of this machine; on a CPU, all work together however many cells run at a time.
        jobs: cells that will run at a time.
    """
    flops = seconds = 0.0
    cells = 0
    for cost, row in ended:
        if not cost.flops or row.machine.get("device") != device:
            continue
        share = float(row.machine.get("threads") or cores) / cores if device == "cpu" else 1 / jobs
        flops += cost.flops
        seconds += row.seconds * share
        cells += 1
    if not seconds:
        return None
    basis = f"measured: {cells} finished {'cell' if cells == 1 else 'cells'} on {device}"
    return Speed(flops / seconds, 0.0, basis)


def guessed(jobs: int) -> Speed:
    """A guess from the speed of a matrix product here; takes two seconds and loads torch."""
    import torch

    from lingraft.training.machine import multiplies_bf16

    device = device_for()
    on_gpu = device.type == "cuda"
    kind = torch.bfloat16 if multiplies_bf16() else torch.float32
    size = 4_096 if on_gpu else 1_024
    times = throughput.product_seconds((size,) * 3, kind, device, MEASURED_SECONDS, products=None)
    speed = 2 * size**3 * len(times) / sum(times)
    basis = (
        f"guessed: {EFFICIENCY:.0%} of the {speed / 1e9:,.0f} GFLOP/s of a matrix product here, "
        f"and {START_SECONDS:.0f} s a cell"
    )
    devices = min(jobs, torch.cuda.device_count()) if on_gpu else 1
    return Speed(speed * EFFICIENCY * devices, START_SECONDS / jobs, basis)


def device_here() -> str:
    """This machine's device, as `EndRow.machine` names it; loads torch."""
    import torch

    return torch.cuda.get_device_name(0) if device_for().type == "cuda" else "cpu"


def disk_bytes(cost: Cost, keep: str) -> int | None:
    """What the weights of a finished cell take on disk."""
    if cost.parameters is None:
        return None
    copies = {"all": 1 + len(cost.phases), "final": 1, "none": 0}[keep]
    return copies * cost.parameters * BYTES_PER_WEIGHT
