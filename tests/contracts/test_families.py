"""What holds for every family that lingraft knows: a new record in FAMILIES is tested by this."""

import copy
import functools

import numpy as np
import pytest
import torch

from lingraft.models.families import DECODER, FAMILIES
from lingraft.models.graft import VocabularyTensors, build, is_tied, rebuild
from lingraft.models.loading import auto_class
from lingraft.models.modules import MODULES
from lingraft.models.packed import check_isolation
from lingraft.models.parts import (
    goes_with_place,
    layer_index,
    part_of,
    sizes_by_part,
    tied_once,
    translation_layers,
)
from lingraft.models.plans import layer_plans
from lingraft.models.rows import pack
from lingraft.models.stacks import packed_model
from lingraft.recipe import PARTS
from lingraft.recipe.places import Places

DEPTH, SIZE = 2, 300
IDS = {
    "vocab_size": SIZE,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "cls_token_id": 0,
    "eos_token_id": 2,
    "sep_token_id": 2,
}

PLACES = ((1, 1), (2, 0), (0, 2), (0, 0))
ONE_OF_PLACES = {name: PLACES[number % len(PLACES)] for number, name in enumerate(FAMILIES)}
"""A cover: every family has one, every one has several families."""

every = pytest.mark.parametrize("family", FAMILIES)
some = pytest.mark.parametrize("family", ["bert", "modernbert", "t5", "gpt2", "mistral"])
"""For what no record decides: tied and not, biased and not, one list of layers and two."""


@pytest.fixture(scope="module")
def sources(tiny_model):
    """The source of a family, made once: tests do not change it."""
    return functools.cache(tiny_model)


def vocabulary_for(source, size=SIZE):
    generator = torch.Generator().manual_seed(5)
    width = source.get_input_embeddings().weight.shape[1]
    rows = torch.randn(size, width, generator=generator)
    bias = torch.randn(size, generator=generator)
    own = None if is_tied(source) else torch.randn(size, width, generator=generator)
    return VocabularyTensors(rows, bias, "drawn by a test", own)


GRAFTS = {}


def graft(source, family, before=1, after=1, *, initializer="random", **options):
    """A graft and its account, made once where nothing else is asked for: do not change it."""
    key = (family, before, after, initializer)
    if options:
        return make(source, *key, **options)
    if key not in GRAFTS:
        GRAFTS[key] = make(source, *key)
    return GRAFTS[key]


def make(source, family, before, after, initializer, **options):
    return rebuild(
        source,
        FAMILIES[family],
        layer_plans(source.config, FAMILIES[family], before, after, initializer),
        **{"config_changes": IDS, "seed": 3, "vocabulary": vocabulary_for(source)} | options,
    )


def fronts(family, before, after):
    """Of each list of layers, what stands before and after the source's."""
    return [(one, before, after) for one in FAMILIES[family].lists]


def layer(model, family, number):
    """A layer's tensors by their names within it, but for what belongs to its place."""
    record = FAMILIES[family]
    one = record.lists[number >= DECODER]
    prefix = f"{one.layers}.{number - one.first}."
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in model.state_dict().items()
        if name.startswith(prefix) and not goes_with_place(name, record)
    }


def pairs(family, before, after):
    """Numbers of a source layer and of the same layer in the graft."""
    return [
        (one.first + index, one.first + index + front)
        for one, front, _ in fronts(family, before, after)
        for index in range(DEPTH)
    ]


def new_layers(family, before, after):
    """Numbers of the inserted layers, and of the source layer next to each."""
    found = {}
    for one, front, back in fronts(family, before, after):
        found |= {one.first + index: one.first for index in range(front)}
        last = one.first + DEPTH - 1
        found |= {last + front + 1 + index: last for index in range(back)}
    return found


@torch.no_grad()
def logits(model):
    ids = torch.randint(3, SIZE, (2, 12), generator=torch.Generator().manual_seed(0))
    more = {"decoder_input_ids": ids.flip(1)} if model.config.is_encoder_decoder else {}
    return model.eval()(input_ids=ids, attention_mask=torch.ones_like(ids), **more).logits


