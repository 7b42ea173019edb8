"""Rows that are trained so that the source model reads a piece as it reads the piece's tokens."""

from __future__ import annotations

import copy
import functools

import causal_tokenizers
import numpy as np
import pytest
import torch
from tiny_tokenizers import TEXT

from lingraft.models.embeddings import INITIALIZERS, row_training, token_distillation
from lingraft.models.embeddings.common import Material, Pretrained
from lingraft.models.families import FAMILIES
from lingraft.models.packed import ATTENTION
from lingraft.recipe import Embeddings, Tokenizer
from lingraft.tokenizer import extension
from lingraft.tokenizer.vocabulary import Vocabulary

WORDS = [word for line in TEXT[3:6] for word in line.split()]
RANDOM = np.random.default_rng(0)
KOREAN = [" ".join(RANDOM.choice(WORDS, 6)) for _ in range(40)]
UNSEEN = [" ".join(RANDOM.choice(WORDS, 6)) for _ in range(12)]
FAST = {"LEARNING_RATE": 0.02, "SNIPPETS": 10, "SNIPPET_TOKENS": 32, "BATCH": 12}
OF = {"gpt2": "gpt2", "llama": "llama-3"}


@functools.cache
def tokenizers(name):
    source = causal_tokenizers.build(name)
    section = Tokenizer(action="extend", new_pieces=25)
    ours, _ = extension.make(section, source, lambda: KOREAN, pad_id=None, seed=0, causal=True)
    return source, ours


class Case:
    """A tiny causal model, its tokenizer with 25 pieces more, and what makes their rows."""

    def __init__(self, family, model):
        self.source, self.target = tokenizers(OF[family])
        self.model, self.family = model, FAMILIES[family]
        self.theirs, self.ours = Vocabulary.of(self.source), Vocabulary.of(self.target)
        self.facts = {}

    def input(self):
        return self.model.get_input_embeddings().weight.detach()

    def output(self):
        return self.model.get_output_embeddings().weight.detach()

    def material(self, embeddings_UD=None):
        self.facts = {}
        pretrained = Pretrained(self.model, self.family, embeddings_UD, self.facts)
        return Material(self.source, self.target, lambda: KOREAN, Embeddings(), 3, pretrained)

    def rows(self, name="token-distillation", *, output=None):
        return INITIALIZERS[name].function(
            self.input() if output is None else self.output(),
            self.theirs,
            self.ours,
            generator=torch.Generator().manual_seed(0),
            copy_special_tokens=True,
            material=self.material(output),
        )

    def pairs(self, made):
        """Pairs of text that was not trained on, for the pieces that were, by the row's number."""
        learnt = [i for i, rule in enumerate(made.provenance.rules) if rule == "learnt"]
        patterns = {}
        for index in learnt:
            text = self.target.convert_ids_to_tokens(index)
            parts = [t.id for t in self.source.backend_tokenizer.model.tokenize(text)]
            patterns[tuple(parts)] = index
        found = row_training.find_snippets(patterns, UNSEEN, self.source, most=3, tokens=32)
        spelt = {index: pattern for pattern, index in patterns.items()}
        return [
            row_training.pair(ids, spelt[index], len(self.input()) + learnt.index(index))
            for index, texts in found.items()
            for ids in texts
        ], learnt

    def stock(self, inputs_ND, outputs_ND=None):
        """The stock model with the rows behind its own."""
        model = copy.deepcopy(self.model)
        model.set_attn_implementation("sdpa")
        with torch.no_grad():
            table = torch.nn.Parameter(torch.cat([self.input(), inputs_ND]))
            model.get_input_embeddings().weight = table
            model.get_input_embeddings().padding_idx = None
            if outputs_ND is not None:
                head = torch.nn.Parameter(torch.cat([self.output(), outputs_ND]))
                model.get_output_embeddings().weight = head
        return model.eval()

    @torch.no_grad()
    def difference(self, inputs_ND, pairs):
        """By the stock forward pass, a snippet at a time: squares over all tokens, then divided."""
        model, total, count = self.stock(inputs_ND), 0.0, 0
        for pair in pairs:
            split, whole = (
                model(torch.from_numpy(ids)[None], output_hidden_states=True).hidden_states[-1]
                for ids in (pair.split, pair.whole)
            )
            squares = (split[0, torch.from_numpy(pair.kept)] - whole[0]).square()
            total, count = total + float(squares.sum()), count + squares.numel()
        return total / count


@pytest.fixture
def case(tiny_model, monkeypatch):
    """Make a case; other settings than `FAST` by the names of their constants."""

    def made(family="llama", *, tied=False, **settings):
        for name, value in (FAST | settings).items():
            monkeypatch.setattr(token_distillation, name, value)
        return Case(family, tiny_model(family, tie_word_embeddings=tied))

    return made


def test_a_piece_is_one_token_of_the_whole_form_and_its_last_one_is_compared():
    ids = np.array([9, 1, 2, 3, 7, 1, 2, 1], np.int32)
    pair = row_training.pair(ids, (1, 2), 50)
    assert pair.whole.tolist() == [9, 50, 3, 7, 50, 1]
    assert pair.kept.tolist() == [0, 2, 3, 4, 6, 7]
    assert pair.split.tolist() == ids.tolist()


