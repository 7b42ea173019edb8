"""Rows that a model starts with when its vocabulary is made of the source's, and whole runs."""

from __future__ import annotations

import copy
import csv
import json
import shutil

import causal_tokenizers
import pytest
import torch
from tiny_tokenizers import TEXT
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

import lingraft
from lingraft.embeddings.norms import FEWEST, script_of
from lingraft.pipeline import grafting, stages
from lingraft.recipe.methods import recipe_from
from lingraft.recipe.run import KEEPING
from lingraft.rundir import Run
from lingraft.tokenizer import extension
from lingraft.tokenizer.files import plain_backend
from lingraft.tokenizer.vocabulary import Vocabulary
from tests.support.vocabulary_kinds import keys_of

KOREAN = [*TEXT[3:6], "2024년에 365일, 학교에서 문서를 저장한다.", "문서의 형식과 도구 모음"] * 9
ROWS, WIDTH = 448, 32


KEEP_IDS = ("keep", "extend")
IMAGE = "<image_soft_token>"


class Grafted:
    """A tiny Llama with another vocabulary."""

    def __init__(self, folder, family, tables, *, tied, stops, images=False):
        source, rows = causal_tokenizers.build(family), ROWS
        if images:
            source, rows = copy.deepcopy(source), len(source)
            source.add_special_tokens({"extra_special_tokens": [IMAGE]})
        config = AutoConfig.for_model(
            "llama", vocab_size=rows, hidden_size=WIDTH, intermediate_size=48,
            num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=128,
            tie_word_embeddings=tied, pad_token_id=source.pad_token_id,
            bos_token_id=source.bos_token_id, eos_token_id=source.eos_token_id,
        )  # fmt: skip
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            model = AutoModelForCausalLM.from_config(config).float().eval()
        if stops:
            ids = source.convert_tokens_to_ids(stops)
            model.generation_config.update(eos_token_id=ids, suppress_tokens=[5])
        model.save_pretrained(folder / "source")
        data = {"language": "ko", "source": {"model": str(folder / "source")}}
        data |= {
            "corpus": {"text": ["unread.txt"]},
            "training": {"method": "lapt", "preset": "xpt2021"},
            **tables,
        }
        recipe = recipe_from(data)
        ours, _ = extension.make(
            recipe.tokenizer, source, lambda: KOREAN, pad_id=None, seed=0, causal=True
        )
        plan = grafting.Grafting(recipe, source, ours, lambda: KOREAN, lambda purpose: len(purpose))
        self.counts = plan.run(folder)
        self.tokenizers = {"theirs": source, "ours": ours}
        self.theirs, self.ours = Vocabulary.of(source), Vocabulary.of(ours)
        self.source = model
        self.model = AutoModelForCausalLM.from_pretrained(folder / "model").eval()
        with (folder / "provenance.tsv").open(encoding="utf-8", newline="") as file:
            self.rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))

    def input(self, which="model"):
        return getattr(self, which).get_input_embeddings().weight.detach()

    def output(self, which="model"):
        return getattr(self, which).get_output_embeddings().weight.detach()

    @property
    def kept(self):
        """Ids of pieces that both have: the target's, the source's."""
        place = {piece: i for i, piece in enumerate(self.theirs.pieces)}
        pairs = [(i, place[p]) for i, p in enumerate(self.ours.pieces) if p and p in place]
        return [torch.tensor(side) for side in zip(*pairs, strict=True)]

    @property
    def new(self):
        return [i for i, p in enumerate(self.ours.pieces) if p and p not in self.theirs.pieces]

    def source_ids(self, index):
        """The source's tokens of a piece."""
        text = self.tokenizers["ours"].convert_ids_to_tokens(index)
        model = self.tokenizers["theirs"].backend_tokenizer.model
        return [token.id for token in model.tokenize(text)]


