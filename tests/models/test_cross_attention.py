"""VECO's plug-in cross-attention: where it stands, what it is; unplugged it is not there."""

import dataclasses

import pytest
import torch
from tiny_shapes import ENCODERS
from torch.nn import functional
from transformers import AutoConfig, AutoModelForMaskedLM, XLMRobertaForCausalLM

import lingraft
from lingraft.errors import DataError, UnsupportedModelError
from lingraft.models import cross_attention, loading
from lingraft.models.cross_attention import MASK, MEMORY
from lingraft.models.families import FAMILIES
from lingraft.models.modules import MODULES
from lingraft.models.packed import PackedModel
from lingraft.models.paired import check_pairs, partners

CROSS = MODULES["cross_attention"]
every_family = pytest.mark.parametrize("family", ENCODERS)
IDS = torch.randint(5, 300, (2, 12), generator=torch.Generator().manual_seed(0))
PAPER = 662


@pytest.fixture
def with_cross_attention(tiny_model):
    """A tiny model that has it, with weights that matter."""

    def made(family, **changes):
        model = tiny_model(family, **changes)
        cross_attention.insert(model, FAMILIES[family], len(layers_of(model, family)), 0)
        generator = torch.Generator().manual_seed(9)
        for tensor in loading.own_tensors(model, CROSS).values():
            tensor.normal_(0.0, 0.3, generator=generator)
        return model.eval()

    return made


def layers_of(model, family):
    return list(model.get_submodule(FAMILIES[family].layers).children())


@torch.no_grad()
@every_family
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_unplugged_the_model_is_the_encoder_bit_for_bit(
    family, attention, with_cross_attention, tiny_model
):
    ours, stock = with_cross_attention(family), tiny_model(family)
    for model in (ours, stock):
        model.set_attn_implementation(attention)
    a, b = (m(input_ids=IDS, output_hidden_states=True) for m in (ours, stock))
    assert torch.equal(a.logits, b.logits)
    assert all(torch.equal(*both) for both in zip(a.hidden_states, b.hidden_states, strict=True))


@torch.no_grad()
def test_plugged_in_it_is_the_cross_attention_of_transformers_own_decoder(with_cross_attention):
    ours = with_cross_attention("xlm-roberta")
    config = AutoConfig.for_model(
        **ours.config.to_dict() | {"is_decoder": True, "add_cross_attention": True}
    )
    config._attn_implementation = "eager"
    theirs = XLMRobertaForCausalLM(config).eval()
    assert set(theirs.state_dict()) == set(ours.state_dict())
    theirs.load_state_dict(ours.state_dict())
    memory = torch.randn(2, 7, 32, generator=torch.Generator().manual_seed(1))
    states = theirs.roberta.embeddings(IDS)
    for layer in theirs.roberta.encoder.layer:  # layer by layer: the whole model would be causal
        states = layer(states, None, memory, None)
    plugged = ours.base_model(
        input_ids=IDS, **{MEMORY: memory, MASK: torch.zeros(2, 1, 12, 7)}
    ).last_hidden_state
    torch.testing.assert_close(plugged, states, atol=2e-6, rtol=1e-5)


@torch.no_grad()
def test_in_a_pre_norm_family_it_reads_the_norm_of_the_stream_and_adds_to_it(with_cross_attention):
    model = with_cross_attention("modernbert")
    layer = layers_of(model, "modernbert")[1]
    cross, seen = layer.crossattention, {}
    layer.register_forward_pre_hook(lambda _, inputs: seen.update(stream=inputs[0]))
    layer.mlp_norm.register_forward_pre_hook(lambda _, inputs: seen.update(behind=inputs[0]))
    memory = torch.randn(2, 7, 32, generator=torch.Generator().manual_seed(1))
    model.base_model(input_ids=IDS)
    plain = seen["behind"] - seen["stream"]  # what self-attention adds, by itself
    seen_alone = dict(seen)
    layers_of(model, "modernbert")[0].crossattention.output.dense.weight.zero_()
    layers_of(model, "modernbert")[0].crossattention.output.dense.bias.zero_()
    model.base_model(input_ids=IDS, **{MEMORY: memory, MASK: torch.zeros(2, 1, 12, 7)})
    torch.testing.assert_close(seen["stream"], seen_alone["stream"])
    before = seen_alone["stream"] + plain
    queries = cross.self.query(cross.output.LayerNorm(before)).unflatten(-1, (2, 16))
    keys, values = (f(memory).unflatten(-1, (2, 16)) for f in (cross.self.key, cross.self.value))
    scores = torch.einsum("nqhk,nshk->nhqs", queries, keys) / 4
    mixed = torch.einsum("nhqs,nshk->nqhk", scores.softmax(-1), values).flatten(-2)
    torch.testing.assert_close(
        seen["behind"], before + cross.output.dense(mixed), atol=2e-6, rtol=1e-5
    )


