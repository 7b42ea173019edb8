"""New rows that the source model itself reads as it reads the tokens that they stand for.

Shape letters: V source vocabulary, D width of the embeddings, N new rows, M compared tokens.
"""

from __future__ import annotations

import contextlib
import copy
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.func import functional_call
from torch.nn import functional

from lingraft.devices import device_for
from lingraft.models.embeddings import row_training
from lingraft.models.embeddings.common import Combination, RowPlan
from lingraft.models.embeddings.mean import composed
from lingraft.models.embeddings.row_training import RowTraining
from lingraft.models.packed import assemble, check_isolation, lent
from lingraft.models.rows import ROW_MULTIPLE
from lingraft.models.stacks import packed_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from transformers import PreTrainedModel

    from lingraft.models.embeddings.common import Inputs, Material, Pretrained
    from lingraft.models.embeddings.row_training import Array, Pattern, Snippet
    from lingraft.models.packed import PackedBatch, PackedModel

logger = logging.getLogger(__name__)

NAME = "token-distillation"
SNIPPETS, SNIPPET_TOKENS = 100, 50
"""Stretches of text for each new piece, and their length in the source's tokens, at most."""
BATCH, LEARNING_RATE = 16, 1e-4
HELD_OUT, ENOUGH = 256, 10
"""Snippets that are kept apart to measure on, at most; of pieces that have so many, one each."""
LOGITS_AT_ONCE = 256
"""Tokens whose logits over the source's vocabulary are there at a time."""
FILLER = 0
"""Fills rows: any id does, for no token sees it, and published configurations have a padding of -1.
"""


def token_distillation(inputs: Inputs) -> RowPlan:
    """Start as `mean`; train new rows so that the source's hidden states stay what they were.

    Snippets of the text in which a new piece occurs are read twice: split as the source's tokenizer
    splits them, and with the piece as one token. The mean squared difference of the hidden states,
    at all tokens that both have (of the split piece at its last), is made small by AdamW; nothing
    but new rows changes. Rows of an output projection that is not tied are trained to predict the
    next token of the same snippets. A piece that the source writes as one token, or that does not
    occur in the text, stays as `mean` makes it. In float32, on a GPU where there is one; the same
    for the same text and seed on the same machine.

    Source: token distillation (Dobler, Elliott and de Melo 2026, arXiv 2505.20133), §3, and its
    code for the constant learning rate and the rows of the output projection.

    Differs from the paper: snippets are as long as their sentence where that is short, and a piece
    needs one, not all; output rows are trained after the input rows, not beside them.

    Material: its source tokenizer, text, and source model are used.

    Raises:
        RecipeError: there is no source model.
    """
    material = inputs.needed(NAME)
    owner = material.pretrained
    assert owner is not None, "the recipe has a source model"
    began, ids = _began(inputs)
    samples = row_training.find_snippets(
        ids, material.sentences(), material.source_tokenizer, most=SNIPPETS, tokens=SNIPPET_TOKENS
    )
    owner.facts.update(
        pieces=len(samples),
        without_snippets=len(began.combinations) - len(samples),
        snippets=sum(map(len, samples.values())),
    )
    if not samples:
        return began
    start_ND = torch.stack([_row(began, inputs.source_VD, index) for index in samples])
    patterns = {index: pattern for pattern, index in ids.items() if index in samples}
    with _running(owner) as packed:
        work = _Work(packed, owner, patterns, material)
        rows_ND = work.learnt(start_ND, samples)
    summary = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in owner.facts.items())
    logger.info("token distillation: %s", summary)
    return began._replace(learnt=dict(zip(samples, rows_ND, strict=True)))


