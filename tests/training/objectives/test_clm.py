"""Every token predicted from those before it: what is read, what is predicted, what it costs."""

import numpy as np
import pytest
import torch

from lingraft.models.families import FAMILIES
from lingraft.models.stacks import packed_model
from lingraft.recipe import Masking
from lingraft.tokenizer.documents import Documents
from lingraft.training.data import Batcher
from lingraft.training.objectives.clm import CLM
from lingraft.training.objectives.common import TokenIds

CAUSAL = [name for name, record in FAMILIES.items() if record.kind == "causal"]
IDS = TokenIds(size=320, mask=None, pad=1, special=(0, 1, 2))


def test_a_unit_is_read_without_its_last_token_and_predicted_without_its_first():
    ids, lengths = np.array([5, 6, 7, 8, 9], np.uint16), np.array([3, 2])
    found = CLM.corrupt(ids, lengths, np.zeros(2, np.uint64), IDS, Masking())
    read, places, targets = found.by_sentence(lengths)
    assert [row.tolist() for row in read] == [[5, 6], [8]]
    assert [row.tolist() for row in places] == [[0, 1], [0]]
    assert [row.tolist() for row in targets] == [[6, 7], [9]]


@pytest.mark.parametrize("family", CAUSAL)
@pytest.mark.parametrize("context", [64, 5], ids=["whole", "cut"])
def test_its_loss_and_gradient_are_those_of_the_stock_class_one_piece_at_a_time(
    family, context, tiny_model, tiny_tokens
):
    tokens, stock, ours = tiny_tokens(7), tiny_model(family), tiny_model(family)
    units = Documents.of(tokens, context)
    expected = torch.zeros(())
    for row in units.rows(range(len(units))):
        ids = torch.from_numpy(row.astype(np.int64))[None]
        logits = stock(input_ids=ids[:, :-1]).logits[0]
        expected = expected + torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum")
    expected.backward()
    step = Batcher(units, CLM, IDS, Masking(), 32, 4_096, 0, "one").step(np.arange(len(units)), 0)
    (batch,) = step.micro_batches
    assert int(batch.segments_NT.max()) > 1
    found = CLM.loss(packed_model(ours, FAMILIES[family]), batch)["clm"]
    found.nats.backward()
    assert found.positions == step.targets["clm"] == int(tokens.lengths.sum()) - 7
    assert step.global_tokens == found.positions
    torch.testing.assert_close(found.nats, expected, rtol=1e-5, atol=1e-3)
    for (name, own), theirs in zip(ours.named_parameters(), stock.parameters(), strict=True):
        torch.testing.assert_close(own.grad, theirs.grad, rtol=1e-4, atol=1e-3, msg=name)
