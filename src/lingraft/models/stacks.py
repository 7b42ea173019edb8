"""Packed forward passes of encoder–decoders and of own attention, and which one a kind has.

A row of an encoder and the row of its decoder with the same number hold the same sentences in the
same order. A token of the encoder sees its sentence, one of the decoder what stands before it in
its own, and the encoder's states of that sentence alone. T5's relative positions depend on
distances within a sentence, so a row may start anywhere; where positions count along the row
(BART, mBART, M2M), they are given here.

Shape letters: N rows, T tokens in a row of the encoder, U in a row of the decoder, M predicted
tokens, H heads, D width, V vocabulary.
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lingraft.models import segments
from lingraft.models.packed import PackedBatch, PackedModel, assemble, lent, number_format
from lingraft.models.rows import ROW_MULTIPLE
from lingraft.models.segments import NOTHING, Bounds, Segments, Starts
from lingraft.pretrained.load import needed_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from transformers import PreTrainedModel

    from lingraft.models.families import Family


class PackedOwn(PackedModel):
    """A model that attends by code of its own, and adds a mask to its scores (XGLM).

    Its attention cannot be replaced, but it takes a mask [N, 1, T, T], which keeps sentences apart.
    """

    def attend(self, *, packed: bool) -> None:
        """Keep the class's own attention, packed or not."""


class PackedAlibi(PackedOwn):
    """A model whose scores fall with the distance, by a slope for each head (BLOOM).

    The class makes them from a padding mask [N, T]; here each token counts within its sentence.
    Only differences of positions act, but in bf16 small positions are the exact ones.
    """

    def hidden(self, batch: PackedBatch, **more: Any) -> torch.Tensor:
        """Return the last hidden states [N, T, D]."""
        body: Any = self.model.base_model
        stock = type(body).build_alibi_tensor

        def build(_: torch.Tensor, num_heads: int, dtype: torch.dtype) -> torch.Tensor:
            along_row = stock(body, torch.ones_like(batch.input_ids_NT), num_heads, dtype)
            rows, tokens = batch.input_ids_NT.shape
            index_NHT = batch.positions_NT[:, None].expand(rows, num_heads, tokens)
            alibi_NHT = along_row.view(rows, num_heads, tokens).gather(2, index_NHT)
            return alibi_NHT.flatten(0, 1)[:, None]

        with lent(body, "build_alibi_tensor", build):
            given = {"input_ids": batch.input_ids_NT, "attention_mask": self.mask(batch)}
            return body(**given, use_cache=False, **more).last_hidden_state


class PackedDisentangled(PackedOwn):
    """A model whose scores depend on the distance of two tokens, by learned vectors (DeBERTa).

    The class takes a padding mask [N, T] alone; its layers take one [N, 1, T, T].
    """

    def hidden(self, batch: PackedBatch, **more: Any) -> torch.Tensor:
        """Return the last hidden states [N, T, D]."""
        body: Any = self.model.base_model
        embedded_NTD = body.embeddings(
            input_ids=batch.input_ids_NT,
            position_ids=batch.positions_NT,
            mask=batch.segments_NT > 0,
        )
        return body.encoder(
            embedded_NTD, self.mask(batch) == 0, output_hidden_states=False, **more
        ).last_hidden_state


Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class StacksBatch(PackedBatch):
    """Sentences in rows of the encoder, what is to be written in rows of the decoder.

    `masked_M` are indices into the flattened rows of the decoder.
    """

    target_ids_NU: torch.Tensor
    target_positions_NU: torch.Tensor
    target_segments_NU: torch.Tensor
    target_bounds: Bounds = NOTHING

    def rounded(self, multiple: int, pad_id: int) -> StacksBatch:
        """Widen both stacks' rows to a multiple; the batch is one row."""
        wider: dict[str, Any] = {
            name: torch.nn.functional.pad(
                side, (0, -side.shape[1] % multiple), value=pad_id if "_ids_" in name else 0
            )
            for name, side in vars(self).items()
            if isinstance(side, torch.Tensor) and side.dim() == 2
        }
        return replace(self, **wider)


