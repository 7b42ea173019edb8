"""Encoder–decoders: the packed pass, heads of their own, special ids, what is exported."""

import json

import numpy as np
import pytest
import torch
from phase_rows import tokens_of

from lingraft.models import export, source
from lingraft.models.families import FAMILIES
from lingraft.models.graft import VocabularyTensors, is_tied, rebuild, untie
from lingraft.models.packed import check_isolation
from lingraft.models.parts import layer_plans
from lingraft.models.stacks import packed_model
from lingraft.recipe import Masking, Tokenizer
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.frame import code_for, speak
from lingraft.tokenizer.vocabulary import Vocabulary
from lingraft.training.data import Batcher
from lingraft.training.objectives.common import TokenIds
from lingraft.training.objectives.denoise import DENOISE

STACKS = [name for name, record in FAMILIES.items() if record.decoder_list]


@pytest.fixture
def batch_of(tiny_tokenizer, tiny_text):
    """A step of denoising, and its vocabulary, for a family's tokenizer."""

    def made(family):
        tokenizer, record = tiny_tokenizer(family), FAMILIES[family]
        tokens = tokens_of(tokenizer(list(tiny_text[:6]))["input_ids"])
        ids = TokenIds.of(tokenizer)
        masking = Masking(scheme=record.corruption, rate=0.3)
        batcher = Batcher(tokens, DENOISE, ids, masking, 128, 100_000, 0, "phase-1")
        return batcher.step(np.arange(6), 0).micro_batches[0], ids

    return made


@pytest.mark.parametrize("family", STACKS)
def test_the_packed_loss_is_that_of_the_stock_class_with_labels(family, tiny_model, batch_of):
    batch, ids = batch_of(family)
    model = tiny_model(family)
    expected = 0.0
    for row in range(len(batch.input_ids_NT)):
        for segment in range(1, int(batch.segments_NT[row].max()) + 1):
            read = batch.input_ids_NT[row][batch.segments_NT[row] == segment][None]
            labels = batch.target_ids_NU[row][batch.target_segments_NU[row] == segment][None]
            with torch.no_grad():
                expected += float(model(input_ids=read, labels=labels).loss) * labels.numel()
    with torch.no_grad():
        found = DENOISE.loss(packed_model(tiny_model(family), FAMILIES[family]), batch)
    assert int(batch.segments_NT.max()) > 1
    assert float(found["denoise"].nats) == pytest.approx(expected, rel=1e-4)
    assert found["denoise"].positions == int((batch.target_segments_NU > 0).sum())
    assert ids.pad not in batch.targets_M


def grafted(family, model, tokenizers):
    """A model with a Korean vocabulary and translation layers, and its tokenizer."""
    theirs = tokenizers(family)
    ours = tokenizer_files.train(
        Tokenizer(vocab_size=500, character_coverage=1.0),
        theirs,
        lambda: ["나는 학교에 가서 친구를 만나고 집에 와서 책을 읽었다."] * 4,
        pad_id=model.config.pad_token_id if FAMILIES[family].pad_decides_positions else None,
        seed=0,
    )
    if (code := code_for(theirs, None, "ko")) is not None:
        speak(ours, code)
    vocabulary, generator = Vocabulary.of(ours), torch.Generator().manual_seed(2)
    drawn = [torch.randn(vocabulary.size, 32, generator=generator) for _ in range(2)]
    record, theirs = FAMILIES[family], Vocabulary.of(theirs)
    changes = export.vocabulary_settings(model.config, vocabulary, theirs)
    target, _ = rebuild(
        model,
        record,
        layer_plans(model.config, record, 1, 1, "random"),
        config_changes=changes | export.generation_settings(model, vocabulary, theirs),
        seed=0,
        vocabulary=VocabularyTensors(
            drawn[0], torch.zeros(vocabulary.size), "", None if is_tied(model) else drawn[1]
        ),
    )
    return target.eval(), ours


@pytest.fixture(scope="module")
def exported(tiny_model, tiny_tokenizer, tmp_path_factory):
    """Grafts of all families with two stacks, written to folders of their names."""
    root, made = tmp_path_factory.mktemp("exported"), {}
    for family in STACKS:
        source = tiny_model(family)
        if family == "mbart":
            english = tiny_tokenizer(family).convert_tokens_to_ids("en_XX")
            source.generation_config.forced_bos_token_id = english
        model, tokenizer = grafted(family, source, tiny_tokenizer)
        export.write_model(model, root / family)
        tokenizer_files.save(tokenizer, root / family)
        export.check_reload(model, root / family)
        made[family] = (model, tokenizer)
    return root, made


@pytest.mark.parametrize("family", STACKS)
def test_special_ids_are_those_of_the_new_vocabulary_in_both_configurations(family, exported):
    root, made = exported
    tokenizer = made[family][1]
    start = tokenizer.pad_token_id if family in ("t5", "mt5") else tokenizer.eos_token_id
    for name in ("config.json", "generation_config.json"):
        settings = json.loads((root / family / name).read_text())
        assert settings["decoder_start_token_id"] == start
        assert settings["pad_token_id"] == tokenizer.pad_token_id
        assert settings["eos_token_id"] == tokenizer.eos_token_id


@pytest.mark.parametrize("family", ["t5", "mt5"])
def test_a_head_of_its_own_stays_one_and_the_older_transformers_is_told(
    family, tiny_model, tiny_tokenizer, tmp_path
):
    model = tiny_model(family, tie_word_embeddings=False)  # as T5 1.1's and mT5's on the Hub
    untie(model)
    with torch.no_grad():
        model.lm_head.weight.normal_(0.0, 0.1)
    target, _ = grafted(family, model, tiny_tokenizer)
    assert not is_tied(target)
    assert check_isolation(packed_model(target, FAMILIES[family]), 0) < 1e-4
    target.set_attn_implementation("sdpa")
    export.write_model(target, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["tie_word_embeddings"] is config.get("scale_decoder_outputs", False) is False
    export.check_reload(target, tmp_path)
    assert not is_tied(source.load_model(str(tmp_path)).model)