@every
def test_every_tensor_belongs_to_a_part(family, sources):
    parts = {
        part_of(name, FAMILIES[family], frozenset({0})) for name in sources(family).state_dict()
    }
    record = FAMILIES[family]
    has = {
        "positions": record.positions or record.first_layer_has,
        "output_bias": record.output_bias,
        "embedding_norm": record.embedding_norm,
        "head": record.head_tensors,
        "body": True,
    }
    absent = set(MODULES) | {part for part, present in has.items() if not present}
    assert parts == set(PARTS) - absent


@every
def test_only_the_translation_layers_are_of_the_part_itl(family, sources):
    grafted, _ = graft(sources(family), family, 2, 1)
    record = FAMILIES[family]
    itl = translation_layers(grafted.config, record, Places(2, 1))
    assert itl == set(new_layers(family, 2, 1))
    for name in grafted.state_dict():
        part, number = part_of(name, record, itl), layer_index(name, record)
        if number is None or goes_with_place(name, record):
            assert part != "inserted", name
        else:
            assert part == ("inserted" if number in itl else "body"), name


@every
def test_the_parts_add_up_to_the_parameters(family, sources):
    grafted, _ = graft(sources(family), family)
    record = FAMILIES[family]
    tensors = dict(grafted.named_parameters(remove_duplicate=False))
    tied = is_tied(grafted)
    sizes = {name: tensors[name].numel() for name in tied_once(tensors, record, tied=tied)}
    totals = sizes_by_part(sizes, record, translation_layers(grafted.config, record, Places(1, 1)))
    assert sum(totals.values()) == sum(p.numel() for p in grafted.parameters())
    matrices = 1 if tied else 2
    assert totals["embeddings"] == matrices * grafted.get_input_embeddings().weight.numel()
    assert totals["output_bias"] == SIZE * any(name in tensors for name in record.output_bias)


@every
def test_the_source_layers_stand_behind_the_inserted_ones(family, sources):
    source, (before, after) = sources(family), ONE_OF_PLACES[family]
    grafted, _ = graft(source, family, before, after)
    for one, front, back in fronts(family, before, after):
        assert getattr(grafted.config, one.depth_key) == DEPTH + front + back
        assert len(list(grafted.get_submodule(one.layers))) == DEPTH + front + back
    for theirs, number in pairs(family, before, after):
        ours = layer(grafted, family, number)
        for name, tensor in layer(source, family, theirs).items():
            assert torch.equal(ours[name], tensor), name


@every
def test_what_belongs_to_the_first_place_stays_there(family, sources):
    source = sources(family)
    grafted, _ = graft(source, family, 2, 1)
    theirs, ours = source.state_dict(), grafted.state_dict()
    record = FAMILIES[family]
    found = [name for name in ours if goes_with_place(name, record)]
    assert len(found) == (len(record.lists) if record.first_layer_has else 0)
    assert all(torch.equal(ours[name], theirs[name]) for name in found)


@some
def test_an_itl_that_copies_equals_its_neighbour(family, sources):
    source = sources(family)
    grafted, _ = graft(source, family, 1, 1, initializer="copy")
    for number, origin in new_layers(family, 1, 1).items():
        theirs = layer(source, family, origin)
        for name, tensor in layer(grafted, family, number).items():
            assert torch.equal(tensor, theirs[name]), name