@pytest.mark.parametrize(
    ("start", "begin", "end"), [(8, 6, 12), (1, 0, 6), (17, 14, 20)], ids=["middle", "begin", "end"]
)
def test_a_snippet_has_its_piece_in_the_middle_as_far_as_the_sentence_goes(start, begin, end):
    assert row_training._window(range(20), start, 2, 6) == range(begin, end)


def test_rows_take_a_step_a_batch_without_decay_and_each_example_is_weighed_alike():
    """Of a gradient that is 1 everywhere every step of Adam is the learning rate."""
    seen = []

    def loss(rows_ND, examples):
        seen.append(examples)
        return rows_ND.sum() + sum(examples) / len(examples)

    training = row_training.RowTraining("", seed=0, learning_rate=0.01, batch=2)
    rows_ND = training.run(torch.full((1, 2), 10.0), range(5), loss)
    torch.testing.assert_close(rows_ND, torch.full((1, 2), 9.97))
    assert sorted(number for examples in seen for number in examples) == list(range(5))
    assert [len(examples) for examples in seen] == [2, 2, 1]
    assert training.measure(torch.zeros(1, 2), range(1, 6), loss) == pytest.approx(3.0)


@pytest.mark.parametrize("name", list(causal_tokenizers.BUILDERS))
def test_snippets_hold_their_piece_within_the_length_and_begin_as_a_text_does(name):
    source, _ = tokenizers(name)
    pattern = tuple(source(" 문서를", add_special_tokens=False).input_ids[-6:])
    found = row_training.find_snippets({pattern: 7}, KOREAN, source, most=4, tokens=20)
    (texts,) = found.values()
    assert len(texts) == 4
    first = source("").input_ids[:1]
    for ids in texts:
        assert len(ids) <= 20
        assert ids.tolist()[: len(first)] == first
        assert any(tuple(ids[i : i + 6]) == pattern for i in range(len(ids)))
    assert row_training.find_snippets({(1, 1, 1, 1, 1): 0}, KOREAN, source, most=4, tokens=20) == {}


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_hidden_states_on_unseen_text_come_nearer_than_with_the_mean(family, case):
    made = case(family, tied=family == "gpt2")
    mean, rows = made.rows("mean"), made.rows()
    pairs, learnt = made.pairs(rows)
    assert len(learnt) >= 20
    assert len(pairs) >= 20
    after = made.difference(rows.target_UD[learnt], pairs)
    before = made.difference(mean.target_UD[learnt], pairs)
    # GPT-2 counts positions, so that everything behind a merged piece has another one
    assert after < {"llama": 0.8, "gpt2": 0.98}[family] * before
    measured = made.facts["mean_squared_difference"]
    assert measured["after"] < measured["before"]


def test_only_new_rows_change_and_they_start_at_the_mean(case):
    made = case(tied=True)
    mean, rows = made.rows("mean"), made.rows()
    learnt = [i for i, rule in enumerate(rows.provenance.rules) if rule == "learnt"]
    others = [i for i in range(made.ours.size) if i not in learnt]
    assert torch.equal(rows.target_UD[others], mean.target_UD[others])
    assert not (rows.target_UD[learnt] == mean.target_UD[learnt]).all(1).any()
    assert {rows.provenance.source_ids[i] for i in learnt} == {-1}
    assert made.facts["pieces"] == len(learnt)
    assert made.facts["snippets"] > len(learnt)
    slow = case(tied=True, LEARNING_RATE=1e-9).rows().target_UD[learnt]
    torch.testing.assert_close(slow, mean.target_UD[learnt], atol=1e-6, rtol=0)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_both_losses_are_those_of_the_stock_model_with_the_rows_behind_its_own(family, case):
    made = case(family)
    generator = torch.Generator().manual_seed(1)
    inputs, outputs = (torch.randn(25, made.input().shape[1], generator=generator) for _ in "ab")
    pairs, learnt = made.pairs(made.rows())
    inputs, outputs = inputs[: len(learnt)], outputs[: len(learnt)]
    given = made.material()
    with token_distillation._running(given.pretrained) as packed:
        work = token_distillation._Work(packed, given.pretrained, {}, given)
        ours = float(work.difference(inputs, pairs[:6]))
        nats = float(work.next_token(inputs, outputs, pairs[:6]))
    assert ours == pytest.approx(made.difference(inputs, pairs[:6]), rel=1e-4)
    model, total, count = made.stock(inputs, outputs), 0.0, 0
    for pair in pairs[:6]:
        ids = torch.from_numpy(pair.whole)
        with torch.no_grad():
            logits = model(ids[None]).logits[0, :-1]
        total += float(torch.nn.functional.cross_entropy(logits, ids[1:], reduction="sum"))
        count += len(ids) - 1
    assert nats == pytest.approx(total / count, rel=1e-4)


def test_output_rows_learn_to_predict_the_next_token(case):
    made = case("llama")
    inputs = made.rows().target_UD
    rows = made.rows(output=inputs)
    assert "learnt" in rows.provenance.rules
    measured = made.facts["next_token_nats"]
    assert measured["after"] < measured["before"]


def test_the_source_is_left_as_it_was(case):
    made = case()
    before = {name: tensor.clone() for name, tensor in made.model.state_dict().items()}
    made.model.train()
    made.rows()
    assert made.model.training
    assert all(parameter.requires_grad for parameter in made.model.parameters())
    assert made.model.config._attn_implementation != ATTENTION
    for name, tensor in made.model.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert "forward" not in vars(made.model.get_input_embeddings())
    assert len(made.model.model.layers) == made.model.config.num_hidden_layers