def _began(inputs: Inputs) -> tuple[RowPlan, dict[Pattern, int]]:
    """Return `mean`'s plan, and its new rows by the several tokens that the source writes instead.

    Of rows that are written alike, the first.
    """
    spelt: list[Pattern] = []

    def combine(parts: Sequence[int]) -> Combination:
        spelt.append(tuple(parts))
        return Combination.mean(parts)

    began = composed(NAME, inputs, combine)
    return began, {
        pattern: index
        for index, pattern in reversed(list(zip(began.combinations, spelt, strict=True)))
        if len(pattern) > 1
    }


def _row(plan: RowPlan, source_VD: torch.Tensor, index: int) -> torch.Tensor:
    ids, weights, _ = plan.combinations[index]
    rows_KD = source_VD[torch.from_numpy(ids).to(source_VD.device)].detach().float().cpu()
    return torch.from_numpy(weights) @ rows_KD


@contextlib.contextmanager
def _running(owner: Pretrained) -> Iterator[PackedModel]:
    """Lend the source model on packed rows, frozen, on a GPU if there is one; then restore it."""
    model: Any = owner.model  # transformers' decorators hide signatures
    attention, training = model.config._attn_implementation, model.training
    trainable = {name: p.requires_grad for name, p in model.named_parameters()}
    device = model.device
    try:
        packed = packed_model(model, owner.family)
        model.eval().requires_grad_(False)
        check_isolation(packed, FILLER)
        model.to(device_for())
        yield packed
    finally:
        model.to(device).train(training)
        model.set_attn_implementation(attention)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(trainable[name])


