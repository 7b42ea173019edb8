"""Texts, pairs and marked sentences with one label or number each (SPEC B.2–B.4, B.6, D)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from lingraft.finetuning.coders.common import Item, label_ids, row_of
from lingraft.models.losses import summed_cross_entropy
from lingraft.tasks.examples import RelationExample, TextExample
from lingraft.tasks.markers import WORD_START, glue, mark, spaced
from lingraft.tasks.predictions import LabelPrediction, ScorePrediction
from lingraft.tokenizer.files import kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from lingraft.finetuning.coders.common import Shape
    from lingraft.tasks.examples import Example
    from lingraft.tasks.markers import Pieces
    from lingraft.tasks.predictions import Prediction
    from lingraft.tasks.task import Task

PIECES: dict[str, Pieces] = {
    "unigram": "sentencepiece",
    "wordpiece": "wordpiece",
    "byte-bpe": "byte-level",
}


class LabelCoder:
    """A text or a pair, and one of the task's labels. Of a pair, the longer text is cut first."""

    head: ClassVar[str] = "sequence"

    def __init__(self, task: Task, shape: Shape) -> None:
        self.task, self.shape = task, shape
        self.labels = label_ids(task)

    def encode(self, examples: Sequence[Example]) -> list[Item]:
        """One input an example."""
        encoded = encode_texts(self.shape, examples)
        return [
            Item(index, ids, types, self._target(example), cut=cut)
            for index, example in enumerate(examples)
            for ids, types, cut in [row_of(encoded, index)]
        ]

    def _target(self, example: Example) -> int:
        assert isinstance(example, TextExample | RelationExample)
        assert example.label is not None
        return self.labels[example.label]

    def count(self, item: Item) -> int:
        """One."""
        return 1

    def targets(self, items: Sequence[Item], width: int) -> dict[str, Tensor]:
        """[B] label numbers."""
        return {"label": torch.tensor([item.target for item in items])}

    def loss(self, outputs: Any, targets: dict[str, Tensor]) -> Tensor:
        """Σ cross entropy."""
        return summed_cross_entropy(outputs["logits"], targets["label"])

    def collect(self, outputs: Any, items: Sequence[Item]) -> list[Any]:
        """[C] probabilities."""
        return list(outputs["logits"].double().softmax(-1).cpu().numpy())

    def decode(
        self, examples: Sequence[Example], items: Sequence[Item], collected: Sequence[Any]
    ) -> list[Prediction]:
        """The likeliest label; the first of equals."""
        return [
            LabelPrediction(
                example.id,
                self.task.labels[int(np.argmax(probabilities_C))],
                tuple(round(float(p), 8) for p in probabilities_C),
            )
            for example, probabilities_C in zip(examples, collected, strict=True)
        ]


class ScoreCoder:
    """A text or a pair, and a number: squared error of the raw output."""

    head: ClassVar[str] = "score"

    def __init__(self, task: Task, shape: Shape) -> None:
        self.task, self.shape = task, shape

    def encode(self, examples: Sequence[Example]) -> list[Item]:
        """One input an example."""
        encoded = encode_texts(self.shape, examples)
        items = []
        for index, example in enumerate(examples):
            assert isinstance(example, TextExample)
            ids, types, cut = row_of(encoded, index)
            items.append(Item(index, ids, types, example.score, cut=cut))
        return items

    def count(self, item: Item) -> int:
        """One."""
        return 1

    def targets(self, items: Sequence[Item], width: int) -> dict[str, Tensor]:
        """[B] numbers."""
        return {"score": torch.tensor([item.target for item in items], dtype=torch.float32)}

    def loss(self, outputs: Any, targets: dict[str, Tensor]) -> Tensor:
        """Σ squared error."""
        difference_B = outputs["logits"].float().squeeze(-1) - targets["score"]
        return difference_B.square().sum()

    def collect(self, outputs: Any, items: Sequence[Item]) -> list[Any]:
        """The number."""
        return list(outputs["logits"].float().squeeze(-1).cpu().tolist())

    def decode(
        self, examples: Sequence[Example], items: Sequence[Item], collected: Sequence[Any]
    ) -> list[Prediction]:
        """The raw output, neither clipped nor squashed."""
        return [
            ScorePrediction(example.id, float(score))
            for example, score in zip(examples, collected, strict=True)
        ]


def encode_texts(shape: Shape, examples: Sequence[Example]) -> Any:
    """Texts, or pairs where the examples have a second text."""
    texts, pairs = [], []
    for example in examples:
        assert isinstance(example, TextExample)
        texts.append(example.text)
        pairs.append(example.pair)
    if pairs[0] is None:
        return shape.encode(texts)
    return shape.encode(texts, [pair or "" for pair in pairs])


class RelationCoder(LabelCoder):
    """A sentence with markers around subject and object, and the relation between them.

    The first piece of an entity has the form that it has in the sentence without markers.
    A piece after an end marker that began no word in the sentence gets the form that it has inside
    a word, where the vocabulary has that form; else it stays (the reference makes it unknown).
    """

    def __init__(self, task: Task, shape: Shape) -> None:
        super().__init__(task, shape)
        self.pieces = PIECES[kind_of(shape.tokenizer)]
        self.vocabulary = shape.tokenizer.get_vocab()

    def encode(self, examples: Sequence[Example]) -> list[Item]:
        """One input an example."""
        marked = []
        for example in examples:
            assert isinstance(example, RelationExample)
            marked.append(spaced(mark(example), self.pieces))
        encoded = self.shape.encode(marked)
        items = []
        for index, example in enumerate(examples):
            ids, types, cut = row_of(encoded, index)
            glued = self._glued(ids, marked[index])
            if types is not None:
                types = types[: len(glued)]
            items.append(Item(index, glued, types, self._target(example), cut=cut))
        return items

    def _glued(self, ids: np.ndarray[Any, Any], marked: str) -> np.ndarray[Any, Any]:
        tokens = self.shape.tokenizer.convert_ids_to_tokens(ids.tolist())
        fixed = glue(tokens, marked, self.pieces)
        kept, at = [], 0
        for token in tokens:
            if at < len(fixed) and fixed[at] == token:
                kept.append(token)
            elif token in WORD_START.values():  # a piece that was the mark alone is gone
                continue
            else:
                kept.append(fixed[at] if fixed[at] in self.vocabulary else token)
            at += 1
        return np.array(self.shape.tokenizer.convert_tokens_to_ids(kept), dtype=np.int64)
