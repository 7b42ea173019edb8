"""Fine-tuning with cross-attention plugged in: what is read with what, and what is learnt.

Where the translations of a split's examples are found, without a model.
"""

import json

import numpy as np
import pytest
import torch
from task_settings import with_settings

from lingraft.errors import DataError
from lingraft.finetuning import partners
from lingraft.finetuning.coders.common import collate
from lingraft.finetuning.problem import PARTNER, TASK
from lingraft.models import cross_attention
from lingraft.models.modules import MODULES
from lingraft.tasks import TASKS
from lingraft.tasks.decoding import task_in
from lingraft.tasks.examples import Answer, SpanExample, TaggedExample, TextExample

CROSS = MODULES["cross_attention"]
PAIRS = {
    "pawsx-ko": [
        (TextExample("0", "나는 책을", "책", "1"), TextExample("0", "a book", "read it", "1")),
        (TextExample("1", "친구", "책", "0"), TextExample("1", "a friend at school", "no", "0")),
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
            TaggedExample("1", ("a", "friend", "here"), ("O", "O", "B-ORG")),
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
def problem(veco_source, finetuning):
    """A tiny model that is plugged in, without dropout, on two pairs: `problem(task)`."""

    def built(name, family="xlm-roberta", alone=False):
        task = with_settings(TASKS[name], doc_stride=16, max_length=48)
        own = [own for own, _ in PAIRS[name]]
        there = {} if alone else {one.id: other for one, other in PAIRS[name]}
        return finetuning(
            veco_source(family), task, own, is_plugged=True,
            encode=lambda coder: partners.items(coder, own, there)
        )  # fmt: skip

    return built


def batch_of(made, items=None, predict=True):
    return collate(made.coder, items or made.items, predict=predict)


@every_kind
@pytest.mark.parametrize("family", ["xlm-roberta", "bert"])
def test_the_loss_is_the_mean_of_the_two_sides_losses(name, family, problem):
    """Each side predicted from [H ; S] by itself, through the same head, in plain passes."""
    made = problem(name, family)
    made.module.eval().requires_grad_(False)
    model, coder, items = made.model, made.coder, made.items
    step = made.step(np.arange(2), 0, 0, 1)
    losses = [made.module(batch) for batch in step.micro_batches]
    nats = {term: sum(float(one[term].nats) for one in losses) for term in (TASK, PARTNER)}
    ours = sum(of / step.targets[term] for term, of in nats.items())
    sides, theirs = [], [one.partner for one in items]
    for own, other in ((items, theirs), (theirs, items)):
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
    for name, parameter in dict(made.model.model.named_parameters()).items():
        if CROSS.owns(name) and not name.endswith("key.bias"):  # softmax does not see it
            assert parameter.grad.abs().sum() > 0, name
        if name.startswith("lm_head") and name != "lm_head.decoder.weight":  # the embeddings
            assert parameter.grad is None
    assert made.trainable < sum(parameter.numel() for parameter in made.model.parameters())


MOOD = 'name = "mood"\nkind = "classification"\nlabels = ["no", "yes"]\n'


@pytest.fixture
def found(tmp_path):
    """Translations by id in a file of rows, of a task with more lines."""

    def called(rows, more=""):
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        (tmp_path / "train.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
        files = 'files = { train = "train.jsonl", dev = "train.jsonl", test = "train.jsonl" }\n'
        (tmp_path / "mood.toml").write_text(MOOD + files + more, "utf-8")
        matches = partners.translations(task_in(tmp_path / "mood.toml"), "train", tmp_path)
        return {key: example.text for key, example in matches.items()}

    return called


def row(number, **more):
    return {"id": number, "text": f"text {number}", "label": ("no", "yes")[number % 2], **more}


def test_rows_may_lack_a_translation(found):
    rows = [row(0), row(1, translation="말 1"), row(2, translation=" "), row(3)]
    assert found(rows) == {"1": "말 1"}


def test_translations_in_a_file_of_their_own_are_found_by_ids_or_refused(found, tmp_path):
    other = json.dumps({"text": "말", "label": "no"}, ensure_ascii=False)
    (tmp_path / "other.jsonl").write_text(other + "\n", "utf-8")
    with pytest.raises(DataError, match=r"other\.jsonl: has no ids"):
        found([row(0)], 'translations = { train = "other.jsonl" }\n')
