import pytest
import torch
from transformers import RobertaConfig, RobertaForMaskedLM

from lingraft.models.families import FAMILIES
from lingraft.models.graft import VocabularyTensors, rebuild
from lingraft.models.parts import layer_index, layer_plan


def test_modernberts_old_first_layer_gets_a_norm_near_the_identity(tiny_model):
    source = tiny_model("modernbert")
    with torch.no_grad():
        source.model.embeddings.norm.weight.fill_(1.7)
        source.model.embeddings.tok_embeddings.weight.mul_(10)  # far above the norms' epsilon
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
    assert account.notes[0].startswith(f"{name}: the source's first layer has no attention norm")
    embedded = target.eval().model.embeddings(torch.arange(20)[None])
    again = target.model.layers[1].attn_norm(embedded)
    torch.testing.assert_close(again, embedded, atol=2e-5, rtol=2e-5)


def test_xpt_of_roberta_base_has_exactly_138_669_392_parameters():
    config = RobertaConfig(vocab_size=50_265, max_position_embeddings=514, type_vocab_size=1)
    with torch.device("meta"):
        source = RobertaForMaskedLM(config)
        rows = VocabularyTensors(torch.zeros(50_000, 768), torch.zeros(50_000))
        changes = {"vocab_size": 50_000}
        plan = layer_plan(12, 1, 1, "random")
        xpt, _ = rebuild(
            source, FAMILIES["roberta"], plan, config_changes=changes, seed=0, vocabulary=rows
        )
    assert sum(p.numel() for p in xpt.parameters()) == 138_669_392
    one_layer = [p for n, p in xpt.named_parameters() if layer_index(n, FAMILIES["roberta"]) == 0]
    assert sum(p.numel() for p in one_layer) == 7_087_872
