from __future__ import annotations

import numpy as np
import pytest

from lingraft.embeddings import translation

NOTHING = 9


def pair(target: list[int], source: list[int]) -> translation.Pair:
    return np.array(target, dtype=np.int32), np.array(source, dtype=np.int32)


def table(pairs: list[translation.Pair], iterations: int) -> dict[tuple[int, int], float]:
    made = translation.learn(pairs, nothing=NOTHING, iterations=iterations)
    keys = zip(made.target_ids.tolist(), made.source_ids.tolist(), strict=True)
    return dict(zip(keys, made.probabilities.tolist(), strict=True))


def test_one_round_by_hand():
    """Pair 1 gives x to piece 0 and to nothing by halves; pair 2 gives x and y by thirds."""
    made = table([pair([0], [5]), pair([0, 1], [5, 6])], iterations=1)
    assert made == pytest.approx(
        {
            (0, 5): (5 / 6) / (7 / 6),
            (0, 6): (1 / 3) / (7 / 6),
            (1, 5): 1 / 2,
            (1, 6): 1 / 2,
            (NOTHING, 5): (5 / 6) / (7 / 6),
            (NOTHING, 6): (1 / 3) / (7 / 6),
        }
    )


def test_pieces_are_told_apart_by_where_they_do_not_stand():
    """Das Haus, das Buch, ein Buch (Brown et al. 1993; Koehn 2010, §4.2)."""
    das, haus, buch, ein, the, house, book, a = 0, 1, 2, 3, 0, 1, 2, 3
    pairs = [pair([das, haus], [the, house]), pair([das, buch], [the, book])]
    pairs += [pair([ein, buch], [a, book])]
    made = table(pairs, iterations=50)
    assert made[haus, house] > 0.9
    assert made[ein, a] > 0.9
    assert made[das, the] > made[das, house] + 0.5
    assert made[buch, book] > made[buch, the] + 0.5


def test_probabilities_sum_to_one_and_parts_do_not_matter(monkeypatch):
    drawn = np.random.default_rng(0)
    pairs = [
        pair(drawn.integers(0, 9, size).tolist(), drawn.integers(0, 7, size + 1).tolist())
        for size in drawn.integers(1, 6, 30)
    ]
    whole = table(pairs, iterations=5)
    for target_id in {key[0] for key in whole}:
        of_target = [share for key, share in whole.items() if key[0] == target_id]
        assert sum(of_target) == pytest.approx(1.0)
    monkeypatch.setattr(translation, "LINKS_AT_ONCE", 20)
    assert table(pairs, iterations=5) == pytest.approx(whole)
