"""The biaffine dependency parser of KLUE on a stock encoder (SPEC B.7), in its clean form.

Dozat & Manning 2017 with the recurrent encoder and decoder of Ma et al. 2018, as KLUE-baseline has
it. Differs from that code: padding and the word itself have a score of −∞ as heads.

B: sentences, T: tokens, W: words, E: encoder width, F: LSTM width, C: relations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from lingraft.finetuning.coders.parsing import POS_IDS, candidate_mask
from lingraft.models.losses import IGNORED

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

POS_WIDTH, LSTM_WIDTH, ARC_WIDTH, TYPE_WIDTH = 256, 768, 512, 256
DROPOUT = 0.33


class Biaffine(nn.Module):
    """s = h U c + w_h h + w_c c + b, for every word and every candidate."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.product = nn.Parameter(torch.empty(width, width))
        self.word = nn.Parameter(torch.empty(1, width))
        self.candidate = nn.Parameter(torch.empty(1, width))
        self.bias = nn.Parameter(torch.zeros(1))
        for weight in (self.product, self.word, self.candidate):
            nn.init.xavier_uniform_(weight)

    def forward(self, word_BWA: Tensor, candidate_BHA: Tensor) -> Tensor:
        """[B, W, H] scores."""
        product_BWH = word_BWA @ self.product @ candidate_BHA.transpose(1, 2)
        word_BW1 = word_BWA @ self.word.T
        candidate_B1H = (candidate_BHA @ self.candidate.T).transpose(1, 2)
        return product_BWH + word_BW1 + candidate_B1H + self.bias


class Relations(nn.Module):
    """Scores of the relations between a word and one head: bilinear and both linear parts."""

    def __init__(self, width: int, relations: int) -> None:
        super().__init__()
        self.product = nn.Parameter(torch.empty(relations, width, width))
        self.bias = nn.Parameter(torch.zeros(relations))
        self.word = nn.Linear(width, relations, bias=False)
        self.head = nn.Linear(width, relations, bias=False)
        for weight in (self.product, self.word.weight, self.head.weight):
            nn.init.xavier_uniform_(weight)

    def forward(self, word_BWA: Tensor, head_BWA: Tensor) -> Tensor:
        """[B, W, C] scores.

        One matrix product in place of torch's bilinear, which is many times slower on a CPU.
        """
        relations, width, _ = self.product.shape
        wide = self.product.permute(1, 0, 2).reshape(width, relations * width)
        turned_BWCA = (word_BWA @ wide).unflatten(-1, (relations, width))
        product_BWC = (turned_BWCA @ head_BWA[..., None]).squeeze(-1)
        scores_BWC: Tensor = product_BWC + self.word(word_BWA) + self.head(head_BWA)
        return scores_BWC + self.bias


