"""Batches, losses and padding of fine-tuning; the parser's masks."""

import copy
import functools
import itertools
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_tokenizers
import torch
from right_answers import gold
from tiny_shapes import ENCODERS, SHAPES
from transformers import AutoConfig, AutoModelForMaskedLM

from lingraft.errors import UnsupportedModelError
from lingraft.finetuning import heads
from lingraft.finetuning import problem as finetuning_problem
from lingraft.finetuning.coders import parsing
from lingraft.finetuning.coders.common import Shape, collate
from lingraft.finetuning.coders.parsing import Parser, candidate_mask, word_edges
from lingraft.finetuning.coders.texts import MARKERS, WORD_STARTS
from lingraft.finetuning.problem import TASK, Finetuning, Judged, micro_batches
from lingraft.finetuning.recipe import Changes, settings_of
from lingraft.models import adapters, cross_attention, loading
from lingraft.models.families import family_of
from lingraft.models.loading import own_tensors
from lingraft.models.losses import IGNORED
from lingraft.models.modules import MODULES
from lingraft.recipe import Tokenizer as Section
from lingraft.tasks import TASKS
from lingraft.tasks.examples import (
    Answer,
    Entity,
    ParseExample,
    RelationExample,
    SpanExample,
    TaggedExample,
    TextExample,
)
from lingraft.tokenizer import files as tokenizer_files

SHORT, LONG = "나는 책을 읽었다", "나는 학교에 가서 친구를 만나고 집에 와서 책을 읽었다"


def tagged(identifier, text):
    tags = ["B-PS"] + ["I-PS"] + ["O"] * (len(text) - 2)
    return TaggedExample(identifier, tuple(text), tuple(tags), characters=True)


def parsed(identifier, text):
    words = tuple(text.split())
    heads_of = (*range(2, len(words) + 1), 0)
    return ParseExample(
        identifier, words, ("NNG",) * len(words), heads_of, ("NP_SBJ",) * (len(words) - 1) + ("VP",)
    )


def asked(identifier, text):
    return SpanExample(identifier, "누가 읽었나?", text, (Answer("책을", text.index("책을")),))


def related(identifier, text):
    return RelationExample(
        identifier, text, Entity(0, 2, "PER"), Entity(3, 5, "ORG"), "no_relation"
    )


MAKERS = {
    "klue-ynat": lambda identifier, text: TextExample(identifier, text, label="정치"),
    "klue-nli": lambda identifier, text: TextExample(identifier, text, SHORT, "neutral"),
    "klue-sts": lambda identifier, text: TextExample(identifier, text, SHORT, score=2.5),
    "klue-ner": tagged,
    "klue-re": related,
    "klue-dp": parsed,
    "klue-mrc": asked,
}
EVERY_KIND = pytest.mark.parametrize("name", MAKERS)


@pytest.fixture
def problem(tiny_source, monkeypatch):
    """A tiny model without dropout on a task with four examples of two lengths."""

    def made(name, family="roberta", micro_batch_tokens=4_096):
        monkeypatch.setattr(parsing, "LSTM_WIDTH", 16)
        task = TASKS[name]
        task = replace(task, spans=task.spans and task.spans.model_copy(update={"doc_stride": 16}))
        folder = tiny_source(family)
        tokenizer = heads.tokenizer_for(folder, task)
        model = heads.build(folder, task, tokenizer, seed=0)
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        encoder = model.encoder if isinstance(model, Parser) else model
        shape = Shape.of(tokenizer, encoder.config, type(encoder).forward, 120)
        coder = heads.CODERS[task.kind](task, shape)
        examples = [
            MAKERS[name](str(n), text) for n, text in enumerate([SHORT, LONG, LONG + " ", SHORT])
        ]
        if name == "klue-dp":
            examples = [parsed(str(n), text) for n, text in enumerate([SHORT, LONG, LONG, SHORT])]
        items = coder.encode(examples)
        judged = [Judged("dev", task, examples, items)]
        return Finetuning(model, coder, shape, items, judged, micro_batch_tokens)

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
    found = [p.grad.clone() for p in problem.model.parameters() if p.grad is not None]
    return total, found


