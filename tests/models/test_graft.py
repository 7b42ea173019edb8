import pytest
import torch
from transformers import RobertaConfig, RobertaForMaskedLM

from lingraft.errors import UnsupportedModelError
from lingraft.models.families import FAMILIES
from lingraft.models.graft import VocabularyTensors, rebuild
from lingraft.models.parts import layer_index
from lingraft.models.plans import layer_plan


def test_the_plan_puts_fresh_layers_around_those_of_the_source():
    assert layer_plan(3, 1, 2, "random") == [None, 0, 1, 2, None, None]
    assert layer_plan(3, 1, 2, "copy") == [0, 0, 1, 2, 2, 2]
    assert layer_plan(2, 0, 0, "random") == [0, 1]


def test_other_settings_of_the_source_stay(tiny_model):
    source = tiny_model("bert", layer_norm_eps=1e-5, hidden_act="relu")
    target, _ = rebuild(source, FAMILIES["bert"], [None, 0, 1], config_changes={}, seed=0)
    assert target.config.layer_norm_eps == 1e-5
    assert target.config.hidden_act == "relu"
    assert target.config.num_hidden_layers == 3
    assert source.config.num_hidden_layers == 2


def test_grafting_leaves_the_global_random_state_alone(tiny_model):
    source = tiny_model("bert")
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    rebuild(source, FAMILIES["bert"], [None, 0, 1], config_changes={}, seed=0)
    assert torch.equal(torch.rand(3), expected)


def test_tensors_that_the_checkpoint_lacked_start_fresh_with_a_note(tiny_model):
    source, name = tiny_model("bert"), "cls.predictions.transform.dense.weight"
    target, account = rebuild(
        source, FAMILIES["bert"], [0, 1], config_changes={}, seed=0, missing={name}
    )
    kinds = {entry.tensor: entry.kind for entry in account.entries}
    assert kinds.pop(name) == "fresh"
    assert set(kinds.values()) == {"copied"}
    assert account.notes == [f"{name}: missing in the source checkpoint, starts fresh"]
    assert not torch.equal(target.state_dict()[name], source.state_dict()[name])


def test_a_source_of_other_sizes_than_its_config_says_is_refused(tiny_model):
    source = tiny_model("bert")
    with pytest.raises(UnsupportedModelError, match="the family's record does not fit this model"):
        rebuild(source, FAMILIES["bert"], [0, 1], config_changes={"intermediate_size": 8}, seed=0)


def test_inserted_modernbert_layers_attend_as_their_neighbours_do(tiny_model):
    kinds = ["sliding_attention", "full_attention", "full_attention"]
    source = tiny_model("modernbert", num_hidden_layers=3, layer_types=kinds, local_attention=8)
    plan = layer_plan(3, 2, 1, "random")
    target, _ = rebuild(source, FAMILIES["modernbert"], plan, config_changes={}, seed=0)
    assert target.config.layer_types == ["sliding_attention"] * 3 + ["full_attention"] * 3
    windows = [layer.attn.sliding_window for layer in target.model.layers]
    assert [window is not None for window in windows] == [True] * 3 + [False] * 3
    assert source.config.layer_types == kinds


def test_modernberts_old_first_layer_gets_a_norm_near_the_identity(tiny_model):
    source = tiny_model("modernbert")
    target, account = rebuild(
        source, FAMILIES["modernbert"], [None, 0, 1], config_changes={}, seed=0
    )
    name = "model.layers.1.attn_norm.weight"
    gain = source.model.embeddings.norm.weight.detach()
    expected = float(gain.pow(2).mean().sqrt())
    weight = target.state_dict()[name]
    assert torch.allclose(weight, torch.full_like(weight, expected))
    assert expected != pytest.approx(1.0, abs=1e-4)
    entry = next(entry for entry in account.entries if entry.tensor == name)
    assert (entry.kind, entry.note) == ("fresh", f"stand-in norm, constant {expected:.4g}")
    assert len(account.notes) == 1
    assert account.notes[0].startswith(f"{name}: the source's first layer has no attention norm")


def test_the_stand_in_norm_returns_normalised_embeddings_unchanged(tiny_model):
    source = tiny_model("modernbert")
    with torch.no_grad():
        source.model.embeddings.norm.weight.fill_(1.7)
        source.model.embeddings.tok_embeddings.weight.mul_(10)  # far above the norms' epsilon
    target, _ = rebuild(source, FAMILIES["modernbert"], [None, 0, 1], config_changes={}, seed=0)
    embedded = target.eval().model.embeddings(torch.arange(20)[None])
    again = target.model.layers[1].attn_norm(embedded)
    torch.testing.assert_close(again, embedded, atol=2e-5, rtol=2e-5)


@pytest.fixture(scope="module")
def roberta_base():
    """XPT's source: RoBERTa-base's shape with random weights."""
    config = RobertaConfig(
        vocab_size=50_265, max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5
    )
    torch.manual_seed(0)
    return RobertaForMaskedLM(config).eval()


@pytest.fixture(scope="module")
def xpt(roberta_base):
    """XPT(roberta-base) with a vocabulary of 50,000."""
    rows = torch.randn(50_000, 768, generator=torch.Generator().manual_seed(1))
    target, _ = rebuild(
        roberta_base,
        FAMILIES["roberta"],
        layer_plan(12, 1, 1, "random"),
        config_changes={"vocab_size": 50_000},
        seed=0,
        vocabulary=VocabularyTensors(rows, torch.zeros(50_000)),
    )
    return target.eval()


@pytest.mark.slow
def test_xpt_of_roberta_base_has_exactly_138_669_392_parameters(xpt):
    assert sum(p.numel() for p in xpt.parameters()) == 138_669_392
    one_layer = [p for n, p in xpt.named_parameters() if layer_index(n, FAMILIES["roberta"]) == 0]
    assert sum(p.numel() for p in one_layer) == 7_087_872
    assert type(xpt) is RobertaForMaskedLM
    assert xpt.config.num_hidden_layers == 14


@pytest.mark.slow
@torch.no_grad()
def test_roberta_base_comes_back_bit_for_bit_from_xpt(xpt, roberta_base):
    tensors = roberta_base.state_dict()
    restored, _ = rebuild(
        xpt,
        FAMILIES["roberta"],
        list(range(1, 13)),
        config_changes={"vocab_size": 50_265},
        seed=5,
        vocabulary=VocabularyTensors(
            tensors["roberta.embeddings.word_embeddings.weight"], tensors["lm_head.bias"]
        ),
    )
    ids = torch.randint(3, 50_000, (2, 9), generator=torch.Generator().manual_seed(2))
    assert torch.equal(restored.eval()(ids).logits, roberta_base(ids).logits)
    assert not torch.allclose(xpt(ids).logits[..., :50_000], roberta_base(ids).logits[..., :50_000])