class ParserHead(nn.Module):
    """From word vectors to scores of heads and relations; always in fp32."""

    def __init__(self, width: int, relations: int) -> None:
        super().__init__()
        self.pos = nn.Embedding(len(POS_IDS) + 1, POS_WIDTH, padding_idx=0)
        self.encoder = nn.LSTM(
            2 * width + POS_WIDTH, LSTM_WIDTH, batch_first=True, bidirectional=True
        )
        self.source = nn.Linear(2 * LSTM_WIDTH, LSTM_WIDTH)
        self.state = nn.Linear(2 * LSTM_WIDTH, LSTM_WIDTH)
        self.decoder = nn.LSTM(LSTM_WIDTH, LSTM_WIDTH, batch_first=True)
        self.arc_head, self.type_head = (
            nn.Linear(2 * LSTM_WIDTH, size) for size in (ARC_WIDTH, TYPE_WIDTH)
        )
        self.arc_word, self.type_word = (
            nn.Linear(LSTM_WIDTH, size) for size in (ARC_WIDTH, TYPE_WIDTH)
        )
        self.arcs = Biaffine(ARC_WIDTH)
        self.relations = Relations(TYPE_WIDTH, relations)

    def forward(self, hidden_BTE: Tensor, words: dict[str, Tensor]) -> dict[str, Tensor]:
        """Scores, and what follows from them.

        Args:
            hidden_BTE: the encoder's last layer; token 0 stands for the root.
            words: first, last, pos, heads [B, W] as `ParseCoder.targets` makes them.

        Returns:
            arcs [B, W, W + 1], −∞ where a head is impossible; gold_relations [B, W, C] given the
            right heads; and, outside training, heads [B, W], the best of each word, and
            relations [B, W] given those.
        """
        lengths_B = (words["heads"] != IGNORED).sum(1)
        vectors_BHV = self._vectors(hidden_BTE, words)
        encoded_BHF, state = self._encode(vectors_BHV, lengths_B + 1)
        decoded_BWF = self._decode(encoded_BHF[:, 1:], state)
        arc_BHA = functional.elu(self.arc_head(encoded_BHF))
        type_BHA = functional.elu(self.type_head(encoded_BHF))
        arc_BWA = functional.elu(self.arc_word(decoded_BWF))
        type_BWA = functional.elu(self.type_word(decoded_BWF))
        allowed_BWH = candidate_mask(lengths_B, decoded_BWF.shape[1])
        arcs_BWH = self.arcs(arc_BWA, arc_BHA).masked_fill(~allowed_BWH, -torch.inf)
        gold_BW = words["heads"].clamp(min=0)
        scores = {
            "arcs": arcs_BWH,
            "gold_relations": self.relations(type_BWA, _at(type_BHA, gold_BW)),
        }
        if not self.training:
            heads_BW = arcs_BWH.argmax(-1)
            relations_BWC = self.relations(type_BWA, _at(type_BHA, heads_BW))
            scores |= {"heads": heads_BW, "relations": relations_BWC.argmax(-1)}
        return scores

    def _vectors(self, hidden_BTE: Tensor, words: dict[str, Tensor]) -> Tensor:
        """[B, W + 1, 2 E + POS_WIDTH] root and words; dropout takes whole words' classes."""
        zero_B1 = torch.zeros_like(words["first"][:, :1])
        first, last, pos = (
            torch.cat([zero_B1, words[name]], dim=1) for name in ("first", "last", "pos")
        )
        pos_BHP = functional.dropout1d(self.pos(pos), DROPOUT, self.training)
        return torch.cat([_at(hidden_BTE, first), _at(hidden_BTE, last), pos_BHP], dim=-1)

    def _encode(self, vectors_BHV: Tensor, lengths_B: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        packed, (_, cell_2BF) = self.encoder(
            pack_padded_sequence(
                vectors_BHV, lengths_B.cpu(), batch_first=True, enforce_sorted=False
            )
        )
        encoded, _ = pad_packed_sequence(packed, batch_first=True)
        cell_1BF = self.state(torch.cat([cell_2BF[0], cell_2BF[1]], dim=-1))[None]
        return _drop_features(encoded, self.training), (cell_1BF.tanh(), cell_1BF)

    def _decode(self, encoded_BWF: Tensor, state: tuple[Tensor, ...]) -> Tensor:
        source_BWF = functional.elu(self.source(encoded_BWF))
        decoded_BWF, _ = self.decoder(source_BWF, state)
        return _drop_features(decoded_BWF, self.training)


def _drop_features(values_BWF: Tensor, training: bool) -> Tensor:
    """Whole features, the same over a sentence."""
    return functional.dropout1d(values_BWF.transpose(1, 2), DROPOUT, training).transpose(1, 2)


def _at(values_BTE: Tensor, places_BW: Tensor) -> Tensor:
    """[B, W, E] the vectors at some places."""
    return values_BTE.gather(1, places_BW[..., None].expand(-1, -1, values_BTE.shape[-1]))


class Parser(nn.Module):
    """A stock encoder and the parser on it."""

    def __init__(self, encoder: PreTrainedModel, relations: int) -> None:
        super().__init__()
        self.encoder, config = encoder, encoder.config
        width = getattr(config, "word_embed_proj_dim", config.hidden_size)  # OPT-350m's is narrower
        self.head = ParserHead(int(width), relations)

    def forward(self, words: dict[str, Tensor], **inputs: Any) -> dict[str, Tensor]:
        """See `ParserHead.forward`."""
        hidden_BTE = self.encoder(**inputs).last_hidden_state
        with torch.autocast(hidden_BTE.device.type, enabled=False):
            return self.head(hidden_BTE.float(), words)
