"""Exact nearest neighbours by inner product, both ways in one pass, in bounded memory.

The product of two large sets is made in blocks, none of which is kept. Of a block only the largest
value of every group of `GROUP` vectors is looked at: the k largest values of a row lie in the k
groups whose largest values are largest. So a few groups of each row are remembered, and at the end
their members are multiplied again one by one in fp32. A row is certain when its k-th score is
larger than all that the groups left out can hold, whatever was rounded; the others are computed
anew. This makes a first pass in bf16 exact too: on a processor with bf16 products it takes about a
quarter of the time, and its larger error only makes more rows uncertain. A sample says beforehand
whether it pays.

Shape letters: N queries, M vectors that are searched, D width, K neighbours, R and C rows and
columns of a block, G groups, P candidates.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lingraft.devices import device_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Array = np.ndarray[Any, Any]

logger = logging.getLogger(__name__)

ROWS, COLUMNS = 1_024, 4_096
"""Of a block, 16 MiB in fp32, whatever is searched; multiples of `GROUP`."""
GROUP = 32
SPARE = 7
"""Groups that are looked into beyond K, so that few rows are uncertain."""
UNIT = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8}
"""The largest relative error of one rounding."""
RANKED = 1_024
"""Rows that are ranked at once."""
GATHERED = 1 << 18
"""Numbers of candidates' vectors that are held at once (1 MiB, which caches hold)."""
SAMPLE = 256
"""Rows on which bf16 is tried, where there are `LARGE` or more on either side."""
LARGE = 20_000
WORTH = 0.2
"""Share of uncertain rows up to which bf16 is used."""


@dataclass(frozen=True)
class Neighbours:
    """The nearest of each query, best first; among equals the first in order."""

    scores_NK: Array
    """fp32."""
    places_NK: Array
    """int64."""


class Matrix:
    """Vectors in fp32, with what a pass in another format needs to know of them."""

    def __init__(self, x_ND: torch.Tensor, dtype: torch.dtype) -> None:
        self.x_ND, self.dtype = x_ND, dtype
        if dtype == torch.float32:
            self.rounded_ND = x_ND
            self.error_N = torch.zeros(len(x_ND), device=x_ND.device)
        else:
            self.rounded_ND = torch.empty(x_ND.shape, dtype=dtype, device=x_ND.device)
            self.error_N = torch.empty(len(x_ND), device=x_ND.device)
            for part in _parts(len(x_ND), ROWS):
                self.rounded_ND[part] = x_ND[part]
                self.error_N[part] = (x_ND[part] - self.rounded_ND[part].float()).norm(dim=1)
        parts = [x_ND[part].norm(dim=1) for part in _parts(len(x_ND), ROWS)]
        self.length_N = torch.cat(parts)

    def __len__(self) -> int:
        return len(self.x_ND)

    def error(self, other: Matrix, values_N: torch.Tensor) -> torch.Tensor:
        """[N] How far a product with any vector of `other` can be from what the pass gave.

        By Cauchy and Schwarz from what rounding took off both sides, the sum's own rounding, and
        that of the result.

        Args:
            other: what is searched.
            values_N: the pass's products.
        """
        longest = other.length_N.max()
        inputs_N = self.error_N * longest + (self.length_N + self.error_N) * other.error_N.max()
        sums_N = 4 * self.x_ND.shape[1] * UNIT[torch.float32] * self.length_N * longest
        return inputs_N + sums_N + 1.01 * UNIT[self.dtype] * values_N.abs()


