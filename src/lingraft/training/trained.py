"""Trained part of a model: tensors as they are, and rows of a matrix as parameters of their own.

Behind that AdamW's parameter groups, the learning rate over a phase, and clipping.

AdamW moves whatever it is given, by its weight decay and its moments too: a masked gradient freezes
no row. So the optimizer is given the rows that train as a parameter of its own, and never the
matrix. After the backward pass the rows take theirs of the matrix' gradient, after the optimizer's
step they are written into the matrix, and no other row is touched. The model stays the stock model:
forward pass, checkpoints and distributed wrappers see one matrix.

Shape letters: V pieces, D width, N rows that train.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed, nn
from torch.distributed.tensor import DTensor

from lingraft.errors import RecipeError
from lingraft.models.lora import is_low_rank, stock_name
from lingraft.training.sharding import whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lingraft.models.selection import Piece, Selection
    from lingraft.recipe import Optimizer, Schedule


class Rows:
    """Some rows of a matrix [V, D] (or of a bias [V]), as a parameter [N, D] of their own."""

    def __init__(self, model: nn.Module, name: str, ids_N: torch.Tensor) -> None:
        """Copy the rows out of the matrix.

        Args:
            model: holds the matrix; it may later be divided over processes in place.
            name: of the matrix.
            ids_N: which rows, each once.
        """
        self.model, self.name, self.ids_N = model, name, ids_N
        self.parameter = nn.Parameter(self.matrix.detach().index_select(0, ids_N))
        self.here: tuple[torch.Tensor, torch.Tensor] | None = None

    @property
    def matrix(self) -> nn.Parameter:
        """Return the matrix as the model has it now."""
        return self.model.get_parameter(self.name)

    def refresh(self) -> None:
        """Take the rows from the matrix again, whose values were loaded."""
        with torch.no_grad():
            self.parameter.copy_(self.matrix.index_select(0, self.ids_N))

    def collect(self) -> None:
        """Take over the rows' gradient; a collective where the matrix is divided."""
        gradient = self.matrix.grad
        if not isinstance(gradient, DTensor):
            self.parameter.grad = None if gradient is None else gradient.index_select(0, self.ids_N)
            return
        numbers, places = self._here(gradient)
        part = gradient.to_local().index_select(0, places)
        rows_ND = torch.zeros_like(self.parameter).index_copy_(0, numbers, part)
        distributed.all_reduce(rows_ND, group=gradient.device_mesh.get_group())
        self.parameter.grad = rows_ND

    @torch.no_grad()
    def put(self) -> None:
        """Write the rows into the matrix."""
        matrix = self.matrix
        if isinstance(matrix, DTensor):
            numbers, places = self._here(matrix)
            part = self.parameter.index_select(0, numbers)
            matrix.to_local().index_copy_(0, places, part)
        else:
            matrix.index_copy_(0, self.ids_N, self.parameter)

    def _here(self, divided: DTensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return numbers of a divided matrix' rows that this process has, and their places here."""
        if self.here is not None:  # to count them is to wait for a GPU
            return self.here
        count, mesh = divided.shape[0], divided.device_mesh
        part_size = -(-count // mesh.size())  # torch.chunk: the last parts may be short
        places_N = self.ids_N - min(mesh.get_local_rank() * part_size, count)
        here_N = (places_N >= 0) & (places_N < divided.to_local().shape[0])
        self.here = here_N.nonzero()[:, 0], places_N[here_N]
        return self.here


@dataclass
class Trained:
    """Parameters that the optimizer of a phase is given, with the settings of each."""

    model: nn.Module
    pieces: list[tuple[nn.Parameter, Piece]] | None = None
    """None: all parameters that have a gradient, with the phase's settings."""
    rows: list[Rows] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)
    """Peak learning rate of each of the optimizer's groups."""

    @property
    def count(self) -> int:
        """Count the numbers that train."""
        return sum(parameter.numel() for parameter, _ in self.pieces or ())

    def optimizer(self, section: Optimizer, *, decay_all: bool = False) -> torch.optim.AdamW:
        """Build AdamW over what trains; what is frozen is not given to it, and has no state."""
        parameters: list[tuple[nn.Parameter, Piece | None]] = list(self.pieces or ())
        if self.pieces is None:
            parameters = [(p, None) for p in self.model.parameters() if p.requires_grad]
        groups = optimizer_groups(parameters, section, decay_all=decay_all)
        self.peaks = [group.pop("peak") for group in groups]
        optimizer = torch.optim.AdamW(
            groups, lr=section.learning_rate, betas=section.betas, eps=section.epsilon, fused=True
        )
        if self.rows:
            optimizer.register_step_post_hook(self.put)
        return optimizer

    def set_rate(self, optimizer: torch.optim.Optimizer, factor: float) -> None:
        """Give each group its learning rate, by its share of the peak."""
        for group, peak in zip(optimizer.param_groups, self.peaks, strict=True):
            group["lr"] = peak * factor

    def parameters(self) -> Iterator[nn.Parameter]:
        """Return the model's and the rows' parameters, for the norm of the gradients."""
        return chain(self.model.parameters(), (rows.parameter for rows in self.rows))

    def collect(self) -> None:
        """Let rows take over their gradients, and let go of their matrices' own."""
        for rows in self.rows:
            rows.collect()
        for rows in self.rows:
            rows.matrix.grad = None

    def refresh(self) -> None:
        """Take rows from matrices that were loaded."""
        for rows in self.rows:
            rows.refresh()

    def put(self, *_: Any) -> None:
        """Write rows into their matrices; what an optimizer's hook is given is left."""
        for rows in self.rows:
            rows.put()


def select(model: nn.Module, selection: Selection, new_rows: Callable[[], torch.Tensor]) -> Trained:
    """Let what a phase names have gradients, and freeze the rest, in place.

    Args:
        model: a stock model, with LoRA where the phase wants it.
        selection: the phase's names.
        new_rows: gives [V] whether the vocabulary stage added a piece; asked where it matters.

    Raises:
        RecipeError: a name means nothing that trains.
    """
    trained = Trained(model, [])
    assert trained.pieces is not None
    for name, parameter in model.named_parameters():
        if is_low_rank(name):
            pieces: tuple[Piece, ...] = (selection.low_rank(),)
        else:
            pieces = selection.pieces(stock_name(name))
        if pieces and stock_name(name) != name:
            raise RecipeError(
                f"phase '{selection.phase.name}': both train and lora.parts name "
                f"{stock_name(name)}; name it once"
            )
        parameter.requires_grad_(bool(pieces))
        for piece in pieces:
            if piece.rows is None:
                trained.pieces.append((parameter, piece))
                continue
            new_V = new_rows()
            ids_N = (new_V if piece.rows == "new" else ~new_V).nonzero()[:, 0]
            if not len(ids_N):
                raise RecipeError(
                    f"phase '{selection.phase.name}': the vocabulary has no row that is "
                    f"{piece.rows}; name the whole part, or set another tokenizer.action"
                )
            rows = Rows(model, name, ids_N.to(parameter.device))
            trained.rows.append(rows)
            trained.pieces.append((rows.parameter, piece))
    selection.check_rated(stock_name(name) for name, _ in model.named_parameters())
    selection.check_any(len(trained.pieces))
    return trained


def optimizer_groups(
    parameters: Iterable[tuple[torch.nn.Parameter, Piece | None]],
    section: Optimizer,
    *,
    decay_all: bool = False,
) -> list[dict[str, Any]]:
    """Group parameters with the same settings: `params`, `weight_decay`, `peak`.

    Biases and normalisation weights have no weight decay, unless `decay_all`.

    Args:
        parameters: parameters that train, with their own settings or None.
        section: the settings of the others.
        decay_all: also decay vectors.
    """
    rate = section.learning_rate
    groups: dict[tuple[bool, float, bool], list[torch.nn.Parameter]] = {
        (True, rate, False): [],
        (False, rate, False): [],
    }
    for parameter, piece in parameters:
        are_rows = piece is not None and piece.rows is not None  # never divided over processes
        key = (parameter.dim() >= 2, rate if piece is None else piece.rate, are_rows)
        groups.setdefault(key, []).append(parameter)
    return [
        {
            "params": members,
            "weight_decay": section.weight_decay if is_matrix or decay_all else 0.0,
            "peak": peak,
        }
        for (is_matrix, peak, _), members in groups.items()
        if members
    ]


def learning_rate_factor(done: float, schedule: Schedule, warmup_share: float) -> float:
    """Return the learning rate as a share of its peak.

    Args:
        done: share of the phase that is done, in [0, 1]; the middle of the step that is taken.
        schedule: its shape.
        warmup_share: share of the phase that warms up.
    """
    if done < warmup_share:
        return done / warmup_share
    if schedule.shape == "constant":
        return 1.0
    falling = 1.0 - warmup_share
    if schedule.shape == "wsd":
        falling = min(falling, schedule.decay)  # a long warm-up leaves no room for all of it
    left = min(1.0, max(0.0, (1.0 - done) / max(falling, 1e-9)))
    fall = 0.5 * (1.0 - math.cos(math.pi * left)) if schedule.shape == "cosine" else left
    return schedule.floor + (1.0 - schedule.floor) * fall if schedule.floor else fall


def clip(parameters: Iterable[torch.nn.Parameter], max_norm: float | None) -> torch.Tensor:
    """Scale the gradients down to a global norm of `max_norm` at most; returns the norm before."""
    trained = [parameter for parameter in parameters if parameter.grad is not None]
    # Whole ones and those divided over processes do not go into one call.
    kinds = [[p for p in trained if isinstance(p, DTensor) is divided] for divided in (False, True)]
    kinds = [kind for kind in kinds if kind] or [trained]
    norms = [
        whole(torch.nn.utils.get_total_norm([p.grad for p in kind if p.grad is not None]))
        for kind in kinds
    ]
    norm = norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms))
    if max_norm is not None:
        for kind in kinds:
            torch.nn.utils.clip_grads_with_norm_(kind, max_norm, norm)
    return norm
