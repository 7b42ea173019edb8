import pytest

from lingraft.errors import UnsupportedModelError
from lingraft.models.families import FAMILIES, family_of


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


def test_no_family_is_causal_yet():
    assert not any(record.causal for record in FAMILIES.values())
