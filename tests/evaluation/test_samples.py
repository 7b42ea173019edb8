import numpy as np

from lingraft.evaluation.intrinsic import MaskedText, mask_text
from lingraft.evaluation.samples import predictions, readable
from lingraft.evaluation.scorer import Item, Scorer
from lingraft.recipe import Masking
from lingraft.training.objectives.common import TokenIds


def text_of_lengths(*lengths):
    return MaskedText(
        [Item(np.zeros(n, int), np.array([1]), np.array([5])) for n in lengths], "f", "mask-only"
    )


def test_each_hidden_token_comes_with_the_five_likeliest(tiny_tokenizer, tiny_model):
    tokenizer, model = tiny_tokenizer("roberta"), tiny_model("roberta")
    special = tuple(sorted(set(tokenizer.all_special_ids)))
    ids = TokenIds(len(tokenizer), tokenizer.mask_token_id, tokenizer.pad_token_id, special)
    sentences = ["문서를 열고 형식을 선택한 다음", "나는 학교에 가서 책을 읽었다."]
    encoded = [np.array(row) for row in tokenizer(sentences)["input_ids"]]
    masking = Masking(rate=0.2, scheme="mask-only")
    text = mask_text(encoded, ids, "tokenizer", masking, 0)
    rows = predictions(Scorer(model, ids.pad, "fp32"), tokenizer, text, [1, 0])
    assert [row["text"] for row in rows] == sentences[::-1]
    for row, item, whole in zip(rows, text.items[::-1], encoded[::-1], strict=True):
        assert [index for index, (_, hidden) in enumerate(row["tokens"]) if hidden] == list(
            item.masked
        )
        assert [piece for piece, _ in row["tokens"]] == [
            readable(t, tokenizer) for t in whole.tolist()
        ]
        assert [p["index"] for p in row["predictions"]] == list(item.masked)
        for guess in row["predictions"]:
            assert guess["gold"] == row["tokens"][guess["index"]][0]
            shares = [share for _, share in guess["top"]]
            assert len(shares) == 5
            assert shares == sorted(shares, reverse=True)
            assert 0 < sum(shares) <= 1 + 1e-6
