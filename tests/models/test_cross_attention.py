"""VECO's plug-in cross-attention: where it stands, what it is; unplugged it is not there."""

import pytest
import torch
from transformers import AutoConfig, XLMRobertaForCausalLM

from lingraft.errors import UnsupportedModelError
from lingraft.models import cross_attention, loading
from lingraft.models.cross_attention import MASK, MEMORY
from lingraft.models.families import FAMILIES
from lingraft.models.modules import MODULES
from lingraft.models.packed import PackedModel
from lingraft.models.paired import check_pairs, partners

CROSS = MODULES["cross_attention"]
every_family = pytest.mark.parametrize("family", ["bert", "electra"])
IDS = torch.randint(5, 300, (2, 12), generator=torch.Generator().manual_seed(0))


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
def test_unplugged_the_model_is_the_encoder_bit_for_bit(family, with_cross_attention, tiny_model):
    ours, stock = with_cross_attention(family), tiny_model(family)
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
    with pytest.raises(UnsupportedModelError, match=r"see each other .*, or no partner"):
        check_pairs(packed, 1)