@EVERY_KIND
def test_padding_changes_neither_loss_nor_prediction(name, problem):
    made = problem(name)
    made.module.eval()
    items = made.items
    with torch.no_grad():
        together, outputs = made.module(collate(made.coder, made.shape, items, predict=True))
        alone = [made.module(collate(made.coder, made.shape, [i], predict=True)) for i in items]
    assert float(together[TASK].nats) == pytest.approx(
        sum(float(losses[TASK].nats) for losses, _ in alone), rel=1e-4
    )
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
    parts, small = gradients(problem(name, micro_batch_tokens=16), indices, num_ranks)
    assert parts == pytest.approx(whole, rel=1e-5)
    for one, other in zip(big, small, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-3)


def test_a_process_without_an_example_to_predict_takes_part_in_the_forward_pass(
    problem, monkeypatch
):
    made = problem("klue-ynat")
    (judged,) = made.dev
    examples, items = judged.examples[:1], judged.items[:1]
    passes, gathered = [], []
    made.module.register_forward_hook(lambda *_: passes.append(1))

    def run(rank):
        two = SimpleNamespace(
            process_index=rank, num_processes=2, device=torch.device("cpu"), reduce=lambda x, **_: x
        )
        return made.predict(made.module, two, examples, items)

    def gather(results):
        gathered.extend(results)
        return gathered

    monkeypatch.setattr(finetuning_problem, "gather_object", gather)
    answers, loss = run(0)
    assert (len(passes), len(gathered)) == (1, 1)
    assert loss > 0
    assert run(1) == (answers, 0.0)
    assert (len(passes), len(gathered)) == (2, 1)


@pytest.mark.parametrize(("family", "waits"), [("big_bird", False), ("electra", True)])
def test_no_gradient_is_waited_for_of_what_no_head_asks(
    family, waits, problem, tiny_source, tmp_path
):
    folder = tiny_source("electra")
    if family == "big_bird":
        folder = shutil.copytree(tiny_source("bert"), tmp_path / family)
        small = SHAPES["bert"] | {"vocab_size": 320, "attention_type": "original_full"}
        config = AutoConfig.for_model(family, **small)
        AutoModelForMaskedLM.from_config(config).save_pretrained(folder)
    task = TASKS["klue-nli"]
    model = heads.build(folder, task, heads.tokenizer_for(folder, task), seed=0)
    other = problem("klue-nli")
    made = Finetuning(model, other.coder, other.shape, other.items, other.dev, 4_096)
    (batch,) = made.step(np.arange(4), 0, 0, 1).micro_batches
    made.module(batch)[TASK].nats.backward()
    assert all(parameter.grad is not None for parameter in model.parameters()) == waits
    assert made.uneven != waits


def test_targets_are_counted_as_examples_labelled_tokens_words_and_windows(problem):
    assert problem("klue-nli").step(np.arange(4), 0, 0, 1).global_targets == 4
    assert problem("klue-dp").step(np.arange(4), 0, 0, 1).global_targets == 2 * 3 + 2 * 9
    made = problem("klue-ner")
    labelled = sum(label != IGNORED for item in made.items for label in item.target)
    assert made.step(np.arange(4), 0, 0, 1).global_targets == labelled


def test_padding_and_special_tokens_of_tagged_text_have_no_label(problem):
    made = problem("klue-ner")
    batch = collate(made.coder, made.shape, made.items, predict=False)
    assert (batch.targets["labels"][batch.inputs["attention_mask"] == 0] == IGNORED).all()
    assert (batch.targets["labels"][:, 0] == IGNORED).all()
    assert (batch.targets["labels"][0] != IGNORED).any()


def test_no_other_cut_of_pairs_in_order_costs_less():
    drawn = np.random.default_rng(0)
    sizes = [tuple(drawn.integers(1, 40, 2).tolist()) for _ in range(9)]
    order = sorted(range(9), key=lambda i: max(sizes[i]), reverse=True)

    def cost(groups):
        return sum(
            20 + len(group) * sum(max(sizes[i][side] for i in group) for side in (0, 1))
            for group in groups
        )

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
        section = Section(
            algorithm=kind.removeprefix("our "), vocab_size=400, character_coverage=1.0
        )
        text = tiny_tokenizers.TEXT
        tokenizer = tokenizer_files.train(section, None, lambda: text, pad_id=None, seed=0)
    tokenizer.add_special_tokens({"extra_special_tokens": list(MARKERS)})
    return tokenizer


