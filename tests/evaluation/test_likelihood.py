"""Bits per byte of whole documents: the stock class's, every byte, whatever the windows."""

import math

import numpy as np
import pytest
import torch

from lingraft.errors import DataError
from lingraft.evaluation import intrinsic, likelihood
from lingraft.evaluation.scorer import Scorer
from lingraft.models.families import FAMILIES

CAUSAL = [name for name, record in FAMILIES.items() if record.kind == "causal"]
DOCUMENTS = [
    "The cat sat on the mat.\nIt slept.",
    "나는 학교에 가서 친구를 만나고",
    "",
    "바다 바다",
]


def measured(model, tokenizer, context, stride=None, texts=DOCUMENTS):
    text = likelihood.text_of(tokenizer, texts, context, stride)
    scorer = Scorer(model, pad_id=0, precision="fp32")
    return text, intrinsic.measure(scorer, text.tokens)


def stock_nats(model, row, context):
    """Of a document's tokens but the first, each read with what stands before it in its piece."""
    total = 0.0
    for start in range(0, len(row) - 1, context):
        ids = torch.tensor(row[start : start + context + 1])
        with torch.no_grad():
            logits = model(input_ids=ids[None, :-1]).logits[0].double()
        total += float(torch.nn.functional.cross_entropy(logits, ids[1:], reduction="sum"))
    return total


@pytest.mark.parametrize("family", CAUSAL)
@pytest.mark.parametrize("context", [100, 6], ids=["whole", "windows"])
def test_nats_are_those_of_the_stock_class_document_by_document(
    family, context, tiny_model, tiny_tokenizer
):
    model, tokenizer = tiny_model(family), tiny_tokenizer(family)
    rows = [tokenizer(text)["input_ids"] for text in DOCUMENTS if text]
    expected = np.array([stock_nats(model, row, context) for row in rows])
    text, scores = measured(tiny_model(family), tokenizer, context)
    np.testing.assert_allclose(likelihood.nats(text, scores) - text.first_D, expected, rtol=1e-5)
    found = likelihood.likelihood(text, scores)
    whole = "".join(DOCUMENTS)
    assert found["documents"] == 3
    assert found["bytes"] == len(whole.encode())
    assert found["characters"] == len(whole)
    assert found["unknown"] == 0
    bits = (expected.sum() + text.first_D.sum()) / math.log(2)
    assert found["bits_per_byte"] == pytest.approx(bits / found["bytes"], rel=1e-5)
    assert found["bits_per_character"] == pytest.approx(bits / found["characters"], rel=1e-5)


def test_a_first_token_costs_its_share_where_nothing_stands_before_it(tiny_tokenizer):
    texts = ["aa b", "b", "aa b aa"]
    text = likelihood.text_of(tiny_tokenizer("gpt2"), texts, 8)
    ids = [tiny_tokenizer("gpt2")(one)["input_ids"] for one in texts]
    every = [token for row in ids for token in row]
    expected = [-math.log(every.count(row[0]) / len(every)) for row in ids]
    assert text.first_D.tolist() == pytest.approx(expected)
    assert not likelihood.text_of(tiny_tokenizer("llama"), texts, 8).first_D.any()


@pytest.mark.parametrize(("length", "context", "stride"), [(1, 4, 4), (2, 4, 4), (9, 4, 4),
                         (10, 4, 4), (30, 8, 3), (30, 8, 1), (5, 8, 3)])  # fmt: skip
def test_windows_count_every_token_but_the_first_once(length, context, stride):
    found = list(likelihood.windows(length, context, stride))
    counted = [place for _, first, stop in found for place in range(first, stop)]
    assert counted == list(range(1, length))
    assert all(stop - start <= context + 1 and first > start for start, first, stop in found)


def test_windows_that_overlap_read_more_of_what_stands_before(tiny_model, tiny_tokenizer):
    long = [" ".join(DOCUMENTS)]
    tokenizer, model = tiny_tokenizer("llama"), tiny_model("llama")
    apart, _ = measured(model, tokenizer, 16, texts=long)
    text, scores = measured(model, tokenizer, 16, 4, texts=long)
    assert text.tokens.positions == apart.tokens.positions
    row = np.array(tokenizer(long[0])["input_ids"])
    expected = 0.0
    for place in range(1, len(row)):
        start = 0 if place <= 16 else 4 * -(-(place - 16) // 4)
        with torch.no_grad():
            logits = model(input_ids=torch.tensor(row[None, start:place])).logits[0, -1].double()
        expected -= float(logits.log_softmax(0)[row[place]])
    assert float(likelihood.nats(text, scores).sum()) == pytest.approx(expected, rel=1e-5)


def test_blocks_add_up_to_the_whole(tiny_model, tiny_tokenizer):
    text, scores = measured(tiny_model("gpt2"), tiny_tokenizer("gpt2"), 16)
    whole = likelihood.likelihood(text, scores)
    found = likelihood.likelihood_blocks(text, scores)
    bits, sizes = zip(*found["bits_per_byte"], strict=True)
    assert sum(bits) / sum(sizes) == pytest.approx(whole["bits_per_byte"], rel=1e-4)


def test_text_without_two_tokens_is_refused(tiny_tokenizer):
    with pytest.raises(DataError, match="no document of two tokens"):
        likelihood.text_of(tiny_tokenizer("gpt2"), ["", "a"], 8)
