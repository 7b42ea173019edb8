"""Inserted layers of every family: where they stand, and those that leave the model as it is."""

import dataclasses
import functools

import pytest
import torch

from lingraft.errors import UnsupportedModelError
from lingraft.models.families import FAMILIES
from lingraft.models.families.decoders import PROJECTIONS
from lingraft.models.graft import rebuild
from lingraft.models.parts import (
    IdentityLayer,
    layer_index,
    layer_plan,
    layer_plans,
    translation_layers,
)
from lingraft.recipe.base import Places

CAN = [name for name, record in FAMILIES.items() if record.identity]
SANDWICHED = [name for name in CAN if "norm" in FAMILIES[name].identity.modules[0]]
STEP = {True: 0.001, False: 0.04}
"""How far one step moves logits at most, of their spread; measured: 0.0004 and 0.029."""


@pytest.fixture(scope="module")
def sources(tiny_model):
    """The source of a family, made once: tests do not change it."""
    return functools.cache(tiny_model)


def deepened(source, record, places, initializer="identity"):
    plans = layer_plans(source.config, record, *places[:2], initializer, places.every)
    return rebuild(source, record, plans, config_changes={}, seed=0)[0].eval()


def run(model):
    ids = torch.randint(3, 300, (2, 24), generator=torch.Generator().manual_seed(0))
    more = {"decoder_input_ids": ids.flip(1)} if model.config.is_encoder_decoder else {}
    return ids, model(input_ids=ids, **more).logits


def after_one_step(source, record):
    """How far AdamW at 1e-4 moves the logits, in their spread, where inserted layers train."""
    model = deepened(source, record, Places(every=2))
    itl = translation_layers(model.config, record, Places(every=2))
    trained = [p for n, p in model.named_parameters() if layer_index(n, record) in itl]
    ids, before = run(model)
    torch.nn.functional.cross_entropy(before.flatten(0, 1), ids.flatten()).backward()
    torch.optim.AdamW(trained, lr=1e-4, weight_decay=0.0).step()
    with torch.no_grad():
        return float((run(model)[1] - before).abs().max() / before.std())


@pytest.mark.parametrize("family", CAN)
@torch.no_grad()
def test_identity_layers_leave_the_logits_bit_for_bit(family, sources):
    source, record = sources(family), FAMILIES[family]
    everywhere = (Places(every=1, after=1), Places(every=2), Places(before=1))
    for places in everywhere[: 2 if record.first_layer_lacks else 3]:
        model = deepened(source, record, places)
        depth = sum(getattr(model.config, one.depth_key) for one in record.lists)
        assert depth > 2 * len(record.lists)
        assert torch.equal(run(model)[1], run(source.eval())[1]), places


@torch.no_grad()
def test_an_identity_layer_before_modernberts_first_changes_the_logits_a_little(sources):
    """The old first layer lacks a norm, which the stock class then demands."""
    source = sources("modernbert")
    theirs, ours = run(source)[1], run(deepened(source, FAMILIES["modernbert"], Places(1)))[1]
    assert 0 < (theirs - ours).abs().max() < 0.1 * theirs.std()


@pytest.mark.parametrize("family", sorted({*FAMILIES} - {*CAN}))
def test_a_post_ln_family_has_no_identity_layers(family, sources):
    with pytest.raises(UnsupportedModelError, match="post-LN"):
        deepened(sources(family), FAMILIES[family], Places(after=1))


def test_the_post_ln_models_of_a_pre_ln_family_have_no_identity_layers(tiny_model):
    source = tiny_model("opt", do_layer_norm_before=False)
    with pytest.raises(UnsupportedModelError, match="take 'copy' or 'random'"):
        deepened(source, FAMILIES["opt"], Places(after=1))


@pytest.mark.parametrize("family", CAN)
def test_one_step_moves_the_logits_little_away_from_identity_layers(family, sources):
    moved = after_one_step(sources(family), FAMILIES[family])
    assert 0 < moved < STEP[family in SANDWICHED]


@pytest.mark.parametrize("family", SANDWICHED)
def test_zeroed_projections_before_a_norm_would_be_a_trap(family, sources):
    record = dataclasses.replace(FAMILIES[family], identity=PROJECTIONS)
    source = sources(family)
    with torch.no_grad():
        model = deepened(source, record, Places(every=2))
        assert torch.equal(run(model)[1], run(source)[1])
    assert after_one_step(source, record) > 0.2


def test_an_inserted_layer_has_the_layer_before_it_as_its_neighbour_but_before_all():
    assert layer_plan(4, 1, 1, "copy", 2) == [0, 0, 1, 1, 2, 3, 3, 3]
    assert layer_plan(4, 1, 1, "random", 2) == [None, 0, 1, None, 2, 3, None, None]
    plan = layer_plan(4, 0, 0, "identity", 3)
    assert plan == [0, 1, 2, 2, 3]
    assert [isinstance(index, IdentityLayer) for index in plan] == [
        False,
        False,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(
    "places", [Places(1, 1), Places(0, 2, 1), Places(1, 0, 3), Places(0, 0, 4)]
)
@pytest.mark.parametrize("num_layers", [1, 2, 3, 7, 8])
def test_a_target_tells_which_of_its_layers_were_inserted(places, num_layers):
    plan = layer_plan(num_layers, *places[:2], "random", places.every)
    assert places.inserted(len(plan)) == {i for i, index in enumerate(plan) if index is None}
    assert places.source_layers(len(plan)) == num_layers
    assert places.number(num_layers) == len(plan) - num_layers


@pytest.mark.parametrize(
    ("family", "key", "entries", "expected"),
    [
        ("smollm3", "no_rope_layers", [1, 0], [1, 1, 1, 0, 0, 0]),
        ("qwen2", "layer_types", ["full_attention", "sliding_attention"], "fffsss"),
    ],
)
def test_lists_with_an_entry_a_layer_are_shifted_with_the_layers(
    family, key, entries, expected, sources
):
    source = sources(family)
    assert list(getattr(source.config, key)) == entries
    model = deepened(source, FAMILIES[family], Places(1, 1, 1), "random")
    found = getattr(model.config, key)
    assert (found if key != "layer_types" else "".join(f[0] for f in found)) == (expected)
