import hashlib

import numpy as np

from lingraft.corpus.cleaning.dedup import Seen, hashes


def test_the_first_occurrence_is_fresh_and_later_ones_are_not():
    seen = Seen()
    assert seen.fresh(hashes(["a", "b", "a"])).tolist() == [True, True, False]
    assert seen.fresh(hashes(["c", "b"])).tolist() == [True, False]


def test_it_agrees_with_a_python_set_however_the_text_is_cut_into_batches():
    generator = np.random.default_rng(1)
    spread = np.uint64(0x9E3779B97F4A7C15)  # over all buckets
    stream = generator.integers(0, 600, 2_000).astype(np.uint64) * spread
    known: set[int] = set()
    expected = []
    for value in stream.tolist():
        expected.append(value not in known)
        known.add(value)
    for size in (1, 7, 200, 2_000):
        seen = Seen()
        parts = [seen.fresh(stream[i : i + size]) for i in range(0, len(stream), size)]
        assert np.concatenate(parts).tolist() == expected
        assert len(seen) == len(known)


def test_there_are_few_runs_and_eight_bytes_a_sentence():
    seen = Seen()
    generator = np.random.default_rng(2)
    for _ in range(500):
        seen.fresh(generator.integers(0, 2**64, 200, dtype=np.uint64))
    runs = [run for bucket in seen.buckets for run in bucket]
    assert sum(run.nbytes for run in runs) == 8 * 100_000
    assert max(map(len, seen.buckets)) <= 12
    assert all((np.diff(run) > 0).all() for run in runs)
    assert [{int(run[0] >> 60), int(run[-1] >> 60)} for run in runs] == [
        {number} for number, bucket in enumerate(seen.buckets) for _ in bucket
    ]


def test_an_empty_batch_changes_nothing():
    seen = Seen()
    assert seen.fresh(hashes([])).shape == (0,)
    assert len(seen) == 0


def test_the_hash_is_that_of_blake2b_on_every_machine():
    digest = hashlib.blake2b("한국어".encode(), digest_size=8).digest()
    assert hashes(["한국어"]).tolist() == [int.from_bytes(digest, "little")]
