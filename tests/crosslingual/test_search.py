"""Exact search: against all products at once, in either format of the first pass."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lingraft.crosslingual import search


def unit(number: int, width: int, seed: int, common: float = 0.0) -> np.ndarray:
    """Vectors of length 1; the more they have in common, the closer all of them are."""
    generator = np.random.default_rng(seed)
    x_ND = generator.standard_normal((number, width)) + common
    return (x_ND / np.linalg.norm(x_ND, axis=1, keepdims=True)).astype(np.float32)


def reference(x_ND: np.ndarray, y_MD: np.ndarray, k: int) -> np.ndarray:
    """[N, K] Places by all products in fp64; of equal ones the first."""
    products_NM = x_ND.astype(np.float64) @ y_MD.astype(np.float64).T
    return np.argsort(-products_NM, axis=1, kind="stable")[:, :k]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "ROWS", 64)
    monkeypatch.setattr(search, "COLUMNS", 128)
    monkeypatch.setattr(search, "RANKED", 50)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("n", "m"), [(300, 500), (64, 128), (1, 700), (33, 5)])
@pytest.mark.parametrize("common", [0.0, 5.0])
def test_both_directions_have_the_neighbours_of_all_products(
    dtype: torch.dtype, n: int, m: int, common: float
) -> None:
    x_ND, y_MD = unit(n, 24, 0, common), unit(m, 24, 1, common)

    forward, backward = search.both_ways(x_ND, y_MD, 4, dtype=dtype)

    for found, one, other in ((forward, x_ND, y_MD), (backward, y_MD, x_ND)):
        places_NK = reference(one, other, 4)
        expected = np.take_along_axis(one @ other.T, places_NK, axis=1)
        np.testing.assert_allclose(found.scores_NK, expected, atol=2e-6)
        # two products that differ by less than their rounding may change places
        same = found.places_NK == places_NK
        products = np.take_along_axis(one.astype(float) @ other.T, found.places_NK, axis=1)
        assert (same | (np.abs(products - expected) < 1e-6)).all()
        assert same.mean() > 0.99


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_of_equal_vectors_the_first_wins_however_many_there_are(dtype: torch.dtype) -> None:
    x_ND = unit(40, 16, 0)
    y_MD = np.tile(x_ND, (30, 1))  # 30 copies: more than the groups that are remembered

    forward, backward = search.both_ways(x_ND, y_MD, 3, dtype=dtype)

    numbers = np.arange(40)
    assert (forward.places_NK == np.stack([numbers, numbers + 40, numbers + 80], axis=1)).all()
    assert (backward.places_NK[:, 0] == np.tile(numbers, 30)).all()
    assert (forward.scores_NK[:, 0] == forward.scores_NK[:, 2]).all()


def test_rows_that_bf16_leaves_uncertain_are_found_in_fp32(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    formats = []
    first_pass = search._first_pass

    def spied(x, y, k, report):
        formats.append(x.dtype)
        return first_pass(x, y, k, report)

    monkeypatch.setattr(search, "_first_pass", spied)
    x_ND, y_MD = unit(100, 24, 0, 30.0), unit(900, 24, 1, 30.0)  # all cosines above 0.99
    found, _ = search.both_ways(x_ND, y_MD, 1, dtype=torch.bfloat16)
    assert formats[0] == torch.bfloat16
    assert torch.float32 in formats
    products_NM = x_ND.astype(np.float64) @ y_MD.T
    best = products_NM.max(axis=1)
    assert (best - products_NM[np.arange(100), found.places_NK[:, 0]] < 1e-6).all()


def test_the_bound_of_a_rounded_pass_holds() -> None:
    x, y = (search.Matrix(torch.from_numpy(unit(200, 64, s, 1.0)), torch.bfloat16) for s in (0, 1))
    rounded_NM = (x.rounded_ND @ y.rounded_ND.T).float()
    true_NM = x.x_ND.double() @ y.x_ND.double().T
    error_NM = (rounded_NM - true_NM).abs()
    bound_N = x.error(y, rounded_NM.abs().amax(1))
    assert (error_NM.amax(1) <= bound_N).all()
    assert float(error_NM.max()) > 1e-4  # there is something to bound


def test_the_nearest_is_found_where_bf16_rounds_it_by_half_a_step() -> None:
    for best in range(100):  # which of equals is left out is for the machine to say
        y_MD = np.tile(np.array([[1.0, 3 * 2.0**-10]], dtype=np.float32), (288, 1))
        y_MD[best, 1] = 2.0**-8  # their products with (1, 1) are all 1 in bf16

        found, _ = search.both_ways(np.ones((1, 2), np.float32), y_MD, 1, dtype=torch.bfloat16)

        assert found.places_NK.tolist() == [[best]]


def test_a_sample_refuses_bf16_where_most_rows_would_be_uncertain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    monkeypatch.setattr(search, "LARGE", 500)
    monkeypatch.setattr(search, "SAMPLE", 50)
    apart, close = (
        [torch.from_numpy(unit(600, 64, seed, common)) for seed in (0, 1)] for common in (0.0, 30.0)
    )
    assert search._format(*apart, 1) == torch.bfloat16
    assert search._format(*close, 1) == torch.float32
