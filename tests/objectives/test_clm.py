"""Every token predicted from those before it: what is read, what is predicted, what it costs."""

import numpy as np
import pytest
import torch
from tiny_causal import LLAMA, llama

from lingraft.models.stacks import packed_model
from lingraft.objectives.clm import CLM
from lingraft.objectives.common import TokenIds
from lingraft.recipe import Masking
from lingraft.training.data import Batcher
from lingraft.training.loop import train_phase

IDS = TokenIds(size=320, mask=None, pad=1, special=(0, 1, 2))


def test_a_unit_is_read_without_its_last_token_and_predicted_without_its_first():
    ids, lengths = np.array([5, 6, 7, 8, 9], np.uint16), np.array([3, 2])
    found = CLM.corrupt(ids, lengths, np.zeros(2, np.uint64), IDS, Masking())
    read, places, targets = found.by_sentence(lengths)
    assert [row.tolist() for row in read] == [[5, 6], [8]]
    assert [row.tolist() for row in places] == [[0, 1], [0]]
    assert [row.tolist() for row in targets] == [[6, 7], [9]]


def test_a_unit_of_one_token_predicts_nothing_and_moves_no_other():
    ids, lengths = np.array([5, 6, 7, 8]), np.array([1, 3])
    found = CLM.corrupt(ids, lengths, np.zeros(2, np.uint64), IDS, Masking())
    assert found.targets.tolist() == [7, 8]
    assert found.ids.tolist() == [6, 7]


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_its_loss_and_gradient_are_those_of_the_stock_class_one_text_at_a_time(tied, tiny_tokens):
    tokens, stock, ours = tiny_tokens(7), llama(tied=tied), llama(tied=tied)
    expected = torch.zeros(())
    for row in tokens.rows(range(7)):
        ids = torch.from_numpy(row.astype(np.int64))[None]
        expected = expected + stock(input_ids=ids, labels=ids).loss * (len(row) - 1)
    expected.backward()
    step = Batcher(tokens, CLM, IDS, Masking(), 32, 4_096, 0, "phase-1").step(np.arange(7), 0)
    (batch,) = step.micro_batches
    assert int(batch.segments_NT.max()) > 1
    found = CLM.loss(packed_model(ours, LLAMA), batch)["clm"]
    found.nats.backward()
    assert found.positions == step.targets["clm"] == int(tokens.lengths.sum()) - 7
    assert step.global_tokens == found.positions
    torch.testing.assert_close(found.nats, expected, rtol=1e-5, atol=1e-3)
    for (name, ours_), theirs in zip(ours.named_parameters(), stock.parameters(), strict=True):
        torch.testing.assert_close(ours_.grad, theirs.grad, rtol=1e-4, atol=1e-4, msg=name)


def test_a_phase_trains_a_causal_model_and_says_its_loss_in_nats_per_token(
    tiny_job, tiny_tokens, accelerator
):
    phase = {"objective": "clm", "optimiser": {"learning_rate": 0.01}}
    phase |= {"budget": {"value": 7, "unit": "epochs"}}
    job = tiny_job(phase=phase, family=LLAMA, vocabulary=IDS)
    model = llama()
    result = train_phase(job, model, accelerator)
    predicted = int((job.readings[0].train.lengths - 1).sum())
    assert result["masked"] == result["tokens"] == 7 * predicted
    assert result["best"]["loss"] < 5.4 < np.log(320)
