"""The graft stage: which rows and biases a target starts with, and what is counted."""

from __future__ import annotations

import csv

import pytest
import torch
from plain_recipes import plain
from tiny_shapes import ENCODERS
from transformers import AutoModelForMaskedLM

from lingraft.models.families import FAMILIES
from lingraft.models.source import load_model
from lingraft.pipeline import grafting
from lingraft.recipe.methods import recipe_from
from lingraft.tokenizer import extension

every_family = pytest.mark.parametrize("family", ENCODERS)
TEXT = ["хлеб и соль на столе", "바다와 바람과 산", "문서를 열고 형식을 선택한 다음"] * 9


@pytest.fixture
def graft(tiny_source, tiny_tokenizer, tmp_path):
    """Grafts a method onto a tiny source; gives the folder and the stage's counts."""

    def made(family, method, **tables):
        own = {"training": {"method": method}, "tokenizer": {"vocab_size": 400}}
        recipe = recipe_from(plain(tiny_source(family), **own | tables))
        theirs = tiny_tokenizer(family)
        ours, _ = extension.make(recipe.tokenizer, theirs, lambda: TEXT, pad_id=None, seed=0)
        plan = grafting.Grafting(recipe, theirs, ours, lambda: TEXT, lambda purpose: 7)
        folder = tmp_path / f"{family}-{method}"
        folder.mkdir()
        return folder, plan.run(folder)

    return made


@torch.no_grad()
def logits(model):
    ids = torch.randint(5, 200, (2, 12), generator=torch.Generator().manual_seed(0))
    return model.eval()(input_ids=ids, attention_mask=torch.ones_like(ids)).logits


def rows_and_bias(folder, family):
    model = load_model(str(folder)).model
    bias = model.state_dict()[FAMILIES[family].output_bias[0]]
    return model.get_input_embeddings().weight.detach(), bias


def provenance(folder):
    with (folder / "provenance.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@every_family
def test_a_kept_vocabulary_gives_the_source_s_logits(family, graft, tiny_source, tiny_tokenizer):
    folder, counts = graft(family, "continued")
    source = AutoModelForMaskedLM.from_pretrained(tiny_source(family))
    target = AutoModelForMaskedLM.from_pretrained(folder / "model")
    pieces = target.config.vocab_size
    assert torch.equal(logits(target), logits(source)[..., :pieces])
    assert pieces == len(tiny_tokenizer(family))
    assert target.config.pad_token_id == source.config.pad_token_id
    assert counts["embeddings"]["initializer"] == "kept"
    assert set(counts["embeddings"]["provenance"]) == {"kept"}
    assert set(counts["account"]) >= {"copied"}
    assert counts["account"]["fresh"]["tensors"] == 0
    assert bool(counts["account"]["resized"]["tensors"]) == (pieces < source.config.vocab_size)


@every_family
def test_extending_keeps_rows_and_biases(family, graft, tiny_source, tiny_tokenizer):
    folder, counts = graft(family, "lapt", embeddings={"init": "mean"})
    size = len(tiny_tokenizer(family))
    sides = (rows_and_bias(place, family) for place in (folder / "model", tiny_source(family)))
    for ours, theirs in zip(*sides, strict=True):
        assert torch.equal(ours[:size], theirs[:size])
        assert len(ours) > size
    assert counts["embeddings"]["provenance"]["kept"] == size


@every_family
@pytest.mark.parametrize(
    ("method", "body", "rows"),
    [
        ("metaxlm", True, True),
        ("xlm-init-body", True, False),
        ("xlm-init-emb", False, True),
        ("xlm", False, False),
    ],
)
def test_an_ablation_takes_body_rows_both_or_none(family, method, body, rows, graft, tiny_source):
    folder, counts = graft(family, method)
    record = FAMILIES[family]
    source = load_model(str(tiny_source(family))).model.state_dict()
    target = load_model(str(folder / "model")).model.state_dict()
    vocabulary = {record.word_embeddings, record.decoder, *record.output_bias}
    assert target.keys() == source.keys()
    for name in target.keys() - vocabulary:
        assert torch.equal(target[name], source[name]) == body, name
    found = provenance(folder)
    matched = [row for row in found if int(row["source_id"]) >= 0]
    assert bool(matched) == rows
    theirs, ours = source[record.word_embeddings], target[record.word_embeddings]
    for row in matched:
        assert torch.equal(ours[int(row["target_id"])], theirs[int(row["source_id"])])
    fresh = [int(row["target_id"]) for row in found if row["rule"] == "fresh"]
    assert not any((ours[index] == theirs).all(dim=1).any() for index in fresh)
    assert bool(target[record.output_bias[0]].any()) == rows
    assert counts["layers"] == {"source": 2, "before": 0, "after": 0}


@pytest.mark.parametrize("initializer", ["match", "random-statistics"])
def test_an_untied_output_is_carried_over(initializer, graft, tiny_model, tiny_tokenizer, tmp_path):
    source = tiny_model("bert", tie_word_embeddings=False)
    source.save_pretrained(tmp_path / "untied")
    tiny_tokenizer("bert").save_pretrained(tmp_path / "untied")
    tables = {"source": {"model": str(tmp_path / "untied")}, "embeddings": {"init": initializer}}
    places = {"inserted_before": 1, "inserted_after": 0}
    folder, counts = graft("bert", "lapt", **tables, graft=places)
    target = load_model(str(folder / "model")).model
    theirs, ours = (m.get_output_embeddings().weight.detach() for m in (source, target))
    rows = provenance(folder)
    copied = [(int(r["target_id"]), int(r["source_id"])) for r in rows if r["source_id"] != "-1"]
    fresh = [int(row["target_id"]) for row in rows if row["rule"] == "fresh"]
    assert len(copied) > 100
    assert all(torch.equal(ours[to], theirs[origin]) for to, origin in copied)
    assert not torch.equal(ours, target.get_input_embeddings().weight)
    deviation = 0.02 if initializer == "match" else float(theirs.std())
    assert deviation == 0.02 or (fresh and deviation > 0.06)
    assert fresh == [] or 0.7 < float(ours[fresh].std()) / deviation < 1.4
    assert counts["parameters"]["by_part"]["embeddings"] == 2 * ours.numel()
    assert counts["parameters"]["total"] == target.num_parameters()
