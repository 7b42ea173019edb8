"""Texts, pairs and marked sentences with one label or number each."""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from lingraft.finetuning.coders.common import Coder
from lingraft.models.losses import summed_cross_entropy
from lingraft.tasks.examples import LabelPrediction, ScorePrediction
from lingraft.tokenizer.files import kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from lingraft.finetuning.coders.common import InputShape, Item
    from lingraft.tasks.examples import Prediction, RelationExample, TextExample
    from lingraft.tasks.task import Task

SUBJECT, OBJECT = ("<subj>", "</subj>"), ("<obj>", "</obj>")
MARKERS = (*SUBJECT, *OBJECT)
"""Markers of entities; to be added to the tokenizer as special tokens."""
WORD_STARTS = {"unigram": "▁", "sp-bpe": "▁", "byte-bpe": "Ġ", "wordpiece": ""}
"""Kind of a tokenizer → what the first piece of a word begins with."""
SPACE_BEFORE = re.compile(rf"(\s+)({SUBJECT[0]}|{OBJECT[0]})")
AT_THE_START = re.compile(rf"^({SUBJECT[0]}|{OBJECT[0]})(?!\s)")


class TextCoder(Coder):
    """Coder of a text or a pair. Of a pair, the longer text is cut first."""

    def encode(self, examples: Sequence[Any]) -> list[Item]:
        """Encode each example as one input."""
        encodings = self.shape.encode(*self.texts(examples))
        return [
            self.shape.item(index, encoding, self.target(example))
            for index, (example, encoding) in enumerate(zip(examples, encodings, strict=True))
        ]

    def texts(self, examples: Sequence[Any]) -> tuple[list[str], list[str] | None]:
        """Return the texts, and the second ones where the examples have them."""
        texts, pairs = zip(*((example.text, example.pair) for example in examples), strict=True)
        return list(texts), None if pairs[0] is None else [pair or "" for pair in pairs]

    @abstractmethod
    def target(self, example: Any) -> Any:
        """Return the right answer to an example."""


class LabelCoder(TextCoder):
    """Coder of a label, one of the task's."""

    head: ClassVar[str] = "sequence"

    def target(self, example: TextExample | RelationExample) -> int:
        """Return the number of the label."""
        assert example.label is not None
        return self.labels[example.label]

    def targets(self, items: Sequence[Item], width: int) -> dict[str, Tensor]:
        """Return the label numbers [B]."""
        return {"label": torch.tensor([item.target for item in items])}

    def loss(self, outputs: Any, targets: dict[str, Tensor]) -> Tensor:
        """Return Σ cross entropy."""
        return summed_cross_entropy(outputs["logits"], targets["label"])

    def collect(self, outputs: Any, items: Sequence[Item]) -> list[Any]:
        """Return the probabilities, [C] an input."""
        return list(outputs["logits"].double().softmax(-1).cpu().numpy())

    def answer(self, example: Any, parts: Sequence[tuple[Item, Any]]) -> Prediction:
        """Return the likeliest label; the first of equals."""
        ((_, probabilities_C),) = parts
        label = self.task.labels[int(np.argmax(probabilities_C))]
        shares = tuple(round(float(share), 8) for share in probabilities_C)
        return LabelPrediction(example.id, label, shares)


class ScoreCoder(TextCoder):
    """Coder of a number: squared error of the raw output."""

    head: ClassVar[str] = "score"

    def target(self, example: TextExample) -> float | None:
        """Return the score of the example."""
        return example.score

    def targets(self, items: Sequence[Item], width: int) -> dict[str, Tensor]:
        """Return the scores to learn [B]."""
        return {"score": torch.tensor([item.target for item in items], dtype=torch.float32)}

    def loss(self, outputs: Any, targets: dict[str, Tensor]) -> Tensor:
        """Return Σ squared error."""
        difference_B = outputs["logits"].float().squeeze(-1) - targets["score"]
        return difference_B.square().sum()

    def collect(self, outputs: Any, items: Sequence[Item]) -> list[Any]:
        """Return the number that the model gives each input."""
        return list(outputs["logits"].float().squeeze(-1).cpu().tolist())

    def answer(self, example: Any, parts: Sequence[tuple[Item, Any]]) -> Prediction:
        """Return the raw output, neither clipped nor squashed."""
        ((_, score),) = parts
        return ScorePrediction(example.id, float(score))


