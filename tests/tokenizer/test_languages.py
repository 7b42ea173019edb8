"""Languages that a tokenizer can be told."""

import copy

import pytest
from tokenizers import AddedToken, processors

from lingraft.tokenizer.frame import code_for


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
