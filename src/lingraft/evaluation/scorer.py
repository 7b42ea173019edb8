"""Logits at hidden positions, for a stock model of any family.

Models run on packed rows, their body in bf16 where that is fast and their head in fp32: logits in
bf16 have so few digits that a quarter to 60 % of the targets tie with other tokens.

Shape letters: M masked positions, D width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lingraft.devices import device_for
from lingraft.errors import DataError
from lingraft.log import progress
from lingraft.models import loading
from lingraft.models.families import family_of
from lingraft.models.families.record import KINDS
from lingraft.models.packed import check_isolation
from lingraft.models.rows import even_rows, pack
from lingraft.models.stacks import LAYOUTS, packed_model
from lingraft.pretrained.load import load_config
from lingraft.training.beside import sent
from lingraft.training.machine import multiplies_bf16

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from transformers import PreTrainedModel

    from lingraft.models.families.record import KindName

Array = np.ndarray[Any, Any]

TOKENS_AT_ONCE = 4_096
TOKENS_IN_A_ROW = 16_384
"""Tokens of the one row, for every portion, where a model attends by segments (a GPU)."""
POSITIONS_AT_ONCE = 1_024


@dataclass(frozen=True)
class HiddenItem:
    """Sentence with hidden tokens."""

    ids: Array
    masked: Array
    """Positions of the hidden tokens."""
    targets: Array
    """The tokens that stand there."""
    written: Array | None = None
    """Tokens that a decoder writes: then `masked` are places in it; None without a decoder."""

    @property
    def room(self) -> int:
        """Return how much of a row the item takes."""
        return max(len(self.ids), 0 if self.written is None else len(self.written))


def check_kind(name: str, kind: KindName, revision: str | None = None) -> None:
    """Refuse a checkpoint of another kind by its configuration alone.

    Raises:
        DataError: no checkpoint, or one of another kind.
        UnsupportedModelError: it is of a family without a record.
    """
    family = family_of(load_config(name, revision).model_type)
    if family.kind != kind:
        raise DataError(
            f"model '{name}' is of type '{family.model_type}', which has no {KINDS[kind].title}; "
            f"its perplexity would be of another kind, give a {kind} one"
        )


class Scorer:
    """A model ready to score items; its weights become fp32.

    Args:
        model: a stock model of a family with a record.
        pad_id: of its tokenizer.
        precision: auto, bf16 or fp32, of the body.
    """

    def __init__(self, model: PreTrainedModel, pad_id: int, precision: str = "auto") -> None:
        self.device = device_for()
        self.model = model.to(self.device, torch.float32).eval()
        self.pad_id = pad_id
        self.bf16 = precision == "bf16" or (precision == "auto" and multiplies_bf16())
        self.packed = packed_model(self.model, family_of(model.config.model_type))
        check_isolation(self.packed, pad_id)

    @classmethod
    def load(
        cls,
        name: str,
        pad_id: int,
        precision: str = "auto",
        kind: KindName = "masked",
        revision: str | None = None,
    ) -> Scorer:
        """Load a scorer of a kind's checkpoint.

        Raises:
            DataError: no checkpoint, a broken one, or one without a head.
        """
        check_kind(name, kind, revision)
        model, _ = loading.load(name, revision)
        return cls(model, pad_id, precision)

    @torch.no_grad()
    def logits(self, items: Sequence[HiddenItem]) -> Iterator[tuple[Array, torch.Tensor]]:
        """Yield the logits of all hidden tokens, in portions.

        Args:
            items: sentences; they are taken longest first.

        Yields:
            `where` [M, 2] (index of the item, index within its hidden tokens), and logits [M, V] in
            fp32.
        """
        order = sorted(range(len(items)), key=lambda index: -items[index].room)
        for portion in self._portions(items, order):
            yield from self._packed(items, portion)

    def _portions(self, items: Sequence[HiddenItem], order: Sequence[int]) -> Iterator[list[int]]:
        portion: list[int] = []
        tokens, most = 0, TOKENS_IN_A_ROW if self.packed.by_segments else TOKENS_AT_ONCE
        for index in order:
            size = items[index].room
            if portion and tokens + size > most:
                yield portion
                portion, tokens = [], 0
            portion.append(index)
            tokens += size
        if portion:
            yield portion

    def _packed(
        self, items: Sequence[HiddenItem], portion: Sequence[int]
    ) -> Iterator[tuple[Array, torch.Tensor]]:
        subset = [items[index] for index in portion]
        room = np.array([item.room for item in subset])
        in_a_row = self.packed.by_segments
        rows, width = even_rows(room, TOKENS_IN_A_ROW) if in_a_row else pack(room, 128)
        batch = LAYOUTS[self.packed.family.kind](
            [i.ids for i in subset],
            [i.masked for i in subset],
            [i.targets if i.written is None else i.written for i in subset],
            rows,
            width,
            self.pad_id,
        )
        batch = sent(batch.rounded(width // 8, self.pad_id) if in_a_row else batch, self.device)
        where = [(portion[k], j) for row in rows for k in row for j in range(len(subset[k].masked))]
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bf16):
            x_NTD = self.packed.hidden(batch)
        x_MD = x_NTD.flatten(0, 1).index_select(0, batch.masked_M).float()
        for start in range(0, len(where), POSITIONS_AT_ONCE):
            part = slice(start, start + POSITIONS_AT_ONCE)
            yield np.array(where[part]), self.packed.head(x_MD[part])


def surprisals(scorer: Scorer, items: Sequence[HiddenItem], label: str) -> tuple[Array, Array]:
    """Compute the surprisal of each item's hidden tokens.

    Args:
        scorer: the model.
        items: with their targets.
        label: what is scored, for the progress.

    Returns:
        [I] The sum of the targets' negative log-likelihoods in nats, and [I] how many of them are
        the model's first choice.
    """
    nats_I, right_I = np.zeros(len(items)), np.zeros(len(items), dtype=np.int64)
    with progress(label, sum(len(item.targets) for item in items), "tokens") as ticker:
        for where, logits_MV in scorer.logits(items):
            gold = [int(items[i].targets[j]) for i, j in where]
            targets_M = torch.tensor(gold, device=logits_MV.device)
            nats_M = torch.nn.functional.cross_entropy(logits_MV, targets_M, reduction="none")
            np.add.at(nats_I, where[:, 0], nats_M.double().cpu().numpy())
            np.add.at(right_I, where[:, 0], (logits_MV.argmax(1) == targets_M).cpu().numpy())
            ticker.advance(len(where))
    return nats_I, right_I
