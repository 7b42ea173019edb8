import dataclasses
from collections import Counter
from functools import partial
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
from processes import train_together
from safetensors.torch import load_file
from two_terms import TWO_TERMS

from lingraft.corpus.streams import folder_of, rebalanced, shares, vocabulary_text
from lingraft.models import cross_attention, loading
from lingraft.models.families import FAMILIES
from lingraft.models.packed import PackedModel
from lingraft.objectives import OBJECTIVES
from lingraft.objectives.common import TokenIds
from lingraft.recipe import Batch, Masking, Mixture
from lingraft.recipe.methods import recipe_from
from lingraft.tokenizer.pairs import Blocks, Edges, TokenPairs, translations
from lingraft.training import checkpoint
from lingraft.training.data import Batcher, Position, Reading
from lingraft.training.loop import train_phase
from lingraft.training.mixture import MixtureBatcher, MixturePlan, probabilities
from lingraft.training.phase import Stopped, WithObjective
from lingraft.training.problem import MaskedText

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


def test_weights_go_before_sizes(tiny_tokens):
    def readings(*weights):
        return [
            Reading("ab"[n], tiny_tokens(size), tiny_tokens(2), "mlm", Masking(), weight)
            for n, (size, weight) in enumerate(zip((90, 10), weights, strict=True))
        ]

    assert probabilities(readings(1.0, 3.0), Mixture(alpha=1)).tolist() == [0.25, 0.75]
    assert probabilities(readings(None, None), Mixture(alpha=1)).tolist() == [0.9, 0.1]
    assert probabilities(readings(None, None), Mixture(alpha=0)).tolist() == [0.5, 0.5]


def test_blocks_are_drawn_by_the_sentences_that_they_hold(tiny_tokens):
    def reading(name, size, limit):
        text = tiny_tokens(size)
        blocks = Blocks.of(text, Edges(1, 1), limit)
        assert len(blocks) < len(text)
        return Reading(name, blocks, tiny_tokens(2), "mlm", Masking())

    both = [reading("a", 90, 200), reading("b", 10, 50)]
    assert probabilities(both, Mixture(alpha=1)).tolist() == [0.9, 0.1]


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


def test_a_batch_in_tokens_holds_so_many_on_average():
    flat = np.concatenate(LENGTHS)
    found = batches(plan(Batch(size=2_000, unit="tokens")), 200)
    assert {len(indices) for indices in found} == {len(found[0])}
    assert np.mean([flat[i].sum() for i in found]) == pytest.approx(2_000, rel=0.03)


def test_a_stream_can_be_drawn_for_a_whole_batch():
    made = plan(Batch(size=8), whole_batches=True)
    owners = [set(np.searchsorted(STARTS, b, side="right")) for b in batches(made, 200)]
    assert all(len(owner) == 1 for owner in owners)
    assert len(set.union(*owners)) == 3
    mixed = [set(np.searchsorted(STARTS, b, side="right")) for b in batches(plan(Batch(size=8)), 9)]
    assert any(len(owner) > 1 for owner in mixed)


def test_an_epoch_is_as_many_draws_as_there_are_sentences():
    made = plan(Batch(size=8))
    assert made.steps_per_epoch() == np.ceil(sum(SIZES) / 8)
    drawn = np.concatenate(batches(made, int(made.steps_per_epoch()) * 4))
    tokens = np.concatenate(LENGTHS)[drawn].sum() / 4
    assert tokens == pytest.approx(made.tokens_per_epoch(), rel=0.05)


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


def test_what_has_one_objective_shares_rows_under_the_masks_of_its_own_stream(tiny_tokens):
    a, b = tiny_tokens(30), tiny_tokens(9, seed=1)
    batcher = mixed([(a, 0.2), (b, 0.6)], "a", "b")
    step = batcher.step(np.array([3, 4, 31, 32]), 5)
    (batch,) = step.micro_batches
    assert batch.objective == "mlm"
    alone = [
        one.step(np.array(local), 5).targets["mlm"]
        for one, local in zip(batcher.batchers, ([3, 4], [1, 2]), strict=True)
    ]
    assert step.targets == {"mlm": sum(alone)}
    assert alone[1] > 2 * alone[0]
    other = mixed([(a, 0.2), (a, 0.2)], "a", "b").step(np.array([3, 33]), 5)
    assert len({hidden for _, hidden in sentences(other)}) == 2  # the same text, other masks


def test_readings_under_two_objectives_have_terms_and_micro_batches_of_their_own(
    tiny_tokens, tiny_model
):
    other = dataclasses.replace(TWO_TERMS, name="other")
    batcher = mixed([(tiny_tokens(30), 0.3), (tiny_tokens(9, seed=1), 0.3)], "a", "b")
    batcher = MixtureBatcher(
        [batcher.batchers[0], dataclasses.replace(batcher.batchers[1], objective=other)]
    )
    step = batcher.step(np.array([3, 31, 7, 38]), 5)
    assert {batch.objective for batch in step.micro_batches} == {"mlm", "other"}
    assert list(step.targets) == ["mlm", "all", "small"]
    packed = PackedModel(tiny_model("roberta"), FAMILIES["roberta"])
    module = WithObjective(packed, OBJECTIVES["mlm"], other)
    found = Counter()
    for batch in step.micro_batches:
        found.update({term: loss.positions for term, loss in module(batch).items()})
    assert dict(found) == step.targets
    assert step.targets["mlm"] > 0 < step.targets["all"]