@every
def test_a_random_itl_has_unit_norms_zero_biases_and_weights_of_its_own(family, sources):
    source = sources(family)
    grafted, _ = graft(source, family)
    untrained = build(type(source), source.config, seed=7)
    for number, origin in new_layers(family, 1, 1).items():
        stock = layer(untrained, family, origin // DECODER * DECODER + 1)
        for name, tensor in layer(grafted, family, number).items():
            if name.endswith("bias"):
                assert torch.equal(tensor, torch.zeros_like(tensor)), name
            elif tensor.dim() < 2:
                assert torch.equal(tensor, stock[name]), name
                assert tensor.unique().numel() == 1, name
            else:
                assert 0.01 < float(tensor.std()) < 0.2, name
                for other in range(DEPTH):
                    theirs = layer(source, family, origin // DECODER * DECODER + other)
                    assert not torch.allclose(tensor, theirs[name], atol=0.01), name


@some
def test_the_seed_decides_the_fresh_layers(family, sources):
    source = sources(family)
    first, again, other = (graft(source, family, seed=seed)[0] for seed in (3, 3, 4))
    ours, same, different = (layer(model, family, 0) for model in (first, again, other))
    assert all(torch.equal(ours[name], same[name]) for name in ours)
    assert not all(torch.equal(ours[name], different[name]) for name in ours)


@every
def test_the_account_names_every_tensor_of_the_target_once(family, sources):
    initializer = ("random", "copy")[[*FAMILIES].index(family) % 2]
    grafted, account = graft(sources(family), family, 2, 1, initializer=initializer)
    named = [entry.tensor for entry in account.entries if entry.kind != "dropped"]
    assert sorted(named) == sorted(
        tied_once(grafted.state_dict(), FAMILIES[family], tied=is_tied(grafted))
    )
    shapes = {entry.tensor: entry.shape for entry in account.entries if entry.kind != "dropped"}
    assert shapes == {name: tuple(grafted.state_dict()[name].shape) for name in named}


@every
def test_the_account_uses_or_drops_every_tensor_of_the_source(family, sources):
    source = sources(family)
    _, account = graft(source, family)
    assert {entry.source for entry in account.entries} - {None} == set(
        tied_once(source.state_dict(), FAMILIES[family], tied=is_tied(source))
    )


@every
def test_the_account_calls_layers_fresh_vocabulary_resized_and_the_rest_copied(family, sources):
    _, account = graft(sources(family), family)
    record = FAMILIES[family]
    kinds = {entry.tensor: entry.kind for entry in account.entries}
    for name, kind in kinds.items():
        if name in (record.word_embeddings, record.decoder, *record.output_bias):
            assert kind == "resized", name
        elif goes_with_place(name, record):
            assert kind == "copied", name
        elif layer_index(name, record) in new_layers(family, 1, 1) or (
            record.first_layer_lacks and name == f"{record.layers}.1.{record.first_layer_lacks}"
        ):
            assert kind == "fresh", name
        else:
            assert kind == "copied", name


@some
def test_the_summary_of_the_account_adds_up(family, sources):
    grafted, account = graft(sources(family), family)
    summary = account.summary()
    kept = [row for kind, row in summary.items() if kind != "dropped"]
    buffers = [b for name, b in grafted.named_buffers() if name in grafted.state_dict()]
    everything = sum(tensor.numel() for tensor in [*grafted.parameters(), *buffers])
    assert sum(row["parameters"] for row in kept) == everything
    assert summary["dropped"] == {"tensors": 0, "parameters": 0}
    assert len(account.rows()) == sum(row["tensors"] for row in summary.values())


@some
def test_layers_that_are_left_out_are_dropped_in_the_account(family, sources):
    source = sources(family)
    _, account = rebuild(source, FAMILIES[family], [1], config_changes={}, seed=0)
    dropped = {entry.tensor for entry in account.entries if entry.kind == "dropped"}
    record = FAMILIES[family]
    expected = {n for n in source.state_dict() if layer_index(n, record) == 0}
    expected = {n for n in expected if not goes_with_place(n, record)}
    if FAMILIES[family].first_layer_lacks:  # layer 1 becomes the first, which has no such norm
        expected.add(f"{FAMILIES[family].layers}.1.{FAMILIES[family].first_layer_lacks}")
    assert dropped == expected


@every
def test_the_new_vocabulary_is_written_into_both_names_of_each_tied_tensor(family, sources):
    source = sources(family)
    grafted, _ = graft(source, family)
    record, tensors, expected = FAMILIES[family], grafted.state_dict(), vocabulary_for(source)
    assert torch.equal(tensors[record.word_embeddings], expected.embeddings_VD)
    head = expected.embeddings_VD if is_tied(source) else expected.decoder_VD
    assert torch.equal(tensors[record.decoder], head)
    for name in record.embedding_aliases:
        assert torch.equal(tensors[name], expected.embeddings_VD), name
    for name in record.output_bias:
        assert torch.equal(tensors[name].flatten(), expected.bias_V), name
    assert is_tied(grafted) == is_tied(source)


@every
def test_removing_the_layers_and_restoring_the_vocabulary_gives_the_source_back(family, sources):
    source = sources(family)
    record = FAMILIES[family]
    grafted, _ = graft(source, family, 2, 1)
    changes = {key: getattr(source.config, key, None) for key in IDS}
    restored, _ = rebuild(
        grafted,
        record,
        tuple([front, front + 1] for _, front, _ in fronts(family, 2, 1)),
        config_changes=changes,
        seed=8,
        vocabulary=VocabularyTensors.of(source, record, ""),
    )
    assert torch.equal(logits(restored), logits(source))


@some
def test_the_inserted_layers_change_the_logits(family, sources):
    source = sources(family)
    same, _ = rebuild(source, FAMILIES[family], [0, 1], config_changes={}, seed=1)
    deeper, _ = rebuild(source, FAMILIES[family], [None, 0, 1, None], config_changes={}, seed=1)
    assert torch.equal(logits(same), logits(source))
    assert not torch.allclose(logits(deeper), logits(source), atol=1e-3)


@some
def test_the_source_is_left_as_it_was(family, sources):
    source = sources(family)
    before = {name: tensor.clone() for name, tensor in source.state_dict().items()}
    config = source.config.to_dict()
    grafted, _ = graft(source, family, seed=3)  # one of its own
    with torch.no_grad():
        for parameter in grafted.parameters():
            parameter.zero_()
    assert source.config.to_dict() == config
    assert all(torch.equal(source.state_dict()[name], tensor) for name, tensor in before.items())


@some
def test_random_source_weights_copy_nothing(family, sources):
    source = sources(family)
    grafted, account = graft(source, family, keep_source=False)
    assert {entry.kind for entry in account.entries} == {"fresh", "resized"}
    for theirs, number in pairs(family, 1, 1):
        ours = layer(grafted, family, number)
        constant = dict(source.get_submodule(FAMILIES[family].layers)[0].named_buffers())
        for name, tensor in layer(source, family, theirs).items():
            assert torch.equal(ours[name], tensor) == (name in constant), name


@every
def test_a_saved_graft_loads_in_the_stock_class_without_a_word(family, sources, tmp_path):
    grafted, _ = graft(sources(family), family)
    grafted.save_pretrained(tmp_path)
    again, info = auto_class(grafted.config).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values()), info
    assert type(again) is type(grafted)
    assert torch.equal(logits(again), logits(grafted))


@every
def test_packed_rows_give_the_logits_of_single_sentences(family, sources, tiny_tokens):
    tokens = tiny_tokens(30, 3, 28)
    sentences = tokens.rows(range(30))
    rows, width = pack(tokens.lengths, 32)
    packed = packed_model(copy.deepcopy(sources(family)), FAMILIES[family])
    batch = packed.probe([s.astype(np.int64) for s in sentences], rows, width, 1)
    stock = packed_model(copy.deepcopy(sources(family)), FAMILIES[family])
    stock.attend(packed=False)
    trained = packed.logits(batch)  # another way of computing, where there are gradients
    with torch.no_grad():
        together = packed.logits(batch)
        alone = [stock.alone(sentences[i].astype(np.int64)) for row in rows for i in row]
    assert any(len(row) > 1 for row in rows)
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(trained.detach(), torch.cat(alone), atol=1e-5, rtol=1e-5)


@every
def test_a_graft_passes_the_isolation_check(family, sources):
    grafted, _ = graft(sources(family), family)
    packed = packed_model(copy.deepcopy(grafted), FAMILIES[family])
    assert check_isolation(packed, pad_id=1) < 1e-4
