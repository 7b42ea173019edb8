"""An objective of two terms that predict different numbers of tokens."""

import dataclasses

import torch
from torch.nn import functional

from lingraft.training.objectives import OBJECTIVES
from lingraft.training.objectives.common import LossSum
from lingraft.training.objectives.mlm import MLM


def chosen(targets):
    """All hidden tokens, and those with a small id: about a third."""
    return {"all": targets >= 0, "small": targets < 60}


def counts(corrupted, _):
    return {term: int(which.sum()) for term, which in chosen(corrupted.targets).items()}


def loss(packed, batch):
    """The second term is of another size, too."""
    nats = functional.cross_entropy(packed.logits(batch), batch.targets_M, reduction="none")
    scales = {"all": 1.0, "small": 3.0}
    terms = chosen(batch.targets_M).items()
    return {one: LossSum(nats[at].sum() * scales[one], int(at.sum())) for one, at in terms}


TWO_TERMS = dataclasses.replace(MLM, counts=counts, loss=loss)


def install():
    """Let phases that ask for mlm have two terms, in this process."""
    OBJECTIVES["mlm"] = TWO_TERMS
    torch.set_num_threads(1)
