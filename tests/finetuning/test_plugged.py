"""Fine-tuning with cross-attention plugged in: what is read with what, and what is learnt."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import lingraft
from lingraft.finetuning import heads, partners
from lingraft.finetuning.coders.common import Shape, collate
from lingraft.finetuning.problem import PARTNER, TASK, Finetuning
from lingraft.finetuning.recipe import PlugIn
from lingraft.models import cross_attention, loading
from lingraft.models.modules import MODULES
from lingraft.tasks import TASKS
from lingraft.tasks.examples import Answer, SpanExample, TaggedExample, TextExample

CROSS = MODULES["cross_attention"]
PAIRS = {
    "pawsx-ko": [
        (
            TextExample("0", "나는 책을 읽었다", "책", "1"),
            TextExample("0", "a book", "read it", "1"),
        ),
        (
            TextExample("1", "친구", "학교에", "0"),
            TextExample("1", "a friend at school", "no", "0"),
        ),
    ],
    "klue-sts": [
        (TextExample("0", "책", "친구", score=2.0), TextExample("0", "book one", "b", score=2.0)),
        (TextExample("1", "나는 책을", "나", score=1.0), TextExample("1", "a", "b", score=1.0)),
    ],
    "panx-ko": [
        (
            TaggedExample("0", ("나는", "책을", "읽었다"), ("B-PER", "O", "O")),
            TaggedExample("0", ("I", "read"), ("B-PER", "O")),
        ),
        (
            TaggedExample("1", ("친구",), ("O",)),
            TaggedExample("1", ("a", "friend", "of", "mine"), ("O", "O", "O", "B-ORG")),
        ),
    ],
    "xquad-de": [
        (
            SpanExample("0", "Wer?", "das ist ein Haus", (Answer("Haus", 12),)),
            SpanExample("0", "Who?", "this is a house", (Answer("house", 10),)),
        ),
        (
            SpanExample("1", "Was?", "ein Baum", (Answer("Baum", 4),)),
            SpanExample("1", "What?", "a tree of the house", (Answer("tree", 2),)),
        ),
    ],
}
every_kind = pytest.mark.parametrize("name", PAIRS)


@pytest.fixture
def problem(veco_source):
    """A tiny model that is plugged in, without dropout, on two pairs: `problem(task)`."""

    def built(name, family="xlm-roberta", alone=False, **plug_in):
        folder, task = veco_source(family), TASKS[name]
        task = replace(task, spans=task.spans and task.spans.model_copy(update={"doc_stride": 16}))
        tokenizer = heads.tokenizer_for(folder, task)
        model = heads.build(folder, task, tokenizer, 0, PlugIn(**plug_in))
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        shape = Shape(tokenizer, tokenizer.pad_token_id, 48, family == "bert")
        coder = heads.CODERS[task.kind](task, shape)
        there = {} if alone else {own.id: other for own, other in PAIRS[name]}
        items = partners.items(coder, [own for own, _ in PAIRS[name]], there)
        return Finetuning(model, coder, shape, items, [], 4_096)

    return built


def batch_of(made, items=None, predict=True):
    return collate(made.coder, made.shape, items or made.items, predict=predict)


def outputs_of(made, items=None):
    made.module.eval()
    with torch.no_grad():
        _, outputs = made.module(batch_of(made, items))
    return torch.cat([one.flatten() for one in outputs.values()])


@every_kind
@pytest.mark.parametrize("family", ["xlm-roberta", "bert", "modernbert"])
def test_the_loss_is_the_mean_of_the_two_sides_losses(name, family, problem):
    """Each side predicted from [H ; S] by itself, through the same head, in plain passes."""
    made = problem(name, family)
    made.module.eval().requires_grad_(False)
    model, coder, items = made.model, made.coder, made.items
    step = made.step(np.arange(2), 0, 0, 1)
    losses = [made.module(batch) for batch in step.micro_batches]
    ours = sum(
        sum(float(one[term].nats) for one in losses) / step.targets[term]
        for term in (TASK, PARTNER)
    )
    sides = []
    for own, other in (
        (items, [one.partner for one in items]),
        ([one.partner for one in items], items),
    ):
        nats = count = 0
        for x, y in zip(own, other, strict=True):
            a, b = (batch_of(made, [one]).inputs for one in (x, y))
            h, memory = model.model.base_model(**a)[0], model.model.base_model(**b)[0]
            mask = torch.zeros(1, 1, h.shape[1], memory.shape[1])
            plugged = {cross_attention.MEMORY: memory, cross_attention.MASK: mask}
            s = model.model.base_model(**a, **plugged)[0]
            outputs = model.head(torch.cat([h, s], -1))
            nats += float(coder.loss(outputs, coder.targets([x], len(x.ids))))
            count += coder.count(x)
        sides.append(nats / count)
    assert ours == pytest.approx(sum(sides) / 2, rel=1e-4)
    assert sides[0] != pytest.approx(sides[1], rel=1e-5)


@every_kind
def test_the_partner_matters_and_is_not_the_input_itself(name, problem):
    made, alone = problem(name), problem(name, alone=True)
    assert not torch.allclose(outputs_of(made), outputs_of(alone), atol=1e-4)
    for item in alone.items:
        assert (item.partner.ids == item.ids).all()


@every_kind
def test_the_partner_s_padding_is_not_seen(name, problem):
    made = problem(name)
    one, other = made.items
    together = made.coder.collect(outputs_dict(made, [one, other]), [one, other])
    apart = [made.coder.collect(outputs_dict(made, [item]), [item])[0] for item in (one, other)]
    assert len(one.partner.ids) != len(other.partner.ids)
    for first, second in zip(together, apart, strict=True):
        np.testing.assert_allclose(np.array(first), np.array(second), atol=1e-4)


def outputs_dict(made, items):
    made.module.eval()
    with torch.no_grad():
        return made.module(batch_of(made, items))[1]


def test_cross_attention_learns_from_labels_and_the_head_for_masked_words_stays(problem):
    made = problem("pawsx-ko")
    (loss, *_) = [made.module(batch) for batch in made.step(np.arange(2), 0, 0, 1).micro_batches]
    (loss[TASK].nats + loss[PARTNER].nats).backward()
    named = dict(made.model.model.named_parameters())
    for name, parameter in named.items():
        if CROSS.owns(name) and not name.endswith("key.bias"):  # softmax does not see it
            assert parameter.grad.abs().sum() > 0, name
        if name.startswith("lm_head") and name != "lm_head.decoder.weight":  # the embeddings
            assert parameter.grad is None
    assert made.trainable < sum(parameter.numel() for parameter in made.model.parameters())


def test_stop_gradient_keeps_the_partner_s_states_constant(problem):
    """With a head that reads S alone, x's loss reaches y's words through cross-attention only."""
    for stop in (False, True):
        made = problem("pawsx-ko", stop_gradient=stop)
        with torch.no_grad():
            made.model.head.dense.weight[:, : made.model.model.config.hidden_size].zero_()
        losses = made.module(batch_of(made, predict=False))
        losses[TASK].nats.backward()
        gradient = made.model.model.get_input_embeddings().weight.grad
        own = {int(i) for item in made.items for i in item.ids}
        theirs = sorted({int(i) for item in made.items for i in item.partner.ids} - own)
        assert theirs
        assert bool(gradient[theirs].abs().sum() == 0) is stop


@every_kind
def test_what_was_saved_is_built_again_with_its_head(name, problem, tmp_path):
    made = problem(name)
    before = outputs_of(made)
    made.save(tmp_path / "best")
    task, plug_in = TASKS[name], PlugIn()
    again = heads.build(tmp_path / "best", task, made.shape.tokenizer, 7, plug_in)
    other = Finetuning(again, made.coder, made.shape, made.items, [], 4_096)
    assert torch.equal(outputs_of(other), before)
    with torch.no_grad():
        for parameter in again.parameters():
            parameter.zero_()
    heads.restore(again, tmp_path / "best")
    assert torch.equal(outputs_of(other), before)
    assert loading.own_tensors(lingraft.load(tmp_path / "best"), CROSS)


def test_a_saved_head_keeps_its_labels_apart_in_another_order_and_is_none_for_others(
    problem, tmp_path
):
    made, task = problem("panx-ko"), TASKS["panx-ko"]
    made.save(tmp_path / "best")
    tokenizer, head = made.shape.tokenizer, made.model.head

    def loaded(*labels):
        other = replace(task, labels=labels)
        return heads.build(tmp_path / "best", other, tokenizer, 7, PlugIn()).head.out_proj

    turned = loaded(*reversed(task.labels))
    assert torch.equal(turned.weight, head.out_proj.weight.flip(0))
    assert torch.equal(turned.bias, head.out_proj.bias.flip(0))
    others = loaded(*(f"{label}'" for label in task.labels))
    assert not torch.equal(others.weight, head.out_proj.weight)
