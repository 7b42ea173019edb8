"""What of a model trains: tensors as they are, and rows of a matrix as parameters of their own.

AdamW moves whatever it is given, by its weight decay and its moments too: a masked gradient freezes
no row. So the optimiser is given the rows that train as a parameter of its own, and never the
matrix. After the backward pass the rows take theirs of the matrix' gradient, after the optimiser's
step they are written into the matrix, and no other row is touched. The model stays the stock model:
forward pass, checkpoints and distributed wrappers see one matrix.

Shape letters: V pieces, D width, N rows that train.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed, nn
from torch.distributed.tensor import DTensor

from lingraft.errors import RecipeError
from lingraft.models.lora import is_low_rank, stock_name
from lingraft.training.optim import optimiser_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lingraft.models.selection import Piece, Selection
    from lingraft.recipe import Optimiser


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

    @property
    def matrix(self) -> nn.Parameter:
        """The matrix as the model has it now."""
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
        here_N, places = self._here(gradient)
        rows_ND = torch.zeros_like(self.parameter)
        rows_ND[here_N] = gradient.to_local().index_select(0, places)
        distributed.all_reduce(rows_ND, group=gradient.device_mesh.get_group())
        self.parameter.grad = rows_ND

    @torch.no_grad()
    def put(self) -> None:
        """Write the rows into the matrix."""
        matrix = self.matrix
        if isinstance(matrix, DTensor):
            here_N, places = self._here(matrix)
            matrix.to_local().index_copy_(0, places, self.parameter[here_N])
        else:
            matrix.index_copy_(0, self.ids_N, self.parameter)

    def _here(self, divided: DTensor) -> tuple[torch.Tensor, torch.Tensor]:
        """[N] which rows this process has of a divided matrix, and where in its part."""
        count, mesh = divided.shape[0], divided.device_mesh
        part_size = -(-count // mesh.size())  # torch.chunk: the last parts may be short
        places_N = self.ids_N - min(mesh.get_local_rank() * part_size, count)
        here_N = (places_N >= 0) & (places_N < divided.to_local().shape[0])
        return here_N, places_N[here_N]


@dataclass
class Trained:
    """What the optimiser of a phase is given, with the settings of each."""

    model: nn.Module
    pieces: list[tuple[nn.Parameter, Piece]] | None = None
    """None: all parameters that have a gradient, with the phase's settings."""
    rows: list[Rows] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)
    """Of each of the optimiser's groups."""

    @property
    def count(self) -> int:
        """Numbers that train."""
        return sum(parameter.numel() for parameter, _ in self.pieces or ())

    def optimiser(self, section: Optimiser, *, decay_all: bool = False) -> torch.optim.AdamW:
        """AdamW over what trains; what is frozen is not given to it, and has no state."""
        parameters: list[tuple[nn.Parameter, Piece | None]] = list(self.pieces or ())
        if self.pieces is None:
            parameters = [(p, None) for p in self.model.parameters() if p.requires_grad]
        groups = optimiser_groups(parameters, section, decay_all=decay_all)
        self.peaks = [group.pop("peak") for group in groups]
        optimiser = torch.optim.AdamW(
            groups, lr=section.learning_rate, betas=section.betas, eps=section.epsilon, fused=True
        )
        if self.rows:
            optimiser.register_step_post_hook(self._put)
        return optimiser

    def set_rate(self, optimiser: torch.optim.Optimizer, factor: float) -> None:
        """Give each group its learning rate, by its share of the peak."""
        for group, peak in zip(optimiser.param_groups, self.peaks, strict=True):
            group["lr"] = peak * factor

    def parameters(self) -> Iterator[nn.Parameter]:
        """The model's and the rows', for the norm of the gradients."""
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

    def _put(self, *_: Any) -> None:
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
            ids_N = _row_numbers(new_rows(), piece.rows, selection)
            rows = Rows(model, name, ids_N.to(parameter.device))
            trained.rows.append(rows)
            trained.pieces.append((rows.parameter, piece))
    selection.check_rated(stock_name(name) for name, _ in model.named_parameters())
    selection.check_any(len(trained.pieces))
    return trained


def _row_numbers(new_V: torch.Tensor, rows: str, selection: Selection) -> torch.Tensor:
    """Numbers of the rows that were added or kept.

    Raises:
        RecipeError: there are none.
    """
    numbers = (new_V if rows == "new" else ~new_V).nonzero()[:, 0]
    if not len(numbers):
        effect = "added no piece" if rows == "new" else "kept no piece of the source's"
        raise RecipeError(
            f"phase '{selection.phase.name}': the vocabulary {effect}, so no row is {rows}; "
            "name the whole part, or set another tokenizer.kind"
        )
    return numbers
