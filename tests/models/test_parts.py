import pytest

from lingraft.errors import RecipeError, UnsupportedModelError
from lingraft.models.families import FAMILIES
from lingraft.models.parts import layer_index, part_of, tied_once
from lingraft.recipe import PARTS
from lingraft.recipe.places import Places
from lingraft.recipe.selectors import trained_parts

ROBERTA = FAMILIES["roberta"]


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("roberta.embeddings.word_embeddings.weight", "embeddings"),
        ("lm_head.decoder.weight", "embeddings"),
        ("lm_head.bias", "output_bias"),
        ("lm_head.decoder.bias", "output_bias"),
        ("roberta.embeddings.position_embeddings.weight", "positions"),
        ("roberta.embeddings.token_type_embeddings.weight", "embedding_norm"),
        ("roberta.embeddings.LayerNorm.bias", "embedding_norm"),
        ("roberta.encoder.layer.0.attention.self.query.weight", "inserted"),
        ("roberta.encoder.layer.13.output.LayerNorm.weight", "inserted"),
        ("roberta.encoder.layer.1.attention.self.query.weight", "body"),
        ("roberta.encoder.layer.10.attention.self.query.weight", "body"),
        ("lm_head.dense.weight", "head"),
        ("lm_head.layer_norm.bias", "head"),
    ],
)
def test_a_tensor_of_roberta_belongs_to_its_part(name, part):
    assert part_of(name, ROBERTA, Places(1, 1).inserted(14)) == part


def test_a_tensor_that_the_record_does_not_foresee_is_an_error():
    with pytest.raises(
        UnsupportedModelError, match=r"tensor 'roberta\.pooler\.dense\.weight' of a"
    ):
        part_of("roberta.pooler.dense.weight", ROBERTA, frozenset())


def test_the_number_of_a_layer_is_read_whole():
    assert layer_index("roberta.encoder.layer.12.output.dense.bias", ROBERTA) == 12
    assert layer_index("roberta.embeddings.LayerNorm.bias", ROBERTA) is None


def test_the_translation_layers_are_the_first_and_the_last():
    assert Places(1, 1).inserted(14) == {0, 13}
    assert Places(2, 1).inserted(6) == {0, 1, 5}
    assert Places(0, 0).inserted(4) == frozenset()


def test_all_means_every_part():
    assert trained_parts(("all",), "phase-2") == set(PARTS)
    assert trained_parts(("inserted", "embeddings"), "phase-1") == {"inserted", "embeddings"}


def test_all_beside_another_part_is_refused():
    with pytest.raises(RecipeError) as caught:
        trained_parts(("all", "inserted"), "phase-1")
    assert str(caught.value) == (
        "phase 'phase-1': train holds 'all' and other parts; 'all' stands alone"
    )


def test_a_part_named_twice_is_refused():
    with pytest.raises(RecipeError, match="phase 'x': train names a part twice: inserted, ins"):
        trained_parts(("inserted", "inserted"), "x")


def test_tied_names_are_counted_once():
    names = ["lm_head.bias", "lm_head.decoder.bias", "lm_head.decoder.weight", "other"]
    assert tied_once(names, ROBERTA) == ["lm_head.bias", "other"]
