import numpy as np
import pytest

from lingraft.recipe import Masking
from lingraft.training.objectives.common import TokenIds
from lingraft.training.objectives.denoise import corrupt, infilled, span_corrupted, spans_mask
from lingraft.training.objectives.mlm import sentence_keys

SENTINELS = tuple(range(999, 899, -1))
T5 = TokenIds(1_000, 999, 0, (0, 1, 2, *SENTINELS), SENTINELS, unk=2)
BART = TokenIds(1_000, 999, 1, (0, 1, 2, 3, 999), unk=3)
SPANS, INFILLING = Masking(scheme="spans"), Masking(scheme="infilling", rate=0.3)


def text_of(length, seed=0):
    return np.random.default_rng(seed).integers(10, 890, length)


def runs(mask):
    """Lengths of the stretches of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(int)))
    return np.diff(edges)[::2]


@pytest.mark.parametrize(("length", "noise", "spans"), [(568, 85, 28), (20, 3, 1), (141, 21, 7)])
def test_the_noise_is_what_t5_counts(length, noise, spans):
    for seed in range(5):
        mask = spans_mask(length, 0.15, 3.0, np.random.default_rng(seed))
        assert (len(mask), int(mask.sum()), len(runs(mask))) == (length, noise, spans)
        assert not mask[0]
        assert mask[-1]


def test_a_text_of_568_tokens_becomes_512_and_114_as_in_t5():
    row = np.append(text_of(568), 1)
    made = corrupt(row, np.array([569]), sentence_keys(np.arange(1), 0), T5, SPANS)
    assert (len(made.ids), len(made.targets)) == (512, 114)


def test_sentinels_put_the_spans_back_in_their_places():
    text = text_of(60)
    source, target = span_corrupted(text, SENTINELS, SPANS, np.random.default_rng(3))
    spans, current = {}, None
    for token in target.tolist():
        if token in SENTINELS:
            current = spans.setdefault(token, [])
        else:
            current.append(token)
    assert list(spans) == list(SENTINELS[: len(spans)])
    restored = [t for token in source.tolist() for t in spans.get(token, [token])]
    assert restored == text.tolist()


@pytest.mark.parametrize("length", [1, 2, 7, 40, 333])
def test_infilling_hides_a_fixed_number_of_tokens_and_keeps_the_others_in_order(length):
    text = np.arange(10, 10 + length)
    for seed in range(20):
        source = infilled(text, 999, INFILLING, np.random.default_rng(seed))
        kept = source[source != 999]
        assert len(kept) == length - max(1, round(0.3 * length))
        assert (np.diff(kept) > 0).all()
        assert not ((source[1:] == 999) & (source[:-1] == 999)).any()


@pytest.mark.parametrize(("ids", "masking"), [(T5, SPANS), (BART, INFILLING)])
def test_what_stands_around_a_sentence_stays_and_unknown_text_is_text(ids, masking):
    row = np.concatenate([[2 if ids is BART else 50], text_of(30), [ids.unk], [2 - (ids is T5)]])
    made = corrupt(row, np.array([len(row)]), sentence_keys(np.arange(1), 1), ids, masking)
    assert made.ids[-1] == made.targets[-1] == row[-1]
    if ids is BART:
        assert made.ids[0] == 2
        assert made.targets.tolist() == row.tolist()
    else:
        assert ids.unk in (*made.ids, *made.targets)