@pytest.fixture
def graft(tmp_path):
    def made(family="qwen", action="extend", *, tied=False, stops=(), images=False, **more):
        tokenizer = keys_of(action) | {"new_pieces": 60, "vocab_size": 420}
        tokenizer |= more.pop("tokenizer", {})
        return Grafted(
            tmp_path,
            family,
            {"tokenizer": tokenizer, "embeddings": more},
            tied=tied,
            stops=stops,
            images=images,
        )

    return made


@pytest.mark.parametrize("kind", ["keep", "extend", "replace", "trim"])
def test_a_chat_model_stops_where_it_stopped_whatever_its_vocabulary_becomes(kind, graft):
    """Llama 3's instruct models stop at the end of a text and at that of a turn."""
    stops = ["<|end_of_text|>", "<|eot_id|>"]
    made = graft("llama-3", kind, stops=stops)
    ours = made.tokenizers["ours"]
    assert made.model.generation_config.eos_token_id == ours.convert_tokens_to_ids(stops)
    assert made.model.config.eos_token_id == ours.eos_token_id
    assert made.model.generation_config.suppress_tokens == ([5] if kind in KEEP_IDS else None)
    assert ours.chat_template == made.tokenizers["theirs"].chat_template


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("kind", ["keep", "extend", "append", "trim"])
@torch.no_grad()
def test_pieces_that_stay_keep_their_rows_and_the_model_its_logits(kind, tied, graft):
    made = graft("llama-3", kind, tied=tied)
    to, origin = made.kept
    assert len(to) == len(made.theirs.pieces) - made.theirs.pieces.count("") or kind == "trim"
    assert torch.equal(made.input()[to], made.input("source")[origin])
    assert torch.equal(made.output()[to], made.output("source")[origin])
    place = dict(zip(origin.tolist(), to.tolist(), strict=True))
    text = plain_backend(made.tokenizers["theirs"]).encode("문서의 형식").ids
    logits = made.source(torch.tensor([text])).logits[..., origin]
    ours = made.model(torch.tensor([[place[i] for i in text]])).logits[..., to]
    torch.testing.assert_close(ours, logits, atol=1e-5, rtol=1e-4)
    assert len(made.input()) == len(made.output()) == made.ours.size
    if kind == "keep":
        assert any(f"{ROWS - made.ours.size} rows" in note for note in made.counts["notes"])
    assert {row["rule"] for row in made.rows if int(row["target_id"]) in set(to.tolist())} == {
        "kept"
    }
    ids = made.model.config
    assert ids.eos_token_id == made.tokenizers["ours"].eos_token_id
    assert ids.pad_token_id == made.tokenizers["ours"].pad_token_id


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("family", list(causal_tokenizers.BUILDERS))
def test_a_replaced_vocabulary_keeps_the_rows_of_bytes_and_of_all_special_tokens(
    family, tied, graft
):
    """Chat and reserved tokens, and a padding token that ends texts, have no other source."""
    made = graft(family, "replace", tied=tied, init="mean")
    to, origin = made.kept
    theirs = made.tokenizers["theirs"]
    names = {str(token) for token in theirs.added_tokens_decoder.values()}
    names |= {piece for piece in theirs.get_vocab() if piece.startswith("<0x")}
    assert names <= {made.ours.pieces[index] for index in to.tolist()}
    for index, old in zip(to.tolist(), origin.tolist(), strict=True):
        if made.ours.pieces[index] in names:
            assert torch.equal(made.input()[index], made.input("source")[old])
            assert torch.equal(made.output()[index], made.output("source")[old])
    assert not [row for row in made.rows if row["rule"] == "fresh"]


def test_rows_of_reserved_tokens_are_made_anew(graft):
    made = graft("llama-3", tokenizer={"use_reserved": True})
    taken = [i for i in made.new if i < made.theirs.size]
    assert len(taken) == 4
    for index in taken:
        assert made.rows[index]["rule"] == "mean"
        assert not torch.equal(made.input()[index], made.input("source")[index])
    assert made.model.config.vocab_size == len(made.input()) == made.ours.size
    assert made.counts["embeddings"]["new_rows"] == len(made.new) == 60


