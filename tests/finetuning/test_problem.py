"""Batches, losses and padding of fine-tuning; the parser's masks."""

import copy
import functools
import itertools

import numpy as np
import pytest
import tiny_tokenizers
import torch
from right_answers import gold
from task_settings import with_settings
from tiny_shapes import ENCODERS

from lingraft.finetuning import heads
from lingraft.finetuning.coders import parsing
from lingraft.finetuning.coders.common import InputShape, collate
from lingraft.finetuning.coders.parsing import candidate_mask
from lingraft.finetuning.coders.texts import MARKERS
from lingraft.finetuning.problem import TASK, micro_batches
from lingraft.recipe import Tokenizer as Section
from lingraft.tasks import TASKS, examples as rows
from lingraft.tokenizer import files as tokenizer_files

SHORT, LONG = "나는 책을 읽었다", "나는 학교에 가서 친구를 만나고 집에 와서 책을 읽었다"


def tagged(identifier, text):
    tags = ["B-PS"] + ["I-PS"] + ["O"] * (len(text) - 2)
    return rows.TaggedExample(identifier, tuple(text), tuple(tags), characters=True)


def parsed(identifier, text):
    words = tuple(text.split())
    heads_of, kinds = (*range(2, len(words) + 1), 0), ("NP_SBJ",) * (len(words) - 1) + ("VP",)
    return rows.ParseExample(identifier, words, ("NNG",) * len(words), heads_of, kinds)


def asked(identifier, text):
    answer = rows.Answer("책을", text.index("책을"))
    return rows.SpanExample(identifier, "누가 읽었나?", text, (answer,))


def related(identifier, text):
    entities = (rows.Entity(0, 2, "PER"), rows.Entity(3, 5, "ORG"))
    return rows.RelationExample(identifier, text, *entities, "no_relation")


MAKERS = {
    "klue-ynat": lambda identifier, text: rows.TextExample(identifier, text, label="정치"),
    "klue-nli": lambda identifier, text: rows.TextExample(identifier, text, SHORT, "neutral"),
    "klue-sts": lambda identifier, text: rows.TextExample(identifier, text, SHORT, score=2.5),
    "klue-ner": tagged,
    "klue-re": related,
    "klue-dp": parsed,
    "klue-mrc": asked,
}
EVERY_KIND = pytest.mark.parametrize("name", MAKERS)


@pytest.fixture
def problem(tiny_source, finetuning, monkeypatch):
    """A tiny model without dropout on a task with four examples of two lengths."""

    def made(name, family="roberta", tokens=4_096):
        monkeypatch.setattr(parsing, "LSTM_WIDTH", 16)
        task = with_settings(TASKS[name], doc_stride=16, max_length=120)
        texts = enumerate([SHORT, LONG, LONG if name == "klue-dp" else f"{LONG} ", SHORT])
        examples = [MAKERS[name](str(number), text) for number, text in texts]
        return finetuning(tiny_source(family), task, examples, tokens)

    return made


def gradients(problem, indices, num_ranks=1):
    """Of the mean loss over a global batch, as the loop makes it."""
    problem.model.zero_grad()
    total = 0.0
    for rank in range(num_ranks):
        step = problem.step(np.array(indices), 0, rank, num_ranks)
        for batch, weight in zip(step.micro_batches, step.weights, strict=True):
            loss = problem.module(batch)[TASK].nats * weight / step.targets[TASK]
            loss.backward()
            total += float(loss.detach())
    return total, [p.grad.clone() for p in problem.model.parameters() if p.grad is not None]


@EVERY_KIND
def test_padding_changes_neither_loss_nor_prediction(name, problem):
    made = problem(name)
    made.module.eval()
    items = made.items
    with torch.no_grad():
        together, outputs = made.module(collate(made.coder, items, predict=True))
        alone = [made.module(collate(made.coder, [i], predict=True)) for i in items]
    nats = sum(float(losses[TASK].nats) for losses, _ in alone)
    assert float(together[TASK].nats) == pytest.approx(nats, rel=1e-4)
    assert len({len(item.ids) for item in items}) > 1
    first = made.coder.collect(outputs, items)
    second = [made.coder.collect(out, [i])[0] for (_, out), i in zip(alone, items, strict=True)]
    for one, other in zip(first, second, strict=True):
        np.testing.assert_allclose(np.array(one), np.array(other), atol=1e-4)


@pytest.mark.parametrize("name", ["klue-nli", "klue-sts", "klue-ner", "klue-mrc"])
@pytest.mark.parametrize("num_ranks", [1, 2])
def test_micro_batches_and_processes_give_the_gradient_of_the_big_batch(name, num_ranks, problem):
    indices = [0, 1, 2, 3]
    whole, big = gradients(problem(name), indices)
    parts, small = gradients(problem(name, tokens=16), indices, num_ranks)
    assert parts == pytest.approx(whole, rel=1e-5)
    for one, other in zip(big, small, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-3)


