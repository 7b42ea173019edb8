"""Sentence states of a monolingual teacher, as an auxiliary loss (XLM+KD).

Teacher and student cut text differently, so tokens have no counterpart. For each sentence of the
teacher's language the mean of the student's last hidden states on the unmasked text is drawn to
that of the teacher's on the same text, cut by the teacher's own tokenizer.

Source: MetaXLM (Chi et al. 2021), §5.3, which names neither loss nor tokenisation; both are ours:
weight · mean over D of the squared difference, summed over sentences.

Shape letters: N rows, T tokens in a row, S sentences, D width.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import torch

from lingraft.models.packed import PackedModel, assemble, check_isolation
from lingraft.models.rows import pack
from lingraft.models.stacks import packed_model
from lingraft.tokenizer import shards
from lingraft.training.objectives.common import Array, Corrupted, Losses, LossSum, Objective

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from lingraft.models.families import Family
    from lingraft.models.packed import PackedBatch

TERM = "kd"
ROW_TOKENS = 128


def pooled(states_NTD: torch.Tensor, segments_NT: torch.Tensor) -> torch.Tensor:
    """Return the mean state of every sentence [S, D], in fp32: row by row, in the order of a row.

    Args:
        states_NTD: of packed rows.
        segments_NT: which sentence of its row a token belongs to, from 1; 0 is padding.
    """
    sentences_N = segments_NT.amax(1)
    first_N = torch.cumsum(sentences_N, 0) - sentences_N
    real = segments_NT > 0
    places = (first_N[:, None] + segments_NT - 1)[real]
    number = int(sentences_N.sum())
    sums_SD = states_NTD.new_zeros(number, states_NTD.shape[-1], dtype=torch.float32)
    sums_SD = sums_SD.index_add(0, places.long(), states_NTD[real].float())
    return sums_SD / torch.bincount(places, minlength=number)[:, None]


def sentences_of(batch: PackedBatch) -> list[list[int]]:
    """Return token ids of every sentence, in the order of `pooled`."""
    ids_NT, segments_NT = batch.input_ids_NT.tolist(), batch.segments_NT.tolist()
    sentences: list[list[int]] = []
    for ids, segments in zip(ids_NT, segments_NT, strict=True):
        row: list[list[int]] = [[] for _ in range(max(segments))]
        for token, segment in zip(ids, segments, strict=True):
            if segment:
                row[segment - 1].append(token)
        sentences += row
    return sentences


class Teacher:
    """A frozen model with its tokenizer, and how a student's token ids become text."""

    def __init__(
        self,
        model: PreTrainedModel,
        family: Family,
        tokenizer: PreTrainedTokenizerFast,
        student_tokenizer: PreTrainedTokenizerFast,
        *,
        longest: int,
        weight: float,
    ) -> None:
        """Freeze a model and make it ready for packed rows.

        Args:
            model: the teacher.
            family: its record.
            tokenizer: its own.
            student_tokenizer: of the token ids that it is given.
            longest: tokens that the teacher reads; more are cut off.
            weight: λ of the loss.

        Raises:
            UnsupportedModelError: sentences in one row see each other.
        """
        self.packed = packed_model(model, family).eval().requires_grad_(False)
        check_isolation(self.packed, int(tokenizer.pad_token_id))
        self.tokenizer, self.student_tokenizer = tokenizer, student_tokenizer
        self.longest, self.weight = longest, weight
        self.read_as = shards.without_special(tokenizer)

    def _text(self, ids: list[int]) -> str:
        """Return the text of the student's ids; between a block's sentences stands a space."""
        special = set(self.student_tokenizer.all_special_ids)
        parts = [list(part) for hidden, part in groupby(ids, special.__contains__) if not hidden]
        return " ".join(self.student_tokenizer.batch_decode(parts))

    @torch.no_grad()
    def states(self, sentences: list[list[int]], device: torch.device) -> torch.Tensor:
        """Return the teacher's mean states [S, D] of sentences, given as the student's ids."""
        texts = [self._text(ids) for ids in sentences]
        rows = shards.cut(self.tokenizer, texts, self.longest, self.read_as)["input_ids"]
        nothing = [np.zeros(0, dtype=np.int64)] * len(rows)
        order, width = pack(np.array([len(row) for row in rows]), ROW_TOKENS)
        pad = int(self.tokenizer.pad_token_id)
        batch = assemble(rows, nothing, nothing, order, width, pad, TERM).to(device)
        states_SD = pooled(self.packed.hidden(batch), batch.segments_NT)
        places = torch.tensor([index for row in order for index in row], device=device)
        return torch.empty_like(states_SD).index_copy(0, places, states_SD)

    def loss(self, student: PackedModel, batch: PackedBatch) -> Losses:
        """Return the squared distance to the teacher, summed over sentences; `nats` are none."""
        device = batch.input_ids_NT.device
        if next(self.packed.parameters()).device != device:
            self.packed.to(device)
        teacher_SD = self.states(sentences_of(batch), device)
        student_SD = pooled(student.hidden(batch), batch.segments_NT)
        distances_S = (student_SD - teacher_SD).square().mean(1)
        return {TERM: LossSum(self.weight * distances_S.sum(), len(distances_S))}

    @property
    def objective(self) -> Objective:
        """Return the objective for the batches of the teacher's language; it hides nothing."""
        return Objective(
            name=TERM,
            summary="sentence states of a monolingual teacher, beside another objective",
            paper="MetaXLM (Chi et al. 2021), §5.3",
            corrupt=_hides_nothing,
            counts=_hides_nothing,
            loss=self.loss,
        )


def _hides_nothing(*_: Array | Corrupted | object) -> NoReturn:
    raise AssertionError("distillation reads text as it is; training.mixture makes its batches")
