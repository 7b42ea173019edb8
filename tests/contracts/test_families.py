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
    layer_plans,
    part_of,
    sizes_by_part,
    tied_once,
    translation_layers,
)
from lingraft.models.rows import pack
from lingraft.models.stacks import packed_model
from lingraft.recipe import PARTS
from lingraft.recipe.base import Places

DEPTH, SIZE = 2, 300
IDS = {
    "vocab_size": SIZE,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "cls_token_id": 0,
    "eos_token_id": 2,
    "sep_token_id": 2,
}

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


def graft(source, family, before=1, after=1, *, initializer="random", **options):
    """A graft and its account."""
    return rebuild(
        source,
        FAMILIES[family],
        layer_plans(source.config, FAMILIES[family], before, after, initializer),
        **{"config_changes": IDS, "seed": 3, "vocabulary": vocabulary_for(source)} | options,
    )


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


def pairs(family, before):
    """Numbers of a source layer and of the same layer in the graft."""
    return [
        (one.first + index, one.first + index + before)
        for one in FAMILIES[family].lists
        for index in range(DEPTH)
    ]


def new_layers(family, before, after):
    """Numbers of the inserted layers, and of the source layer next to each."""
    found = {}
    for one in FAMILIES[family].lists:
        found |= {one.first + index: one.first for index in range(before)}
        last = one.first + DEPTH - 1
        found |= {last + before + 1 + index: last for index in range(after)}
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
def test_the_parts_of_a_graft_add_up_and_the_inserted_layers_are_one(family, sources):
    grafted, _ = graft(sources(family), family, 2, 1)
    record, tied = FAMILIES[family], is_tied(grafted)
    itl = translation_layers(grafted.config, record, Places(2, 1))
    assert itl == set(new_layers(family, 2, 1))
    for name in grafted.state_dict():
        part, number = part_of(name, record, itl), layer_index(name, record)
        if number is None or goes_with_place(name, record):
            assert part != "inserted", name
        else:
            assert part == ("inserted" if number in itl else "body"), name
    tensors = dict(grafted.named_parameters(remove_duplicate=False))
    sizes = {name: tensors[name].numel() for name in tied_once(tensors, record, tied=tied)}
    totals = sizes_by_part(sizes, record, itl)
    assert sum(totals.values()) == sum(p.numel() for p in grafted.parameters())
    embeddings = grafted.get_input_embeddings().weight.numel()
    assert totals["embeddings"] == (1 if tied else 2) * embeddings
    assert totals["output_bias"] == SIZE * any(name in tensors for name in record.output_bias)


@every
def test_the_source_layers_stand_behind_the_inserted_ones(family, sources):
    source, record = sources(family), FAMILIES[family]
    grafted, _ = graft(source, family, 2, 1)
    for one in record.lists:
        assert getattr(grafted.config, one.depth_key) == DEPTH + 3
        assert len(list(grafted.get_submodule(one.layers))) == DEPTH + 3
    for theirs, number in pairs(family, 2):
        ours = layer(grafted, family, number)
        for name, tensor in layer(source, family, theirs).items():
            assert torch.equal(ours[name], tensor), name
    theirs, ours = source.state_dict(), grafted.state_dict()
    placed = [name for name in ours if goes_with_place(name, record)]
    assert len(placed) == (len(record.lists) if record.first_layer_has else 0)
    assert all(torch.equal(ours[name], theirs[name]) for name in placed)


@some
def test_an_inserted_layer_copies_its_neighbour_or_nothing_is_copied(family, sources):
    source = sources(family)
    grafted, _ = graft(source, family, 1, 1, initializer="copy")
    for number, origin in new_layers(family, 1, 1).items():
        theirs = layer(source, family, origin)
        for name, tensor in layer(grafted, family, number).items():
            assert torch.equal(tensor, theirs[name]), name
    _, account = graft(source, family, keep_source=False)
    assert {entry.kind for entry in account.entries} == {"fresh", "resized"}


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
def test_the_seed_decides_the_fresh_layers_and_the_source_is_left_as_it_was(family, sources):
    source = sources(family)
    before = {name: tensor.clone() for name, tensor in source.state_dict().items()}
    config = source.config.to_dict()
    first, again, other = (graft(source, family, seed=seed)[0] for seed in (3, 3, 4))
    ours, same, different = (layer(model, family, 0) for model in (first, again, other))
    assert all(torch.equal(ours[name], same[name]) for name in ours)
    assert not all(torch.equal(ours[name], different[name]) for name in ours)
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.zero_()
    assert source.config.to_dict() == config
    assert all(torch.equal(source.state_dict()[name], tensor) for name, tensor in before.items())


@every
def test_the_account_names_every_tensor_of_both_models_once_with_its_fate(family, sources):
    source, record = sources(family), FAMILIES[family]
    grafted, account = graft(source, family)
    entries = [entry for entry in account.entries if entry.kind != "dropped"]
    for model, named in (
        (grafted, [entry.tensor for entry in entries]),
        (source, {entry.source for entry in account.entries} - {None}),
    ):
        assert sorted(named) == sorted(tied_once(model.state_dict(), record, tied=is_tied(model)))
    for entry in entries:
        name = entry.tensor
        assert entry.shape == tuple(grafted.state_dict()[name].shape)
        is_new = layer_index(name, record) in new_layers(family, 1, 1)
        lacks = record.first_layer_lacks and f"{record.layers}.1.{record.first_layer_lacks}"
        if name in (record.word_embeddings, record.decoder, *record.output_bias):
            assert entry.kind == "resized", name
        elif name == lacks or (is_new and not goes_with_place(name, record)):
            assert entry.kind == "fresh", name
        else:
            assert entry.kind == "copied", name
    rows = account.summary().values()
    buffers = [b for name, b in grafted.named_buffers() if name in grafted.state_dict()]
    everything = sum(tensor.numel() for tensor in [*grafted.parameters(), *buffers])
    assert sum(row["parameters"] for row in rows) == everything
    assert len(account.rows()) == sum(row["tensors"] for row in rows)


@every
def test_the_vocabulary_has_each_name_and_without_both_the_source_is_back(family, sources):
    source, record = sources(family), FAMILIES[family]
    grafted, _ = graft(source, family, 2, 1)
    tensors, expected = grafted.state_dict(), vocabulary_for(source)
    for name in (record.word_embeddings, *record.embedding_aliases):
        assert torch.equal(tensors[name], expected.embeddings_VD), name
    for name in record.output_bias:
        assert torch.equal(tensors[name].flatten(), expected.bias_V), name
    assert is_tied(grafted) == is_tied(source)
    if not is_tied(source):
        assert torch.equal(tensors[record.decoder], expected.decoder_VD)
    restored, _ = rebuild(
        grafted,
        record,
        tuple([2, 3] for _ in record.lists),
        config_changes={key: getattr(source.config, key, None) for key in IDS},
        seed=8,
        vocabulary=VocabularyTensors.of(source, record, ""),
    )
    assert torch.equal(logits(restored), logits(source))


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
        alone = [stock.stock_logits(sentences[i].astype(np.int64)) for row in rows for i in row]
    assert any(len(row) > 1 for row in rows)
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(trained.detach(), torch.cat(alone), atol=1e-5, rtol=1e-5)
    grafted, _ = graft(sources(family), family)
    assert check_isolation(packed_model(copy.deepcopy(grafted), FAMILIES[family]), pad_id=1) < 1e-4
