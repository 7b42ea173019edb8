"""Links from similarities, against literal loops."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from lingraft.crosslingual import matching
from lingraft.crosslingual.matching import METHODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Matrix = list[list[float]]
    Pairs = set[tuple[int, int]]

SHAPES = [(1, 1), (1, 4), (5, 1), (2, 2), (2, 5), (3, 3), (4, 6), (7, 5), (9, 9)]


def matrices(*, positive: bool) -> Iterator[Any]:
    generator = np.random.default_rng(7)
    for shape in SHAPES:
        for _ in range(30):
            drawn = generator.normal(0.4, 1.0, shape)
            yield np.exp(drawn) if positive else drawn


def first_best(values: list[float]) -> int:
    best = 0
    for place in range(1, len(values)):
        if values[place] > values[best]:
            best = place
    return best


def agreeing(rows: Matrix, columns: Matrix) -> Pairs:
    found = set()
    for i in range(len(rows)):
        for j in range(len(rows[0])):
            own_best = first_best(rows[i])
            its_best = first_best([columns[k][j] for k in range(len(columns))])
            if own_best == j and its_best == i:
                found.add((i, j))
    return found


def literal_transport(S: Matrix, clamp: bool) -> Pairs:
    m, n = len(S), len(S[0])
    pi = [[1e-6 if clamp and S[i][j] <= 0 else S[i][j] for j in range(n)] for i in range(m)]
    xi = pi
    for _ in range(2):
        sums = [sum(pi[i][j] for i in range(m)) for j in range(n)]
        xi = [[pi[i][j] / sums[j] for j in range(n)] for i in range(m)]
        pi = [[xi[i][j] / sum(xi[i]) for j in range(n)] for i in range(m)]
    return agreeing(pi, xi)


def literal_itermax(S: Matrix) -> Pairs:
    m, n = len(S), len(S[0])
    found = agreeing(S, S)
    rows, columns = {i for i, _ in found}, {j for _, j in found}
    if min(m, n) <= 2 or len(rows) == m or len(columns) == n:
        return found
    weighted = [[S[i][j] * (1, 0.9, 0)[(i in rows) + (j in columns)] for j in range(n)]
                for i in range(m)]  # fmt: skip
    more = agreeing(weighted, weighted)
    return found | {(i, j) for i, j in more if not (i in rows and j in columns)}


def literal_softmax(S: Matrix) -> Pairs:
    m, n = len(S), len(S[0])
    found = set()
    for i in range(m):
        for j in range(n):
            forward = math.exp(S[i][j]) / sum(math.exp(S[i][k]) for k in range(n))
            backward = math.exp(S[i][j]) / sum(math.exp(S[k][j]) for k in range(m))
            if forward > 1e-3 and backward > 1e-3:
                found.add((i, j))
    return found


LITERAL: dict[str, tuple[Callable[[Any], Any], Callable[[Matrix], Pairs], bool]] = {
    "ot": (METHODS["ot"].links, lambda S: literal_transport(S, clamp=True), False),
    "ot without clamp": (
        matching.RELEASED.links,
        lambda S: literal_transport(S, clamp=False),
        False,
    ),
    "simalign-inter": (METHODS["simalign-inter"].links, lambda S: agreeing(S, S), True),
    "itermax": (METHODS["itermax"].links, literal_itermax, True),
    "awesome": (lambda S: METHODS["awesome"].links(4 * S), lambda S: literal_softmax(
        [[4 * value for value in row] for row in S]), False),
}  # fmt: skip


def pairs_in(linked_MN: Any) -> Pairs:
    return {(int(i), int(j)) for i, j in np.argwhere(linked_MN)}


@pytest.mark.parametrize("name", LITERAL)
def test_the_links_are_those_of_a_literal_loop(name: str) -> None:
    fast, slow, positive = LITERAL[name]
    found = 0
    for S in matrices(positive=positive):
        expected = slow(S.tolist())
        assert pairs_in(fast(S[None])[0]) == expected
        found += len(expected)
    assert found > 300


def test_the_clamp_makes_a_difference_somewhere() -> None:
    clamped, released = METHODS["ot"].links, matching.RELEASED.links
    differ = [S for S in matrices(positive=False) if (clamped(S[None]) != released(S[None])).any()]
    assert differ


@pytest.mark.parametrize("name", METHODS)
def test_layers_do_not_touch_each_other(name: str) -> None:
    S_LMN = np.exp(np.random.default_rng(1).normal(size=(6, 5, 7)))
    together = METHODS[name].links(S_LMN)
    for layer in range(6):
        alone = METHODS[name].links(S_LMN[layer : layer + 1])
        assert (together[layer] == alone[0]).all()


@pytest.mark.parametrize("name", ["simalign-inter", "itermax", "awesome"])
def test_swapping_the_sides_transposes_the_links(name: str) -> None:
    for S in matrices(positive=True):
        links = METHODS[name].links
        assert (links(S.T[None])[0] == links(S[None])[0].T).all()


def test_transport_is_symmetric_in_the_limit_but_not_after_two_iterations() -> None:
    changed = 0
    for S in matrices(positive=True):
        many = [matching.optimal_transport(each[None], iterations=300)[0] for each in (S, S.T)]
        assert (many[1] == many[0].T).all()
        two = [matching.optimal_transport(each[None])[0] for each in (S, S.T)]
        changed += bool((two[1] != two[0].T).any())
    assert changed, "the two directions agree everywhere: is the second iteration left out?"


@pytest.mark.parametrize("name", METHODS)
def test_a_permutation_that_stands_out_is_found(name: str) -> None:
    order = np.random.default_rng(2).permutation(8)
    S = np.full((8, 8), 0.01)
    S[np.arange(8), order] = 20.0
    assert pairs_in(METHODS[name].links(S[None])[0]) == set(enumerate(order.tolist()))


def test_the_order_of_words_does_not_matter() -> None:
    generator = np.random.default_rng(3)
    for S in matrices(positive=True):
        if min(S.shape) == 1:  # scaling makes all of them equal, the first wins
            continue
        rows, columns = (generator.permutation(size) for size in S.shape)
        for method in METHODS.values():
            moved = method.links(S[rows][:, columns][None])[0]
            assert (moved == method.links(S[None])[0][rows][:, columns]).all()


def test_itermax_only_adds_links() -> None:
    more = 0
    for S in matrices(positive=True):
        first, both = matching.intersection(S[None]), matching.itermax(S[None])
        assert (both >= first).all()
        more += int(both.sum() - first.sum())
    assert more > 100
