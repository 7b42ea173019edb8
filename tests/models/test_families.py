import pytest
from transformers import AutoConfig

from lingraft.errors import UnsupportedModelError
from lingraft.models.families import FAMILIES, family_of
from lingraft.models.kinds import KINDS
from lingraft.models.loading import stock_class


def test_a_family_is_found_by_its_model_type():
    assert family_of("electra") is FAMILIES["electra"]
    assert all(record.model_type == name for name, record in FAMILIES.items())


def test_an_unknown_family_is_named_with_those_that_are_known():
    with pytest.raises(UnsupportedModelError) as caught:
        family_of("deberta-v2")
    assert str(caught.value) == (
        "models of type 'deberta-v2' cannot be grafted onto yet; lingraft knows bert, electra, "
        "modernbert, roberta, xlm-roberta (a new family is one record in models/families.py)"
    )


def test_only_the_roberta_kinds_count_positions_from_the_padding_id():
    counted = {name for name, record in FAMILIES.items() if record.pad_decides_positions}
    assert counted == {"roberta", "xlm-roberta"}


def test_every_family_is_of_a_known_kind_and_has_a_stock_class_for_it():
    for name, record in FAMILIES.items():
        assert record.kind in KINDS
        assert stock_class(AutoConfig.for_model(name)).__name__.endswith("ForMaskedLM")
