"""What holds for every objective: a new entry in OBJECTIVES is tested by this."""

import numpy as np
import pytest
import torch
from phase_rows import IDS

from lingraft.models import cross_attention
from lingraft.models.families import FAMILIES
from lingraft.models.stacks import packed_model
from lingraft.recipe import Masking
from lingraft.tokenizer.documents import Documents
from lingraft.tokenizer.pairs import Edges, TokenPairs
from lingraft.training.data import Batcher, Reading
from lingraft.training.masked_text import MaskedText
from lingraft.training.objectives import OBJECTIVES
from lingraft.training.objectives.mlm import sentence_keys

pytestmark = pytest.mark.parametrize("name", OBJECTIVES)


def units(name, tokens):
    """What the objective reads: sentences, each a document, or every two of them as a pair."""
    if OBJECTIVES[name].reads == "sentences":
        return tokens
    if OBJECTIVES[name].reads == "documents":
        return Documents.of(tokens, 64)
    rows = np.arange(0, len(tokens) - 1, 2)
    sides = np.stack([[rows, rows + 1], [rows + 1, rows + 2]]).transpose(2, 0, 1)
    longest = 64 if OBJECTIVES[name].reads == "joined pairs" else None
    return TokenPairs(tokens, sides, Edges(1, 1), 64, longest)


def family_for(name):
    """One of the kind that the objective trains."""
    return {"masked": "roberta", "seq2seq": "bart", "causal": "llama"}[OBJECTIVES[name].kind]


@pytest.fixture
def whole_model(tiny_model):
    """A tiny model with cross-attention, for objectives that plug it in."""

    def made(name):
        model = tiny_model(family_for(name))
        if name == "ca_mlm":
            cross_attention.insert(model, FAMILIES["roberta"], 2, 0)
        return model

    return made


def losses(name, tokens, model, groups):
    """The losses by term of each group of units, as announced before the forward pass."""
    tokens = units(name, tokens)
    batcher = Batcher(tokens, OBJECTIVES[name], IDS, Masking(rate=0.3), 32, 4_096, 0, "phase-1")
    packed, found = packed_model(model, FAMILIES[family_for(name)]), []
    for group in groups:
        step = batcher.step(np.array(group), 0)
        (batch,) = step.micro_batches
        losses = OBJECTIVES[name].loss(packed, batch)
        assert {term: loss.positions for term, loss in losses.items()} == step.targets
        found.append(losses)
    return found


def test_it_knows_its_name_and_where_it_comes_from(name):
    assert OBJECTIVES[name].name == name
    assert OBJECTIVES[name].summary
    assert OBJECTIVES[name].paper


def test_its_corruption_does_not_depend_on_the_batch(name, tiny_tokens):
    sentences = tiny_tokens(8).rows(range(8))
    keys = sentence_keys(np.arange(8), 3)
    lengths = np.array([len(s) for s in sentences])
    corrupt = OBJECTIVES[name].corrupt
    together = corrupt(np.concatenate(sentences), lengths, keys, IDS, Masking())
    alone = [
        corrupt(s, np.array([len(s)]), keys[i : i + 1], IDS, Masking())
        for i, s in enumerate(sentences)
    ]
    assert together.ids.tolist() == np.concatenate([part.ids for part in alone]).tolist()
    assert together.targets.tolist() == np.concatenate([part.targets for part in alone]).tolist()
    assert len(together.targets) >= 8


def test_its_loss_is_a_sum_over_positions(name, tiny_tokens, whole_model):
    tokens, model = tiny_tokens(24), whole_model(name)
    whole, first, second = losses(
        name, tokens, model, [list(range(12)), list(range(5)), list(range(5, 12))]
    )
    assert whole
    for term, (nats, positions) in whole.items():
        assert positions == first[term].positions + second[term].positions > 0
        together = first[term].nats + second[term].nats
        torch.testing.assert_close(nats, together, atol=1e-3, rtol=1e-5)


def test_its_loss_reaches_the_embeddings_and_the_layers(name, tiny_tokens, whole_model):
    model = whole_model(name)
    (found,) = losses(name, tiny_tokens(12), model, [range(6)])
    sum(loss.nats for loss in found.values()).backward()
    silent = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert silent == []


def test_several_processes_know_whether_it_reaches_all_that_trains(
    name, tiny_tokens, tiny_model, tiny_job
):
    family = FAMILIES[family_for(name)]
    model, tokens = tiny_model(family_for(name)), units(name, tiny_tokens(12))
    if family.cross_attention:
        cross_attention.insert(model, family, 2, 0)
    reading = Reading("", tokens, tokens, name, Masking())
    job = tiny_job(family=family, vocabulary=IDS, phase={"objective": name}, readings=(reading,))
    problem = MaskedText(job, model)
    batch = problem.step(np.arange(4), 0, 0, 1).micro_batches[-1]
    sum(loss.nats for loss in problem.module(batch).values()).backward()
    unreached = any(parameter.grad is None for parameter in model.parameters())
    assert problem.uneven == unreached
