"""Replay by the source's probabilities: the loss by hand, in chunks, and which recipes have it."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from lingraft.errors import RecipeError
from lingraft.models import chunked
from lingraft.models.families import FAMILIES
from lingraft.models.packed import PackedModel, assemble
from lingraft.models.rows import pack
from lingraft.pipeline.preflight import check_words
from lingraft.recipe.methods import expand, recipe_from, with_phases
from lingraft.training.objectives.clm import CLM
from lingraft.training.objectives.mlm import MLM
from lingraft.training.objectives.soft_labels import SoftLabels

OBJECTIVES = {"bert": MLM, "llama": CLM}
FOREIGN = 319
"""A piece that the source lacks; it has id 0 of the student, as what fills up targets reads."""


def made(family, tiny_model, tiny_tokens):
    """A student whose ids are the source's turned by one, the soft labels, and a batch: the second
    sentence has a foreign piece."""
    source, student = tiny_model(family), tiny_model(family)
    with torch.no_grad():
        for weight in student.parameters():
            weight += 0.02 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    size = source.config.vocab_size
    own = {str(piece): piece for piece in range(size) if piece != FOREIGN}
    theirs = {str(piece): (piece + 1) % size for piece in range(size)}
    soft = SoftLabels(source, FAMILIES[family], own, theirs, 1)
    tokens = tiny_tokens(6)
    sentences = [row.astype(np.int64) % 300 for row in tokens.rows(range(6))]
    sentences = [np.where(row == FOREIGN, 9, row) for row in sentences]
    sentences[1][3] = FOREIGN
    sentences = [(row + 1) % size for row in sentences]
    causal = FAMILIES[family].kind == "causal"
    read = [row[:-1] if causal else row for row in sentences]
    places = [np.arange(len(row)) if causal else np.array([2, 5]) for row in read]
    targets = [row[1:] if causal else row[[2, 5]] for row in sentences]
    rows, width = pack(np.array([len(row) for row in read]), 32)
    order = [index for row in rows for index in row]
    batch = assemble(read, places, targets, rows, width, 1, "soft")
    by_hand = [(read[i], places[i], targets[i], i != 1) for i in order]
    return source.eval(), student.eval(), soft, batch, by_hand


@pytest.mark.parametrize("family", OBJECTIVES)
def test_the_loss_is_the_cross_entropy_of_the_source_s_probabilities(
    family, tiny_model, tiny_tokens, monkeypatch
):
    source, student, soft, batch, by_hand = made(family, tiny_model, tiny_tokens)
    expected, size = torch.zeros(()), source.config.vocab_size
    kept = [piece for piece in range(size) if piece != FOREIGN]
    for read, places, targets, is_soft in by_hand:
        log = student(input_ids=torch.tensor(read)[None]).logits[0, places].log_softmax(1)
        if is_soft:
            with torch.no_grad():
                logits = source(input_ids=torch.tensor(read - 1)[None]).logits[0, places]
            labels = logits[:, kept].softmax(1)
            expected = expected - (labels * log[:, [(one + 1) % size for one in kept]]).sum()
        else:
            expected = expected + functional.nll_loss(log, torch.tensor(targets), reduction="sum")
    expected.backward()
    trained = {name: p for name, p in student.named_parameters() if p.grad is not None}
    gradients = {name: parameter.grad.clone() for name, parameter in trained.items()}
    objective = soft.teach(OBJECTIVES[family])
    assert objective.name == f"{OBJECTIVES[family].name}-soft"
    packed = PackedModel(student, FAMILIES[family])
    for at_once in (chunked.LOGITS_AT_ONCE, 64 * size):  # whole, and in chunks
        monkeypatch.setattr(chunked, "LOGITS_AT_ONCE", at_once)
        student.zero_grad()
        (found,) = objective.loss(packed, batch).values()
        found.nats.backward()
        assert found.positions == len(batch.targets_M)
        assert found.nats.item() == pytest.approx(expected.item(), rel=1e-5)
        for name, gradient in gradients.items():
            torch.testing.assert_close(trained[name].grad, gradient, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("family", OBJECTIVES)
def test_who_has_the_source_s_probabilities_has_nothing_to_learn(family, tiny_model, tiny_tokens):
    source = tiny_model(family)
    same = {str(piece): piece for piece in range(source.config.vocab_size)}
    soft = SoftLabels(tiny_model(family), FAMILIES[family], same, same, 1)
    *_, batch, _ = made(family, tiny_model, tiny_tokens)
    packed = PackedModel(source.eval(), FAMILIES[family])
    soft.loss(packed, batch).backward()
    assert max(float(p.grad.abs().max()) for p in source.parameters() if p.grad is not None) < 1e-4


def replayed(action, **changes):
    """Which streams of a recipe with replay have soft labels, in each phase."""
    streams = [{"name": n, "language": n, "corpus": {"text": [f"{n}.txt"]}} for n in ("ko", "en")]
    training = {"method": "lapt", "replay": {"en": 0.1}} | changes.pop("training", {})
    table = {"source": {"model": "m"}, "streams": streams, "training": training}
    recipe = with_phases(expand(recipe_from(table | {"tokenizer": {"action": action}} | changes)))
    return recipe, [{entry.stream: entry.soft_labels for entry in p.data} for p in recipe.phases]


def test_replay_has_soft_labels_where_the_vocabulary_keeps_the_source_s_pieces():
    for action in ("keep", "extend", "append", "add"):
        assert replayed(action)[1] == [{"ko": False, "en": True}]
    hard = [{"ko": False, "en": False}]
    assert replayed("trim")[1] == replayed("new")[1] == hard
    assert replayed("add", training={"method": "scratch"})[1] == hard


def test_soft_labels_without_the_source_s_pieces_are_refused():
    recipe, _ = replayed("add")
    check_words(recipe)
    other = recipe.tokenizer.model_copy(update={"action": "new"})
    with pytest.raises(RecipeError, match="soft_labels: the vocabulary does not keep"):
        check_words(recipe.model_copy(update={"tokenizer": other}))
