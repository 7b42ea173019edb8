"""What a step reads: a function of seed, phase and step, of one stream or of several."""

from itertools import islice, pairwise

import numpy as np
import pytest
from phase_rows import IDS

from lingraft.corpus.streams import shares
from lingraft.recipe import Batch, Budget, Masking, Mixture
from lingraft.training import checkpoint
from lingraft.training.data import Batcher, BatchPlan, Position, Reading, share, subset
from lingraft.training.masked_text import train_phase
from lingraft.training.mixture import MixtureBatcher, MixturePlan, probabilities
from lingraft.training.objectives import OBJECTIVES
from lingraft.training.phase import Stopped, expected_steps

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


SIZES = (1_000, 150, 20)
OF_STREAMS = [np.random.default_rng(n).integers(4, 60, size) for n, size in enumerate(SIZES)]
STARTS = np.cumsum((0, *SIZES))


def mixture_plan(batch, alpha=0.7, **options):
    return MixturePlan(OF_STREAMS, shares(SIZES, alpha), batch, 0, "phase-1", **options)


def batches(made, number, start=0):
    return [indices.tolist() for _, indices in islice(made.after(Position(start)), number)]


@pytest.mark.parametrize("alpha", [0.3, 0.7, 1.0])
def test_a_million_draws_have_the_frequencies_of_sizes_to_the_power_alpha(alpha):
    made = mixture_plan(Batch(size=1_000), alpha)
    drawn = np.concatenate([made.streams(step) for step in range(1_000)])
    expected = np.array(SIZES) ** alpha / (np.array(SIZES) ** alpha).sum()
    error = np.sqrt(expected * (1 - expected) / len(drawn))
    assert (np.abs(np.bincount(drawn) / len(drawn) - expected) < 3 * error).all()


@UNITS
def test_within_a_stream_each_sentence_comes_once_before_one_comes_again(batch):
    drawn = np.concatenate(batches(mixture_plan(batch), 250))
    for start, end, size in zip(STARTS[:-1], STARTS[1:], SIZES, strict=True):
        own = drawn[(drawn >= start) & (drawn < end)]
        for first in range(0, len(own), size):
            in_pass = own[first : first + size]
            assert len(set(in_pass.tolist())) == len(in_pass)
    assert (np.bincount(drawn, minlength=STARTS[-1])[STARTS[2] :] > 1).all()


@UNITS
def test_the_order_goes_on_from_any_step_as_if_it_had_not_stopped(batch):
    straight = batches(mixture_plan(batch), 60)
    assert batches(mixture_plan(batch), 25, start=35) == straight[35:]
    positions = [position for position, _ in islice(mixture_plan(batch).after(Position(35)), 2)]
    assert positions == [Position(36), Position(37)]


@UNITS
def test_the_tokens_of_each_stream_are_those_of_the_sentences_that_were_drawn(batch):
    made, steps = mixture_plan(batch), 120  # the smallest stream is read several times
    drawn = np.concatenate(batches(made, steps))
    owners = np.searchsorted(STARTS, drawn, side="right") - 1
    expected = np.bincount(owners, np.concatenate(OF_STREAMS)[drawn])
    draws = made.drawn(steps)
    assert draws[2] > 2 * SIZES[2]
    assert made.tokens(draws).tolist() == expected.tolist()


def mixed(tokens, *names):
    batchers = [
        Batcher(part, OBJECTIVES["mlm"], IDS, Masking(rate=rate), 32, 64, 0, f"phase-1/{name}")
        for name, (part, rate) in zip(names, tokens, strict=True)
    ]
    return MixtureBatcher(batchers)


def sentences(step):
    """Every sentence of a step with its targets, in a fixed order."""
    found = []
    for batch, weight in zip(step.micro_batches, step.weights, strict=True):
        gold = dict(zip(batch.masked_M.tolist(), batch.targets_M.tolist(), strict=True))
        width = batch.input_ids_NT.shape[1]
        for row, segments in enumerate(batch.segments_NT):
            for segment in range(1, int(segments.max()) + 1):
                places = (segments == segment).nonzero().flatten().tolist()
                ids = batch.input_ids_NT[row, places].tolist()
                hidden = [gold.get(row * width + place) for place in places]
                found += [(tuple(ids), str(hidden))] if weight else []
    return sorted(found)


