"""Languages that a tokenizer can be told."""

import copy
import json

import pytest
import sentencepiece
from tokenizers import AddedToken, processors
from transformers import M2M100Tokenizer

from lingraft.errors import RecipeError
from lingraft.pipeline import preflight
from lingraft.recipe.methods import recipe_from
from lingraft.tokenizer.frame import code_for, languages, target_setting


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


@pytest.mark.parametrize(
    ("language", "codes", "expected"),
    [
        ("ko", ["eng_Latn", "kor_Hang"], "kor_Hang"),
        ("kor_Hang", ["eng_Latn", "kor_Hang"], "kor_Hang"),
        ("zh-Hant", ["eng_Latn", "zho_Hans", "zho_Hant"], "zho_Hant"),
        ("zh-TW", ["eng_Latn", "zho_Hans", "zho_Hant"], "zho_Hant"),
        ("zho", ["eng_Latn", "zho_Hans", "zho_Hant"], "zho_Hans"),
        ("zh_CN", ["en_XX", "zh_CN"], "zh_CN"),
        ("tha", ["en_XX", "th_TH"], "th_TH"),
        ("KO-kr", ["__en__", "__ko__"], "__ko__"),
    ],
)
def test_the_code_of_a_language_is_found_however_it_is_written(
    language, codes, expected, tiny_tokenizer
):
    source = copy.deepcopy(tiny_tokenizer("xlm-roberta"))
    backend = source.backend_tokenizer
    backend.add_special_tokens([AddedToken(code, special=True) for code in codes])
    first, end = codes[0], source.eos_token
    backend.post_processor = processors.TemplateProcessing(
        single=f"{first}:0 $A:0 {end}:0",
        pair=f"{first}:0 $A:0 $B:0 {end}:0",
        special_tokens=[(token, backend.token_to_id(token)) for token in (first, end)],
    )
    assert code_for(source, None, language) == expected


@pytest.mark.parametrize("family", ["mbart", "m2m_100"])
def test_a_language_of_which_the_source_has_no_code_is_refused_before_any_text_is_read(
    family, tiny_source, korean_text
):
    tables = {
        "source": {"model": str(tiny_source(family))},
        "corpus": {"text": [str(korean_text)]},
        "training": {"method": "lapt", "preset": "xpt2021"},
    }
    preflight.check(recipe_from({"language": "ko", **tables}))
    with pytest.raises(RecipeError, match="has no code of 'jje'; give one of its own"):
        preflight.check(recipe_from({"language": "jje", **tables}))
