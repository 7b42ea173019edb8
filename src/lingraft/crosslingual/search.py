"""Exact nearest neighbours by inner product, both ways, in bounded memory.

The product of two large sets is made in blocks, none of which is kept. Of each vector a few more
than K of the best are remembered, and multiplied again one by one in fp32, so that the rounding of
a block decides nothing. Equal vectors are searched once, and found in their order.

Shape letters: N queries, M vectors that are searched, D width, K neighbours, R and C rows and
columns of a block, P candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lingraft.devices import device_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Array = np.ndarray[Any, Any]

ROWS, COLUMNS = 1_024, 4_096
"""Size of a block, 16 MiB in fp32, whatever is searched."""
SPARE = 7
"""Candidates beyond K: so many others may be as near as rounding can tell."""
GATHERED = 1 << 20
"""Numbers of candidates' vectors that are held at once."""


@dataclass(frozen=True)
class Neighbours:
    """The nearest of each query, best first; among equals the first in order."""

    scores_NK: Array
    """fp32."""
    places_NK: Array
    """int64."""


class Side:
    """The distinct vectors of a set."""

    def __init__(self, x_ND: Array, k: int, device: torch.device) -> None:
        numbers: dict[bytes, int] = {}
        x_ND = np.ascontiguousarray(x_ND, dtype=np.float32)
        self.number_N = np.array([numbers.setdefault(x.tobytes(), len(numbers)) for x in x_ND])
        self.size, order_N = len(x_ND), np.argsort(self.number_N, kind="stable")
        first_U = np.searchsorted(self.number_N[order_N], np.arange(len(numbers) + 1))
        at_UK = first_U[:-1, None] + np.arange(k)
        is_there_UK = at_UK < first_U[1:, None]
        places_UK = np.where(is_there_UK, order_N[np.minimum(at_UK, self.size - 1)], self.size)
        self.places_UK = torch.from_numpy(places_UK).to(device)  # of equal vectors the first K
        self.x_UD = torch.from_numpy(x_ND[order_N[first_U[:-1]]]).to(device)

    def __len__(self) -> int:
        return len(self.x_UD)

    def candidates(self, rows: slice, other: Side, most: int) -> torch.Tensor:
        """Return the nearest of some vectors, of equal ones any."""
        x_RD = self.x_UD[rows]
        shape, device = (len(x_RD), most), x_RD.device
        best_RP = torch.full(shape, -torch.inf, device=device)
        found_RP = torch.full(shape, -1, dtype=torch.int64, device=device)
        for columns in _parts(len(other), COLUMNS):
            products_RC = x_RD @ other.x_UD[columns].T
            gains = (products_RC.amax(1) > best_RP[:, -1]).nonzero().flatten()
            top, at = products_RC[gains].topk(min(most, products_RC.shape[1]), dim=1)
            values = torch.cat([best_RP[gains], top], dim=1)
            found = torch.cat([found_RP[gains], at + columns.start], dim=1)
            best_RP[gains], order = values.topk(most, dim=1)
            found_RP[gains] = found.gather(1, order)
        return found_RP

    def neighbours(self, other: Side, k: int, report: Callable[[int], None] | None) -> Neighbours:
        """Rank the candidates; every product is summed by itself."""
        most, width, k = min(k + SPARE, len(other)), self.x_UD.shape[1], min(k, other.size)
        scores_UK = torch.empty(len(self), k)
        places_UK = torch.empty(len(self), k, dtype=torch.int64)
        for block in _parts(len(self), ROWS):
            candidates_RP = self.candidates(block, other, most)
            for part in _parts(len(candidates_RP), max(1, GATHERED // (most * width))):
                rows = slice(block.start + part.start, block.start + part.stop)
                products_RP = (self.x_UD[rows, None] * other.x_UD[candidates_RP[part]]).sum(-1)
                places_RPK = other.places_UK[candidates_RP[part]]
                scores_RPK = products_RP[:, :, None].expand(places_RPK.shape)
                scores_RPK = scores_RPK.masked_fill(places_RPK == other.size, -torch.inf)
                places_RQ, order_RQ = places_RPK.flatten(1).sort(dim=1)
                scores_RQ = scores_RPK.flatten(1).gather(1, order_RQ)
                scores_RQ, order_RQ = scores_RQ.sort(dim=1, descending=True, stable=True)
                scores_UK[rows] = scores_RQ[:, :k].cpu()
                places_UK[rows] = places_RQ.gather(1, order_RQ)[:, :k].cpu()
            if report is not None:
                report(block.stop)
        return Neighbours(scores_UK.numpy()[self.number_N], places_UK.numpy()[self.number_N])


def both_ways(
    x_ND: Array, y_MD: Array, k: int = 1, report: Callable[[int], None] | None = None
) -> tuple[Neighbours, Neighbours]:
    """Return the k nearest in `y_MD` of every vector of `x_ND`, and the other way round: exact.

    On the GPU if there is one. Memory beyond the two sets: a copy of each, a block, and K + 7
    numbers and places a vector. Scores are fp32.

    Args:
        x_ND: fp32; of unit length where cosines are wanted. None may be empty.
        y_MD: fp32, as wide.
        k: neighbours of each; as many as there are where there are fewer.
        report: told how many rows of `x_ND` are done.
    """
    device = device_for()
    with torch.inference_mode():
        x, y = Side(x_ND, k, device), Side(y_MD, k, device)
        return x.neighbours(y, k, report), y.neighbours(x, k, None)


def _parts(number: int, size: int) -> Iterator[slice]:
    for start in range(0, number, size):
        yield slice(start, min(number, start + size))
