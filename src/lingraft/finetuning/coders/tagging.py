"""Tags of characters or words by way of tokens."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch.nn.functional import one_hot

from lingraft.finetuning.coders.common import Coder, label_ids, padded
from lingraft.models.losses import IGNORED
from lingraft.models.losses import summed_cross_entropy as cross_entropy
from lingraft.tasks.characters import (
    character_tags,
    covered_characters,
    labelled_tokens,
    token_labels,
)
from lingraft.tasks.examples import TagPrediction
from lingraft.tasks.words import known, pieces

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenizers import Encoding
    from torch import Tensor

    from lingraft.finetuning.coders.common import Item, Shape
    from lingraft.tasks.examples import Prediction, TaggedExample
    from lingraft.tasks.task import Task

    Offsets = list[tuple[int, int]]


class Piece(NamedTuple):
    """The words of one input: a sentence, or a part of a long one."""

    words: tuple[str, ...]
    """The unknown token, or else the end token, in place of a word that has no tokens, or more than
    an input holds."""
    start: int
    """Number of the first among the sentence's words."""
    offsets: Offsets


class TagCoder(Coder):
    """A token has the tag of the first character or word that begins in it; others do not count.

    Of a word with several tokens the first counts; for a causal model the last, the only one that
    has seen the whole word. A sentence of words that is too long is read in
    pieces (XTREME); one of characters loses its end, which is O, or the last label where there is
    no O. KLUE's reference also scores the first and the last padding position, which we do not
    train: the predictions say O there.
    """

    head: ClassVar[str] = "token"

    def __init__(self, task: Task, shape: Shape) -> None:
        super().__init__(task, shape)
        self.labels = label_ids(task)
        self.tokens_of = last_tokens if shape.causal else first_tokens
        tokenizer = shape.tokenizer
        # byte-level BPE has no unknown one
        self.stand_in = tokenizer.unk_token or tokenizer.eos_token
        self.standing_in = replace(shape, inserted=tuple(filter(None, [self.stand_in])))
        self.outside = "O" if "O" in self.labels else task.labels[-1]

    def encode(self, examples: Sequence[TaggedExample]) -> list[Item]:
        """One input an example, several of a long sentence; `extra` are the offsets, or `Piece`."""
        encodings = self.shape.encode([example.text for example in examples])
        items: list[Item] = []
        for index, (example, encoding) in enumerate(zip(examples, encodings, strict=True)):
            assert example.tags is not None
            if example.characters:
                labels = token_labels(example.text, example.tags, encoding.offsets)
                extra = encoding.offsets
                items.append(self.shape.item(index, encoding, self._numbers(labels), extra))
            else:
                items += self._pieces(index, example, example.tags, encoding)
        return items

    def _numbers(self, labels: Sequence[str | None]) -> list[int]:
        return [IGNORED if label is None else self.labels[label] for label in labels]

    def _pieces(
        self, index: int, example: TaggedExample, tags: Sequence[str], whole: Encoding
    ) -> Iterator[Item]:
        """The inputs of a sentence of words."""
        room = self.shape.max_length - int(self.shape.tokenizer.num_special_tokens_to_add())
        counts = tokens_of_words(example.units, [whole, *whole.overflowing])
        odd = [word for word, count in enumerate(counts) if not known(count, room)]
        if odd or whole.overflowing:
            units = list(example.units)
            for word in odd:
                units[word] = self.stand_in or units[word]
            if odd:  # some tokenizers begin anew behind a special token
                again = self._read(units)
                counts = tokens_of_words(units, [again, *again.overflowing])
            parts = [
                (tuple(units[span.start : span.stop]), span.start) for span in pieces(counts, room)
            ]
            encodings = [self._read(words) for words, _ in parts]
        else:
            parts, encodings = [(example.units, 0)], [whole]
        for (words, start), encoding in zip(parts, encodings, strict=True):
            yield from self._labelled(index, words, tags[start:], start, encoding)

    def _read(self, words: Sequence[str]) -> Encoding:
        """Words, of which some may be the stand-in."""
        shape = self.standing_in if self.stand_in in words else self.shape
        (encoding,) = shape.encode([" ".join(words)])
        return encoding

    def _labelled(
        self, index: int, words: Sequence[str], tags: Sequence[str], start: int, encoding: Encoding
    ) -> Iterator[Item]:
        """The input of a piece of a sentence; two where it does not fit.

        A first word may take more tokens than it took behind a space, and no word is to be lost.
        """
        half = len(words) // 2
        if encoding.overflowing and half:
            for some, place in ((words[:half], 0), (words[half:], half)):
                again = self._read(some)
                yield from self._labelled(index, some, tags[place:], start + place, again)
            return
        labels: list[str | None] = [None] * len(encoding.offsets)
        for token, word in self.tokens_of(words, encoding.offsets):
            labels[token] = tags[word]
        extra = Piece(tuple(words), start, encoding.offsets)
        yield self.shape.item(index, encoding, self._numbers(labels), extra)

    def count(self, item: Item) -> int:
        """Tokens with a label."""
        return sum(label != IGNORED for label in item.target)

    def targets(self, items: Sequence[Item], width: int) -> dict[str, Tensor]:
        """[B, T] label numbers; with a teacher's probabilities also those, [B, T, C]."""
        labels_BT = padded([item.target for item in items], width)
        if not any(item.soft is not None for item in items):
            return {"labels": labels_BT}
        soft_BTC = one_hot(labels_BT.clamp_min(0), len(self.task.labels)).float()
        for row, item in enumerate(items):
            if item.soft is not None:
                soft_BTC[row, : len(item.soft)] = torch.from_numpy(item.soft)
        return {"labels": labels_BT, "soft": soft_BTC}

    def loss(self, outputs: Any, targets: dict[str, Tensor]) -> Tensor:
        """Σ cross entropy over labelled tokens."""
        if "soft" not in targets:
            return cross_entropy(outputs["logits"], targets["labels"])
        nats_BT = -(targets["soft"] * outputs["logits"].float().log_softmax(-1)).sum(-1)
        return nats_BT[targets["labels"] != IGNORED].sum()

    def collect(self, outputs: Any, items: Sequence[Item]) -> list[Any]:
        """[T] label numbers."""
        best_BT = outputs["logits"].argmax(-1).cpu().tolist()
        return [row[: len(item.ids)] for row, item in zip(best_BT, items, strict=True)]

    def decode(
        self, examples: Sequence[TaggedExample], items: Sequence[Item], collected: Sequence[Any]
    ) -> list[Prediction]:
        """A tag for every character or word."""
        by_example: dict[int, list[tuple[Item, list[str]]]] = {}
        for item, best_T in zip(items, collected, strict=True):
            labels = [self.task.labels[number] for number in best_T]
            by_example.setdefault(item.example, []).append((item, labels))
        predictions: list[Prediction] = []
        for index, example in enumerate(examples):
            if not example.characters:
                predictions.append(
                    TagPrediction(example.id, self._joined(example, by_example[index]))
                )
                continue
            ((item, labels),) = by_example[index]
            tags = character_tags(example.text, labels, item.extra)
            covered = covered_characters(example.text, item.extra) if item.cut else None
            predictions.append(TagPrediction(example.id, tags, covered=covered))
        return predictions

    def _joined(
        self, example: TaggedExample, parts: Sequence[tuple[Item, list[str]]]
    ) -> tuple[str, ...]:
        """The tags of a sentence's words, from its pieces."""
        tags = [self.outside] * len(example.units)
        for item, labels in parts:
            piece: Piece = item.extra
            for token, word in self.tokens_of(piece.words, piece.offsets):
                tags[piece.start + word] = labels[token]
        return tuple(tags)


