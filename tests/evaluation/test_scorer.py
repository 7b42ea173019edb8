import numpy as np
import pytest
import torch
from tiny_shapes import ENCODERS
from transformers import AutoConfig, AutoModelForMaskedLM, BertModel

from lingraft.errors import DataError
from lingraft.evaluation.intrinsic import mask_text, score
from lingraft.evaluation.scorer import Scorer
from lingraft.objectives.common import TokenIds
from lingraft.recipe import Masking

IDS = TokenIds(size=320, mask=319, pad=1, special=(0, 1, 2, 3, 319))


@pytest.fixture
def text(tiny_tokens):
    tokens = tiny_tokens(25, 4, 30)
    return mask_text(tokens.rows(range(25)), IDS, "tokenizer", Masking(rate=0.3), 0)


@pytest.fixture
def mpnet():
    """A stock masked language model of a family that lingraft has no record of."""
    config = AutoConfig.for_model(
        "mpnet",
        vocab_size=320,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        pad_token_id=1,
    )
    torch.manual_seed(0)
    return AutoModelForMaskedLM.from_config(config).eval()


@torch.no_grad()
def one_by_one(model, items):
    """Logits of every hidden token, a sentence at a time through the stock forward pass."""
    return {
        (i, j): model(input_ids=torch.from_numpy(item.ids)[None]).logits[0, place]
        for i, item in enumerate(items)
        for j, place in enumerate(item.masked)
    }


def collected(scorer, items):
    found = {}
    for where, logits in scorer.logits(items):
        assert logits.dtype == torch.float32
        for (i, j), row in zip(where.tolist(), logits, strict=True):
            assert (i, j) not in found
            found[i, j] = row
    return found


@pytest.mark.parametrize("family", ENCODERS)
def test_a_family_is_scored_on_packed_rows_as_one_by_one(family, tiny_model, text):
    scorer = Scorer(tiny_model(family), 1, "fp32")
    assert scorer.packed is not None
    found, expected = collected(scorer, text.items), one_by_one(tiny_model(family), text.items)
    assert found.keys() == expected.keys()
    for key, row in expected.items():
        torch.testing.assert_close(found[key].cpu(), row, atol=1e-5, rtol=1e-5)


def test_any_other_stock_model_is_scored_on_padded_rows_as_one_by_one(mpnet, text):
    scorer = Scorer(mpnet, 1, "fp32")
    assert scorer.packed is None
    found, expected = collected(scorer, text.items), one_by_one(mpnet.cpu(), text.items)
    assert found.keys() == expected.keys()
    for key, row in expected.items():
        torch.testing.assert_close(found[key].cpu(), row, atol=1e-5, rtol=1e-5)


def test_padded_rows_give_the_metrics_of_packed_rows(tiny_model, text):
    packed, padded = (Scorer(tiny_model("roberta"), 1, "fp32") for _ in range(2))
    padded.model.set_attn_implementation("sdpa")
    padded.packed = None
    assert score(padded, text) == pytest.approx(score(packed, text), rel=1e-5)


def test_half_precision_changes_the_loss_a_little_only(tiny_model, text):
    exact, rounded = (
        score(Scorer(tiny_model("roberta"), 1, name), text)["loss"] for name in ("fp32", "bf16")
    )
    assert exact != rounded
    assert rounded == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("family", ENCODERS)
def test_the_head_of_a_family_is_in_fp32_so_that_no_target_is_tied(family, tiny_model, text):
    assert score(Scorer(tiny_model(family), 1, "bf16"), text)["ties"] == 0


def test_a_model_that_lingraft_does_not_know_is_scored_in_fp32_throughout(mpnet, text):
    scorer = Scorer(mpnet, 1, "bf16")
    assert not scorer.bf16
    assert score(scorer, text) == score(Scorer(mpnet, 1, "fp32"), text)


def test_a_model_given_in_bf16_is_scored_with_an_fp32_head_too(tiny_model, text):
    assert score(Scorer(tiny_model("roberta").bfloat16(), 1, "bf16"), text)["ties"] == 0


def test_scoring_needs_no_gradients(tiny_model, text):
    for _, logits in Scorer(tiny_model("bert"), 1, "fp32").logits(text.items):
        assert not logits.requires_grad


def test_items_without_hidden_tokens_give_no_logits(tiny_model, text):
    empty = type(text.items[0])(np.array([0, 7, 2]), np.zeros(0, int), np.zeros(0, int))
    scorer = Scorer(tiny_model("bert"), 1, "fp32")
    assert set(collected(scorer, [empty, text.items[0]])) == {
        (1, j) for j in range(len(text.items[0].masked))
    }


def test_a_checkpoint_of_either_kind_is_loaded(mpnet, tiny_source, tmp_path):
    mpnet.save_pretrained(tmp_path)
    assert Scorer.load(str(tmp_path), 1, "fp32").packed is None
    assert Scorer.load(str(tiny_source("electra")), 0, "fp32").packed is not None


def test_a_checkpoint_without_head_is_refused_by_name(tiny_model, tmp_path):
    BertModel(tiny_model("bert").config).save_pretrained(tmp_path)
    with pytest.raises(DataError, match="its weights lack 6 tensors of a bert") as caught:
        Scorer.load(str(tmp_path), 0)
    assert "cls.predictions." in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_without_any_masked_language_model_class_is_refused(tmp_path):
    AutoConfig.for_model("gpt2", n_layer=1, n_embd=8, n_head=2).save_pretrained(tmp_path)
    with pytest.raises(DataError, match="is of type 'gpt2', which has no masked") as caught:
        Scorer.load(str(tmp_path), 0)
    assert "\n" not in str(caught.value)