@pytest.mark.parametrize("norms", ["made", "script"])
def test_output_rows_have_an_initializer_of_their_own_and_are_reported_apart(norms, graft):
    keys = {"init": "mean", "norms": norms, "output_init": "first-piece"}
    made = graft("qwen", **keys)
    said = made.counts["embeddings"]
    assert said["initializer"] == "mean"
    assert said["output"]["initializer"] == "first-piece"
    (inputs,), outputs = (
        [group for rule, group in said["norms"]["groups"].items() if rule == "mean"],
        said["output"]["norms"]["groups"]["combined"],
    )
    assert (inputs["before"] != inputs["after"]) is (norms == "script")
    assert outputs["before"] == outputs["after"]
    for index in made.new[:5]:
        first, *_ = made.source_ids(index)
        torch.testing.assert_close(made.output()[index], made.output("source")[first])


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_token_distillation_trains_new_rows_of_both_matrices_and_no_others(tied, graft):
    fast = {"learning_rate": 0.01, "snippets": 4, "snippet_tokens": 24}
    made = graft("llama-3", tied=tied, init="token-distillation", token_distillation=fast)
    to, origin = made.kept
    assert torch.equal(made.input()[to], made.input("source")[origin])
    assert torch.equal(made.output()[to], made.output("source")[origin])
    said = made.counts["embeddings"]
    learnt = [int(row["target_id"]) for row in made.rows if row["rule"] == "learnt"]
    assert set(learnt) <= set(made.new)
    assert len(learnt) == said["token_distillation"]["input"]["pieces"] > 20
    assert said["norms"]["groups"]["learnt"]["rows"] == len(learnt)
    assert ("output" in said) is not tied
    if not tied:
        assert said["output"]["initializer"] == "token-distillation"
        assert said["output"]["provenance"]["learnt"] == len(learnt)
        assert not torch.equal(made.output()[learnt], made.input()[learnt])
        assert said["token_distillation"]["output"]["pieces"] == len(learnt)


@pytest.mark.parametrize("to", ["all", "script"])
def test_new_rows_get_the_median_length_of_the_source_s_and_keep_their_direction(to, graft):
    plain = graft("gemma", tokenizer={"new_pieces": 100})
    made = graft("gemma", tokenizer={"new_pieces": 100}, norms=to, output_norms="made")
    norms_V = made.input("source").norm(dim=1)
    groups = {"": [i for i, form in enumerate(made.theirs.canonical) if form is not None]}
    for i in groups[""]:
        groups.setdefault(script_of(made.theirs.canonical[i]) or "none", []).append(i)
    assert len(groups["Latn"]) >= FEWEST > len(groups.get("Hang", []))
    for index in made.new:
        script = script_of(made.ours.canonical[index]) if to == "script" else ""
        ids = groups.get(script, []) if len(groups.get(script, [])) >= FEWEST else groups[""]
        ours, before = made.input()[index], plain.input()[index]
        assert float(ours.norm()) == pytest.approx(float(norms_V[ids].median()), rel=1e-4)
        torch.testing.assert_close(ours / ours.norm(), before / before.norm())
        assert torch.equal(made.output()[index], plain.output()[index])
    report = made.counts["embeddings"]["norms"]
    assert report["groups"]["kept"]["before"] == report["groups"]["kept"]["after"]
    mean = report["groups"]["mean"]
    assert mean["before"] < mean["after"]
    assert report["source"] == pytest.approx(float(norms_V[groups[""]].median()))


