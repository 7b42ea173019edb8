"""The packed forward pass: sentences share rows, attend to themselves alone.

Only masked positions reach the head.

Encoders in transformers 5 ignore packing by position ids and leak between sentences silently, so
every batch carries its own block-diagonal mask, and `check_isolation` refuses a model that leaks.

Shape letters: N rows, T tokens in a row, S sentences, M masked positions, D width, V vocabulary, H
heads.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask

from lingraft.errors import UnsupportedModelError
from lingraft.models import segments
from lingraft.models.dropout import dropout as drop
from lingraft.models.families.record import KINDS
from lingraft.models.losses import IGNORED, scaled
from lingraft.models.rows import pack
from lingraft.models.segments import NOTHING, Bounds, Segments, Starts
from lingraft.pretrained.load import needed_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lingraft.models.families import Family

ATTENTION = "lingraft_packed"
PREDICTED_MULTIPLE = 64


@dataclass(frozen=True)
class PackedBatch:
    """Sentences in rows."""

    input_ids_NT: torch.Tensor
    positions_NT: torch.Tensor
    """Index of the token within its sentence, from 0."""
    segments_NT: torch.Tensor
    """Number of the sentence that a token belongs to, from 1 within its row; 0 is padding."""
    masked_M: torch.Tensor
    """Places of the predicted tokens, as indices into the flattened rows."""
    targets_M: torch.Tensor
    """The tokens to predict."""
    objective: str = "mlm"
    """Whose loss it is for: a key of `objectives.OBJECTIVES`."""
    bounds: Bounds = NOTHING
    """Bounds of the sentences, known without asking a GPU."""

    def to(self, device: torch.device) -> PackedBatch:
        """Move the batch to another device."""
        moved: dict[str, Any] = {
            name: value.to(device, non_blocking=True)
            for name, value in vars(self).items()
            if isinstance(value, torch.Tensor)
        }
        return replace(self, **moved)

    def rounded(self, _multiple: int, _pad_id: int) -> PackedBatch:
        """Return the batch as it is: its rows are not cut to what they hold."""
        return self

    def filled(self) -> PackedBatch:
        """Fill predicted positions up, by ignored targets, to a multiple: 64, a GPU's row / 32.

        Else nearly every batch has another number of them, and a CPU makes and keeps a kernel for
        every shape of a matrix product that it meets: steps took longer, and what is kept cut the
        heap into pieces too small to use again, so that memory grew for as long as a phase ran.
        """
        multiple = PREDICTED_MULTIPLE
        if segments.uses_segments(self.masked_M.device):
            multiple = max(multiple, self.input_ids_NT.numel() // 32)
        more = -len(self.masked_M) % multiple
        return replace(
            self,
            masked_M=nn.functional.pad(self.masked_M, (0, more)),
            targets_M=nn.functional.pad(self.targets_M, (0, more), value=IGNORED),
        )


def assemble(
    sentences: Sequence[np.ndarray[Any, Any]],
    masked: Sequence[np.ndarray[Any, Any]],
    targets: Sequence[np.ndarray[Any, Any]],
    rows: Sequence[Sequence[int]],
    width: int,
    pad_id: int,
    objective: str = "mlm",
) -> PackedBatch:
    """Lay out rows of sentences as tensors.

    Args:
        sentences: token ids (corrupted) of each sentence.
        masked: predicted positions within each sentence.
        targets: the tokens that stood there.
        rows: sentence indices by row, from `pack`.
        width: tokens in a row.
        pad_id: fills the rows.
        objective: whose loss the batch is for.
    """
    lengths, size = np.fromiter(map(len, sentences), np.int64), len(rows) * width
    order_S = np.concatenate([np.asarray(row, np.int64) for row in rows])
    lengths_S, counts_N = lengths[order_S], np.array([len(row) for row in rows])
    firsts_S = np.repeat(np.cumsum(counts_N) - counts_N, counts_N)  # of the same row
    before_S = np.cumsum(lengths_S) - lengths_S
    starts_S = before_S - before_S[firsts_S] + width * np.repeat(np.arange(len(rows)), counts_N)
    along_T = np.arange(int(lengths_S.sum())) - np.repeat(before_S, lengths_S)
    places_T = np.repeat(starts_S, lengths_S) + along_T
    ids = np.full(size, pad_id, dtype=np.int64)
    positions, of_row = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int32)
    ids[places_T] = np.concatenate([sentences[index] for index in order_S])
    positions[places_T] = along_T
    of_row[places_T] = np.repeat(np.arange(len(order_S)) - firsts_S + 1, lengths_S)
    predicted = [len(masked[index]) for index in order_S]
    flat = np.concatenate([masked[index] for index in order_S]).astype(np.int64)
    gold = np.concatenate([targets[index] for index in order_S]).astype(np.int64)
    return PackedBatch(
        torch.from_numpy(ids.reshape(-1, width)),
        torch.from_numpy(positions.reshape(-1, width)),
        torch.from_numpy(of_row.reshape(-1, width)),
        torch.from_numpy(flat + np.repeat(starts_S, predicted)),
        torch.from_numpy(gold),
        objective,
        Bounds(len(order_S), int(lengths_S.max())),
    )


def packed_attention(
    module: nn.Module,
    q_NHTK: torch.Tensor,
    k_NHTK: torch.Tensor,
    v_NHTK: torch.Tensor,
    attention_mask: torch.Tensor | Segments | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    position_bias: torch.Tensor | None = None,
    **more: Any,
) -> tuple[torch.Tensor, None]:
    """Attend under an additive mask: plain products for gradients on a CPU, else fused.

    Under `Segments` (a GPU's) by `segments.attend`. T5 adds its `position_bias` to the scores too.
    Heads that share keys and values have them repeated. With `softcap` (Gemma 2) scores pass
    through tanh before the mask. The fused kernel's bf16 backward is several times slower than
    products on a CPU.
    """
    softcap = more.get("softcap")
    scale = scaling if scaling is not None else q_NHTK.shape[-1] ** -0.5
    if isinstance(attention_mask, Segments):
        dtype = number_format(q_NHTK.device.type, v_NHTK.dtype)
        bias = None if position_bias is None else segments.distances(position_bias)
        heads = segments.Heads(q_NHTK.to(dtype), k_NHTK.to(dtype), v_NHTK.to(dtype))
        how = segments.AttentionScores(scale, softcap, bias, dropout)
        return segments.attend(heads, attention_mask, how), None
    if (shared := q_NHTK.shape[1] // k_NHTK.shape[1]) > 1:
        k_NHTK = k_NHTK.repeat_interleave(shared, dim=1)
        v_NHTK = v_NHTK.repeat_interleave(shared, dim=1)
    if position_bias is not None:
        bias = position_bias.to(q_NHTK.dtype)
        attention_mask = bias if attention_mask is None else attention_mask + bias
    if softcap is not None or (q_NHTK.device.type == "cpu" and torch.is_grad_enabled()):
        scores = torch.matmul(q_NHTK * scale, k_NHTK.transpose(2, 3))
        if softcap is not None:
            scores = torch.tanh(scores / softcap) * softcap
        if attention_mask is not None:
            scores += attention_mask  # in place: no second map, which is most of the memory
        weights = torch.softmax(scores, dim=-1, dtype=scores.dtype)
        del scores
        if dropout:
            weights = drop(weights, dropout)
        mixed = torch.matmul(weights, v_NHTK)
    else:
        mixed = nn.functional.scaled_dot_product_attention(
            q_NHTK,
            k_NHTK,
            v_NHTK,
            attn_mask=attention_mask,
            dropout_p=dropout,
            is_causal=False,
            scale=scale,
        )
    return mixed.transpose(1, 2).contiguous(), None


def number_format(device: str, otherwise: torch.dtype) -> torch.dtype:
    """Return the format in which products are computed: autocast's where it is on."""
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else otherwise


@contextlib.contextmanager
def lent(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Give an object an attribute that hides its class's, for a while."""
    setattr(owner, name, value)
    try:
        yield
    finally:
        delattr(owner, name)


def padding_mask(*, dtype: torch.dtype, device: torch.device, **rest: Any) -> Any:
    """Return transformers' mask, in the format of the scores.

    In a wider format its lowest number would be -inf here, and padding that sees nothing NaN.
    """
    dtype = number_format(torch.device(device).type, dtype)
    return eager_mask(dtype=dtype, device=device, **rest)


AttentionInterface.register(ATTENTION, packed_attention)
AttentionMaskInterface.register(ATTENTION, padding_mask)


def attend_fast(module: nn.Module) -> None:
    """Let the stock models in a module attend by `packed_attention`, on padded batches.

    An `EncoderDecoderModel` cannot itself, but its two stacks can.
    """
    for model in module.modules():
        if isinstance(model, PreTrainedModel) and model.is_backend_compatible():
            model.set_attn_implementation(ATTENTION)


class PackedModel(nn.Module):
    """A stock language model run on packed rows."""

    def __init__(self, model: PreTrainedModel, family: Family) -> None:
        super().__init__()
        self.model = model
        self.family = family
        self.attend(packed=True)
        self.before_only = KINDS[family.kind].attention == "before"
        counts = family.pad_decides_positions
        self.first_position = needed_id(model.config, "pad_token_id") + 1 if counts else 0

    def attend(self, *, packed: bool) -> None:
        """Let the model attend as packed rows need it, or as the stock class does."""
        stock = "sdpa" if self.model._supports_sdpa else "eager"
        self.model.set_attn_implementation(ATTENTION if packed else stock)

    def attention_masks(self, segments_NT: torch.Tensor, dtype: torch.dtype) -> Any:
        """Return additive masks [N, 1, T, T]: zero on what a token sees, else the lowest number.

        A dict by type of layer where the family has several (ModernBERT, Gemma).
        """
        same = segments_NT[:, None, :, None] == segments_NT[:, None, None, :]
        order = torch.arange(segments_NT.shape[1], device=segments_NT.device)
        apart = order[:, None] - order[None, :]

        def make(has_window: bool) -> torch.Tensor:
            before, behind = self.window(has_window)
            seen = same if before < 0 else same & (apart <= before)
            return self.additive(seen if behind < 0 else seen & (-apart <= behind), dtype)

        return self.by_type(make)

    def window(self, has_window: bool) -> tuple[int, int]:
        """Return how many tokens before and behind one are seen; -1 is all.

        As transformers counts: `sliding_window` to each side where both are seen; where only what
        stands before is, that many with the token itself.
        """
        reach = int(self.model.config.sliding_window) if has_window else -1
        return (reach - has_window, 0) if self.before_only else (reach, reach)

    def by_type(self, make: Callable[[bool], Any]) -> Any:
        """Return a mask, or a dict by type of layer, made with the window or without."""
        config = self.model.config
        if not self.family.types_of_layers:
            return make(self.family.window_everywhere and config.sliding_window is not None)
        masks = {"full_attention": make(False)}
        if "sliding_attention" in config.layer_types:
            masks["sliding_attention"] = make(True)
        return masks

    def segments(self, batch: PackedBatch) -> Any:
        """Return `attention_masks` as segments: no mask of all pairs."""
        starts = Starts.of(batch.segments_NT, batch.bounds)
        codes_P = segments.codes(batch.segments_NT, batch.bounds.segments + 2)

        return self.by_type(
            lambda has_window: Segments(codes_P, codes_P, self.window(has_window), starts)
        )

    def mask(self, batch: PackedBatch) -> Any:
        """Return `segments` of a batch, or `attention_masks` in the format of products."""
        if self.by_segments:
            return self.segments(batch)
        dtype = number_format(batch.input_ids_NT.device.type, self.model.dtype)
        return self.attention_masks(batch.segments_NT, dtype)

    @property
    def by_segments(self) -> bool:
        """Return whether no mask of all pairs is needed."""
        return self.family.attention == "replaced" and segments.uses_segments(self.model.device)

    @staticmethod
    def additive(allowed: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Return zero where attention is allowed, else the lowest number of the format."""
        mask = torch.zeros(allowed.shape, dtype=dtype, device=allowed.device)
        return mask.masked_fill_(~allowed, torch.finfo(dtype).min)

    def hidden(self, batch: PackedBatch, **more: Any) -> torch.Tensor:
        """Return the last hidden states [N, T, D]; `more` is passed on to the layers."""
        return self.model.base_model(
            input_ids=batch.input_ids_NT,
            position_ids=batch.positions_NT + self.first_position,
            attention_mask=self.mask(batch),
            **({"use_cache": False} if self.before_only else {}),
            **more,
        ).last_hidden_state

    def head(self, x_MD: torch.Tensor) -> torch.Tensor:
        """Return the logits [M, V] of hidden states."""
        for path in self.family.head:
            x_MD = self.model.get_submodule(path)(x_MD)
        config, family = self.model.config, self.family
        x_MD = scaled(x_MD, config, family)
        cap = getattr(config, family.logits_cap) if family.logits_cap else None
        return x_MD if cap is None else torch.tanh(x_MD / cap) * cap

    def predicted(self, batch: PackedBatch) -> torch.Tensor:
        """Return the last hidden states [M, D] where something is predicted."""
        return self.hidden(batch).flatten(0, 1).index_select(0, batch.masked_M)

    def logits(self, batch: PackedBatch) -> torch.Tensor:
        """Return the logits [M, V] at the masked positions alone."""
        return self.predictions(self.hidden(batch), batch)

    def predictions(self, x_NTD: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
        """Return the logits [M, V] at the masked positions, of hidden states [N, T, D]."""
        return self.head(x_NTD.flatten(0, 1).index_select(0, batch.masked_M))

    def probe(
        self,
        sentences: Sequence[np.ndarray[Any, Any]],
        rows: list[list[int]],
        width: int,
        pad_id: int,
    ) -> PackedBatch:
        """Lay out sentences with every position predicted, for `check_isolation`."""
        everywhere = [np.arange(len(sentence)) for sentence in sentences]
        return assemble(sentences, everywhere, sentences, rows, width, pad_id)

    def stock_logits(self, sentence: np.ndarray[Any, Any]) -> torch.Tensor:
        """Return the logits [T, V] of one sentence of `probe` by the stock forward pass."""
        ids = torch.from_numpy(sentence)[None].to(self.model.device)
        return self.model(input_ids=ids).logits[0]


@torch.no_grad()
def check_isolation(packed: PackedModel, pad_id: int) -> float:
    """Compare packed rows with one sentence at a time, in fp32, through the stock forward pass.

    Returns:
        The largest absolute difference of a logit, relative to the spread of the logits.

    Raises:
        UnsupportedModelError: sentences in one row see each other, or positions are wrong.
    """
    model = packed.model
    training = model.training
    model.eval()
    generator = np.random.default_rng(0)
    lengths = np.array([5, 9, 4, 7])
    sentences = [generator.integers(0, model.config.vocab_size, n) for n in lengths]
    sentences = [
        np.where(s == pad_id, (pad_id + 1) % model.config.vocab_size, s) for s in sentences
    ]
    rows, width = pack(lengths, 16)
    batch = packed.probe(sentences, rows, width, pad_id).to(model.device)
    with torch.autocast(model.device.type, enabled=False):
        together = packed.logits(batch).float()
        packed.attend(packed=False)
        alone = [packed.stock_logits(sentences[index]).float() for row in rows for index in row]
        packed.attend(packed=True)
    model.train(training)
    expected = torch.cat(alone)
    difference = float((together - expected).abs().max() / expected.std().clamp_min(1e-6))
    if not difference <= 1e-2:  # NaN too
        raise UnsupportedModelError(
            f"packed rows change the logits of this {packed.family.model_type} model "
            f"(relative difference {difference:.2g}); training on them would be wrong"
        )
    return difference
