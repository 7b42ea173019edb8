"""Texts, pairs and marked sentences with one label or number each."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from lingraft.finetuning.coders.common import Coder, label_ids
from lingraft.models.losses import summed_cross_entropy
from lingraft.tasks.examples import LabelPrediction, ScorePrediction
from lingraft.tasks.markers import MARKERS, WORD_START, glue, mark, spaced
from lingraft.tokenizer.files import kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from lingraft.finetuning.coders.common import Item, Shape
    from lingraft.tasks.examples import Prediction, RelationExample, TextExample
    from lingraft.tasks.markers import Pieces
    from lingraft.tasks.task import Task

PIECES: dict[str, Pieces] = {
    "unigram": "sentencepiece",
    "wordpiece": "wordpiece",
    "byte-bpe": "byte-level",
    "sp-bpe": "sentencepiece",
}


class TextCoder(Coder):
    """A text or a pair. Of a pair, the longer text is cut first."""

    def encode(self, examples: Sequence[Any]) -> list[Item]:
        """One input an example."""
        encodings = self.shape.encode(*self.texts(examples))
        return [
            self.shape.item(index, encoding, self.target(example))
            for index, (example, encoding) in enumerate(zip(examples, encodings, strict=True))
        ]

    def texts(self, examples: Sequence[Any]) -> tuple[list[str], list[str] | None]:
        """The texts, and the second ones where the examples have them."""
        texts, pairs = zip(*((example.text, example.pair) for example in examples), strict=True)
        return list(texts), None if pairs[0] is None else [pair or "" for pair in pairs]

    @abstractmethod
    def target(self, example: Any) -> Any:
        """What is right."""


class LabelCoder(TextCoder):
    """One of the task's labels."""

    head: ClassVar[str] = "sequence"

    def __init__(self, task: Task, shape: Shape) -> None:
        super().__init__(task, shape)
        self.labels = label_ids(task)

    def target(self, example: TextExample | RelationExample) -> int:
        """Number of the label."""
        assert example.label is not None
        return self.labels[example.label]

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
        self, examples: Sequence[Any], items: Sequence[Item], collected: Sequence[Any]
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


class ScoreCoder(TextCoder):
    """A number: squared error of the raw output."""

    head: ClassVar[str] = "score"

    def target(self, example: TextExample) -> float | None:
        """The number."""
        return example.score

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
        self, examples: Sequence[TextExample], items: Sequence[Item], collected: Sequence[Any]
    ) -> list[Prediction]:
        """The raw output, neither clipped nor squashed."""
        return [
            ScorePrediction(example.id, float(score))
            for example, score in zip(examples, collected, strict=True)
        ]


class RelationCoder(LabelCoder):
    """A sentence with markers around subject and object, and the relation between them.

    The first piece of an entity has the form that it has in the sentence without markers.
    A piece after an end marker that began no word in the sentence gets the form that it has inside
    a word, where the vocabulary has that form; else it stays (the reference makes it unknown).
    """

    def __init__(self, task: Task, shape: Shape) -> None:
        super().__init__(task, replace(shape, inserted=MARKERS))
        self.pieces = PIECES[kind_of(shape.tokenizer)]
        self.vocabulary = shape.tokenizer.get_vocab()

    def encode(self, examples: Sequence[RelationExample]) -> list[Item]:
        """One input an example."""
        marked, _ = self.texts(examples)
        items = []
        for item, text in zip(super().encode(examples), marked, strict=True):
            ids = self._glued(item.ids, text)
            types = None if item.types is None else item.types[: len(ids)]
            items.append(replace(item, ids=ids, types=types))
        return items

    def texts(self, examples: Sequence[RelationExample]) -> tuple[list[str], None]:
        """The sentences with their markers."""
        return [spaced(mark(example), self.pieces) for example in examples], None

    def _glued(self, ids: np.ndarray[Any, Any], marked: str) -> np.ndarray[Any, Any]:
        tokens = self.shape.tokenizer.convert_ids_to_tokens(ids.tolist())
        fixed = glue(tokens, marked, self.pieces)
        pieces, at = [], 0
        for token in tokens:
            if at < len(fixed) and fixed[at] == token:
                pieces.append(token)
            elif token in WORD_START.values():  # a piece that was the mark alone is gone
                continue
            else:
                pieces.append(fixed[at] if fixed[at] in self.vocabulary else token)
            at += 1
        return np.array(self.shape.tokenizer.convert_tokens_to_ids(pieces), dtype=np.int64)