def test_fresh_weights_are_drawn_as_the_authors_do_and_the_seed_decides(tiny_model):
    def fresh(seed):
        model = tiny_model("roberta", hidden_size=64)
        cross_attention.insert(model, FAMILIES["roberta"], 2, seed)
        return loading.own_tensors(model, CROSS)

    for name, tensor in fresh(1).items():
        if "LayerNorm" in name:
            assert tensor.unique().tolist() == [float(name.endswith("weight"))]
        elif name.endswith("bias"):
            assert not tensor.any()
        else:
            assert float(tensor.std()) == pytest.approx(0.02, rel=0.05)
    assert all(
        torch.equal(*both) for both in zip(fresh(1).values(), fresh(1).values(), strict=True)
    )
    assert not torch.equal(*(next(iter(fresh(seed).values())) for seed in (1, 2)))


def test_xlm_r_large_with_it_has_as_many_parameters_as_the_paper_says():
    config = AutoConfig.for_model(
        "xlm-roberta", vocab_size=250_002, hidden_size=1_024, num_hidden_layers=24,
        num_attention_heads=16, intermediate_size=4_096, max_position_embeddings=514,
        type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1,
    )  # fmt: skip
    with torch.device("meta"):
        model = AutoModelForMaskedLM.from_config(config)
    plain = sum(p.numel() for p in model.parameters())
    with torch.device("meta"):
        for layer in model.roberta.encoder.layer:
            site = FAMILIES["xlm-roberta"].cross_site
            layer.add_module("crossattention", cross_attention.CrossAttention(config, site))
    ours = sum(p.numel() for p in loading.own_tensors(model, CROSS).values())
    assert ours == 24 * (4 * (1_024**2 + 1_024) + 2 * 1_024) == 100_810_752
    assert plain + ours == sum(p.numel() for p in model.parameters()) == 660_953_234
    pooler = 1_024**2 + 1_024  # the checkpoint has one; the class for masked words leaves it out
    assert round((plain + ours + pooler) / 1e6) == PAPER


@torch.no_grad()
@every_family
def test_the_export_is_a_stock_encoder_and_lingraft_loads_it_with_the_module(
    family, with_cross_attention, tiny_model, tmp_path
):
    model = with_cross_attention(family)
    loading.save(model, tmp_path)
    stock, info = AutoModelForMaskedLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values())
    assert torch.equal(stock(input_ids=IDS).logits, tiny_model(family)(input_ids=IDS).logits)
    again = lingraft.load(str(tmp_path))
    ours, theirs = (loading.own_tensors(m, CROSS) for m in (again, model))
    assert ours.keys() == theirs.keys() != set()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_settings_for_another_depth_are_refused(with_cross_attention, tmp_path):
    loading.save(with_cross_attention("bert"), tmp_path)
    path = tmp_path / "cross_attention.json"
    path.write_text(path.read_text().replace('"layers": 2', '"layers": 3'))
    with pytest.raises(DataError, match="for 3 layers does not fit a model of 2"):
        loading.load(str(tmp_path))


def test_a_family_without_a_place_for_it_is_refused(tiny_model):
    for changes in ({"cross_site": None}, {"kind": "causal"}):
        record = dataclasses.replace(FAMILIES["bert"], **changes)
        with pytest.raises(UnsupportedModelError, match="a bert model has no known place for it"):
            cross_attention.insert(tiny_model("bert"), record, 2)


def test_the_sides_of_a_pair_are_partners_and_padding_its_own():
    assert partners(torch.tensor([[1, 1, 2, 3, 4, 4, 0]])).tolist() == [[2, 2, 1, 4, 3, 3, 0]]


@every_family
def test_pairs_in_one_row_do_not_see_each_other(family, with_cross_attention):
    packed = PackedModel(with_cross_attention(family), FAMILIES[family])
    assert check_pairs(packed, 1) < 1e-4


@pytest.mark.parametrize("leak", ["all", "own"])
def test_a_leak_between_pairs_is_refused(leak, with_cross_attention, monkeypatch):
    import lingraft.models.paired as paired

    packed = PackedModel(with_cross_attention("roberta"), FAMILIES["roberta"])
    if leak == "all":
        monkeypatch.setattr(paired, "partners", torch.ones_like)
    else:
        monkeypatch.setattr(paired, "partners", lambda segments: segments)
    message = "see each other" if leak == "all" else "does not see the partner"
    with pytest.raises(UnsupportedModelError, match=message):
        check_pairs(packed, 1)


@torch.no_grad()
def test_plugged_in_attention_sees_both_sides_of_an_unpadded_row(with_cross_attention):
    model = with_cross_attention("roberta")
    model.set_attn_implementation("sdpa")
    memory = torch.randn(1, 7, 32, generator=torch.Generator().manual_seed(1))
    other = IDS[:1].clone()
    other[0, -1] += 1
    first, second = (
        model.base_model(
            input_ids=ids, **{MEMORY: memory, MASK: torch.zeros(1, 1, 12, 7)}
        ).last_hidden_state[0, 0]
        for ids in (IDS[:1], other)
    )
    assert functional.mse_loss(first, second) > 0  # the first position sees the last
