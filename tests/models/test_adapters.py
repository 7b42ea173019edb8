import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from stopping import killed_at, of_training
from tiny_shapes import ENCODERS
from transformers import AutoModelForMaskedLM

import lingraft
from lingraft.errors import DataError, UnsupportedModelError
from lingraft.models import adapters, export
from lingraft.models.families import FAMILIES
from lingraft.models.graft import rebuild
from lingraft.models.loading import own_tensors
from lingraft.models.modules import MODULES, Stack, adapter_width
from lingraft.models.packed import PackedModel, assemble, check_isolation
from lingraft.models.parts import (
    part_of,
    sizes_by_part,
    tied_once,
)
from lingraft.models.rows import pack
from lingraft.models.source import load_model
from lingraft.pretrained import checksums
from lingraft.training.loop import train_phase

BASE = Stack(FAMILIES["roberta"], 12, 768, 7_087_872)
ADAPTERS = MODULES["adapters"]
every_family = pytest.mark.parametrize("family", ENCODERS)
# With biases in every projection, so that a constant can be added to its output.
BIASES = {"modernbert": {"attention_bias": True, "mlp_bias": True}}
PROJECTIONS = {"modernbert": ("attn.Wo", "mlp.Wo")}


@pytest.fixture
def adapted_model(tiny_model):
    """A tiny model with adapters of width 4."""

    def made(family, width=4, seed=0, **changes):
        model = tiny_model(family, **changes)
        adapters.insert(model, FAMILIES[family], width, seed)
        return model.eval()

    return made


@torch.no_grad()
def logits(model):
    ids = torch.randint(5, 300, (2, 12), generator=torch.Generator().manual_seed(0))
    return model.eval()(input_ids=ids, attention_mask=torch.ones_like(ids)).logits


@torch.no_grad()
def enlarge(model):
    """Give the adapters weights that matter."""
    generator = torch.Generator().manual_seed(9)
    for tensor in own_tensors(model, ADAPTERS).values():
        tensor.normal_(0.0, 0.3, generator=generator)
    return model


def test_the_width_that_matches_two_translation_layers_of_roberta_base_is_384():
    width = adapter_width("matched", BASE)
    assert width == 384
    adapter = 2 * width * 768 + width + 768
    assert (24 * adapter, 2 * BASE.layer_parameters) == (14_183_424, 14_175_744)


def test_a_width_that_is_given_is_taken():
    assert [adapter_width(wanted, BASE) for wanted in (0, 64)] == [0, 64]


@every_family
def test_two_adapters_stand_in_every_layer(family, adapted_model):
    model = adapted_model(family, width=4)
    width = model.config.hidden_size
    sizes = {name: tensor.numel() for name, tensor in own_tensors(model, ADAPTERS).items()}
    assert len(sizes) == 2 * 2 * 4
    assert sum(sizes.values()) == 2 * 2 * (2 * 4 * width + 4 + width)


@every_family
def test_fresh_adapters_are_small_cut_and_without_bias(family, adapted_model):
    for name, tensor in own_tensors(adapted_model(family, width=64), ADAPTERS).items():
        if name.endswith("bias"):
            assert not tensor.any()
        else:
            assert 0 < float(tensor.abs().max()) <= 2e-3
            assert 8e-4 < float(tensor.std()) < 9.5e-4  # of a normal cut at two deviations: 0.88


@every_family
def test_the_seed_decides_fresh_adapters(family, adapted_model):
    first, again, other = (own_tensors(adapted_model(family, seed=s), ADAPTERS) for s in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[n], other[n]) for n in first if n.endswith("weight"))


@every_family
def test_fresh_adapters_hardly_change_the_logits_and_without_up_projection_not_at_all(
    family, adapted_model, tiny_model
):
    expected = logits(tiny_model(family))
    model = adapted_model(family)
    assert 0 < float((logits(model) - expected).abs().max()) < 1e-3
    with torch.no_grad():
        for name, tensor in own_tensors(model, ADAPTERS).items():
            if ".up." in name:
                tensor.zero_()
    assert torch.equal(logits(model), expected)


@every_family
@pytest.mark.parametrize("site", [0, 1])
def test_an_adapter_that_adds_a_constant_is_a_bias_of_the_projection_before_it(
    family, site, adapted_model, tiny_model
):
    changes = BIASES.get(family, {})
    projections = PROJECTIONS.get(family, ("attention.output.dense", "output.dense"))
    ours, theirs = adapted_model(family, **changes), tiny_model(family, **changes)
    before = logits(theirs)
    record = FAMILIES[family]
    with torch.no_grad():
        for tensor in own_tensors(ours, ADAPTERS).values():
            tensor.zero_()
        for index in range(2):
            layer = f"{record.layers}.{index}."
            bias = theirs.get_parameter(f"{layer}{projections[site]}.bias")
            constant = torch.linspace(-1, 1, len(bias))
            bias.add_(constant)
            ours.get_parameter(f"{layer}{record.residual_sites[site]}.adapter.up.bias").copy_(
                constant
            )
    assert not torch.allclose(logits(theirs), before, atol=1e-2)
    torch.testing.assert_close(logits(ours), logits(theirs), atol=1e-5, rtol=1e-5)


@every_family
def test_adapters_are_a_part_of_their_own_and_the_parts_add_up(family, adapted_model):
    model = adapted_model(family)
    record, tensors = FAMILIES[family], model.state_dict()
    ours = {name for name in tensors if part_of(name, record, frozenset({0})) == "adapters"}
    assert ours == set(own_tensors(model, ADAPTERS))
    sizes = {name: tensors[name].numel() for name in tied_once(tensors, record)}
    totals = sizes_by_part(sizes, record, frozenset())
    assert sum(totals.values()) == sum(p.numel() for p in model.parameters())
    assert totals["adapters"] == sum(tensors[name].numel() for name in ours)


