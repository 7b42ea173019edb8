"""Exact search: against all products at once."""

from __future__ import annotations

import numpy as np
import pytest

from lingraft.crosslingual import encoder


def unit(number, width, seed, common=0.0):
    """Vectors of length 1; the more they have in common, the closer all of them are."""
    generator = np.random.default_rng(seed)
    x_ND = generator.standard_normal((number, width)) + common
    return (x_ND / np.linalg.norm(x_ND, axis=1, keepdims=True)).astype(np.float32)


def reference(x_ND, y_MD, k):
    """[N, K] Places by all products in fp64; of equal ones the first."""
    products_NM = x_ND.astype(np.float64) @ y_MD.astype(np.float64).T
    return np.argsort(-products_NM, axis=1, kind="stable")[:, :k]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(encoder, "ROWS", 64)
    monkeypatch.setattr(encoder, "COLUMNS", 128)
    monkeypatch.setattr(encoder, "GATHERED", 1_000)


@pytest.mark.parametrize(("n", "m"), [(300, 500), (64, 128), (1, 700), (33, 5)])
@pytest.mark.parametrize("common", [0.0, 5.0])
def test_both_directions_have_the_neighbours_of_all_products(n, m, common):
    x_ND, y_MD = unit(n, 24, 0, common), unit(m, 24, 1, common)

    forward, backward = encoder.both_ways(x_ND, y_MD, 4)

    for found, one, other in ((forward, x_ND, y_MD), (backward, y_MD, x_ND)):
        places_NK = reference(one, other, 4)
        expected = np.take_along_axis(one @ other.T, places_NK, axis=1)
        np.testing.assert_allclose(found.scores_NK, expected, atol=2e-6)
        # two products that differ by less than their rounding may change places
        same = found.places_NK == places_NK
        products = np.take_along_axis(one.astype(float) @ other.T, found.places_NK, axis=1)
        assert (same | (np.abs(products - expected) < 1e-6)).all()
        assert same.mean() > 0.99


def test_of_equal_vectors_the_first_wins_however_many_there_are():
    x_ND = unit(40, 16, 0)
    y_MD = np.tile(x_ND, (30, 1))  # 30 copies: more than the candidates that are remembered

    forward, backward = encoder.both_ways(x_ND, y_MD, 3)

    numbers = np.arange(40)
    assert (forward.places_NK == np.stack([numbers, numbers + 40, numbers + 80], axis=1)).all()
    assert (backward.places_NK[:, 0] == np.tile(numbers, 30)).all()
    assert (forward.scores_NK[:, 0] == forward.scores_NK[:, 2]).all()