# -- whole runs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["extend", "append", "replace", "trim"])
def test_a_run_with_the_vocabulary_ends_in_a_stock_model_and_says_what_became_of_it(
    kind, tiny_source, korean_text, tmp_path
):
    english = tmp_path / "en.txt"
    english.write_text("".join(f"{line}\n" for line in TEXT[:3]), encoding="utf-8")
    recipe = {
        "language": "ko",
        "source": {"model": str(tiny_source("roberta"))},
        "corpus": {"text": [str(korean_text)], "test": 0.1},
        "tokenizer": keys_of(kind) | {"vocab_size": 340, "new_pieces": 40, "max_tokens": 64},
        "embeddings": {"norms": "all", "init": "mean", "source_text": [str(english)]},
        "training": {
            "method": "xpt-sp",
            "preset": "xpt2021",
            "budget": {"value": 3},
            "batch": {"size": 4},
        },
        "hardware": {"precision": "fp32", "row_tokens": 64, "micro_batch_tokens": 64},
        "evaluation": {"max_sentences": 6, "max_words": 4, "samples": 1},
    }
    run = lingraft.adapt(recipe, tmp_path / "run")
    model, info = AutoModelForMaskedLM.from_pretrained(run.path / "model", output_loading_info=True)
    tokenizer = AutoTokenizer.from_pretrained(run.path / "model")
    assert not any(info.values())
    assert model.config.vocab_size == len(tokenizer) == len(model.get_input_embeddings().weight)
    assert (tokenizer.pad_token_id, tokenizer.mask_token) == (1, "<mask>")
    result = run.stage("tokenizer").result()
    shown = (run.path / "report.html").read_text(encoding="utf-8")
    assert "bytes per token" in shown
    if kind == "replace":
        assert result["extension"] is None
        return
    english, target = result["source_text"]["changed"], result["changed"]["changed"]
    assert "of the source&#39;s" in shown or "of the source's" in shown
    if kind == "trim":
        assert (english > 0.2, target) == (True, 0)
        assert result["extension"]["removed"] > 10
    else:
        assert len(tokenizer) == 320 + result["extension"]["added"]
        assert english < 0.05 < target
    if kind == "extend":
        assert result["extension"] == {"source": 320, "added": 40, "unreachable": 0}


def test_a_causal_model_s_vocabulary_is_trimmed_by_documents_with_their_line_ends(
    tiny_source, accelerator, tmp_path
):
    source = shutil.copytree(tiny_source("qwen2"), tmp_path / "source")
    state = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    last = "".join(state["model"]["merges"][-1])
    state["model"]["vocab"][".Ċ"] = state["model"]["vocab"].pop(last)
    state["model"]["merges"][-1] = [".", "Ċ"]
    (source / "tokenizer.json").write_text(json.dumps(state), encoding="utf-8")
    blocks = (f"The dog sleeps {n} times.\nOpen the file {n}.\n\n" for n in range(60))
    (tmp_path / "en.txt").write_text("".join(blocks), encoding="utf-8")
    recipe = recipe_from(
        {
            "language": "en",
            "source": {"model": str(source)},
            "corpus": {"text": [str(tmp_path / "en.txt")], "document": "block", "test": 0.1},
            "training": {"method": "lapt", "preset": "xpt2021"},
            "tokenizer": {"action": "trim", "max_tokens": 64},
        }
    )
    made = stages.Context(recipe, Run(tmp_path / "run"), accelerator)
    stages.tokenizer(made, stages.corpus(made))
    stage = made.run.stage("tokenizer")
    assert stage.result()["extension"]["removed"] > 10
    assert ".Ċ" in AutoTokenizer.from_pretrained(stage.path).tokenize("Open it.\nThe end.")


@pytest.mark.parametrize("kind", ["keep", "extend", "append", "replace", "trim", "source"])
@pytest.mark.parametrize("initializer", ["mean", "random-statistics"])
def test_a_special_token_that_the_model_has_no_row_for_is_no_obstacle(kind, initializer, graft):
    """Gemma 3's tokenizer has one of images; its models of 270 M and 1 B parameters read none."""
    made = graft("gemma", kind, images=True, init=initializer)
    assert made.theirs.size == len(made.input("source")) + 1
    assert len(made.input()) == (made.ours.size if kind != "keep" else made.theirs.size - 1)
    ours, theirs = made.kept
    if kind in KEEPING:
        has_row = theirs < len(made.input("source"))
        assert int(has_row.sum()) == len(theirs) - 1 > 50
        assert torch.equal(made.input()[ours[has_row]], made.input("source")[theirs[has_row]])
