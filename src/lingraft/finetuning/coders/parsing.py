"""Heads and relations of words (SPEC B.7): which tokens a word has, targets, predictions.

W: words of the longest sentence of a micro-batch. Position 0 of a candidate is the root.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch

from lingraft.finetuning.coders.common import Coder, label_ids, padded
from lingraft.finetuning.coders.tagging import word_at, word_starts
from lingraft.models.losses import summed_cross_entropy as cross_entropy
from lingraft.tasks.dependency.files import POS
from lingraft.tasks.predictions import ParsePrediction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from lingraft.finetuning.coders.common import Item, Shape, TaskBatch
    from lingraft.tasks.examples import ParseExample
    from lingraft.tasks.predictions import Prediction
    from lingraft.tasks.task import Task

logger = logging.getLogger(__name__)

POS_IDS = {tag: index for index, tag in enumerate(POS, 1)}
"""0 is the root's and the padding's."""


class Target(NamedTuple):
    """Of the words of a sentence."""

    heads: tuple[int, ...]
    relations: tuple[int, ...]


class Words(NamedTuple):
    """First and last token, and word class, of each word."""

    first: tuple[int, ...]
    last: tuple[int, ...]
    pos: tuple[int, ...]


class ParseCoder(Coder):
    """Words are found in the sentence by their offsets, so tokens are those of plain text.

    (Tokenized word by word, byte-level pieces would need a space in front of the first word that
    plain text does not have.) A word without a token of its own, because the tokenizer drops it or
    the sentence was cut off, is stood for by the first token, and is counted in the log.
    """

    head: ClassVar[str] = "parser"

    def __init__(self, task: Task, shape: Shape) -> None:
        super().__init__(task, shape)
        self.labels = label_ids(task)

    def encode(self, examples: Sequence[ParseExample]) -> list[Item]:
        """One input an example."""
        encodings = self.shape.encode([example.text for example in examples])
        items, lost = [], 0
        for index, (example, encoding) in enumerate(zip(examples, encodings, strict=True)):
            edges, without = word_edges(example.words, encoding.offsets)
            lost += without
            first, last = zip(*edges, strict=True)
            words = Words(first, last, tuple(POS_IDS[tag] for tag in example.pos))
            items.append(self.shape.item(index, encoding, self._target(example), words))
        if lost:
            logger.warning("%s: %d words have no token of their own", self.task.name, lost)
        return items

    def _target(self, example: ParseExample) -> Target:
        assert example.heads is not None
        assert example.relations is not None
        return Target(example.heads, tuple(self.labels[name] for name in example.relations))

    def count(self, item: Item) -> int:
        """Words."""
        return len(item.target.heads)

    def run(self, model: Any, batch: TaskBatch) -> Any:
        """The parser reads the words too."""
        return model(words=batch.targets, **batch.inputs)

    def targets(self, items: Sequence[Item], width: int) -> dict[str, Tensor]:
        """[B, W] each: first, last, pos (0 in padding), heads and relations (`IGNORED`)."""
        words = max(len(item.target.heads) for item in items)
        return {
            **{
                name: padded([getattr(item.extra, name) for item in items], words, 0)
                for name in Words._fields
            },
            **{
                name: padded([getattr(item.target, name) for item in items], words)
                for name in Target._fields
            },
        }

    def loss(self, outputs: Any, targets: dict[str, Tensor]) -> Tensor:
        """Σ cross entropy of the head, and of the relation given the right head."""
        arcs = cross_entropy(outputs["arcs"], targets["heads"])
        return arcs + cross_entropy(outputs["gold_relations"], targets["relations"])

    def collect(self, outputs: Any, items: Sequence[Item]) -> list[Any]:
        """[2, W] heads, and relations given those heads."""
        both_2BW = torch.stack([outputs["heads"], outputs["relations"]]).cpu().numpy()
        return [both_2BW[:, row, : len(item.target.heads)].copy() for row, item in enumerate(items)]

    def decode(
        self, examples: Sequence[ParseExample], items: Sequence[Item], collected: Sequence[Any]
    ) -> list[Prediction]:
        """The likeliest head of every word by itself, and its relation to that head."""
        return [
            ParsePrediction(
                example.id,
                tuple(int(head) for head in heads_W),
                tuple(self.task.labels[int(relation)] for relation in relations_W),
            )
            for example, (heads_W, relations_W) in zip(examples, collected, strict=True)
        ]


def word_edges(
    words: Sequence[str], offsets: Sequence[tuple[int, int]]
) -> tuple[list[tuple[int, int]], int]:
    """First and last token of every word, and how many words have none of their own.

    A token belongs to the word of its first character that is no space. A word without a token is
    stood for by token 0.
    """
    text, starts = " ".join(words), word_starts(words)
    edges: dict[int, tuple[int, int]] = {}
    for token, (start, end) in enumerate(offsets):
        first = next((i for i in range(start, end) if not text[i].isspace()), None)
        if first is not None:
            word = word_at(starts, first)
            edges[word] = (edges.get(word, (token,))[0], token)
    return [edges.get(word, (0, 0)) for word in range(len(words))], len(words) - len(edges)


def candidate_mask(lengths_B: Tensor, width: int) -> Tensor:
    """[B, W, W + 1] True where a word may have that head: no padding, and never the word itself.

    Args:
        lengths_B: words of each sentence.
        width: W.
    """
    candidates_H = torch.arange(width + 1, device=lengths_B.device)
    allowed_BWH = (candidates_H[None, None, :] <= lengths_B[:, None, None]).expand(-1, width, -1)
    words_W = torch.arange(width, device=lengths_B.device)
    loops_WH = candidates_H[None, :] == words_W[:, None] + 1
    return allowed_BWH & ~loops_WH[None]