class Best:
    """The groups with the largest maxima of each query so far, and the first that was left out.

    Groups of a block interleave: with S groups, group g holds g, g + S, g + 2S, …
    """

    def __init__(self, number: int, searched: int, k: int, block: int, device: Any) -> None:
        self.block = min(block, -(-searched // GROUP) * GROUP)
        self.stride = self.block // GROUP
        groups = min(k + SPARE, -(-searched // GROUP))
        self.maxima_NG = torch.full((number, groups + 1), -torch.inf, device=device)
        self.groups_NG = torch.full((number, groups + 1), -1, dtype=torch.int32, device=device)

    def add(self, rows: slice, maxima_RG: torch.Tensor, block: int) -> None:
        """Take in a block's groups for some queries; most queries have nothing to gain.

        Args:
            rows: the queries.
            maxima_RG: of the block's groups.
            block: its number.
        """
        before_RG = self.maxima_NG[rows]
        gains = (maxima_RG.amax(1) > before_RG[:, -1]).nonzero().flatten()
        if not len(gains):
            return
        keep = before_RG.shape[1]
        top_RG = maxima_RG[gains].float()
        top_RG, places_RG = top_RG.topk(min(keep, top_RG.shape[1]), dim=1)
        values_RG = torch.cat([before_RG[gains], top_RG], dim=1)
        groups_RG = torch.cat(
            [self.groups_NG[rows][gains], (places_RG + block * self.stride).int()], dim=1
        )
        best_RG, order_RG = values_RG.topk(keep, dim=1)
        self.maxima_NG[gains + rows.start] = best_RG
        self.groups_NG[gains + rows.start] = groups_RG.gather(1, order_RG)

    def members(self, rows: slice, mask_RG: torch.Tensor) -> torch.Tensor:
        """[R, P] Who is in the wanted groups of some queries, in order; -1 for nobody."""
        groups_RG = self.groups_NG[rows, :-1].long()
        first_RG = groups_RG // self.stride * self.block + groups_RG % self.stride
        steps = torch.arange(GROUP, device=groups_RG.device) * self.stride
        members_RGP = first_RG[:, :, None] + steps
        nobody_RG = ~mask_RG | (groups_RG < 0)
        return members_RGP.masked_fill_(nobody_RG[:, :, None], -1).flatten(1).sort(dim=1).values


def both_ways(
    x_ND: Array,
    y_MD: Array,
    k: int = 1,
    report: Callable[[int], None] | None = None,
    dtype: torch.dtype | None = None,
) -> tuple[Neighbours, Neighbours]:
    """The k nearest in `y_MD` of every vector of `x_ND`, and the other way round: exact.

    On the GPU if there is one. Memory beyond the two sets: half of theirs again where the pass is
    in bf16, two blocks, and K + 8 numbers and places a vector. Scores are fp32; equal vectors get
    equal scores, and of equal scores the first in order wins.

    Args:
        x_ND: fp32; of unit length where cosines are wanted. None may be empty.
        y_MD: fp32, as wide.
        k: neighbours of each; as many as there are where there are fewer.
        report: told how many rows of `x_ND` are done.
        dtype: of the first pass; None takes what is faster here and on these vectors.
    """
    device = device_for()
    with torch.inference_mode():
        x, y = (
            torch.from_numpy(np.ascontiguousarray(side, dtype=np.float32)).to(device)
            for side in (x_ND, y_MD)
        )
        dtype = dtype or _format(x, y, k)
        return _search(Matrix(x, dtype), Matrix(y, dtype), k, report)


def _format(x: torch.Tensor, y: torch.Tensor, k: int) -> torch.dtype:
    """The format of the first pass: bf16 where it is fast and a sample is mostly certain."""
    large = max(len(x), len(y)) >= LARGE and min(len(x), len(y)) > SAMPLE
    if not (large and x.device.type == "cpu" and torch.cpu._is_avx512_bf16_supported()):
        return torch.float32
    uncertain = 0
    for queries, corpus in ((x, y), (y, x)):
        places = torch.linspace(0, len(queries) - 1, SAMPLE).long()
        a, b = Matrix(queries[places], torch.bfloat16), Matrix(corpus, torch.bfloat16)
        best, _ = _first_pass(a, b, k, None)
        uncertain += len(_finished(a, b, k, best)[1])
    share = uncertain / (2 * SAMPLE)
    logger.debug("search: %.1f %% of a sample are uncertain after a pass in bf16", 100 * share)
    return torch.bfloat16 if share <= WORTH else torch.float32


def _search(
    x: Matrix, y: Matrix, k: int, report: Callable[[int], None] | None
) -> tuple[Neighbours, Neighbours]:
    of_x, of_y = _first_pass(x, y, k, report)
    return _certain(x, y, k, of_x), _certain(y, x, k, of_y)


def _first_pass(
    x: Matrix, y: Matrix, k: int, report: Callable[[int], None] | None
) -> tuple[Best, Best]:
    """The best groups of both sides, over all blocks."""
    device = x.x_ND.device
    of_x, of_y = Best(len(x), len(y), k, COLUMNS, device), Best(len(y), len(x), k, ROWS, device)
    block_RC = torch.empty(of_y.block, of_x.block, dtype=x.dtype, device=device)
    for top, rows in enumerate(_parts(len(x), of_y.block)):
        for left, columns in enumerate(_parts(len(y), of_x.block)):
            high, wide = rows.stop - rows.start, columns.stop - columns.start
            if (high, wide) == block_RC.shape:
                torch.mm(x.rounded_ND[rows], y.rounded_ND[columns].T, out=block_RC)
            else:
                block_RC.fill_(-torch.inf)
                block_RC[:high, :wide] = x.rounded_ND[rows] @ y.rounded_ND[columns].T
            of_x.add(rows, block_RC.view(len(block_RC), GROUP, -1).amax(1)[:high], left)
            of_y.add(columns, block_RC.view(GROUP, -1, of_x.block).amax(0)[:, :wide].T, top)
        if report is not None:
            report(rows.stop)
    return of_x, of_y


def _certain(x: Matrix, y: Matrix, k: int, best: Best) -> Neighbours:
    """The neighbours of all, those that the first pass leaves uncertain computed anew in fp32."""
    neighbours, unsure = _finished(x, y, k, best)
    if len(unsure) and x.dtype != torch.float32:
        exact = Matrix(x.x_ND[unsure], torch.float32), Matrix(y.x_ND, torch.float32)
        again = _certain(*exact, k, _first_pass(*exact, k, None)[0])
        neighbours.scores_NK[unsure.cpu()] = again.scores_NK
        neighbours.places_NK[unsure.cpu()] = again.places_NK
        return neighbours
    for row in unsure.tolist():
        scores_P, places_P = _whole(x, y, row, float(neighbours.scores_NK[row, -1]))
        neighbours.scores_NK[row] = scores_P[: min(k, len(y))]
        neighbours.places_NK[row] = places_P[: min(k, len(y))]
    return neighbours


def _finished(x: Matrix, y: Matrix, k: int, best: Best) -> tuple[Neighbours, torch.Tensor]:
    """The best of the remembered groups, and for which rows that is not certain.

    Of these groups, too, those are left aside whose maxima are too low for the rounding to matter.
    """
    k = min(k, len(y))
    scores, places = torch.empty(len(x), k), torch.empty(len(x), k, dtype=torch.int64)
    error_N = x.error(y, best.maxima_NG.nan_to_num(neginf=0).abs().amax(1))
    kth = min(k, best.maxima_NG.shape[1] - 1) - 1
    unsure = []
    for rows in _parts(len(x), RANKED):
        maxima_RG, error_R = best.maxima_NG[rows], error_N[rows]
        least_R = maxima_RG[:, kth] - 2 * error_R
        candidates_RP = best.members(rows, maxima_RG[:, :-1] >= least_R[:, None])
        ranked_RP, order_RP = _ranked(x.x_ND[rows], y.x_ND, candidates_RP)
        scores[rows], places[rows] = ranked_RP[:, :k].cpu(), order_RP[:, :k].cpu()
        certain_R = maxima_RG[:, -1] + error_R < ranked_RP[:, k - 1]
        unsure.append((~certain_R).nonzero().flatten() + rows.start)
    return Neighbours(scores.numpy(), places.numpy()), torch.cat(unsure)


def _ranked(
    x_RD: torch.Tensor, y_MD: torch.Tensor, candidates_RP: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each row's candidates (in order of place; some nobody) by score, and their places.

    Every product is summed by itself, so that equal vectors have equal scores.
    """
    real_RP = (candidates_RP >= 0) & (candidates_RP < len(y_MD))
    rows, columns = real_RP.nonzero(as_tuple=True)
    places = candidates_RP[rows, columns]
    scores_RP = torch.full(candidates_RP.shape, -torch.inf, device=x_RD.device)
    products = torch.empty(len(rows), device=x_RD.device)
    for part in _parts(len(rows), max(1, GATHERED // x_RD.shape[1])):
        y_PD = y_MD.index_select(0, places[part])
        products[part] = y_PD.mul_(x_RD.index_select(0, rows[part])).sum(1)
    scores_RP[rows, columns] = products
    ranked_RP, order_RP = scores_RP.sort(dim=1, descending=True, stable=True)
    return ranked_RP, candidates_RP.gather(1, order_RP)


def _whole(x: Matrix, y: Matrix, row: int, least: float) -> tuple[Array, Array]:
    """One row against everything that comes near a lower bound of its k-th score."""
    x_D = x.x_ND[row]
    margin = 8 * len(x_D) * UNIT[torch.float32] * float(x.length_N[row] * y.length_N.max())
    near = torch.cat(
        [
            (y.x_ND[part] @ x_D >= least - margin).nonzero().flatten() + part.start
            for part in _parts(len(y), COLUMNS)
        ]
    )
    scores, places = _ranked(x_D[None], y.x_ND, near[None])
    return scores[0].cpu().numpy(), places[0].cpu().numpy()


def _parts(number: int, size: int) -> Iterator[slice]:
    for start in range(0, number, size):
        yield slice(start, min(number, start + size))
