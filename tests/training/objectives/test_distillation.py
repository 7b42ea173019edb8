"""XLM+KD: sentence states on unmasked text, drawn to a teacher's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lingraft.models.families import FAMILIES
from lingraft.models.packed import PackedModel
from lingraft.recipe import Masking
from lingraft.training.data import Batcher
from lingraft.training.mixture import MixtureBatcher
from lingraft.training.objectives import OBJECTIVES
from lingraft.training.objectives.common import TokenIds
from lingraft.training.objectives.distillation import TERM, Teacher, pooled, sentences_of

IDS = TokenIds(size=320, mask=319, pad=1, special=(0, 1, 2, 3, 319))
TEXT = ("Open the file and save it.", "The dog sleeps.", "나는 학교에 가서 책을 읽었다.")


@pytest.fixture
def teacher(tiny_model, tiny_tokenizer):
    """A BERT teaches a RoBERTa: other weights, another tokenizer, the same width."""

    def of(weight=1.0, longest=128):
        return Teacher(
            tiny_model("bert"),
            FAMILIES["bert"],
            tiny_tokenizer("bert"),
            tiny_tokenizer("roberta"),
            longest=longest,
            weight=weight,
        )

    return of


@pytest.fixture
def batch(tiny_tokenizer, tiny_tokens):
    """The three sentences, packed; the shortest and the second share a row."""
    rows = [np.array(ids) for ids in tiny_tokenizer("roberta")(list(TEXT))["input_ids"]]
    batcher = Batcher(_Rows(rows), OBJECTIVES["mlm"], IDS, Masking(), 48, 4_096, 0, "phase-1")
    step = MixtureBatcher([batcher], 0).step(np.arange(3), 0)
    return step.micro_batches[0]


class _Rows:
    def __init__(self, rows):
        self.held, self.lengths = rows, np.array([len(row) for row in rows])

    def __len__(self):
        return len(self.held)

    def rows(self, indices):
        return [self.held[index] for index in indices]


def test_the_mean_state_of_a_sentence_is_over_its_own_tokens():
    states_NTD = torch.arange(24.0).reshape(2, 6, 2)
    segments_NT = torch.tensor([[1, 1, 2, 2, 2, 0], [1, 0, 0, 0, 0, 0]])
    expected = [
        states_NTD[0, :2].mean(0),
        states_NTD[0, 2:5].mean(0),
        states_NTD[1, 0],
    ]
    assert torch.equal(pooled(states_NTD, segments_NT), torch.stack(expected))


@torch.no_grad()
def test_the_loss_is_that_of_single_sentences_through_the_stock_models(
    teacher, batch, tiny_model, tiny_tokenizer
):
    student = tiny_model("roberta")
    loss = teacher(weight=0.5).loss(PackedModel(student, FAMILIES["roberta"]), batch)[TERM]
    expected = 0.0
    for text in TEXT:
        states = []
        for family in ("roberta", "bert"):
            ids = torch.tensor([tiny_tokenizer(family)(text)["input_ids"]])
            base = tiny_model(family).base_model
            states.append(base(input_ids=ids).last_hidden_state[0].mean(0))
        expected += 0.5 * float((states[0] - states[1]).square().mean())
    assert loss.positions == 3
    assert float(loss.nats) == pytest.approx(expected, rel=1e-4)


def test_only_the_teacher_s_stream_is_read_whole(tiny_tokens):
    batchers = [
        Batcher(tiny_tokens(number), OBJECTIVES["mlm"], IDS, Masking(), 32, 4_096, 0, name)
        for name, number in (("ko", 10), ("en", 6))
    ]
    mixture = MixtureBatcher(batchers, 1)
    indices = np.array([0, 3, 11, 15, 12])  # two Korean sentences and three English ones
    step = mixture.step(indices, 0)
    plain = MixtureBatcher(batchers).step(indices, 0)
    assert step.targets == {TERM: 3} | plain.targets
    assert step.global_targets == plain.global_targets  # tokens; a teacher's are sentences
    assert step.micro_batches[0].objective == TERM
    assert (step.global_tokens, step.global_sentences) == (plain.global_tokens, 5)
    assert TERM not in mixture.step(np.array([0, 3]), 0).targets
    shares = [mixture.step(indices, 0, rank, 2) for rank in (0, 1)]
    found = [
        sentence
        for share in shares
        for micro, weight in zip(share.micro_batches, share.weights, strict=True)
        if micro.objective == TERM and weight
        for sentence in sentences_of(micro)
    ]
    together = sentences_of(step.micro_batches[0])
    assert sorted(found) == sorted(together)
    assert all(share.targets == step.targets for share in shares)


def test_gradients_reach_the_student_and_never_the_teacher(teacher, batch, tiny_model):
    student, frozen = tiny_model("roberta"), teacher()
    frozen.loss(PackedModel(student, FAMILIES["roberta"]), batch)[TERM].nats.backward()
    grads = {name for name, p in student.named_parameters() if p.grad is not None}
    assert any("encoder.layer.0" in name for name in grads)
    assert not any("lm_head" in name for name in grads)
    assert all(p.grad is None and not p.requires_grad for p in frozen.packed.parameters())
    assert not frozen.packed.training