def assemble_stacks(
    sentences: Sequence[Array],
    masked: Sequence[Array],
    targets: Sequence[Array],
    rows: Sequence[Sequence[int]],
    _width: int,
    pad_id: int,
    objective: str = "denoise",
) -> StacksBatch:
    """Lay out rows of both stacks; arguments as in `packed.assemble`.

    Args:
        sentences: token ids that the encoder reads.
        masked: places of the predicted tokens within each target.
        targets: token ids that the decoder writes, predicted or not.
        rows: sentence indices by row.
        pad_id: fills the rows.
        objective: whose loss the batch is for.
    """
    nothing = [np.zeros(0, np.int64)] * len(sentences)
    own = assemble(sentences, nothing, nothing, rows, _width_of(sentences, rows), pad_id, objective)
    gold = [target[places] for target, places in zip(targets, masked, strict=True)]
    written = assemble(targets, masked, gold, rows, _width_of(targets, rows), pad_id, objective)
    own_fields = vars(own) | {"masked_M": written.masked_M, "targets_M": written.targets_M}
    return StacksBatch(
        **own_fields,
        target_ids_NU=written.input_ids_NT,
        target_positions_NU=written.positions_NT,
        target_segments_NU=written.segments_NT,
        target_bounds=written.bounds,
    )


