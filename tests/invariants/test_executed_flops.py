"""Executed floating-point operations of a step: no hardware, no clock, so a lost optimisation
(head on every position, gradients of frozen weights, wasted padding) fails on any machine.

Per layer of width D and inner width I, for n slots in N rows of T tokens: linear maps
2n(4D² + 2DI), attention 4NT²D. Head on m positions, a multiple of 64: 2m(D² + DV). Backwards twice
that; a frozen linear map saves its weight gradient, the third third.
"""

import numpy as np
import pytest
from freezing import freeze
from torch.utils.flop_counter import FlopCounterMode

from lingraft.models.packed import PackedModel
from lingraft.training.data import Batcher
from lingraft.training.objectives import OBJECTIVES
from lingraft.training.phase import WithObjective

D, INNER, V, LAYERS = 32, 48, 320, 4
ITL = frozenset({0, 3})
LINEAR = 2 * (4 * D * D + 2 * D * INNER)
FIRST_PHASE = frozenset({"embeddings", "output_bias", "inserted"})
EVERYTHING = FIRST_PHASE | {"positions", "embedding_norm", "body", "head"}


@pytest.fixture
def executed(tiny_model, tiny_job):
    """Operations of one packed step, and its batch."""

    def count(tokens, row_tokens, train=EVERYTHING):
        job = tiny_job()
        model = tiny_model("roberta", num_hidden_layers=LAYERS).train()
        freeze(model, job.family, ITL, train)
        module = WithObjective(PackedModel(model, job.family), OBJECTIVES["mlm"])
        batcher = Batcher(
            tokens, OBJECTIVES["mlm"], job.vocabulary, job.phase.masking, row_tokens, 10**6, 0, "x"
        )
        (batch,) = batcher.step(np.arange(len(tokens)), 0).micro_batches
        with FlopCounterMode(display=False) as counter:
            module(batch)["mlm"].nats.backward()
        return counter.get_total_flops(), batch

    return count


def forward(slots, squares, masked):
    """Operations of a forward pass: slots n, attended pairs N·T², predicted tokens m."""
    return LAYERS * (LINEAR * slots + 4 * squares * D) + 2 * masked * (D * D + D * V)


def predicted(batch):
    """Positions that the head sees."""
    return -(-len(batch.targets_M) // 64) * 64


def test_a_full_step_executes_what_its_slots_need_and_the_head_on_masked_tokens_only(
    executed, tiny_tokens
):
    flops, batch = executed(tiny_tokens(40), 32)
    rows, width = batch.input_ids_NT.shape
    assert flops == 3 * forward(rows * width, rows * width**2, predicted(batch))


def test_a_frozen_phase_saves_the_weight_gradients_of_body_and_head(executed, tiny_tokens):
    full, batch = executed(tiny_tokens(40), 32)
    frozen, _ = executed(tiny_tokens(40), 32, FIRST_PHASE)
    slots, masked = batch.input_ids_NT.numel(), predicted(batch)
    assert full - frozen == (LAYERS - len(ITL)) * LINEAR * slots + 2 * masked * D * D


def test_rows_that_are_full_waste_nothing(executed, tiny_tokens):
    tokens = tiny_tokens(24, 32, 32)
    flops, batch = executed(tokens, 32)
    assert flops == 3 * forward(int((batch.segments_NT > 0).sum()), 24 * 32**2, predicted(batch))


def test_little_is_spent_on_padding(executed, tiny_tokens):
    """Best-fit fills the rows to 97 % and more; the rest of the waste is attention between the
    sentences of a row of 64, at this width 4·64·D of 2(4D² + 2DI) + 4·64·D, a third."""
    tokens = tiny_tokens(200, 3, 30)
    flops, batch = executed(tokens, 64)
    useful = forward(
        int((batch.segments_NT > 0).sum()),
        int((tokens.lengths.astype(int) ** 2).sum()),
        len(batch.targets_M),
    )
    assert int((batch.segments_NT > 0).sum()) / batch.input_ids_NT.numel() > 0.97
    assert 1 <= flops / (3 * useful) < 1.4
