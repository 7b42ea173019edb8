"""What holds for every family that lingraft knows: a new record in FAMILIES is tested by this."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM

from lingraft.models.families import FAMILIES
from lingraft.models.graft import Vocabulary, layer_plan, rebuild
from lingraft.models.modules import MODULES
from lingraft.models.packed import PackedModel, assemble, check_isolation, pack
from lingraft.models.parts import itl_layers, layer_index, part_of, sizes_by_part, tied_once
from lingraft.recipe import PARTS

DEPTH, SIZE = 2, 300
IDS = {
    "vocab_size": SIZE,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "cls_token_id": 0,
    "eos_token_id": 2,
    "sep_token_id": 2,
}

pytestmark = pytest.mark.parametrize("family", FAMILIES)


def vocabulary_for(source, size=SIZE):
    generator = torch.Generator().manual_seed(5)
    width = source.get_input_embeddings().weight.shape[1]
    rows = torch.randn(size, width, generator=generator)
    return Vocabulary(rows, torch.randn(size, generator=generator), "drawn by a test")


def graft(source, family, before=1, after=1, *, initialiser="random", **options):
    return rebuild(
        source,
        FAMILIES[family],
        layer_plan(DEPTH, before, after, initialiser),
        **{"config_changes": IDS, "seed": 3, "vocabulary": vocabulary_for(source)} | options,
    )


def layer(model, family, index):
    prefix = f"{FAMILIES[family].layers}.{index}."
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in model.state_dict().items()
        if name.startswith(prefix)
    }


@torch.no_grad()
def logits(model):
    ids = torch.randint(3, SIZE, (2, 12), generator=torch.Generator().manual_seed(0))
    return model.eval()(input_ids=ids, attention_mask=torch.ones_like(ids)).logits


def test_every_tensor_belongs_to_a_part(family, tiny_model):
    parts = {
        part_of(name, FAMILIES[family], frozenset({0})) for name in tiny_model(family).state_dict()
    }
    absent = set(MODULES) | (set() if FAMILIES[family].positions else {"positions"})
    assert parts == set(PARTS) - absent


def test_only_the_translation_layers_are_of_the_part_itl(family, tiny_model):
    grafted, _ = graft(tiny_model(family), family, 2, 1)
    record, itl = FAMILIES[family], itl_layers(5, 2, 1)
    found = {name: part_of(name, record, itl) for name in grafted.state_dict()}
    of_layers = {
        name: part for name, part in found.items() if layer_index(name, record) is not None
    }
    assert {layer_index(name, record) for name, part in of_layers.items() if part == "itl"} == {
        0, 1, 4,
    }  # fmt: skip
    assert {layer_index(name, record) for name, part in of_layers.items() if part == "body"} == {
        2, 3,
    }  # fmt: skip
    assert not any(part == "itl" for name, part in found.items() if name not in of_layers)


def test_the_parts_add_up_to_the_parameters(family, tiny_model):
    grafted, _ = graft(tiny_model(family), family)
    tensors = grafted.state_dict()
    sizes = {name: tensors[name].numel() for name in tied_once(tensors, FAMILIES[family])}
    totals = sizes_by_part(sizes, FAMILIES[family], itl_layers(4, 1, 1))
    assert sum(totals.values()) == sum(p.numel() for p in grafted.parameters())
    assert totals["embeddings"] == grafted.get_input_embeddings().weight.numel()
    assert totals["output_bias"] == SIZE


@pytest.mark.parametrize(("before", "after"), [(0, 0), (1, 1), (2, 0), (0, 2)])
def test_the_source_layers_stand_behind_the_inserted_ones(family, before, after, tiny_model):
    source = tiny_model(family)
    grafted, _ = graft(source, family, before, after)
    assert grafted.config.num_hidden_layers == DEPTH + before + after
    assert len(list(grafted.get_submodule(FAMILIES[family].layers))) == DEPTH + before + after
    for index in range(DEPTH):
        ours = layer(grafted, family, before + index)
        for name, tensor in layer(source, family, index).items():
            assert torch.equal(ours[name], tensor), name


def test_an_itl_that_copies_equals_its_neighbour(family, tiny_model):
    source = tiny_model(family)
    grafted, _ = graft(source, family, 1, 1, initialiser="copy")
    for index, origin in ((0, 0), (3, DEPTH - 1)):
        theirs = layer(source, family, origin)
        for name, tensor in layer(grafted, family, index).items():
            assert torch.equal(tensor, theirs[name]), name


def test_a_random_itl_has_unit_norms_zero_biases_and_weights_of_its_own(family, tiny_model):
    source = tiny_model(family)
    grafted, _ = graft(source, family)
    for index in (0, 3):
        for name, tensor in layer(grafted, family, index).items():
            if name.endswith("bias"):
                assert torch.equal(tensor, torch.zeros_like(tensor)), name
            elif tensor.dim() == 1:
                assert torch.equal(tensor, torch.ones_like(tensor)), name
            else:
                assert 0.01 < float(tensor.std()) < 0.2, name
                for other in range(DEPTH):
                    theirs = layer(source, family, other)
                    assert not torch.allclose(tensor, theirs[name], atol=0.01), name


def test_the_seed_decides_the_fresh_layers(family, tiny_model):
    source = tiny_model(family)
    first, again, other = (graft(source, family, seed=seed)[0] for seed in (3, 3, 4))
    ours, same, different = (layer(model, family, 0) for model in (first, again, other))
    assert all(torch.equal(ours[name], same[name]) for name in ours)
    assert not all(torch.equal(ours[name], different[name]) for name in ours)


@pytest.mark.parametrize("initialiser", ["random", "copy"])
def test_the_account_names_every_tensor_of_the_target_once(family, initialiser, tiny_model):
    grafted, account = graft(tiny_model(family), family, 2, 1, initialiser=initialiser)
    named = [entry.tensor for entry in account.entries if entry.kind != "dropped"]
    assert sorted(named) == sorted(tied_once(grafted.state_dict(), FAMILIES[family]))
    shapes = {entry.tensor: entry.shape for entry in account.entries if entry.kind != "dropped"}
    assert shapes == {name: tuple(grafted.state_dict()[name].shape) for name in named}


def test_the_account_uses_or_drops_every_tensor_of_the_source(family, tiny_model):
    source = tiny_model(family)
    _, account = graft(source, family)
    assert {entry.source for entry in account.entries} - {None} == set(
        tied_once(source.state_dict(), FAMILIES[family])
    )


def test_the_account_calls_layers_fresh_vocabulary_resized_and_the_rest_copied(family, tiny_model):
    _, account = graft(tiny_model(family), family)
    record = FAMILIES[family]
    kinds = {entry.tensor: entry.kind for entry in account.entries}
    for name, kind in kinds.items():
        if name in (record.word_embeddings, record.output_bias[0]):
            assert kind == "resized", name
        elif layer_index(name, record) in (0, 3) or (
            record.first_layer_lacks and name == f"{record.layers}.1.{record.first_layer_lacks}"
        ):
            assert kind == "fresh", name
        else:
            assert kind == "copied", name


def test_the_summary_of_the_account_adds_up(family, tiny_model):
    grafted, account = graft(tiny_model(family), family)
    summary = account.summary()
    kept = [row for kind, row in summary.items() if kind != "dropped"]
    assert sum(row["parameters"] for row in kept) == sum(p.numel() for p in grafted.parameters())
    assert summary["dropped"] == {"tensors": 0, "parameters": 0}
    assert len(account.rows()) == sum(row["tensors"] for row in summary.values())


def test_layers_that_are_left_out_are_dropped_in_the_account(family, tiny_model):
    source = tiny_model(family)
    _, account = rebuild(source, FAMILIES[family], [1], config_changes={}, seed=0)
    dropped = {entry.tensor for entry in account.entries if entry.kind == "dropped"}
    expected = {n for n in source.state_dict() if layer_index(n, FAMILIES[family]) == 0}
    if FAMILIES[family].first_layer_lacks:  # layer 1 becomes the first, which has no such norm
        expected.add(f"{FAMILIES[family].layers}.1.{FAMILIES[family].first_layer_lacks}")
    assert dropped == expected


def test_the_new_vocabulary_is_written_into_both_names_of_each_tied_tensor(family, tiny_model):
    source = tiny_model(family)
    grafted, _ = graft(source, family)
    record, tensors, expected = FAMILIES[family], grafted.state_dict(), vocabulary_for(source)
    assert torch.equal(tensors[record.word_embeddings], expected.embeddings_VD)
    assert torch.equal(tensors[record.decoder], expected.embeddings_VD)
    for name in record.output_bias:
        assert torch.equal(tensors[name], expected.bias_V), name
    assert grafted.get_output_embeddings().weight is grafted.get_input_embeddings().weight


def test_removing_the_layers_and_restoring_the_vocabulary_gives_the_source_back(family, tiny_model):
    source = tiny_model(family)
    record, tensors = FAMILIES[family], source.state_dict()
    grafted, _ = graft(source, family, 2, 1)
    theirs = Vocabulary(tensors[record.word_embeddings], tensors[record.output_bias[0]])
    changes = {key: source.config.to_dict().get(key) for key in IDS}
    restored, _ = rebuild(
        grafted, record, [2, 3], config_changes=changes, seed=8, vocabulary=theirs
    )
    assert torch.equal(logits(restored), logits(source))


def test_the_inserted_layers_change_the_logits(family, tiny_model):
    source = tiny_model(family)
    same, _ = rebuild(source, FAMILIES[family], [0, 1], config_changes={}, seed=1)
    deeper, _ = rebuild(source, FAMILIES[family], [None, 0, 1, None], config_changes={}, seed=1)
    assert torch.equal(logits(same), logits(source))
    assert not torch.allclose(logits(deeper), logits(source), atol=1e-3)


def test_the_source_is_left_as_it_was(family, tiny_model):
    source = tiny_model(family)
    before = {name: tensor.clone() for name, tensor in source.state_dict().items()}
    config = source.config.to_dict()
    grafted, _ = graft(source, family)
    with torch.no_grad():
        for parameter in grafted.parameters():
            parameter.zero_()
    assert source.config.to_dict() == config
    assert all(torch.equal(source.state_dict()[name], tensor) for name, tensor in before.items())


def test_random_source_weights_copy_nothing(family, tiny_model):
    source = tiny_model(family)
    grafted, account = graft(source, family, keep_source=False)
    assert {entry.kind for entry in account.entries} == {"fresh", "resized"}
    for index in range(DEPTH):
        ours = layer(grafted, family, index + 1)
        for name, tensor in layer(source, family, index).items():
            assert not torch.equal(ours[name], tensor), name


def test_a_saved_graft_loads_in_the_stock_class_without_a_word(family, tiny_model, tmp_path):
    grafted, _ = graft(tiny_model(family), family)
    grafted.save_pretrained(tmp_path)
    again, info = AutoModelForMaskedLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values()), info
    assert type(again) is type(grafted)
    assert torch.equal(logits(again), logits(grafted))


def test_packed_rows_give_the_logits_of_single_sentences(family, tiny_model, tiny_tokens):
    tokens = tiny_tokens(30, 3, 28)
    sentences = tokens.rows(range(30))
    everywhere = [np.arange(len(s)) for s in sentences]
    rows, width = pack(tokens.lengths, 32)
    batch = assemble(sentences, everywhere, sentences, rows, width, 1)
    with torch.no_grad():
        together = PackedModel(tiny_model(family), FAMILIES[family]).logits(batch)
        stock = tiny_model(family)
        alone = [
            stock(input_ids=torch.from_numpy(sentences[i].astype(np.int64))[None]).logits[0]
            for row in rows
            for i in row
        ]
    assert any(len(row) > 1 for row in rows)
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-5, rtol=1e-5)


def test_a_graft_passes_the_isolation_check(family, tiny_model):
    grafted, _ = graft(tiny_model(family), family)
    assert check_isolation(PackedModel(grafted, FAMILIES[family]), pad_id=1) < 1e-4
