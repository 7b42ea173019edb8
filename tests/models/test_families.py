import pytest
from transformers import AutoConfig, AutoTokenizer

from lingraft.errors import UnsupportedModelError
from lingraft.models.families import FAMILIES, family_of
from lingraft.models.kinds import KINDS
from lingraft.models.loading import stock_class
from lingraft.recipe import Tokenizer as Section
from lingraft.tokenizer import files as tokenizer_files
from tests.support.vocabulary_kinds import keys_of


def test_a_family_is_found_by_its_model_type():
    assert family_of("electra") is FAMILIES["electra"]
    assert all(record.model_type == name for name, record in FAMILIES.items())


@pytest.mark.parametrize(
    ("unknown", "known"),
    [
        ("umt5", "mt5"),
        ("albert", "bert"),
        ("qwen3_moe", "qwen3"),
        ("gemma3", "gemma3_text"),
        ("dbrx", "xlm-roberta"),
    ],
)
def test_of_an_unknown_family_the_nearest_is_named_that_works(unknown, known):
    with pytest.raises(UnsupportedModelError, match=f"'{unknown}' .* that can: {known}"):
        family_of(unknown)


def test_only_the_roberta_kinds_and_m2m_count_positions_from_the_padding_id():
    counted = {name for name, record in FAMILIES.items() if record.pad_decides_positions}
    kinds = {"roberta", "xlm-roberta", "camembert", "xlm-roberta-xl", "roberta-prelayernorm"}
    assert counted == kinds | {"m2m_100"}


def test_every_family_is_of_a_known_kind_and_has_a_stock_class_for_it():
    for name, record in FAMILIES.items():
        assert record.kind in KINDS
        endings = {
            "masked": "ForMaskedLM",
            "seq2seq": "ForConditionalGeneration",
            "causal": ("ForCausalLM", "LMHeadModel"),
        }
        assert stock_class(AutoConfig.for_model(name)).__name__.endswith(endings[record.kind])


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