@every_family
def test_packed_rows_give_the_logits_of_single_sentences_with_adapters(
    family, adapted_model, tiny_tokens
):
    model, tokens = enlarge(adapted_model(family)), tiny_tokens(12, 3, 28)
    sentences = tokens.rows(range(12))
    rows, width = pack(tokens.lengths, 32)
    batch = assemble(sentences, [np.arange(len(s)) for s in sentences], sentences, rows, width, 1)
    with torch.no_grad():
        alone = [
            model(input_ids=torch.from_numpy(sentences[i].astype(np.int64))[None]).logits[0]
            for row in rows
            for i in row
        ]
        packed = PackedModel(model, FAMILIES[family])
        torch.testing.assert_close(packed.logits(batch), torch.cat(alone), atol=1e-4, rtol=1e-4)
    assert check_isolation(packed, pad_id=1) < 1e-4


@every_family
def test_a_saved_model_comes_back_with_its_adapters_bit_for_bit(family, adapted_model, tmp_path):
    model = enlarge(adapted_model(family))
    export.write_model(model, tmp_path)
    for again in (load_model(str(tmp_path)).model, lingraft.load(tmp_path)):
        assert torch.equal(logits(again), logits(model))
    export.check_reload(model, tmp_path)
    assert json.loads((tmp_path / "adapters.json").read_text())["width"] == 4


@every_family
def test_stock_transformers_stops_instead_of_loading_another_model(family, adapted_model, tmp_path):
    export.save(adapted_model(family), tmp_path)
    with pytest.raises(OSError, match=r"no file named model\.safetensors"):
        AutoModelForMaskedLM.from_pretrained(tmp_path)


@every_family
def test_the_weights_without_adapters_are_a_whole_stock_model(
    family, adapted_model, tiny_model, tmp_path
):
    export.save(adapted_model(family), tmp_path)
    stock, info = AutoModelForMaskedLM.from_pretrained(
        tmp_path, variant="without-adapters", output_loading_info=True
    )
    assert not any(info.values()), info
    assert torch.equal(logits(stock), logits(tiny_model(family)))


def test_a_checkpoint_that_lost_its_adapters_is_refused(adapted_model, tmp_path):
    export.save(adapted_model("bert"), tmp_path)
    (tmp_path / "adapters.safetensors").unlink()
    (tmp_path / checksums.FILE).unlink()
    with pytest.raises(DataError, match=r"adapters\.safetensors does not hold the adapters"):
        load_model(str(tmp_path))


def test_adapters_of_another_width_are_refused(adapted_model, tmp_path):
    export.save(adapted_model("bert"), tmp_path)
    settings = json.loads((tmp_path / "adapters.json").read_text())
    (tmp_path / "adapters.json").write_text(json.dumps(settings | {"width": 5}))
    with pytest.raises(DataError, match="does not hold the adapters"):
        load_model(str(tmp_path))


def test_broken_adapters_are_refused(adapted_model, tmp_path):
    export.save(adapted_model("bert"), tmp_path)
    (tmp_path / "adapters.safetensors").write_bytes(b"no tensors")
    (tmp_path / checksums.FILE).unlink()
    with pytest.raises(DataError, match="the adapters are broken"):
        load_model(str(tmp_path))


def test_an_export_whose_adapters_are_others_does_not_pass_the_check(adapted_model, tmp_path):
    model = enlarge(adapted_model("bert"))
    export.save(model, tmp_path)
    path = tmp_path / "adapters.safetensors"
    save_file({name: tensor + 0.5 for name, tensor in load_file(path).items()}, path)
    (tmp_path / checksums.FILE).unlink()
    with pytest.raises(DataError, match="gives other logits"):
        export.check_reload(model, tmp_path)


def test_a_source_with_adapters_is_refused(adapted_model):
    with pytest.raises(UnsupportedModelError, match="the source has adapters"):
        rebuild(adapted_model("bert"), FAMILIES["bert"], [0, 1], config_changes={}, seed=0)


def test_a_phase_that_trains_adapters_alone_leaves_the_rest_bit_identical(
    adapted_model, tiny_job, accelerator
):
    model = adapted_model("roberta")
    before = {name: tensor.clone() for name, tensor in model.named_parameters()}
    result = train_phase(tiny_job(phase={"train": ["adapters"]}), model, accelerator)
    changed = {n for n, p in model.named_parameters() if not torch.equal(p.detach(), before[n])}
    assert changed == set(own_tensors(model, ADAPTERS))
    assert result["trainable_parameters"] == sum(before[name].numel() for name in changed)


def test_a_phase_with_adapters_goes_on_from_its_checkpoint_to_the_same_bits(
    adapted_model, tiny_job, accelerator
):
    from lingraft.training.data import Batcher

    steps = {"budget": {"value": 6}, "optimizer": {"learning_rate": 0.01}}
    dropout = {"hidden_dropout_prob": 0.1}
    whole = adapted_model("roberta", **dropout)
    train_phase(tiny_job("straight", phase=steps), whole, accelerator)
    broken = tiny_job("killed", phase=steps, hardware={"checkpoint_steps": 2})
    with killed_at(5, Batcher, "step", of_training), pytest.raises(KeyboardInterrupt):
        train_phase(broken, adapted_model("roberta", **dropout), accelerator)
    again = adapted_model("roberta", **dropout)
    train_phase(broken, again, accelerator)
    ours, theirs = again.state_dict(), whole.state_dict()
    assert any(map(ADAPTERS.owns, ours))
    assert [name for name in theirs if not torch.equal(ours[name], theirs[name])] == []