def test_two_processes_see_the_sentences_of_one(tiny_tokens):
    batcher = mixed([(tiny_tokens(30), 0.3), (tiny_tokens(9, seed=1), 0.3)], "a", "b")
    indices = np.array([3, 31, 7, 38, 29, 0, 33])
    whole = batcher.step(indices, 5)
    halves = [batcher.step(indices, 5, rank, 2) for rank in (0, 1)]
    assert sentences(whole) == sorted(s for half in halves for s in sentences(half))
    assert len(sentences(whole)) == 7
    assert {str(half.targets) for half in halves} == {str(whole.targets)}


@pytest.fixture
def job(tiny_job, tiny_tokens):
    def made(name, **training):
        readings = tuple(
            Reading(stream, tiny_tokens(size, seed=n), tiny_tokens(8, seed=n + 5), "mlm", Masking())
            for n, (stream, size) in enumerate((("a", 40), ("b", 7)))
        )
        phase = {"budget": {"value": 6}, "optimizer": {"learning_rate": 0.01, "epsilon": 1e-3}}
        return tiny_job(name, phase=phase, readings=readings, hardware=training)

    return made


@pytest.fixture
def model(tiny_model):
    return lambda: tiny_model("roberta", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def test_a_stopped_phase_goes_on_to_the_same_bits(job, model, accelerator, monkeypatch):
    straight, again = model(), model()
    train_phase(job("straight"), straight, accelerator)
    original = MixtureBatcher.step

    def stopping(self, indices, epoch, *rest):
        if epoch == 3:
            raise Stopped("test", 15)
        return original(self, indices, epoch, *rest)

    stopped = job("stopped", checkpoint_steps=2)
    with monkeypatch.context() as patch:
        patch.setattr(MixtureBatcher, "step", stopping)
        with pytest.raises(Stopped):
            train_phase(stopped, model(), accelerator)
    assert checkpoint.latest(stopped.folder).name == "checkpoint-00000002"
    train_phase(stopped, again, accelerator)
    expected = straight.state_dict()
    assert all(tensor.equal(expected[name]) for name, tensor in again.state_dict().items())


def test_batches_of_two_kinds_come_in_turn_and_each_has_its_size():
    made = mixture_plan(Batch(size=6), bilingual=[False, True, False], bilingual_batch=9)
    found = [np.searchsorted(STARTS, b, side="right").tolist() for b in batches(made, 400)]
    assert {len(owners) for owners in found[::2]} == {6}
    assert {len(owners) for owners in found[1::2]} == {9}
    assert len({owner for owners in found[1::2] for owner in owners}) == 1
    mono = np.bincount(np.concatenate(found[::2]))
    assert (mono > 0).sum() == 2
    drawn = made.drawn(400) / made.drawn(400).sum()
    assert drawn == pytest.approx(made.expected, abs=0.03)
    assert made.expected.sum() == pytest.approx(1)
    assert batches(made, 40, start=7) == batches(made, 47)[7:]


def test_where_batches_alternate_each_kind_has_half_of_the_steps(tiny_tokens):
    readings = [
        Reading("abc"[n], tiny_tokens(size), tiny_tokens(2), "mlm", Masking(), bilingual=n == 1)
        for n, size in enumerate((90, 10, 10))
    ]
    found = probabilities(readings, Mixture(alpha=1, draw="alternate"))
    assert found.tolist() == pytest.approx([0.45, 0.5, 0.05])


def test_a_stream_with_a_share_has_that_share_of_the_tokens(tiny_tokens):
    """Whatever the lengths of its sentences, and with the others drawn as they were."""
    texts = [tiny_tokens(50, 4, 6), tiny_tokens(100, 4, 6), tiny_tokens(30, 14, 16)]
    given = (None, None, 0.1)
    three = [
        Reading(str(i), text, text, "mlm", Masking(), share=share)
        for i, (text, share) in enumerate(zip(texts, given, strict=True))
    ]
    found = probabilities(three, Mixture(alpha=1))
    tokens = found * np.array([float(text.lengths.mean()) for text in texts])
    assert tokens[2] / tokens.sum() == pytest.approx(0.1)
    assert found[1] / found[0] == pytest.approx(2)
    assert found.sum() == pytest.approx(1)
    lengths = [text.lengths for text in texts]
    plan = MixturePlan(lengths, found, Batch(size=64), 0, "phase-1")
    drawn = plan.drawn(300) * np.array([float(one.mean()) for one in lengths])
    assert drawn[2] / drawn.sum() == pytest.approx(0.1, abs=0.01)
