import numpy as np
import pytest
import tiny_judged
import torch

from lingraft.evaluation import intrinsic, likelihood, pieces
from lingraft.evaluation.scorer import Scorer

TEXTS = ["The dog ran to the door because it was raining.", "비가 와서 그 개가 the door 앞에"]


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_judged.tokenizer()


@pytest.fixture(scope="module")
def measured(tokenizer):
    text = likelihood.text_of(tokenizer, TEXTS, 96)
    scorer = Scorer(tiny_judged.model(), tokenizer.pad_token_id, "fp32")
    return text, intrinsic.measure(scorer, text.tokens)


@pytest.fixture(scope="module")
def stock_ranks(tokenizer):
    """[P] ranks of all tokens, by the stock forward pass and a sort."""
    model, ranks, targets = tiny_judged.model(), [], []
    for text in TEXTS:
        ids = tokenizer(text)["input_ids"]
        with torch.no_grad():
            logits = model(torch.tensor([ids[:-1]])).logits[0]
        order = logits.argsort(1, descending=True)
        ranks += [
            int((row == token).nonzero()) + 1 for row, token in zip(order, ids[1:], strict=True)
        ]
        targets += ids[1:]
    return np.array(ranks), np.array(targets)


def test_ranks_apart_for_new_tokens_are_those_of_the_stock_model(measured, stock_ranks, tokenizer):
    new = np.array(sorted(set(stock_ranks[1][::3])))
    found = pieces.by_piece(*measured, new)
    ranks, targets = stock_ranks
    groups = {"all": np.ones(len(ranks), bool), "new": np.isin(targets, new)}
    groups["old"] = ~groups["new"]
    for name, chosen in groups.items():
        assert found[name]["positions"] == chosen.sum()
        assert found[name]["share"] == pytest.approx(chosen.mean())
        assert found[name]["mean_rank"] == pytest.approx(ranks[chosen].mean())
        assert found[name]["median_rank"] == pytest.approx(np.median(ranks[chosen]))
        for k in (1, 5, 10):
            assert found[name][f"hits@{k}"] == pytest.approx(100 * (ranks[chosen] <= k).mean())
    assert groups["new"].any()
    assert groups["old"].any()


def test_all_tokens_together_are_what_intrinsic_metrics_tell(measured):
    found = pieces.by_piece(*measured, np.zeros(0, np.int64))
    whole = measured[1].metrics()
    assert set(found) == {"all"}
    assert found["all"]["loss"] == pytest.approx(whole["loss"])
    assert found["all"]["mean_rank"] == pytest.approx(whole["mr"])
    assert found["all"]["hits@10"] == pytest.approx(whole["hits@10"])


def test_a_piece_is_new_where_the_source_spells_none_like_it(tokenizer):
    from tokenizers import AddedToken

    extended = tiny_judged.tokenizer()
    extended.add_tokens(["우산", "umbrella"])
    extended.add_special_tokens({"additional_special_tokens": [AddedToken("<tag>")]})
    new = pieces.new_pieces(extended, tokenizer)
    assert extended.convert_ids_to_tokens(new.tolist()) == ["우산", "umbrella"]
    assert not len(pieces.new_pieces(tokenizer, tokenizer))
