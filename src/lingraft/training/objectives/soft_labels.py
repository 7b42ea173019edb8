"""Soft labels: replayed text is learnt by the source's probabilities (Hinton et al. 2015).

The text has one token at a place; the source's probabilities say all that it knows of the place,
which replay is to keep (learning without forgetting, Li and Hoiem 2016). A sentence with a piece
that the source lacks has its own tokens as labels.

Shape letters: N rows, T tokens in a row, M predicted tokens, C tokens of a chunk, D width,
V pieces of the vocabulary, W pieces of the source.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.checkpoint import checkpoint

from lingraft.models.chunked import chunk_size
from lingraft.models.losses import IGNORED
from lingraft.models.packed import PackedModel, check_isolation
from lingraft.models.stacks import packed_model
from lingraft.training.objectives.common import Losses, LossSum, Objective

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transformers import PreTrainedModel

    from lingraft.models.families import Family
    from lingraft.models.packed import PackedBatch


class SoftLabels:
    """A frozen source, and how ids of its pieces are those of a vocabulary that keeps them."""

    def __init__(
        self,
        model: PreTrainedModel,
        family: Family,
        own: Mapping[str, int],
        theirs: Mapping[str, int],
        pad: int,
    ) -> None:
        """Freeze the source and make it ready for packed rows.

        Args:
            model: the source.
            family: its record.
            own: its vocabulary.
            theirs: the student's, which has all of its pieces.
            pad: id of the source that fills rows.

        Raises:
            UnsupportedModelError: sentences in one row see each other.
        """
        self.packed = packed_model(model, family).eval().requires_grad_(False)
        check_isolation(self.packed, pad)
        self.own_W = torch.tensor([own[piece] for piece in own])
        self.theirs_W = torch.tensor([theirs[piece] for piece in own])
        self.own_V = torch.full((max(theirs.values()) + 1,), -1)
        self.own_V[self.theirs_W] = self.own_W

    def teach(self, objective: Objective) -> Objective:
        """Return an objective of one term, with the source's probabilities as labels."""

        def loss(student: PackedModel, batch: PackedBatch) -> Losses:
            return {objective.name: LossSum(self.loss(student, batch), len(batch.targets_M))}

        return replace(objective, name=f"{objective.name}-soft", loss=loss)

    def loss(self, student: PackedModel, batch: PackedBatch) -> torch.Tensor:
        """Return the summed cross-entropy of the source's probabilities, softmax in fp32.

        Its gradients are those of the divergence KL(source ‖ student).
        """
        filled = batch.filled()
        device = filled.input_ids_NT.device
        if self.own_V.device != device:
            self.own_W, self.theirs_W, self.own_V = (
                ids.to(device) for ids in (self.own_W, self.theirs_W, self.own_V)
            )
            self.packed.to(device)
        own_NT = self.own_V[filled.input_ids_NT]
        with torch.no_grad():  # before the student's, whose tensors stay for the gradients
            read = replace(filled, input_ids_NT=own_NT.clamp_min(0))
            theirs_MD = self.packed.predicted(read)
        x_MD = student.predicted(filled)
        readable_M = self._readable(filled, own_NT >= 0)
        size = chunk_size(int(student.model.config.vocab_size))
        columns = (x_MD, theirs_MD, filled.targets_M, readable_M)
        parts = [*zip(*(column_M.split(size) for column_M in columns), strict=True)]
        if len(parts) == 1:
            return self._chunk(student, *parts[0])
        settings: Any = {"use_reentrant": False, "preserve_rng_state": False}
        chunks = [checkpoint(self._chunk, student, *part, **settings) for part in parts]
        return torch.stack(chunks).sum()

    def _readable(self, batch: PackedBatch, known_NT: torch.Tensor) -> torch.Tensor:
        """Return of each predicted token [M] whether its sentence has the source's pieces alone."""
        segments_NT, places_M = batch.segments_NT, batch.masked_M
        rows, width = segments_NT.shape
        first_N1 = torch.arange(rows, device=segments_NT.device)[:, None] * (width + 1)
        sentences_T = (first_N1 + segments_NT).flatten()
        if self.packed.family.kind != "causal":  # a piece at random may stand there
            known_NT = known_NT.flatten().index_fill(0, places_M, value=True)
        known_M = (self.own_V[batch.targets_M.clamp_min(0)] >= 0) | (batch.targets_M == IGNORED)
        whole = torch.ones(rows * (width + 1), device=segments_NT.device)
        for which, known in ((sentences_T, known_NT.flatten()), (sentences_T[places_M], known_M)):
            whole = whole.scatter_reduce(0, which, known.float(), "amin")
        return whole[sentences_T[places_M]] > 0

    def _chunk(
        self,
        student: PackedModel,
        x_CD: torch.Tensor,
        theirs_CD: torch.Tensor,
        targets_C: torch.Tensor,
        readable_C: torch.Tensor,
    ) -> torch.Tensor:
        log_CV = student.head(x_CD).log_softmax(1, dtype=torch.float32)
        with torch.no_grad():
            soft_CW = self.packed.head(theirs_CD)[:, self.own_W].softmax(1, dtype=torch.float32)
        soft_C = (soft_CW * log_CV[:, self.theirs_W]).sum(1)
        drawn_C = log_CV.gather(1, targets_C.clamp_min(0)[:, None])[:, 0]
        return -(torch.where(readable_C, soft_C, drawn_C) * (targets_C != IGNORED)).sum()