def rows_of(job):
    return [row for row in job.metrics_path.read_text().splitlines() if '"train"' in row]


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


@pytest.mark.slow
def test_two_processes_train_on_a_mixture_like_one(job, model, accelerator, tmp_path):
    one = model()
    train_phase(job("one"), one, accelerator)
    two = job("two")
    train_together(tmp_path, model(), [two])
    found = load_file(two.folder / "rank-0.safetensors")
    for name, parameter in one.named_parameters():
        np.testing.assert_allclose(found[name], parameter.detach(), atol=2e-5, rtol=1e-3)
    assert len(rows_of(two)) == 6


def test_the_vocabulary_text_has_the_shares_that_were_asked_for():
    large, small = [f"l{n}" for n in range(900)], [f"s{n}" for n in range(100)]
    texts = [lambda: large, lambda: small]
    for alpha in (0.0, 0.5, 1.0):
        drawn = list(rebalanced(texts, [900, 100], alpha, 10_000))
        share = sum(sentence.startswith("s") for sentence in drawn) / len(drawn)
        assert share == pytest.approx(shares([900, 100], alpha)[1], abs=0.002)
        assert len(drawn) == pytest.approx(1_000, abs=2)
    few = list(rebalanced(texts, [900, 100], 1.0, 50))
    assert len(few) == 50
    assert len(set(few)) == 50


def test_a_vocabulary_is_trimmed_by_all_text_of_every_stream(tmp_path):
    streams = [{"name": n, "language": n, "corpus": {"text": [f"{n}.txt"]}} for n in ("ko", "en")]
    recipe = recipe_from(
        {"source": {"model": "here"}, "streams": streams, "tokenizer": {"action": "trim"}}
    )
    for stream, number in zip(recipe.streams, (90, 10), strict=True):
        path = folder_of(tmp_path, stream) / "train.txt"
        path.parent.mkdir()
        path.write_text("".join(f"{stream.name} {n}\n" for n in range(number)), encoding="utf-8")
    assert len(set(vocabulary_text(recipe, tmp_path))) == 100


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


PAIRED = {
    "also": ((("tlm", "pairs", ("ca_mlm",)),), {}),
    "batches": ((("mlm", "alone", ()), ("ca_mlm", "pairs", ())), {"draw": "batches"}),
    "sentences": ((("mlm", "alone", ()), ("ca_mlm", "pairs", ())), {}),
    "none": ((("mlm", "alone", ()), ("tlm", "pairs", ())), {}),
}


@pytest.fixture
def paired(tiny_model, tiny_tokens, tiny_job):
    """Makes the job of a case, and a model with cross-attention."""

    def read(objective, name, others):
        texts = [tiny_tokens(40), tiny_tokens(20, seed=1)]
        longest = 64 if others or objective == "tlm" else None
        if name == "pairs":
            texts = [
                TokenPairs(halves, translations(halves), Edges(1, 1), 64, longest)
                for halves in (
                    dataclasses.replace(text, starts=np.arange(0, len(text), 2)) for text in texts
                )
            ]
        also = tuple(read(other, name, ()) for other in others)
        return Reading(name, *texts, objective, Masking(), None, also, bilingual=name == "pairs")

    def made(case, name="job", phase=(), **training):
        readings, mixture = PAIRED[case]
        settings = {"objective": "ca_mlm", "budget": {"value": 4}, "mixture": mixture}
        use, texts = {"row_tokens": 64} | training, tuple(read(*reading) for reading in readings)
        job = tiny_job(name, phase=settings | dict(phase), hardware=use, readings=texts)
        model = tiny_model("roberta", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        cross_attention.insert(model, FAMILIES["roberta"], 2, 0)
        return job, model

    return made


def train_both(folder, model, job):
    saved = SimpleNamespace(save_pretrained=partial(loading.save, model))
    train_together(folder, saved, [job])


@pytest.mark.slow
@pytest.mark.parametrize("case", PAIRED)
def test_two_processes_train_where_a_step_may_not_reach_cross_attention(case, paired, tmp_path):
    job, model = paired(case)
    train_both(tmp_path, model, job)
    assert len(rows_of(job)) == 4


def shares_of(job, model):
    """The objectives of the micro-batches that each of two processes has in every step."""
    problem = MaskedText(job, model)
    steps = islice(problem.plan(job).after(Position()), int(job.phase.budget.value))
    for position, indices in steps:
        both = (problem.step(indices, position.epoch - 1, rank, 2) for rank in (0, 1))
        yield [[batch.objective for batch in step.micro_batches] for step in both]


@pytest.mark.slow
def test_two_processes_that_divide_the_weights_train_on_sentences_and_pairs_like_one(
    paired, accelerator, tmp_path
):
    phase = {"batch": {"size": 9}, "optimizer": {"learning_rate": 0.01, "epsilon": 1e-3}}
    small = {"row_tokens": 32, "micro_batch_tokens": 32}
    shares = shares_of(*paired("sentences", "looked at", phase, **small))
    assert any(first.count("mlm") != second.count("mlm") for first, second in shares)
    one, alone = paired("sentences", "one", phase, **small)
    train_phase(one, alone, accelerator)
    two, model = paired("sentences", "two", phase, sharding="fsdp2", **small)
    train_both(tmp_path, model, two)
    found = load_file(two.folder / "rank-0.safetensors")
    for name, parameter in alone.named_parameters():
        np.testing.assert_allclose(found[name], parameter.detach(), atol=2e-5, rtol=1e-3)
