"""Models of a run with the source's parts put back: what they hold, and their fine-tuning."""

import shutil
from itertools import product

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from lingraft.finetuning import source_parts
from lingraft.finetuning.recipe import Finetune
from lingraft.models.families import FAMILIES

OF_PHASES = product(("1", "2"), ("target", "source"), ("inserted", "not-inserted"))
LABELS = ["source", *(f"phase-{n}.{layers}.{whose}-vocab" for n, whose, layers in OF_PHASES)]
LABELS += ["random.target-vocab", "random.source-vocab"]
TEXT = "The quick brown fox, 나는 학교에"


def recipe(run, **changes):
    return Finetune(models=(str(run),), tasks=("glue-sst2",), restore_source=True, **changes)


@pytest.fixture
def built(tmp_path):
    """Models of a run by label: `built(run)`; their folders are gone at the end."""

    def made(run):
        with source_parts.built(recipe(run), tmp_path, tmp_path) as parts:
            assert list(parts.labels) == LABELS
            kept = shutil.copytree(tmp_path / source_parts.MODELS, tmp_path / "kept" / run.name)
        assert not [path for path in (tmp_path / source_parts.MODELS).iterdir() if path.is_dir()]
        models = {}
        for label in LABELS:
            how = {"output_loading_info": True}
            models[label], info = AutoModelForMaskedLM.from_pretrained(kept / label, **how)
            assert not any(info.values())
        return models, kept

    return made


@torch.no_grad()
def logits(model):
    ids = torch.randint(5, 300, (2, 12), generator=torch.Generator().manual_seed(0))
    return model.eval()(input_ids=ids, attention_mask=torch.ones_like(ids)).logits


@pytest.mark.parametrize("family", ["roberta", "modernbert"])
def test_a_frozen_body_with_its_own_vocabulary_is_the_source(family, adapted, tiny_source, built):
    source = AutoModelForMaskedLM.from_pretrained(tiny_source(family))
    models, kept = built(adapted(family))
    put_back = models["phase-1.not-inserted.source-vocab"]
    assert torch.equal(logits(put_back), logits(source))
    assert put_back.state_dict().keys() == source.state_dict().keys()
    for name, tensor in source.state_dict().items():
        assert torch.equal(put_back.state_dict()[name], tensor), name
    for path in (kept / "source").iterdir():
        if path.name != "config.json":
            other = kept / "phase-1.not-inserted.source-vocab" / path.name
            assert other.read_bytes() == path.read_bytes(), path.name
    for label in ("phase-1.inserted.source-vocab", "phase-2.not-inserted.source-vocab"):
        assert not torch.equal(logits(models[label]), logits(source)), label


@pytest.mark.parametrize("family", ["roberta", "modernbert"])
def test_what_is_not_taken_out_or_put_back_is_of_the_phase(family, adapted, tiny_source, built):
    run, record = adapted(family), FAMILIES[family]
    left = AutoModelForMaskedLM.from_pretrained(run / "phase-2" / "best").state_dict()
    source = AutoModelForMaskedLM.from_pretrained(tiny_source(family)).state_dict()
    of_vocabulary = {record.word_embeddings, record.decoder, *record.output_bias}
    models, kept = built(run)
    for label in LABELS[5:9]:
        model, first = models[label], int(".not-inserted." in label)
        of_target = label.endswith("target-vocab")
        assert model.config.num_hidden_layers == (2 if first else 4)
        for name, tensor in model.state_dict().items():
            if name in of_vocabulary:
                expected = (left if of_target else source)[name]
            elif name.startswith(f"{record.layers}."):
                index, rest = name.removeprefix(f"{record.layers}.").split(".", 1)
                expected = left[f"{record.layers}.{int(index) + first}.{rest}"]
            else:
                expected = left[name]
            assert torch.equal(tensor, expected), name
        folders = (kept / label, run / "tokenizer" if of_target else tiny_source(family))
        read, wanted = (AutoTokenizer.from_pretrained(folder)(TEXT) for folder in folders)
        assert read == wanted
    for label, shaped in zip(LABELS[-2:], (LABELS[1], "source"), strict=True):
        drawn, theirs = models[label].state_dict(), models[shaped].state_dict()
        assert {n: t.shape for n, t in drawn.items()} == {n: t.shape for n, t in theirs.items()}
        assert not any(torch.equal(drawn[n], t) for n, t in theirs.items() if t.dim() == 2)


@pytest.fixture
def sst2(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    words = ["bad", "good", "awful", "fine", "poor", "great"]
    rows = "".join(f"sentence number {n} is {word}\t{n % 2}\n" for n, word in enumerate(words))
    for name in ("train.tsv", "dev.tsv"):
        (data / name).write_text("sentence\tlabel\n" + rows, "utf-8")
    return data


def test_finetune_has_a_row_for_each_model_and_keeps_what_is_done(adapted, command, sst2, tmp_path):
    run = shutil.copytree(adapted("roberta"), tmp_path / "run")
    shutil.rmtree(run / "phase-2" / "best")
    settings = "epochs=1 batch=2 learning_rate=0.001 checks_per_epoch=1 patience=0 max_length=48"
    arguments = ("finetune", run, "restore_source=true", "--task", "glue-sst2", "--data", sst2)
    arguments += ("--seeds", 1, *settings.split(), "--out", tmp_path / "out")
    assert "not kept: phase-2" in command(*arguments).well().err
    labels = [*LABELS[:5], *LABELS[9:]]
    seeds = [tmp_path / "out" / label / "glue-sst2" / "seed-0" for label in labels]
    said = [(seed / "predictions-dev.jsonl").read_bytes() for seed in seeds]
    assert said[labels.index("phase-1.not-inserted.source-vocab")] == said[0]