@dataclass(frozen=True)
class _Work:
    """The two trainings, of input rows and of output rows, on the same snippets."""

    packed: PackedModel
    owner: Pretrained
    patterns: Mapping[int, Pattern]
    """Source tokens of the new pieces, by target id."""
    given: Material

    @property
    def size(self) -> int:
        """Return V: ids from here on are new rows."""
        return len(self.packed.model.get_input_embeddings().get_parameter("weight"))

    def learnt(self, start_ND: torch.Tensor, samples: Mapping[int, list[Array]]) -> torch.Tensor:
        """Return the trained rows [N, D], on the CPU; the report's part goes into `owner.facts`.

        Args:
            start_ND: [N, D] where they start.
            samples: snippets by target id, in the order of the rows.
        """
        device = self.packed.model.device
        examples, held_out = [], []
        for number, (index, texts) in enumerate(samples.items()):
            pattern, new_id = self.patterns[index], self.size + number
            pairs = [row_training.pair(ids, pattern, new_id) for ids in texts]
            if len(pairs) >= ENOUGH:
                held_out.append(pairs.pop())
            examples += pairs
        held_out = held_out[:: -(-len(held_out) // HELD_OUT) or 1]
        kind, name, loss = "input rows", "mean_squared_difference", self.difference
        if self.owner.embeddings_UD is not None:
            kind, name = "output rows", "next_token_nats"
            loss = partial(self.next_token, self.owner.embeddings_UD[list(samples)].to(device))
        training = RowTraining(f"token distillation: {kind}", self.given.seed, LEARNING_RATE, BATCH)
        rows_ND = training.run(start_ND.to(device), examples, loss)
        if held_out:
            before, after = (
                float(f"{training.measure(rows.to(device), held_out, loss):.4g}")
                for rows in (start_ND, rows_ND)
            )
            self.owner.facts[name] = {"held_out": len(held_out), "before": before, "after": after}
        return rows_ND

    def difference(self, rows_ND: torch.Tensor, pairs: Sequence[Snippet]) -> torch.Tensor:
        """Return the mean squared difference of both forms' hidden states, over M tokens and D."""
        split, whole = self.batches(pairs)
        with torch.no_grad():
            expected_MD = self.states(split)
        with more_rows(self.packed.model, rows_ND):
            return functional.mse_loss(self.states(whole), expected_MD)

    def next_token(
        self, inputs_ND: torch.Tensor, rows_ND: torch.Tensor, pairs: Sequence[Snippet]
    ) -> torch.Tensor:
        """Return mean nats of the next token in the whole form; only new rows have a gradient."""
        texts = [pair.whole for pair in pairs]
        places = [np.arange(len(text) - 1) for text in texts]
        batch = self.laid_out(texts, places, [text[1:] for text in texts])
        with torch.no_grad(), more_rows(self.packed.model, inputs_ND):
            x_MD = self.packed.predicted(batch)
        nats = torch.zeros((), device=x_MD.device)
        chunks = zip(x_MD.split(LOGITS_AT_ONCE), batch.targets_M.split(LOGITS_AT_ONCE), strict=True)
        for x_CD, targets_C in chunks:
            nats = nats + self.chunk_nats(x_CD, targets_C, rows_ND)
        return nats / len(x_MD)

    def chunk_nats(
        self, x_CD: torch.Tensor, targets_C: torch.Tensor, rows_ND: torch.Tensor
    ) -> torch.Tensor:
        """Return the summed -log p over both the source's vocabulary and the new rows."""
        with torch.no_grad():
            old_CV = self.packed.head(x_CD).float()
            total_C = old_CV.logsumexp(-1)
            is_old_C = targets_C < self.size
            gold_C = old_CV.gather(1, targets_C.clamp(max=self.size - 1)[:, None])[:, 0]
        with other_rows(self.packed.model, rows_ND):
            new_CN = self.packed.head(x_CD).float()
        new_gold_C = new_CN.gather(1, (targets_C - self.size).clamp(min=0)[:, None])[:, 0]
        both_C = torch.logaddexp(total_C, new_CN.logsumexp(-1))
        return (both_C - torch.where(is_old_C, gold_C, new_gold_C)).sum()

    def batches(self, pairs: Sequence[Snippet]) -> tuple[PackedBatch, PackedBatch]:
        """Pack both forms in rows; the tokens that are compared stand in the same order."""
        split = self.laid_out([pair.split for pair in pairs], [pair.kept for pair in pairs])
        everywhere = [np.arange(len(pair.whole)) for pair in pairs]
        return split, self.laid_out([pair.whole for pair in pairs], everywhere)

    def laid_out(
        self, texts: Sequence[Array], places: Sequence[Array], gold: Sequence[Array] | None = None
    ) -> PackedBatch:
        """Lay out a snippet a row, so that both forms have the same order."""
        rows = [[number] for number in range(len(texts))]
        width = -(-max(map(len, texts)) // ROW_MULTIPLE) * ROW_MULTIPLE
        batch = assemble(texts, places, gold or places, rows, width, FILLER)
        return batch.to(self.packed.model.device)

    def states(self, batch: PackedBatch) -> torch.Tensor:
        """Return the last hidden states [M, D], behind the final norm, at the batch's tokens."""
        return self.packed.predicted(batch).float()


@contextlib.contextmanager
def more_rows(model: PreTrainedModel, rows_ND: torch.Tensor) -> Iterator[None]:
    """Let a model's word embeddings have rows behind their own, with a gradient of their own.

    Their module computes what it makes of a row (Gemma multiplies it by √D). No copy of the matrix
    is made: each call has a table of the rows that occur.
    """
    embedding: Any = model.get_input_embeddings()
    weight_VD, size = embedding.weight.detach(), len(embedding.weight)
    small = copy.copy(embedding)
    small.padding_idx = None

    def look_up(ids: torch.Tensor) -> torch.Tensor:
        used, places = torch.unique(ids, return_inverse=True)
        old = used[used < size]
        table = torch.cat([weight_VD[old].float(), rows_ND[used[len(old) :] - size]])
        return functional_call(small, {"weight": table}, (places,))

    with lent(embedding, "forward", look_up):
        yield


def other_rows(
    model: PreTrainedModel, rows_ND: torch.Tensor
) -> contextlib.AbstractContextManager[None]:
    """Let a model's output projection have other rows, with a gradient; a bias is left out."""
    head = model.get_output_embeddings()
    return lent(head, "forward", lambda x: functional.linear(x, rows_ND))
