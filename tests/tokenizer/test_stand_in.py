"""A source whose tokenizer has no tokenizer.json gives its rows and special tokens to a new one."""

from __future__ import annotations

import random

import pytest
import torch
import transformers
from tiny_tokenizers import TEXT, build

import lingraft
from lingraft.errors import UnsupportedModelError
from lingraft.tokenizer import files


def phobert(folder):
    pieces = ["th@@", "th", *dict.fromkeys(" ".join(TEXT).split())]
    (folder / "vocab.txt").write_text("".join(f"{piece} 1\n" for piece in pieces))
    (folder / "bpe.codes").write_text("t h 9\nth e</w> 8\n")
    return transformers.PhobertTokenizer(*map(str, (folder / "vocab.txt", folder / "bpe.codes")))


def japanese(folder):
    ids = build("bert").get_vocab()
    (folder / "vocab.txt").write_text("\n".join(sorted(ids, key=ids.get)))
    return transformers.BertJapaneseTokenizer(
        str(folder / "vocab.txt"), word_tokenizer_type="basic"
    )


SLOW = {
    "roberta": (phobert, lambda piece: piece.removeprefix("▁") if "▁" in piece else None),
    "bert": (japanese, lambda piece: piece[1:] if piece.startswith("▁") else f"##{piece}"),
    "t5": (
        lambda _: transformers.ByT5Tokenizer(),
        lambda piece: piece if piece.isascii() else None,
    ),
}
"""How a tokenizer spells what SentencePiece spells thus."""


@pytest.mark.parametrize("family", SLOW)
def test_rows_follow_pieces_of_a_tokenizer_of_python_code(family, tiny_model, tmp_path):
    make, spelt = SLOW[family]
    slow = make(tmp_path)
    ids = slow.get_vocab()
    model = tiny_model(family, vocab_size=max(ids.values()) + 1, pad_token_id=slow.pad_token_id)
    for one in (slow, model):
        one.save_pretrained(tmp_path)
    text = tmp_path / "text.txt"
    words, draw = " ".join(TEXT).split(), random.Random(0)
    text.write_text("\n\n".join(" ".join(draw.choices(words, k=12)) for _ in range(300)))
    settings = {"tokenizer.algorithm": "unigram", "tokenizer.vocab_size": 300}
    made, tokenizer, _ = lingraft.graft(tmp_path, text=text, init="match", settings=settings)
    old_VD, new_VD = (m.get_input_embeddings().weight for m in (model, made))
    now = tokenizer.get_vocab()
    same = {piece: spelt(piece) for piece in now if spelt(piece) in ids}
    assert len(same) > 9
    roles = {role: t for role, t in slow.special_tokens_map.items() if role != "pad_token"}
    same |= {token: token for token in roles.values() if isinstance(token, str)}
    assert [p for p in same if not torch.equal(new_VD[now[p]], old_VD[ids[same[p]]])] == []
    special = {*slow.special_tokens_map.values()} if family != "t5" else {"</s>"}
    for texts in (["the"], ["the", "the"]):
        both = [t.convert_ids_to_tokens(t(*texts)["input_ids"]) for t in (tokenizer, slow)]
        new, old = ([token for token in tokens if token in special] for tokens in both)
        assert new == old
    with pytest.raises(UnsupportedModelError, match=r"no tokenizer\.json; choose .*\"unigram\""):
        lingraft.graft(tmp_path, text=text, settings={"tokenizer.action": "append"})
    assert isinstance(files.load(tmp_path, may_stand_in=True), files.StandIn)
