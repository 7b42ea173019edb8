"""Causal models, and heads that are not tied."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from lingraft.errors import DataError
from lingraft.evaluation.scorer import Scorer
from lingraft.models import export
from lingraft.models.families import FAMILIES
from lingraft.models.graft import VocabularyTensors, rebuild
from lingraft.models.loading import stock_class
from lingraft.models.packed import PackedModel, check_isolation
from lingraft.models.parts import part_of, sizes_by_part, tied_once
from lingraft.models.plans import layer_plan
from lingraft.models.source import load_model
from lingraft.recipe.places import Places
from lingraft.training.loop import train_phase

LLAMA = FAMILIES["llama"]
SHAPE = {
    "vocab_size": 320,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": 1,
}
TIED = pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])


@pytest.fixture
def llama():
    """Builds a tiny Llama, its head tied or not."""

    def made(tied):
        config = AutoConfig.for_model("llama", **SHAPE, tie_word_embeddings=tied)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            return AutoModelForCausalLM.from_config(config).float().eval()

    return made


def drawn(shape, seed=5):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@TIED
def test_a_causal_model_is_grafted_onto_packed_saved_and_loaded(tied, llama, tmp_path):
    source = llama(tied)
    rows = VocabularyTensors(drawn((300, 32)), None, "drawn", None if tied else drawn((300, 32), 6))
    plan = layer_plan(2, 1, 1, "random")
    target, account = rebuild(
        source, LLAMA, plan, config_changes={"vocab_size": 300}, seed=0, vocabulary=rows
    )
    assert len(target.model.layers) == 4
    resized = {entry.tensor for entry in account.entries if entry.kind == "resized"}
    assert resized == {LLAMA.word_embeddings} | (set() if tied else {LLAMA.decoder})
    expected = rows.embeddings_VD if tied else rows.decoder_VD
    assert torch.equal(target.get_output_embeddings().weight, expected)
    assert check_isolation(PackedModel(target, LLAMA), pad_id=1) < 1e-4
    target.set_attn_implementation("sdpa")
    export.write_model(target, tmp_path)
    export.check_reload(target, tmp_path)
    loaded = load_model(str(tmp_path))
    assert type(loaded.model) is stock_class(source.config) is type(source)
    assert (loaded.family, loaded.missing) == (LLAMA, frozenset())


def test_a_position_of_a_causal_model_does_not_see_what_stands_behind_it(llama):
    packed = PackedModel(llama(tied=True), LLAMA)
    masks = packed.attention_masks(torch.tensor([[1, 1, 2, 2, 0]]), torch.float32)[0, 0] == 0
    seen = [row.nonzero().flatten().tolist() for row in masks]
    assert seen == [[0], [0, 1], [2], [2, 3], [4]]


def test_a_causal_model_is_not_scored_on_masked_tokens(llama, tmp_path):
    llama(tied=True).save_pretrained(tmp_path)
    with pytest.raises(DataError, match="has no masked language model"):
        Scorer.load(str(tmp_path), pad_id=1)


def test_special_tokens_that_a_vocabulary_lacks_are_none_in_a_causal_configuration(llama):
    assert llama(tied=True).config.bos_token_id == 1
    ids = export.special_ids("llama", {"eos": 3})
    assert ids == {"pad_token_id": None, "bos_token_id": None, "eos_token_id": 3}


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert"])
def test_an_untied_head_is_a_matrix_of_its_own_that_trains_with_the_embeddings(
    family, tiny_model, tiny_job, accelerator
):
    source, record = tiny_model(family, tie_word_embeddings=False), FAMILIES[family]
    rows = VocabularyTensors(drawn((320, 32)), drawn(320, 7), "drawn", drawn((320, 32), 6))
    target, _ = rebuild(
        source, record, layer_plan(2, 1, 0, "random"), config_changes={}, seed=0, vocabulary=rows
    )
    tensors = target.state_dict()
    assert torch.equal(tensors[record.decoder], rows.decoder_VD)
    assert all(torch.equal(tensors[name], rows.bias_V) for name in record.output_bias)
    names = tied_once(tensors, record, tied=False)
    sizes = sizes_by_part(
        {name: tensors[name].numel() for name in names}, record, Places(1, 0).inserted(3)
    )
    assert sum(sizes.values()) == sum(parameter.numel() for parameter in target.parameters())
    assert sizes["embeddings"] == 2 * 320 * 32
    before = {name: tensor.clone() for name, tensor in tensors.items()}
    phase = {"train": ["embeddings"], "optimizer": {"learning_rate": 0.01}}
    train_phase(tiny_job(phase=phase, family=record), target, accelerator)
    moved = {name for name, tensor in target.state_dict().items() if not tensor.equal(before[name])}
    assert moved == {record.word_embeddings, record.decoder}
    train_phase(tiny_job("all", phase={"train": ["all"]}, family=record), target, accelerator)
    fixed = {name for name, one in target.named_parameters() if not one.requires_grad}
    assert fixed == {*record.output_bias[:-1]}  # the model has it, and never reads it
    assert {part_of(name, record, frozenset()) for name in moved} == {"embeddings"}
