import pytest
import torch
from tiny_shapes import ENCODERS
from transformers import AutoConfig

from lingraft.errors import DataError
from lingraft.evaluation.intrinsic import mask_text, measure
from lingraft.evaluation.scorer import Scorer
from lingraft.recipe import Masking
from lingraft.training.objectives.common import TokenIds

IDS = TokenIds(size=320, mask=319, pad=1, special=(0, 1, 2, 3, 319))


def score(scorer, text):
    return measure(scorer, text).metrics()


@pytest.fixture
def text(tiny_tokens):
    tokens = tiny_tokens(25, 4, 30)
    return mask_text(tokens.rows(range(25)), IDS, "tokenizer", Masking(rate=0.3), 0)


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


@pytest.mark.parametrize("family", ENCODERS)
def test_the_head_of_a_family_is_in_fp32_so_that_no_target_is_tied(family, tiny_model, text):
    assert score(Scorer(tiny_model(family), 1, "bf16"), text)["ties"] == 0


def test_a_model_without_any_masked_language_model_class_is_refused(tmp_path):
    AutoConfig.for_model("gpt2", n_layer=1, n_embd=8, n_head=2).save_pretrained(tmp_path)
    with pytest.raises(DataError, match="is of type 'gpt2', which has no masked") as caught:
        Scorer.load(str(tmp_path), 0)
    assert "\n" not in str(caught.value)
