"""Useful operations are those that the counter of torch sees executed where nothing is wasted: one
sentence a row, rows as long as the sentences, and 64 tokens to predict (`PackedBatch.filled`)."""

import numpy as np
import pytest
import torch
from freezing import freeze
from tiny_shapes import ENCODERS
from torch.utils.flop_counter import FlopCounterMode

from lingraft.models.families import FAMILIES
from lingraft.models.packed import PackedModel, assemble
from lingraft.recipe import PARTS
from lingraft.training import throughput
from lingraft.training.objectives import OBJECTIVES
from lingraft.training.phase import WithObjective
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
        found[name] = count(model, record).training(tokens.lengths, 4 * 16)
        expected[name] = executed(model, family, tokens, 16)
    assert found == expected
    assert len(set(found.values())) >= 5


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen3", "olmo2"])
def test_causal_models_waste_attention_to_what_stands_behind_a_token_and_nothing_else(
    family, tiny_model, tiny_tokens
):
    model, record, tokens = tiny_model(family), FAMILIES[family], tiny_tokens(4, 20, 20)
    operations = count(model, record)
    found = executed(model, family, tokens, 16)
    assert operations.before_only
    both, one = (pairs(tokens.lengths, None, before_only=before) for before in (False, True))
    per_pair = sum(passes.sum() for passes in operations.per_pair.values())
    assert found == operations.training(tokens.lengths, 64) + (both - one) * per_pair


def test_a_window_counts_the_pairs_within_it():
    for length, window in ((1, 4), (3, 4), (5, 4), (20, 4), (20, 19), (20, 30)):
        order = np.arange(length)
        near = np.abs(order[:, None] - order[None]) <= window
        assert pairs(np.array([length]), window) == near.sum()
        before = near & (order[:, None] >= order[None])
        assert pairs(np.array([length]), window + 1, before_only=True) == before.sum()
    assert pairs(np.array([3, 4], dtype=np.uint8), None) == 25


def test_a_base_model_takes_the_operations_that_were_derived_by_hand():
    """14 layers of 768 and 50,000 pieces, sentences of 30 tokens, 14.5 % predicted: about 635
    million a token, and 437 million with a frozen body."""
    from transformers import RobertaConfig, RobertaForMaskedLM

    config = RobertaConfig(vocab_size=50_000, num_hidden_layers=14, max_position_embeddings=514)
    with torch.device("meta"):
        model = RobertaForMaskedLM(config)
    record = FAMILIES["roberta"]
    lengths = np.full(1_000, 30)
    full = count(model, record).training(lengths, 4_350) / 30_000
    assert full == pytest.approx(635e6, rel=0.01)
    freeze(model, record, frozenset(), frozenset({"embeddings", "output_bias"}))
    assert count(model, record).training(lengths, 4_350) / 30_000 == pytest.approx(437e6, rel=0.01)


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
