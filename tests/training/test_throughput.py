"""Useful operations are those that the counter of torch sees executed where nothing is wasted: one
sentence a row, rows as long as the sentences, and 64 tokens to predict (`PackedBatch.filled`)."""

import json
import logging

import numpy as np
import pytest
import torch
from freezing import freeze
from tiny_shapes import ENCODERS
from torch.utils.flop_counter import FlopCounterMode

from lingraft.models import adapters
from lingraft.models.families import FAMILIES
from lingraft.models.packed import PackedModel, assemble
from lingraft.objectives import OBJECTIVES
from lingraft.recipe import PARTS
from lingraft.training import loop, throughput
from lingraft.training.phase import WithObjective, recompute_activations
from lingraft.training.throughput import Speedometer, count, pairs

LAYERS, ITL = 4, frozenset({0, 3})
DEPTH = {
    family: {"num_hidden_layers": LAYERS}
    | ({"layer_types": ["full_attention"] * LAYERS} if family == "modernbert" else {})
    for family in ENCODERS
}
TRAINED = {
    "everything": frozenset(PARTS),
    "phase 1": frozenset({"embeddings", "output_bias", "inserted"}),
    "the body alone": frozenset({"body"}),
    "the first and last layer alone": frozenset({"inserted"}),
    "the head alone": frozenset({"head", "output_bias"}),
    "positions alone": frozenset({"positions"}),
}


def executed(model, family, tokens, targets):
    """Operations of a forward and backward pass over sentences of one length, one a row."""
    sentences = tokens.rows(range(len(tokens)))
    masked = [np.arange(1, 1 + targets)] * len(tokens)
    gold = [sentence[places] for sentence, places in zip(sentences, masked, strict=True)]
    rows = [[index] for index in range(len(tokens))]
    batch = assemble(sentences, masked, gold, rows, int(tokens.lengths[0]), 1)
    module = WithObjective(PackedModel(model, FAMILIES[family]), OBJECTIVES["mlm"])
    with FlopCounterMode(display=False) as counter:
        module(batch)["mlm"].nats.backward()
    return counter.get_total_flops()


@pytest.mark.parametrize("family", ENCODERS)
def test_useful_operations_are_the_executed_ones_where_nothing_is_wasted(
    family, tiny_model, tiny_tokens
):
    model, record, tokens = (
        tiny_model(family, **DEPTH[family]),
        FAMILIES[family],
        tiny_tokens(4, 20, 20),
    )
    found, expected = {}, {}
    for name, train in TRAINED.items():
        if not freeze(model, record, ITL, train):
            assert name == "positions alone"
            continue
        found[name] = count(model, record, ITL).training(tokens.lengths, 4 * 16)
        expected[name] = executed(model, family, tokens, 16)
    assert found == expected
    assert len(set(found.values())) >= 5


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen3", "olmo2"])
def test_causal_models_waste_attention_to_what_stands_behind_a_token_and_nothing_else(
    family, tiny_model, tiny_tokens
):
    model, record, tokens = tiny_model(family), FAMILIES[family], tiny_tokens(4, 20, 20)
    operations = count(model, record, frozenset())
    found = executed(model, family, tokens, 16)
    assert operations.before_only
    both, one = (pairs(tokens.lengths, None, before_only=before) for before in (False, True))
    per_pair = sum(sum(passes) for passes in operations.per_pair.values())
    assert found == operations.training(tokens.lengths, 64) + (both - one) * per_pair


@pytest.mark.parametrize("family", ["roberta", "modernbert"])
def test_adapters_are_counted_with_what_they_cost_below_them(family, tiny_model, tiny_tokens):
    model = tiny_model(family, **DEPTH[family])
    adapters.insert(model, FAMILIES[family], 8, 0)
    freeze(model, FAMILIES[family], ITL, frozenset({"adapters"}))
    tokens = tiny_tokens(4, 20, 20)
    operations = count(model, FAMILIES[family], ITL)
    assert operations.per_token["adapters"].weights > 0
    found = executed(model, family, tokens, 16)
    assert operations.training(tokens.lengths, 64) == pytest.approx(found, rel=0.02)


