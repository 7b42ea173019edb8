import pytest
from transformers import AutoConfig, AutoTokenizer

from lingraft.models.families import FAMILIES
from lingraft.recipe import Tokenizer as Section
from lingraft.tokenizer import files as tokenizer_files
from tests.support.vocabulary_kinds import keys_of


@pytest.fixture(scope="module")
def vocabularies():
    """One of each kind, with words and numbers in whole pieces."""
    text = ["In 2024, 12345 people said: don't!", "나는 학교에 갔다."] * 9
    return {
        kind: tokenizer_files.train(
            Section(**keys_of(kind), vocab_size=330), None, lambda: text, pad_id=None, seed=0
        )
        for kind in tokenizer_files.TRAINED
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_beside_every_family_a_vocabulary_is_read_as_its_file_says_or_the_record_says_otherwise(
    family, vocabularies, tmp_path
):
    AutoConfig.for_model(family).save_pretrained(tmp_path)
    text = "In 2024, 12345 people said: 나는"
    for kind, ours in vocabularies.items():
        tokenizer_files.save(ours, tmp_path)
        stock = AutoTokenizer.from_pretrained(tmp_path)
        alike = stock(text)["input_ids"] == ours(text)["input_ids"]
        assert alike is not FAMILIES[family].own_pattern, kind
