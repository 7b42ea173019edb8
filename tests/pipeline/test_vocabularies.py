"""Rows that a model starts with when its vocabulary is made of the source's, and whole runs."""

from __future__ import annotations

import copy
import csv

import causal_tokenizers
import pytest
import torch
from plain_recipes import plain
from tiny_tokenizers import TEXT
from transformers import AutoConfig, AutoModelForCausalLM

from lingraft.pipeline import grafting
from lingraft.recipe.methods import recipe_from
from lingraft.recipe.run import KEEPING
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
        tables |= {"training": {"method": "lapt", "preset": "xpt2021"}}
        recipe = recipe_from(plain(folder / "source", **tables))
        how = {"pad_id": None, "seed": 0, "causal": True}
        ours, _ = extension.make(recipe.tokenizer, source, lambda: KOREAN, **how)
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
        tables = {"tokenizer": tokenizer, "embeddings": more}
        return Grafted(tmp_path, family, tables, tied=tied, stops=stops, images=images)

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
    stayed = set(to.tolist())
    assert {row["rule"] for row in made.rows if int(row["target_id"]) in stayed} == {"kept"}
    ids = made.model.config
    assert ids.eos_token_id == made.tokenizers["ours"].eos_token_id
    assert ids.pad_token_id == made.tokenizers["ours"].pad_token_id


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("family", list(causal_tokenizers.BUILDERS))
def test_a_replaced_vocabulary_keeps_the_rows_of_bytes_and_special_tokens(family, tied, graft):
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


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_token_distillation_trains_new_rows_of_both_matrices_and_no_others(tied, graft):
    made = graft("llama-3", tied=tied, init="token-distillation")
    to, origin = made.kept
    assert torch.equal(made.input()[to], made.input("source")[origin])
    assert torch.equal(made.output()[to], made.output("source")[origin])
    said = made.counts["embeddings"]
    learnt = [int(row["target_id"]) for row in made.rows if row["rule"] == "learnt"]
    assert set(learnt) <= set(made.new)
    assert len(learnt) == said["token_distillation"]["input"]["pieces"] > 20
    assert ("output" in said) is not tied
    if not tied:
        assert said["output"]["initializer"] == "token-distillation"
        assert said["output"]["provenance"]["learnt"] == len(learnt)
        assert not torch.equal(made.output()[learnt], made.input()[learnt])
        assert said["token_distillation"]["output"]["pieces"] == len(learnt)


@pytest.mark.parametrize("kind", ["keep", "extend", "replace"])
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