def test_no_other_cut_of_pairs_in_order_costs_less():
    drawn = np.random.default_rng(0)
    sizes = [tuple(drawn.integers(1, 40, 2).tolist()) for _ in range(9)]
    order = sorted(range(9), key=lambda i: max(sizes[i]), reverse=True)

    def cost(groups):
        widest = [np.max([sizes[i] for i in group], axis=0).sum() for group in groups]
        return sum(20 + len(group) * most for group, most in zip(groups, widest, strict=True))

    ways = []
    for cuts in itertools.product([False, True], repeat=8):
        edges = [0, *(at + 1 for at, cut in enumerate(cuts) if cut), 9]
        ways.append([order[a:b] for a, b in itertools.pairwise(edges)])
    found = micro_batches(sizes, 10_000, 20)
    assert [index for group in found for index in group] == order
    assert cost(found) == min(map(cost, ways))


KINDS = (*ENCODERS, "our unigram", "our byte-bpe", "our wordpiece")


@functools.cache
def marking(kind):
    """A tokenizer that knows the entity markers: a family's, or one trained as a run does."""
    if kind in tiny_tokenizers.BUILDERS:
        tokenizer = copy.deepcopy(tiny_tokenizers.build(kind))
    else:
        algorithm, text = kind.removeprefix("our "), tiny_tokenizers.TEXT
        section = Section(algorithm=algorithm, vocab_size=400, character_coverage=1.0)
        tokenizer = tokenizer_files.train(section, None, lambda: text, pad_id=None, seed=0)
    tokenizer.add_special_tokens({"extra_special_tokens": list(MARKERS)})
    return tokenizer


def pieces_of(kind, text, subject, obj):
    """What the model reads of a sentence, without the tokens around it."""
    tokenizer = marking(kind)
    shape = InputShape(tokenizer, tokenizer.pad_token_id, 128, False)
    places = [(text.index(word), len(word)) for word in (subject, obj)]
    spans = [rows.Entity(at, at + length, "") for at, length in places]
    coder = heads.CODERS["relation"](TASKS["klue-re"], shape)
    (item,) = coder.encode([rows.RelationExample("0", text, *spans, "no_relation")])
    around = {tokenizer.cls_token, tokenizer.bos_token, tokenizer.sep_token, tokenizer.eos_token}
    tokens = tokenizer.convert_ids_to_tokens(item.ids.tolist())
    return [token for token in tokens if token not in around]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("subject", "obj"), [("coffee", "menu"), ("The", "coffee"), ("menu", "lists"), ("cake", "The")]
)
def test_entities_of_whole_words_leave_every_piece_what_it_is_without_markers(kind, subject, obj):
    text = "The menu lists coffee and cake"
    unmarked = [token for token in pieces_of(kind, text, subject, obj) if token not in MARKERS]
    assert unmarked == marking(kind).tokenize(text)


def test_saved_weights_are_put_back_whole(tmp_path, problem):
    for name in ("klue-nli", "klue-dp"):
        made = problem(name)
        made.save(tmp_path / name)
        before = [p.detach().clone() for p in made.model.parameters()]
        with torch.no_grad():
            for parameter in made.model.parameters():
                parameter.zero_()
        heads.restore(made.model, tmp_path / name)
        after = made.model.parameters()
        assert all(torch.equal(one, two) for one, two in zip(before, after, strict=True))


# -- parsing


def test_no_word_can_be_its_own_head_nor_have_padding_for_one():
    allowed = candidate_mask(torch.tensor([2, 3]), 3)
    assert allowed[0, 0].tolist() == [True, False, True, False]
    assert allowed[0, 1].tolist() == [True, True, False, False]
    assert allowed[1, 2].tolist() == [True, True, True, False]


@pytest.mark.parametrize("family", ["roberta", "bert"])
def test_gold_targets_decode_to_full_marks_with_every_tokenizer(family, problem):
    """Tags and heads go to tokens and come back."""
    for name in ("klue-ner", "klue-dp"):
        made = problem(name, family)
        _, _, examples, items = made.dev[0]
        if name == "klue-ner":
            said = [[max(label, 0) for label in item.target] for item in items]
        else:
            said = [np.array([item.target.heads, item.target.relations]) for item in items]
        assert made.coder.decode(examples, items, said) == [gold(example) for example in examples]


def test_scores_of_relations_are_a_bilinear_form_and_two_linear_ones():
    torch.manual_seed(0)
    relations = parsing.Relations(4, 3)
    torch.nn.init.normal_(relations.bias)
    word, head = torch.randn(2, 5, 4), torch.randn(2, 5, 4)
    wanted = torch.nn.functional.bilinear(word, head, relations.product, relations.bias)
    wanted = wanted + relations.word(word) + relations.head(head)
    torch.testing.assert_close(relations(word, head), wanted)
