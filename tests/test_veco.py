"""A run of the method veco: one stream in one language, one of translations, both stages."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM

import lingraft
from lingraft.models import loading
from lingraft.models.modules import MODULES
from lingraft.rundir import Run

KO = tuple("나는 학교에 가서 친구를 만나고 집에 와서 책을 읽었다 문서를 열고".split())  # noqa: SIM905
EN = ("the", "a", "old", "small", "green", "house", "tree", "dog", "walks", "runs", "sees")
RECIPE = """
[source]
model = "{source}"
[[streams]]
name = "en"
language = "en"
corpus.text = ["{folder}/en.txt"]
corpus.document = "block"
corpus.deduplicate = false
corpus.valid = 0.1
corpus.test = 0.1
[[streams]]
name = "en-ko"
language = "en/ko"
corpus = {{ text = ["{folder}/en-ko.tsv"], valid = 0.1, test = 0.1 }}
[training]
method = "veco"
budget.value = 10
batch.size = 6
learning_rate = 0.01
warmup = 0
[hardware]
precision = "fp32"
row_tokens = 64
checkpoint_steps = 2
log_steps = 1
[evaluation]
max_sentences = 10
max_words = 5
samples = 1
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory, tiny_source):
    """The recipe's file; paragraphs of six sentences, and 60 word-for-word translations."""
    folder, drawn = tmp_path_factory.mktemp("veco"), np.random.default_rng(0)

    def sentence():
        return drawn.integers(0, len(EN), drawn.integers(4, 12))

    lines = [" ".join(EN[i] for i in sentence()).capitalize() + "." for _ in range(180)]
    blocks = ["\n".join(lines[start : start + 6]) for start in range(0, 180, 6)]
    (folder / "en.txt").write_text("\n\n".join(blocks) + "\n", "utf-8")
    pairs = [sentence() for _ in range(60)]
    lines = ["\t".join(" ".join(w[i] for i in one) for w in (EN, KO)) + "\n" for one in pairs]
    (folder / "en-ko.tsv").write_text("".join(lines), "utf-8")
    path = folder / "recipe.toml"
    path.write_text(RECIPE.format(source=tiny_source("roberta"), folder=folder), "utf-8")
    return path


LIMIT = ("phases.0.data.0.max_tokens=32", "phases.1.data.0.max_tokens=32")


@pytest.fixture(scope="module")
def finished(command, recipe, tmp_path_factory):
    out = tmp_path_factory.mktemp("veco-run") / "run"
    command("adapt", recipe, "--out", out, *LIMIT).well()
    return Run(out)


def test_batches_of_one_language_and_of_translations_alternate(finished):
    rows = [row for row in finished.metrics() if row["kind"] == "train"]
    steps = [row for row in rows if row["phase"] == "phase-2"]
    assert [row["step"] for row in steps] == list(range(1, 10))
    assert ["loss/tlm" in row for row in steps] == [step % 2 == 0 for step in range(1, 10)]
    assert all("loss/x_given_y" in row for row in steps)
    streams = finished.stage("phase-2").result()["streams"]
    assert [one["draws"] for one in streams.values()] == [30, 24]


def test_the_validation_loss_is_given_for_each_stream_and_term(finished):
    looks = [row for row in finished.metrics() if row["kind"] == "valid"]
    terms = ("x_alone", "y_alone", "x_given_y", "y_given_x")
    for row in looks:
        of_first = terms if row["phase"] == "phase-2" else terms[2:]
        more = ("tlm",) if row["phase"] == "phase-2" else ()
        for stream, names in (("en", of_first), ("en-ko", (*of_first, *more))):
            parts = [row[f"loss/{stream}/ca_mlm/{name}"] for name in names]
            assert row[f"loss/{stream}/ca_mlm"] == pytest.approx(sum(parts))
        assert row["loss"] == pytest.approx((row["loss/en/ca_mlm"] + row["loss/en-ko/ca_mlm"]) / 2)


def test_the_model_is_a_stock_encoder_and_lingraft_finds_its_cross_attention(finished):
    path = finished.model_path
    stock, info = AutoModelForMaskedLM.from_pretrained(path, output_loading_info=True)
    assert not any(info.values())
    ours = lingraft.load(path)
    assert loading.own_tensors(ours, MODULES["cross_attention"])
    ids = torch.arange(5, 25).reshape(2, 10)
    with torch.no_grad():
        assert torch.equal(stock(input_ids=ids).logits, ours(input_ids=ids).logits)
    assert json.loads((path / "cross_attention.json").read_text())["layers"] == 2
