"""`lingraft.graft` and `lingraft.train_tokenizer`: a vocabulary and its rows, without training."""

from __future__ import annotations

import json

import pytest
import torch
import transformers as hf

import lingraft
from lingraft.models.loading import auto_class

KINDS = ["roberta", "bert", "modernbert", "gpt2", "llama", "t5", "bart"]


@pytest.fixture
def grafted(tiny_source, korean_text):
    def made(family, **given):
        given = {"text": korean_text, "language": "ko", "init": "mean", "vocab_size": 400} | given
        return lingraft.graft(tiny_source(family), **given)

    return made


@pytest.mark.parametrize("family", KINDS)
def test_the_model_trains_in_the_trainer_of_transformers(family, grafted, korean_text, tmp_path):
    model, tokenizer, _ = grafted(family)
    lines = korean_text.read_text("utf-8").splitlines()[:16]
    ids = [tokenizer(line, truncation=True, max_length=24)["input_ids"] for line in lines]
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    collate = hf.DataCollatorForLanguageModeling(tokenizer, mlm=tokenizer.mask_token is not None)
    asked = hf.TrainingArguments(str(tmp_path / "out"), max_steps=2, report_to=[], use_cpu=True)
    trainer = hf.Trainer(model, asked, collate, [{"input_ids": one} for one in ids])
    trainer.train()
    trainer.save_model(str(tmp_path / "model"))
    again = auto_class(model.config).from_pretrained(tmp_path / "model")
    ours, theirs = model.state_dict(), again.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("family", KINDS)
def test_configuration_tokenizer_and_rows_belong_together(family, grafted, tiny_model):
    model, tokenizer, report = grafted(family)
    source, rows = tiny_model(family), model.get_input_embeddings().weight
    assert len(rows) == len(tokenizer) == model.config.vocab_size == len(report.rows)
    assert type(model) is type(source)
    tied = source.get_output_embeddings().weight is source.get_input_embeddings().weight
    assert (model.get_output_embeddings().weight is rows) == tied
    assert model.config.pad_token_id == tokenizer.pad_token_id
    if getattr(source.config, "decoder_start_token_id", None) is not None:
        assert model.config.decoder_start_token_id in tokenizer.all_special_ids
    named = {name for name, _ in model.named_parameters()}
    assert named <= {row["tensor"] for row in report.tensors if row["kind"] != "dropped"}
    old = source.get_input_embeddings().weight
    copied = [row for row in report.rows if row["rule"] == "exact"]
    assert copied
    for row in copied:
        assert torch.equal(rows[row["target_id"]], old[row["source_id"]])


def test_a_run_starts_from_the_same_model(adapted, tiny_source, korean_text):
    """The graft code is the run's, not a second one."""
    start = hf.AutoModelForMaskedLM.from_pretrained(adapted("roberta") / "graft" / "model")
    settings = {"graft.inserted_before": 1, "graft.inserted_after": 1, "tokenizer.max_tokens": 64}
    given = {"text": korean_text, "language": "ko", "init": "random", "vocab_size": 300}
    model, tokenizer, _ = lingraft.graft(tiny_source("roberta"), **given, settings=settings)
    theirs = hf.AutoTokenizer.from_pretrained(adapted("roberta") / "tokenizer")
    assert tokenizer.get_vocab() == theirs.get_vocab()
    ours = model.state_dict()
    assert all(torch.equal(ours[name], of) for name, of in start.state_dict().items())


def test_the_command_writes_all_and_replaces_nothing(command, tiny_source, korean_text, tmp_path):
    given = ("graft", tiny_source("roberta"), "tokenizer.vocab_size=400", "--text", korean_text)
    given += ("--lang", "ko", "--init", "mean", "--out", tmp_path / "new")
    ended = command(*given).well()
    again = hf.AutoModelForMaskedLM.from_pretrained(tmp_path / "new")
    assert len(hf.AutoTokenizer.from_pretrained(tmp_path / "new")) == again.config.vocab_size == 400
    told = json.loads((tmp_path / "new" / "report.json").read_text("utf-8"))
    lines = (tmp_path / "new" / "provenance.tsv").read_text("utf-8").splitlines()
    assert sum(told["embeddings"]["provenance"].values()) == len(lines) - 1 == 400
    assert {row["tensor"] for row in told["tensors"]} >= {"lm_head.bias"}
    assert "mean" in ended.out
    assert "is there already" in command(*given).err
    assert {path.name for path in tmp_path.iterdir()} == {"new"}
