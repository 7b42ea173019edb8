from itertools import islice, pairwise

import numpy as np
import pytest

from lingraft.recipe import Batch, Budget, Masking
from lingraft.training.data import Batcher, BatchPlan, Position, share, subset
from lingraft.training.objectives import OBJECTIVES
from lingraft.training.objectives.common import TokenIds
from lingraft.training.phase import expected_steps

IDS = TokenIds(size=320, mask=319, pad=1, special=(0, 1, 2, 3, 319))
LENGTHS = np.random.default_rng(0).integers(4, 60, 101)
UNITS = pytest.mark.parametrize(
    "batch", [Batch(size=8), Batch(size=200, unit="tokens")], ids=["sentences", "tokens"]
)


def plan(batch, seed=0, phase="phase-1", lengths=LENGTHS):
    return BatchPlan(lengths, batch, seed, phase)


def batcher(tokens, *, micro=4_096, row=16, seed=0, phase="phase-1"):
    return Batcher(tokens, OBJECTIVES["mlm"], IDS, Masking(rate=0.3), row, micro, seed, phase)


def contents(step):
    """Every sentence of a step with its targets, in a fixed order."""
    found = []
    for batch in step.micro_batches:
        width = batch.input_ids_NT.shape[1]
        for row in range(len(batch.input_ids_NT)):
            for segment in range(1, int(batch.segments_NT[row].max()) + 1):
                places = np.flatnonzero((batch.segments_NT[row] == segment).numpy()) + row * width
                inside = np.isin(batch.masked_M.numpy(), places)
                ids = batch.input_ids_NT.flatten()[places].tolist()
                masked = (batch.masked_M.numpy()[inside] - places[0]).tolist()
                found.append((ids, masked, batch.targets_M[inside].tolist()))
    return sorted(found)


@UNITS
def test_an_epoch_holds_every_sentence_once(batch):
    seen = np.concatenate(plan(batch).epoch(0))
    assert sorted(seen.tolist()) == list(range(len(LENGTHS)))


@UNITS
def test_epochs_phases_and_seeds_have_orders_of_their_own(batch):
    orders = [
        np.concatenate(made.epoch(epoch)).tolist()
        for made, epoch in (
            (plan(batch), 0),
            (plan(batch), 1),
            (plan(batch, seed=1), 0),
            (plan(batch, phase="phase-2"), 0),
        )
    ]
    assert len({tuple(order) for order in orders}) == 4
    assert np.concatenate(plan(batch).epoch(0)).tolist() == orders[0]


def test_batches_of_tokens_are_filled_to_their_size_and_no_further():
    batches = plan(Batch(size=200, unit="tokens")).epoch(3)
    for indices in batches[:-1]:
        assert LENGTHS[indices].sum() >= 200
        assert LENGTHS[indices[:-1]].sum() < 200
    assert len(batches[-1]) > 0


@pytest.mark.parametrize("size", [200, 1_300, 2_400, 10_000])
def test_epochs_read_a_small_text_as_often_as_they_say(size):
    made = plan(Batch(size=size, unit="tokens"))
    steps = expected_steps(Budget(value=4, unit="epochs"), made)
    assert steps == sum(len(made.epoch(epoch)) for epoch in range(4))


@UNITS
def test_going_on_from_any_position_gives_the_rest_of_the_same_stream(batch):
    straight = list(islice(plan(batch).after(Position()), 40))
    for number, (position, _) in enumerate(straight[:30]):
        resumed = islice(plan(batch).after(position), 10)
        for (where, indices), (expected, same) in zip(
            resumed, straight[number + 1 :], strict=False
        ):
            assert where == expected
            assert indices.tolist() == same.tolist()


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 7])
def test_the_shares_of_the_processes_are_a_partition_balanced_by_tokens(num_ranks):
    shares = [share(LENGTHS, rank, num_ranks) for rank in range(num_ranks)]
    assert sorted(np.concatenate(shares).tolist()) == list(range(len(LENGTHS)))
    loads = [int(LENGTHS[mine].sum()) for mine in shares]
    assert max(loads) - min(loads) <= LENGTHS.max()
    assert max(loads) <= 1.05 * np.mean(loads)


@pytest.mark.parametrize("num_ranks", [2, 3])
def test_the_processes_together_see_the_global_batch_under_the_same_masks(num_ranks, tiny_tokens):
    made, indices = batcher(tiny_tokens(40)), np.arange(3, 34, 2)
    whole = made.step(indices, 0)
    parts = [made.step(indices, 0, rank, num_ranks) for rank in range(num_ranks)]
    assert sorted(row for part in parts for row in contents(part)) == contents(whole)
    counts = {(p.global_targets, p.global_tokens, p.global_sentences) for p in (whole, *parts)}
    assert counts == {
        (
            sum(len(b.targets_M) for b in whole.micro_batches),
            int(made.tokens.lengths[indices].sum()),
            len(indices),
        )
    }


def test_masks_change_with_epoch_phase_and_seed(tiny_tokens):
    tokens, indices = tiny_tokens(40), np.arange(16)
    steps = [
        batcher(tokens).step(indices, 0),
        batcher(tokens).step(indices, 1),
        batcher(tokens, seed=1).step(indices, 0),
        batcher(tokens, phase="phase-2").step(indices, 0),
    ]
    masks = [[row[1] for row in contents(step)] for step in steps]
    assert all(masks[i] != masks[j] for i in range(4) for j in range(i))


def members(tokens):
    """The rows of a text, by what they hold."""
    return [tuple(row.tolist()) for row in tokens.rows(range(len(tokens)))]


def test_smaller_sets_of_sentences_are_contained_in_larger_ones(tiny_tokens):
    tokens = tiny_tokens(200)
    sets = [members(subset(tokens, number, 0)) for number in (1, 20, 60, 200)]
    assert [len(found) for found in sets] == [1, 20, 60, 200]
    for small, large in pairwise(sets):
        assert set(small) < set(large)
    assert sets[-1] == members(tokens)
