"""Modules: bottleneck adapters, and VECO's plug-in cross-attention: where it stands, what it is;
unplugged it is not there."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForMaskedLM, XLMRobertaForCausalLM
from with_module import with_module

from lingraft.errors import UnsupportedModelError
from lingraft.models import adapters, cross_attention, export
from lingraft.models.cross_attention import MASK, MEMORY, check_pairs, partners
from lingraft.models.families import FAMILIES
from lingraft.models.loading import own_tensors
from lingraft.models.modules import MODULES, Stack, adapter_width
from lingraft.models.packed import PackedModel

BASE = Stack(FAMILIES["roberta"], 12, 768, 7_087_872)
ADAPTERS = MODULES["adapters"]
bert_and_modernbert = pytest.mark.parametrize("family", ["bert", "modernbert"])
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


def test_the_width_that_matches_two_translation_layers_of_roberta_base_is_384():
    width = adapter_width("matched", BASE)
    assert width == 384
    adapter = 2 * width * 768 + width + 768
    assert (24 * adapter, 2 * BASE.layer_parameters) == (14_183_424, 14_175_744)


@bert_and_modernbert
def test_fresh_adapters_are_small_cut_without_bias_and_fixed_by_the_seed(family, adapted_model):
    first, again, other = (
        own_tensors(adapted_model(family, width=64, seed=seed), ADAPTERS) for seed in (1, 1, 2)
    )
    assert len(first) == 2 * 2 * 4
    for name, tensor in first.items():
        assert torch.equal(tensor, again[name])
        if name.endswith("bias"):
            assert not tensor.any()
        else:
            assert not torch.equal(tensor, other[name])
            assert 0 < float(tensor.abs().max()) <= 2e-3
            assert 8e-4 < float(tensor.std()) < 9.5e-4  # of a normal cut at two deviations: 0.88


@bert_and_modernbert
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


@bert_and_modernbert
def test_the_weights_without_adapters_are_a_whole_stock_model(
    family, adapted_model, tiny_model, tmp_path
):
    export.save(adapted_model(family), tmp_path)
    with pytest.raises(OSError, match=r"no file named model\.safetensors"):
        AutoModelForMaskedLM.from_pretrained(tmp_path)
    stock, info = AutoModelForMaskedLM.from_pretrained(
        tmp_path, variant="without-adapters", output_loading_info=True
    )
    assert not any(info.values()), info
    assert torch.equal(logits(stock), logits(tiny_model(family)))


every_bert = pytest.mark.parametrize("family", ["bert", "electra"])
IDS = torch.randint(5, 300, (2, 12), generator=torch.Generator().manual_seed(0))


@torch.no_grad()
@every_bert
def test_unplugged_the_model_is_the_encoder_bit_for_bit(family, tiny_model):
    ours, stock = with_module(tiny_model(family), family), tiny_model(family)
    a, b = (m(input_ids=IDS, output_hidden_states=True) for m in (ours, stock))
    assert torch.equal(a.logits, b.logits)
    assert all(torch.equal(*both) for both in zip(a.hidden_states, b.hidden_states, strict=True))


@torch.no_grad()
def test_plugged_in_it_is_the_cross_attention_of_transformers_own_decoder(tiny_model):
    ours = with_module(tiny_model("xlm-roberta"), "xlm-roberta")
    decodes = {"is_decoder": True, "add_cross_attention": True}
    config = AutoConfig.for_model(**ours.config.to_dict() | decodes)
    config._attn_implementation = "eager"
    theirs = XLMRobertaForCausalLM(config).eval()
    assert set(theirs.state_dict()) == set(ours.state_dict())
    theirs.load_state_dict(ours.state_dict())
    memory = torch.randn(2, 7, 32, generator=torch.Generator().manual_seed(1))
    states = theirs.roberta.embeddings(IDS)
    for layer in theirs.roberta.encoder.layer:  # layer by layer: the whole model would be causal
        states = layer(states, None, memory, None)
    plug = {MEMORY: memory, MASK: torch.zeros(2, 1, 12, 7)}
    plugged = ours.base_model(input_ids=IDS, **plug).last_hidden_state
    torch.testing.assert_close(plugged, states, atol=2e-6, rtol=1e-5)


def test_the_sides_of_a_pair_are_partners_and_padding_its_own():
    assert partners(torch.tensor([[1, 1, 2, 3, 4, 4, 0]])).tolist() == [[2, 2, 1, 4, 3, 3, 0]]


@every_bert
def test_pairs_in_one_row_do_not_see_each_other(family, tiny_model):
    packed = PackedModel(with_module(tiny_model(family), family), FAMILIES[family])
    assert check_pairs(packed, 1) < 1e-4


@pytest.mark.parametrize("leak", [torch.ones_like, torch.clone], ids=["all", "own"])
def test_a_leak_between_pairs_is_refused(leak, tiny_model, monkeypatch):
    packed = PackedModel(with_module(tiny_model("roberta"), "roberta"), FAMILIES["roberta"])
    monkeypatch.setattr(cross_attention, "partners", leak)
    with pytest.raises(UnsupportedModelError, match=r"see each other .*, or no partner"):
        check_pairs(packed, 1)