def test_recomputed_activations_are_executed_but_not_useful(tiny_model, tiny_tokens):
    tokens = tiny_tokens(4, 20, 20)
    plain, again = (tiny_model("roberta").train() for _ in range(2))
    recompute_activations(again)
    useful = [
        count(model, FAMILIES["roberta"], frozenset()).training(tokens.lengths, 64)
        for model in (plain, again)
    ]
    assert useful[0] == useful[1] == executed(plain, "roberta", tokens, 16)
    assert executed(again, "roberta", tokens, 16) > 1.2 * useful[0]


def test_a_window_counts_the_pairs_within_it():
    for length, window in ((1, 4), (3, 4), (5, 4), (20, 4), (20, 19), (20, 30)):
        order = np.arange(length)
        near = np.abs(order[:, None] - order[None]) <= window
        assert pairs(np.array([length]), window) == near.sum()
        before = near & (order[:, None] >= order[None])
        assert pairs(np.array([length]), window + 1, before_only=True) == before.sum()
    assert pairs(np.array([3, 4], dtype=np.uint8), None) == 25


def test_local_layers_are_credited_with_their_window_only(tiny_model):
    kinds = ["full_attention", "sliding_attention"]
    model = tiny_model("modernbert", layer_types=kinds, local_attention=8)
    long, short = np.array([100]), np.array([5] * 20)
    wide = tiny_model("modernbert")
    record = FAMILIES["modernbert"]
    both = [count(one, record, frozenset()) for one in (model, wide)]
    assert both[0].forward(long, 1) < both[1].forward(long, 1)
    assert both[0].forward(short, 1) == both[1].forward(short, 1)


@pytest.mark.parametrize("family", ["mistral", "phi3"])
def test_where_every_layer_has_a_window_all_are_credited_with_it(family, tiny_model):
    lengths = np.array([30])
    narrow, wide = (
        count(tiny_model(family, sliding_window=width), FAMILIES[family], frozenset())
        for width in (4, None)
    )
    assert narrow.forward(lengths, 1) < wide.forward(lengths, 1)
    assert narrow.forward(np.array([4]), 1) == wide.forward(np.array([4]), 1)


def test_a_base_model_takes_the_operations_that_were_derived_by_hand():
    """14 layers of 768 and 50,000 pieces, sentences of 30 tokens, 14.5 % predicted: about 635
    million a token, and 437 million with a frozen body."""
    from transformers import RobertaConfig, RobertaForMaskedLM

    config = RobertaConfig(vocab_size=50_000, num_hidden_layers=14, max_position_embeddings=514)
    with torch.device("meta"):
        model = RobertaForMaskedLM(config)
    record, itl = FAMILIES["roberta"], frozenset({0, 13})
    lengths = np.full(1_000, 30)
    full = count(model, record, itl).training(lengths, 4_350) / 30_000
    assert full == pytest.approx(635e6, rel=0.01)
    freeze(model, record, frozenset(), frozenset({"embeddings", "output_bias"}))
    assert count(model, record, itl).training(lengths, 4_350) / 30_000 == pytest.approx(
        437e6, rel=0.01
    )


def test_the_parts_add_up_to_the_whole(tiny_model):
    model = tiny_model("bert", num_hidden_layers=LAYERS)
    freeze(model, FAMILIES["bert"], ITL, TRAINED["phase 1"])
    operations = count(model, FAMILIES["bert"], ITL)
    lengths = np.array([5, 9, 30])
    parts = operations.by_part(lengths, 6)
    assert set(parts) == {"inserted", "body", "head", "embeddings"}
    assert sum(sum(passes) for passes in parts.values()) == operations.training(lengths, 6)
    assert parts["body"].weights == parts["head"].weights == 0
    assert parts["inserted"].weights > 0


def test_the_ceiling_is_the_faster_of_two_products(monkeypatch):
    asked = []

    def seconds(sizes, *_):
        asked.append(sizes)
        return [0.5, 0.25] if len(asked) == 1 else [1.0]

    monkeypatch.setattr(throughput, "product_seconds", seconds)
    found = throughput.matrix_product_ceiling(torch.device("cpu"), "no", 32, 0.01, rows=64)
    assert asked == [(64, 32, 128), (64, 64, 64)]
    assert found == 2 * 64 * 32 * 128 / 0.25


def test_the_first_product_is_not_timed_and_there_are_two_at_least():
    sizes = (16, 16, 16)
    found = throughput.product_seconds(sizes, torch.float32, torch.device("cpu"), 0.0)
    assert len(found) == 2
    many = throughput.product_seconds(sizes, torch.float32, torch.device("cpu"), 60.0)
    assert len(many) == throughput.PRODUCTS


