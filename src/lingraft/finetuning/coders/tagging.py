"""Tags of characters or words by way of tokens (SPEC B.5)."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, ClassVar

from lingraft.finetuning.coders.common import Coder, label_ids, padded
from lingraft.models.losses import IGNORED
from lingraft.models.losses import summed_cross_entropy as cross_entropy
from lingraft.tasks.characters import (
    character_tags,
    covered_characters,
    labelled_tokens,
    token_labels,
)
from lingraft.tasks.examples import TaggedExample
from lingraft.tasks.predictions import TagPrediction

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

    from lingraft.finetuning.coders.common import Item, Shape
    from lingraft.tasks.examples import Example
    from lingraft.tasks.predictions import Prediction
    from lingraft.tasks.task import Task

    Offsets = list[tuple[int, int]]


class TagCoder(Coder):
    """A token has the tag of the first character or word that begins in it; others do not count.

    Of a word with several tokens the first counts. What was cut off is O, or the last label where
    there is no O. KLUE's reference also scores the first and the last padding position, which we
    do not train: the predictions say O there.
    """

    head: ClassVar[str] = "token"

    def __init__(self, task: Task, shape: Shape) -> None:
        super().__init__(task, shape)
        self.labels = label_ids(task)
        self.outside = "O" if "O" in self.labels else task.labels[-1]

    def encode(self, examples: Sequence[Example]) -> list[Item]:
        """One input an example; `extra` are the offsets."""
        encodings = self.shape.encode([example.text for example in examples])
        items = []
        for index, (example, encoding) in enumerate(zip(examples, encodings, strict=True)):
            assert isinstance(example, TaggedExample)
            assert example.tags is not None
            labels = self._token_labels(example, example.tags, encoding.offsets)
            target = [IGNORED if label is None else self.labels[label] for label in labels]
            items.append(self.shape.item(index, encoding, target, encoding.offsets))
        return items

    def _token_labels(
        self, example: TaggedExample, tags: Sequence[str], offsets: Offsets
    ) -> list[str | None]:
        if example.characters:
            return token_labels(example.text, tags, offsets)
        labels: list[str | None] = [None] * len(offsets)
        for token, word in first_tokens(example.units, offsets):
            labels[token] = tags[word]
        return labels

    def count(self, item: Item) -> int:
        """Tokens with a label."""
        return sum(label != IGNORED for label in item.target)

    def targets(self, items: Sequence[Item], width: int) -> dict[str, Tensor]:
        """[B, T] label numbers."""
        return {"labels": padded([item.target for item in items], width)}

    def loss(self, outputs: Any, targets: dict[str, Tensor]) -> Tensor:
        """Σ cross entropy over labelled tokens."""
        return cross_entropy(outputs["logits"], targets["labels"])

    def collect(self, outputs: Any, items: Sequence[Item]) -> list[Any]:
        """[T] label numbers."""
        best_BT = outputs["logits"].argmax(-1).cpu().tolist()
        return [row[: len(item.ids)] for row, item in zip(best_BT, items, strict=True)]

    def decode(
        self, examples: Sequence[Example], items: Sequence[Item], collected: Sequence[Any]
    ) -> list[Prediction]:
        """A tag for every character or word."""
        found: list[Prediction] = []
        for example, item, best_T in zip(examples, items, collected, strict=True):
            assert isinstance(example, TaggedExample)
            said = [self.task.labels[number] for number in best_T]
            if example.characters:
                tags = character_tags(example.text, said, item.extra)
                covered = covered_characters(example.text, item.extra)
            else:
                firsts = {word: token for token, word in first_tokens(example.units, item.extra)}
                words = range(len(example.units))
                tags = tuple(said[firsts[w]] if w in firsts else self.outside for w in words)
                covered = max(firsts, default=-1) + 1
            found.append(TagPrediction(example.id, tags, covered=covered if item.cut else None))
        return found


def first_tokens(words: Sequence[str], offsets: Offsets) -> Iterator[tuple[int, int]]:
    """(Token, word) for the first labelled token of each word; words are joined by one space."""
    seen = -1
    starts = word_starts(words)
    for token, (first, _) in labelled_tokens(" ".join(words), offsets).items():
        word = word_at(starts, first)
        if word > seen:
            seen = word
            yield token, word


def word_starts(words: Sequence[str]) -> list[int]:
    """Where each word begins when they are joined by one space."""
    starts, at = [], 0
    for word in words:
        starts.append(at)
        at += len(word) + 1
    return starts


def word_at(starts: Sequence[int], character: int) -> int:
    """The word that a character belongs to."""
    return bisect_right(starts, character) - 1
