"""Heads and relations of words: which tokens a word has, targets, predictions, parser.

The parser is KLUE's biaffine one on a stock encoder, in its clean form: Dozat & Manning 2017 with
the recurrent encoder and decoder of Ma et al. 2018, as KLUE-baseline has it. Differs from that
code: padding and the word itself have a score of −∞ as heads.

B: sentences, T: tokens, W: words of the longest sentence of a micro-batch, E: encoder width, F:
LSTM width, C: relations. Position 0 of a candidate is the root.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from lingraft.finetuning.coders.common import Coder, padded
from lingraft.finetuning.coders.tagging import first_letter, word_at, word_starts
from lingraft.models.losses import IGNORED, summed_cross_entropy
from lingraft.tasks.examples import ParsePrediction
from lingraft.tasks.words import POS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor
    from transformers import PreTrainedModel

    from lingraft.finetuning.coders.common import Item, TaskBatch
    from lingraft.tasks.examples import ParseExample, Prediction

logger = logging.getLogger(__name__)

POS_IDS = {tag: index for index, tag in enumerate(POS, 1)}
"""0 is the root's and the padding's."""


class Words(NamedTuple):
    """First and last token, word class, head and relation of each word of a sentence."""

    first: tuple[int, ...]
    last: tuple[int, ...]
    pos: tuple[int, ...]
    heads: tuple[int, ...]
    relations: tuple[int, ...]


class ParseCoder(Coder):
    """Coder of words that are found in a sentence by offsets, so tokens are those of plain text.

    (Tokenized word by word, byte-level pieces would need a space in front of the first word that
    plain text does not have.) A word without a token of its own, because the tokenizer drops it or
    the sentence was cut off, is stood for by the first token, and is counted in the log.
    """

    head: ClassVar[str] = "parser"

    def encode(self, examples: Sequence[ParseExample]) -> list[Item]:
        """Encode each example as one input."""
        encodings = self.shape.encode([example.text for example in examples])
        items, lost = [], 0
        for index, (example, encoding) in enumerate(zip(examples, encodings, strict=True)):
            edges, without = word_edges(example.words, encoding.offsets)
            lost += without
            first, last = zip(*edges, strict=True)
            assert example.heads is not None
            pos = tuple(POS_IDS[tag] for tag in example.pos)
            relations = tuple(self.labels[name] for name in example.relations or ())
            words = Words(first, last, pos, example.heads, relations)
            items.append(self.shape.item(index, encoding, words))
        if lost:
            logger.warning("%s: %d words have no token of their own", self.task.name, lost)
        return items

    def count(self, item: Item) -> int:
        """Return the number of words."""
        return len(item.target.heads)

    def run(self, model: Any, batch: TaskBatch) -> Any:
        """Run the parser, which reads the words too."""
        return model(words=batch.targets, **batch.inputs)

    def targets(self, items: Sequence[Item], width: int) -> dict[str, Tensor]:
        """Return first, last, pos (0 in padding), heads and relations (`IGNORED`), [B, W] each."""
        words = max(len(item.target.heads) for item in items)
        fills = dict.fromkeys(Words._fields, IGNORED) | {"first": 0, "last": 0, "pos": 0}
        return {
            key: padded([getattr(item.target, key) for item in items], words, fill)
            for key, fill in fills.items()
        }

    def loss(self, outputs: Any, targets: dict[str, Tensor]) -> Tensor:
        """Return Σ cross entropy of the head, and of the relation given the right head."""
        arcs = summed_cross_entropy(outputs["arcs"], targets["heads"])
        return arcs + summed_cross_entropy(outputs["gold_relations"], targets["relations"])

    def collect(self, outputs: Any, items: Sequence[Item]) -> list[Any]:
        """Return the heads, and the relations given those heads, [2, W] an input."""
        both_2BW = torch.stack([outputs["heads"], outputs["relations"]]).cpu().numpy()
        return [both_2BW[:, row, : len(item.target.heads)].copy() for row, item in enumerate(items)]

    def answer(self, example: Any, parts: Sequence[tuple[Item, Any]]) -> Prediction:
        """Return the likeliest head of every word by itself, and its relation to that head."""
        ((_, (heads_W, relations_W)),) = parts
        relations = tuple(self.task.labels[int(relation)] for relation in relations_W)
        return ParsePrediction(example.id, tuple(map(int, heads_W)), relations)


def word_edges(
    words: Sequence[str], offsets: Sequence[tuple[int, int]]
) -> tuple[list[tuple[int, int]], int]:
    """Return first and last token of every word, and how many words have none of their own.

    A token belongs to the word of its first character that is no space. A word without a token is
    stood for by token 0.
    """
    text, starts = " ".join(words), word_starts(words)
    edges: dict[int, tuple[int, int]] = {}
    for token, (start, end) in enumerate(offsets):
        first = first_letter(text, start, end)
        if first is not None:
            word = word_at(starts, first)
            edges[word] = (edges.get(word, (token,))[0], token)
    return [edges.get(word, (0, 0)) for word in range(len(words))], len(words) - len(edges)


def candidate_mask(lengths_B: Tensor, width: int) -> Tensor:
    """Return [B, W, W + 1], True where a word may have that head: no padding, never itself.

    Args:
        lengths_B: words of each sentence.
        width: W.
    """
    candidates_H = torch.arange(width + 1, device=lengths_B.device)
    allowed_BWH = (candidates_H[None, None, :] <= lengths_B[:, None, None]).expand(-1, width, -1)
    words_W = torch.arange(width, device=lengths_B.device)
    loops_WH = candidates_H[None, :] == words_W[:, None] + 1
    return allowed_BWH & ~loops_WH[None]


POS_WIDTH, LSTM_WIDTH, ARC_WIDTH, TYPE_WIDTH = 256, 768, 512, 256
DROPOUT = 0.33


class Biaffine(nn.Module):
    """Scores s = h U c + w_h h + w_c c + b, for every word and every candidate."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.product = nn.Parameter(torch.empty(width, width))
        self.word = nn.Parameter(torch.empty(1, width))
        self.candidate = nn.Parameter(torch.empty(1, width))
        self.bias = nn.Parameter(torch.zeros(1))
        for weight in (self.product, self.word, self.candidate):
            nn.init.xavier_uniform_(weight)

    def forward(self, word_BWA: Tensor, candidate_BHA: Tensor) -> Tensor:
        """Return the scores [B, W, H]."""
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
        """Return the scores [B, W, C].

        One matrix product in place of torch's bilinear, which is many times slower on a CPU.
        """
        relations, width, _ = self.product.shape
        wide = self.product.permute(1, 0, 2).reshape(width, relations * width)
        turned_BWCA = (word_BWA @ wide).unflatten(-1, (relations, width))
        product_BWC = (turned_BWCA @ head_BWA[..., None]).squeeze(-1)
        return product_BWC + self.word(word_BWA) + self.head(head_BWA) + self.bias