@pytest.fixture
def clock(monkeypatch):
    """Moves the time by hand."""
    now = [100.0]
    monkeypatch.setattr(throughput.time, "monotonic", lambda: now[0])
    return now


def test_utilisation_is_useful_operations_a_second_over_the_ceiling(clock):
    speed = Speedometer(lambda: 1_000.0)
    speed.add(30, 2_000.0)
    speed.add(10, 6_000.0)
    clock[0] += 40
    speed.read()
    assert (speed.tokens_per_second, speed.mfu) == (1.0, 0.2)
    assert speed.shown == ", 1 tokens/s, MFU 20%"


def test_the_ceiling_is_measured_once_and_only_when_the_phase_has_lasted(clock):
    asked = []
    speed = Speedometer(lambda: asked.append(clock[0]) or 100.0)
    for _ in range(5):
        speed.add(10, 500.0)
        clock[0] += throughput.SETTLED_SECONDS / 2
        speed.read()
        assert (speed.mfu is None) == (not asked)
    assert asked == [100.0 + throughput.SETTLED_SECONDS]


def test_a_ceiling_that_training_exceeds_is_measured_again_and_the_larger_one_counts(clock):
    ceilings = iter([10.0, 50.0])
    speed = Speedometer(lambda: next(ceilings))
    for flops, wanted in ((1_000.0, 0.5), (2_000.0, 1.0), (1_000.0, 0.5)):
        speed.add(10, flops)
        clock[0] += 40
        speed.read()
        assert speed.mfu == wanted


def test_utilisation_above_the_ceiling_is_left_out_with_a_reason(clock, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("lingraft"), "propagate", True)
    caplog.set_level(logging.INFO, "lingraft")
    asked = []
    speed = Speedometer(lambda: asked.append(1) or 10.0)
    for _ in range(3):
        speed.add(40, 1_000.0)
        clock[0] += 40
        speed.read()
        assert speed.mfu is None
    assert len(asked) == 2
    assert speed.shown == ", 1 tokens/s"
    # a record that two handlers saw, the root's and lingraft's, is one
    said = {id(one) for one in caplog.records if "other work slowed the machine" in one.message}
    assert len(said) == 1


def test_where_operations_are_not_known_there_is_no_utilisation(clock):
    speed = Speedometer(lambda: pytest.fail("nothing to compare with"))
    speed.add(10, None)
    clock[0] += 60
    speed.read()
    assert speed.mfu is None
    assert speed.shown == ", 0 tokens/s"


def test_time_before_a_restart_does_not_count(clock):
    speed = Speedometer(lambda: 1.0)
    speed.add(1_000, 0.0)
    clock[0] += 5
    speed.restart()
    speed.add(10, 0.0)
    clock[0] += 2
    speed.read()
    assert speed.tokens_per_second == 5


def test_the_log_of_a_phase_has_the_utilisation_of_its_useful_operations(
    tiny_job, tiny_model, accelerator, monkeypatch
):
    monkeypatch.setattr(throughput, "SETTLED_SECONDS", 0.0)
    monkeypatch.setattr(loop, "matrix_product_ceiling", lambda *_: 1e10)
    job = tiny_job()
    model = tiny_model("roberta")
    loop.train_phase(job, model, accelerator)
    written = [json.loads(line) for line in job.metrics_path.read_text().splitlines()]
    rows = [row for row in written if row["kind"] == "train"]
    assert len(rows) == 3
    per_token = count(model, job.family, frozenset()).training(np.full(100, 12), 400) / 1_200
    for row in rows:
        expected = row["tokens_per_second"] * per_token / 1e10
        assert row["mfu"] == pytest.approx(expected, rel=0.1, abs=6e-5)  # four digits are written


def test_a_short_phase_does_not_measure_the_ceiling(tiny_job, tiny_model, accelerator, monkeypatch):
    monkeypatch.setattr(loop, "matrix_product_ceiling", lambda *_: pytest.fail("takes a second"))
    job = tiny_job()
    loop.train_phase(job, tiny_model("roberta"), accelerator)
    written = [json.loads(line) for line in job.metrics_path.read_text().splitlines()]
    assert [row["mfu"] for row in written if row["kind"] == "train"] == [None] * 3