def pieces_of(kind, text, subject, obj):
    """What the model reads of a sentence, without the tokens around it."""
    tokenizer = marking(kind)
    shape = Shape(tokenizer, tokenizer.pad_token_id, 128, False)
    spans = [Entity(text.index(word), text.index(word) + len(word), "") for word in (subject, obj)]
    coder = heads.CODERS["relation"](TASKS["klue-re"], shape)
    (item,) = coder.encode([RelationExample("0", text, *spans, "no_relation")])
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


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("bert", "electra")])
@pytest.mark.parametrize("text", ["친구를 학교에 저장", "책을 친구를 학교에 갔다"])
def test_an_entity_begins_a_word_and_its_particle_does_not(kind, text):
    tokenizer = marking(kind)
    tokens = pieces_of(kind, text, "친구", "학교")
    word_start = WORD_STARTS[tokenizer_files.kind_of(tokenizer)]
    first_word = tokenizer.tokenize(text)[0]
    for start, end in (("<subj>", "</subj>"), ("<obj>", "</obj>")):
        first, after = (tokens[tokens.index(marker) + 1] for marker in (start, end))
        if not word_start:
            assert not first.startswith("##")
            assert after.startswith("##")
        else:
            at_the_start = tokens.index(start) == 0
            expected = first_word[0] == word_start if at_the_start else True
            assert (first[0] == word_start) is expected
            assert after[0] != word_start


def test_heads_depend_on_the_seed_alone_and_encoders_do_not(tiny_source):
    task = TASKS["klue-nli"]
    folder = tiny_source("bert")
    tokenizer = heads.tokenizer_for(folder, task)
    first, again, other = (heads.build(folder, task, tokenizer, seed) for seed in (0, 0, 1))
    assert torch.equal(first.classifier.weight, again.classifier.weight)
    assert not torch.equal(first.classifier.weight, other.classifier.weight)
    name = "bert.encoder.layer.1.output.dense.weight"
    assert torch.equal(first.state_dict()[name], other.state_dict()[name])
    assert first.config.id2label == dict(enumerate(task.labels))


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


def test_the_parser_takes_the_best_allowed_head_of_each_word(problem):
    made = problem("klue-dp")
    made.module.eval()
    with torch.no_grad():
        _, outputs = made.module(collate(made.coder, made.shape, made.items, predict=True))
    for row, item in enumerate(made.items):
        words = len(item.target.heads)
        scores = outputs["arcs"][row, :words, : words + 1].numpy()
        assert outputs["heads"][row, :words].tolist() == scores.argmax(axis=1).tolist()
        assert np.isinf(scores[np.arange(words), np.arange(words) + 1]).all()
        assert np.isinf(outputs["arcs"][row, :words, words + 1 :].numpy()).all()


def test_words_are_found_by_their_characters_and_a_lost_word_has_the_first_token():
    words = ("나는", "책을")
    offsets = [(0, 0), (0, 1), (1, 2), (2, 4), (4, 5), (0, 0)]
    assert word_edges(words, offsets) == ([(1, 2), (3, 4)], 0)
    without = [(0, 0), (0, 2), (6, 7), (7, 8)]
    assert word_edges((*words, "산다"), without) == ([(1, 1), (0, 0), (2, 3)], 1)


@pytest.mark.parametrize("family", ["roberta", "xlm-roberta", "bert", "modernbert"])
def test_gold_targets_decode_to_full_marks_with_every_tokenizer(family, problem):
    """Tags and heads go to tokens and come back."""
    for name in ("klue-ner", "klue-dp"):
        made = problem(name, family)
        _, _, examples, items = made.dev[0]
        if name == "klue-ner":
            said = [[max(label, 0) for label in item.target] for item in items]
        else:
            said = [np.array([item.target.heads, item.target.relations]) for item in items]
        decoded = made.coder.decode(examples, items, said)
        assert decoded == [gold(example) for example in examples]