def _width_of(sentences: Sequence[Array], rows: Sequence[Sequence[int]]) -> int:
    longest = max(sum(len(sentences[index]) for index in row) for row in rows)
    return -(-longest // ROW_MULTIPLE) * ROW_MULTIPLE


class PackedStacks(PackedModel):
    """A stock encoder–decoder run on packed rows."""

    def __init__(self, model: PreTrainedModel, family: Family) -> None:
        super().__init__(model, family)
        self.start = needed_id(model.config, "decoder_start_token_id")

    def attend(self, *, packed: bool) -> None:
        """Attend as `PackedModel`; T5's distances are by pair of tokens until a batch comes."""
        super().attend(packed=packed)
        self.give_distances(by_segments=False)

    def give_distances(self, *, by_segments: bool) -> None:
        """Let T5's attentions give their bias for each distance, or as the class, for each pair."""
        for module in self.model.modules():
            if hasattr(type(module), "compute_bias"):
                by_distance(module) if by_segments else by_pair(module)

    @contextlib.contextmanager
    def positions_of(self, stack: int, positions_NT: torch.Tensor) -> Iterator[None]:
        """Let a stack (0 the encoder, 1 the decoder) place its tokens by these positions."""
        if not self.family.position_modules:
            yield
            return
        module: Any = self.model.get_submodule(self.family.position_modules[stack])
        table = module.weight if self.family.positions else module.weights
        after_padding = self.family.pad_decides_positions
        first = self.first_position if after_padding else int(module.offset)
        embedding = torch.nn.functional.embedding
        with lent(module, "forward", lambda *_, **__: embedding(positions_NT + first, table)):
            yield

    def hidden(self, batch: PackedBatch, **more: Any) -> torch.Tensor:
        """Return the decoder's last hidden states [N, U, D], which has read the target so far."""
        assert isinstance(batch, StacksBatch)
        reads, writes, crosses = self.masks(batch)
        with self.positions_of(0, batch.positions_NT):
            states_NTD = self.model.get_encoder()(
                input_ids=batch.input_ids_NT, attention_mask=reads, **more
            ).last_hidden_state
        with self.positions_of(1, batch.target_positions_NU):
            return self.model.get_decoder()(
                input_ids=self.shifted(batch),
                attention_mask=writes,
                encoder_hidden_states=states_NTD,
                encoder_attention_mask=crosses,
                use_cache=False,
                **more,
            ).last_hidden_state

    def masks(self, batch: StacksBatch) -> tuple[Any, Any, Any]:
        """Return masks of the encoder, of the decoder's own stack, and from it to the encoder."""
        segments_NT, written_NU = batch.segments_NT, batch.target_segments_NU
        self.give_distances(by_segments=self.by_segments)
        if self.by_segments:
            most = batch.bounds.segments + 2
            read_P, written_Q = (segments.codes(side, most) for side in (segments_NT, written_NU))
            starts = Starts.of(segments_NT, batch.bounds)
            starts_of_written = Starts.of(written_NU, batch.target_bounds)
            return (
                Segments(read_P, read_P, starts=starts),
                Segments(written_Q, written_Q, segments.BEFORE, starts_of_written),
                Segments(written_Q, read_P),
            )
        dtype = number_format(segments_NT.device.type, self.model.dtype)
        order = torch.arange(written_NU.shape[1], device=written_NU.device)
        is_own = written_NU[:, None, :, None] == written_NU[:, None, None, :]
        return (
            self.additive(segments_NT[:, None, :, None] == segments_NT[:, None, None, :], dtype),
            self.additive(is_own & (order[:, None] >= order[None, :]), dtype),
            self.additive(written_NU[:, None, :, None] == segments_NT[:, None, None, :], dtype),
        )

    def shifted(self, batch: StacksBatch) -> torch.Tensor:
        """Return the decoder's input [N, U]: the start token, then targets but their last token."""
        before_NU = torch.roll(batch.target_ids_NU, 1, dims=1)
        return torch.where(batch.target_positions_NU == 0, self.start, before_NU)

    def head(self, x_MD: torch.Tensor) -> torch.Tensor:
        """Return the logits [M, V] of hidden states."""
        key = self.family.head_scale_key
        if key is not None and getattr(self.model.config, key):
            x_MD = x_MD * x_MD.shape[-1] ** -0.5
        logits_MV = super().head(x_MD)
        for name in self.family.output_bias:
            logits_MV = logits_MV + self.model.get_buffer(name)
        return logits_MV

    def probe(
        self, sentences: Sequence[Array], rows: list[list[int]], width: int, pad_id: int
    ) -> PackedBatch:
        """Lay out sentences that are written backwards, each position predicted."""
        everywhere = [np.arange(len(sentence)) for sentence in sentences]
        written = [sentence[::-1] for sentence in sentences]
        return assemble_stacks(sentences, everywhere, written, rows, width, pad_id)

    def stock_logits(self, sentence: Array) -> torch.Tensor:
        """Return the logits [T, V] of one sentence of `probe` by the stock forward pass."""
        ids = torch.from_numpy(sentence[None].copy()).to(self.model.device)
        start = torch.full_like(ids[:, :1], self.start)
        before = torch.cat([start, ids.flip(1)[:, :-1]], 1)
        return self.model(input_ids=ids, decoder_input_ids=before).logits[0]


def by_distance(attention: Any) -> None:
    """Let one of T5's attentions give its bias for each distance.

    [1, H, 1, 2L + 1] for keys L before to L behind a query; from L on all distances are one. One
    without distances of its own gives none, where the class makes zeros for all pairs.
    """
    far = attention.relative_attention_max_distance
    if hasattr(attention, "relative_attention_bias"):
        compute = type(attention).compute_bias
        bias = functools.partial(compute, attention, 1, 2 * far + 1, past_seen_tokens=far)
        attention.compute_bias = lambda *_, device=None, **__: bias(device=device)
    else:
        attention.has_relative_attention_bias = True
        attention.compute_bias = lambda *_, **__: None


def by_pair(attention: Any) -> None:
    """Undo `by_distance`."""
    if vars(attention).pop("compute_bias", None) is not None:
        attention.has_relative_attention_bias = hasattr(attention, "relative_attention_bias")


OWN: dict[str, type[PackedModel]] = {
    "own": PackedOwn,
    "alibi": PackedAlibi,
    "disentangled": PackedDisentangled,
}
"""Packed models whose attention cannot be replaced, by `Family.attention`."""
LAYOUTS = {"masked": assemble, "causal": assemble, "seq2seq": assemble_stacks}


def packed_model(model: PreTrainedModel, family: Family) -> PackedModel:
    """Wrap a stock model for packed rows, whatever its kind."""
    replaced = PackedModel if family.decoder_list is None else PackedStacks
    return OWN.get(family.attention, replaced)(model, family)
