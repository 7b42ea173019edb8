from itertools import islice

import numpy as np
import pytest

from lingraft.corpus.streams import shares
from lingraft.recipe import Batch, Masking, Mixture
from lingraft.training import checkpoint
from lingraft.training.data import Batcher, Position, Reading
from lingraft.training.masked_text import train_phase
from lingraft.training.mixture import MixtureBatcher, MixturePlan, probabilities
from lingraft.training.objectives import OBJECTIVES
from lingraft.training.objectives.common import TokenIds
from lingraft.training.phase import Stopped

IDS = TokenIds(size=320, mask=319, pad=1, special=(0, 1, 2, 3, 319))
SIZES = (1_000, 150, 20)
LENGTHS = [np.random.default_rng(n).integers(4, 60, size) for n, size in enumerate(SIZES)]
STARTS = np.cumsum((0, *SIZES))
UNITS = pytest.mark.parametrize(
    "batch", [Batch(size=8), Batch(size=200, unit="tokens")], ids=["sentences", "tokens"]
)


def plan(batch, alpha=0.7, **options):
    return MixturePlan(LENGTHS, shares(SIZES, alpha), batch, 0, "phase-1", **options)


def batches(made, number, start=0):
    return [indices.tolist() for _, indices in islice(made.after(Position(start)), number)]


@pytest.mark.parametrize("alpha", [0.3, 0.7, 1.0])
def test_a_million_draws_have_the_frequencies_of_sizes_to_the_power_alpha(alpha):
    made = plan(Batch(size=1_000), alpha)
    drawn = np.concatenate([made.streams(step) for step in range(1_000)])
    expected = np.array(SIZES) ** alpha / (np.array(SIZES) ** alpha).sum()
    error = np.sqrt(expected * (1 - expected) / len(drawn))
    assert (np.abs(np.bincount(drawn) / len(drawn) - expected) < 3 * error).all()


@UNITS
def test_within_a_stream_each_sentence_comes_once_before_one_comes_again(batch):
    drawn = np.concatenate(batches(plan(batch), 250))
    for start, end, size in zip(STARTS[:-1], STARTS[1:], SIZES, strict=True):
        own = drawn[(drawn >= start) & (drawn < end)]
        for first in range(0, len(own), size):
            in_pass = own[first : first + size]
            assert len(set(in_pass.tolist())) == len(in_pass)
    assert (np.bincount(drawn, minlength=STARTS[-1])[STARTS[2] :] > 1).all()


@UNITS
def test_the_order_goes_on_from_any_step_as_if_it_had_not_stopped(batch):
    straight = batches(plan(batch), 60)
    assert batches(plan(batch), 25, start=35) == straight[35:]
    positions = [position for position, _ in islice(plan(batch).after(Position(35)), 2)]
    assert positions == [Position(36), Position(37)]


@UNITS
def test_the_tokens_of_each_stream_are_those_of_the_sentences_that_were_drawn(batch):
    made, steps = plan(batch), 120  # the smallest stream is read several times
    drawn = np.concatenate(batches(made, steps))
    owners = np.searchsorted(STARTS, drawn, side="right") - 1
    expected = np.bincount(owners, np.concatenate(LENGTHS)[drawn])
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
    made = plan(Batch(size=6), bilingual=[False, True, False], bilingual_batch=9)
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