class RelationCoder(LabelCoder):
    """Coder of a sentence with markers around subject and object, and their relation.

    The first piece of an entity has the form that it has in the sentence without markers.
    A piece after an end marker that began no word in the sentence gets the form that it has inside
    a word, where the vocabulary has that form; else it stays (the reference makes it unknown).
    """

    def __init__(self, task: Task, shape: InputShape) -> None:
        super().__init__(task, shape)
        self.word_start = WORD_STARTS[kind_of(shape.tokenizer)]
        self.vocabulary = shape.tokenizer.get_vocab()

    def encode(self, examples: Sequence[RelationExample]) -> list[Item]:
        """Encode each example as one input."""
        marked, _ = self.texts(examples)
        items = []
        for item, text in zip(super().encode(examples), marked, strict=True):
            tokens = self.shape.tokenizer.convert_ids_to_tokens(item.ids.tolist())
            glued = self.shape.tokenizer.convert_tokens_to_ids(self.glued(tokens, text))
            ids = np.array(glued, dtype=np.int64)
            types = None if item.types is None else item.types[: len(ids)]
            items.append(replace(item, ids=ids, types=types))
        return items

    def texts(self, examples: Sequence[RelationExample]) -> tuple[list[str], None]:
        """Return the sentences with their markers, the space before an entity inside its marker.

        Tokenizers cut a text at special tokens, and a word start is a space in the same part. Where
        entity and text begin together, SentencePiece's word start is a space as well.
        """
        texts = [SPACE_BEFORE.sub(r"\2\1", mark(example)) for example in examples]
        if self.word_start == "▁":
            texts = [AT_THE_START.sub(r"\1 ", text) for text in texts]
        return texts, None

    def glued(self, tokens: Sequence[str], marked: str) -> list[str]:
        """Return tokens in which what follows an end marker without a space begins no word.

        A tokenizer starts afresh after a special token and takes "가" of "조지가" for a word.
        SentencePiece and byte-level pieces lose their word-start mark (a piece that is only the
        mark goes away), WordPiece ones that begin with a Hangul syllable get "##". (Differs from
        the reference: a marker at the very end of the sentence is no error.)
        """
        fixed = list(tokens)
        for marker in (SUBJECT[1], OBJECT[1]):
            after = marked.find(marker) + len(marker)
            at = fixed.index(marker) + 1 if marker in fixed else len(fixed)
            is_apart = after >= len(marked) or marked[after].isspace()
            if is_apart or at >= len(fixed) or fixed[at] in MARKERS:
                continue
            token = fixed[at]
            inside = token.removeprefix(self.word_start)
            if not self.word_start and "가" <= token[0] <= "힣":
                inside = f"##{token}"
            if not inside:
                del fixed[at]
            elif inside in self.vocabulary:
                fixed[at] = inside
        return fixed


def mark(example: RelationExample) -> str:
    """Put markers around subject and object of a sentence; nothing else changes."""
    inserted = [
        (example.subject.start, SUBJECT[0]),
        (example.subject.end, SUBJECT[1]),
        (example.object.start, OBJECT[0]),
        (example.object.end, OBJECT[1]),
    ]
    # From the end, so that positions hold; where one entity ends at the start of the other, the
    # end marker comes first in the text.
    text = example.text
    starts = (SUBJECT[0], OBJECT[0])
    for at, marker in sorted(inserted, key=lambda pair: (pair[0], pair[1] in starts), reverse=True):
        text = text[:at] + marker + text[at:]
    return text
