"""Languages that a tokenizer can be told."""

import json

import sentencepiece
from transformers import M2M100Tokenizer

from lingraft.tokenizer.frame import languages, target_setting


def test_m2m_knows_its_languages_though_none_is_listed_as_a_special_token(tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the quick brown fox jumps over the lazy dog"] * 9),
        model_prefix=str(tmp_path / "spm"),
        vocab_size=30,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    (tmp_path / "vocab.json").write_text(json.dumps({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}))
    tokenizer = M2M100Tokenizer(str(tmp_path / "vocab.json"), str(tmp_path / "spm.model"))
    known = languages(tokenizer)
    assert len(known) == 100
    for tokenizer.src_lang in ("ko", "ast"):
        assert tokenizer("fox")["input_ids"][0] == known[tokenizer.src_lang]
    assert target_setting(tokenizer) == "forced_bos_token_id"