def tokens_of_words(words: Sequence[str], encodings: Sequence[Encoding]) -> list[int]:
    """How many tokens each word has; words are joined by one space, which is the next word's.

    Args:
        words: of a sentence.
        encodings: of it, the one that fits and what was left over.
    """
    text, starts, counts = " ".join(words), word_starts(words), [0] * len(words)
    for encoding in encodings:
        tokens = zip(encoding.offsets, encoding.special_tokens_mask, strict=True)
        for (first, end), special in tokens:
            if not special:
                place = next((at for at in range(first, end) if not text[at].isspace()), end)
                counts[word_at(starts, place)] += 1
    return counts


def first_tokens(words: Sequence[str], offsets: Offsets) -> Iterator[tuple[int, int]]:
    """(Token, word) for the first labelled token of each word; words are joined by one space."""
    last_word = -1
    starts = word_starts(words)
    for token, (first, _) in labelled_tokens(" ".join(words), offsets).items():
        word = word_at(starts, first)
        if word > last_word:
            last_word = word
            yield token, word


def last_tokens(words: Sequence[str], offsets: Offsets) -> Iterator[tuple[int, int]]:
    """(Token, word) for the last labelled token of each word; words are joined by one space."""
    starts = word_starts(words)
    tokens = {
        word_at(starts, first): token
        for token, (first, _) in labelled_tokens(" ".join(words), offsets).items()
    }
    for word, token in tokens.items():
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