def test_changes_replace_a_tasks_settings_and_zero_means_none():
    task = TASKS["klue-nli"]
    changed = settings_of(task, Changes(learning_rate=1e-5, patience=0, clip=0.0))
    assert (changed.learning_rate, changed.patience, changed.clip) == (1e-5, None, None)
    assert changed.epochs == task.settings.epochs == 5


def test_scores_of_relations_are_a_bilinear_form_and_two_linear_ones():
    torch.manual_seed(0)
    relations = parsing.Relations(4, 3)
    torch.nn.init.normal_(relations.bias)
    word, head = torch.randn(2, 5, 4), torch.randn(2, 5, 4)
    wanted = torch.nn.functional.bilinear(word, head, relations.product, relations.bias)
    wanted = wanted + relations.word(word) + relations.head(head)
    torch.testing.assert_close(relations(word, head), wanted)


@pytest.mark.parametrize("name", ["klue-nli", "klue-dp"])
def test_adapters_are_part_of_the_encoder_that_is_fine_tuned(
    name, tiny_model, tmp_path, tiny_tokenizer
):
    model = tiny_model("bert")
    adapters.insert(model, family_of("bert"), 4)
    with torch.no_grad():
        for tensor in own_tensors(model, MODULES["adapters"]).values():
            tensor.normal_(generator=torch.Generator().manual_seed(0))
    loading.save(model, tmp_path / "source")
    tiny_tokenizer("bert").save_pretrained(tmp_path / "source")
    task = TASKS[name]
    tokenizer = heads.tokenizer_for(tmp_path / "source", task)
    built = heads.build(tmp_path / "source", task, tokenizer, seed=0)
    encoder = built.encoder if isinstance(built, Parser) else built.base_model
    ids = torch.tensor([[2, 9, 30, 41, 3]])
    with torch.no_grad():
        wanted = model.base_model(input_ids=ids).last_hidden_state
        torch.testing.assert_close(encoder.eval()(input_ids=ids).last_hidden_state, wanted)
    heads.save(built, tokenizer, tmp_path / "best")
    before = [p.detach().clone() for p in built.parameters()]
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.zero_()
    heads.restore(built, tmp_path / "best")
    assert all(torch.equal(a, b) for a, b in zip(before, built.parameters(), strict=True))


def test_a_model_with_cross_attention_is_fine_tuned_without_it(
    tiny_model, tmp_path, tiny_tokenizer
):
    model = tiny_model("bert")
    cross_attention.insert(model, family_of("bert"), 2)
    loading.save(model, tmp_path / "source")
    tiny_tokenizer("bert").save_pretrained(tmp_path / "source")
    task = TASKS["klue-nli"]
    tokenizer = heads.tokenizer_for(tmp_path / "source", task)
    built = heads.build(tmp_path / "source", task, tokenizer, seed=0)
    assert not any(MODULES["cross_attention"].owns(name) for name in built.state_dict())
    ids = torch.tensor([[2, 9, 30, 41, 3]])
    with torch.no_grad():
        wanted = model.base_model(input_ids=ids).last_hidden_state
        assert torch.equal(built.eval().base_model(input_ids=ids).last_hidden_state, wanted)


def test_a_head_that_reads_a_text_where_padding_stands_is_refused():
    with pytest.raises(UnsupportedModelError, match="classify a text at its end"):
        heads.forward_of(AutoConfig.for_model("xlnet"), "sequence")
    assert heads.forward_of(AutoConfig.for_model("xlnet"), "token")


@pytest.mark.parametrize("kind", ["t5", "m2m_100"])
def test_a_parser_on_a_model_that_reads_nothing_without_a_second_text_is_refused(kind):
    with pytest.raises(UnsupportedModelError, match="read no text without another one"):
        heads.forward_of(AutoConfig.for_model(kind), "parser")
    assert heads.forward_of(AutoConfig.for_model("bart"), "parser")
    assert heads.forward_of(AutoConfig.for_model("t5"), "sequence")