class ParserHead(nn.Module):
    """Map from word vectors to scores of heads and relations; always in fp32."""

    def __init__(self, width: int, relations: int) -> None:
        super().__init__()
        self.pos = nn.Embedding(len(POS_IDS) + 1, POS_WIDTH, padding_idx=0)
        self.encoder = nn.LSTM(
            2 * width + POS_WIDTH, LSTM_WIDTH, batch_first=True, bidirectional=True
        )
        self.source = nn.Linear(2 * LSTM_WIDTH, LSTM_WIDTH)
        self.state = nn.Linear(2 * LSTM_WIDTH, LSTM_WIDTH)
        self.decoder = nn.LSTM(LSTM_WIDTH, LSTM_WIDTH, batch_first=True)
        widths = (ARC_WIDTH, TYPE_WIDTH)
        self.arc_head, self.type_head = (nn.Linear(2 * LSTM_WIDTH, width) for width in widths)
        self.arc_word, self.type_word = (nn.Linear(LSTM_WIDTH, width) for width in widths)
        self.arcs = Biaffine(ARC_WIDTH)
        self.relations = Relations(TYPE_WIDTH, relations)

    def forward(self, hidden_BTE: Tensor, words: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the scores, and what follows from them.

        Args:
            hidden_BTE: the encoder's last layer; token 0 stands for the root.
            words: first, last, pos, heads [B, W] as `ParseCoder.targets` makes them.

        Returns:
            arcs [B, W, W + 1], −∞ where a head is impossible; gold_relations [B, W, C] given the
            right heads; and, outside training, heads [B, W], the best of each word, and
            relations [B, W] given those.
        """
        lengths_B = (words["heads"] != IGNORED).sum(1)
        encoded_BHF, state = self._encode(self._vectors(hidden_BTE, words), lengths_B + 1)
        decoded_BWF, _ = self.decoder(nn.functional.elu(self.source(encoded_BHF[:, 1:])), state)
        decoded_BWF = _drop_features(decoded_BWF, self.training)
        arc_BHA = nn.functional.elu(self.arc_head(encoded_BHF))
        type_BHA = nn.functional.elu(self.type_head(encoded_BHF))
        arc_BWA = nn.functional.elu(self.arc_word(decoded_BWF))
        type_BWA = nn.functional.elu(self.type_word(decoded_BWF))
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
        """Return root and words [B, W + 1, 2 E + POS_WIDTH]; dropout takes whole words' classes."""
        zero_B1 = torch.zeros_like(words["first"][:, :1])
        first, last, pos = (
            torch.cat([zero_B1, words[name]], dim=1) for name in ("first", "last", "pos")
        )
        pos_BHP = nn.functional.dropout1d(self.pos(pos), DROPOUT, self.training)
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


def _drop_features(values_BWF: Tensor, training: bool) -> Tensor:
    """Drop whole features, the same over a sentence."""
    return nn.functional.dropout1d(values_BWF.transpose(1, 2), DROPOUT, training).transpose(1, 2)


def _at(values_BTE: Tensor, places_BW: Tensor) -> Tensor:
    """Return the vectors at some places, [B, W, E]."""
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
