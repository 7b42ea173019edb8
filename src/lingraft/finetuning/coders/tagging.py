"""Tags of characters or words by way of tokens.

`offsets` are those of a fast tokenizer on the raw sentence: start and end of every token in
characters, (0, 0) for special tokens. A labelled token is one that begins a stretch of text:

- special tokens, padding and tokens of nothing but spaces are not labelled;
- of several tokens that begin at one character the last is: a lone `▁` shares its offsets with the
  piece after it, and a character of several bytes may be several tokens.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from lingraft.finetuning.coders.common import Coder, padded
from lingraft.models.losses import IGNORED, summed_cross_entropy
from lingraft.tasks.examples import TagPrediction

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenizers import Encoding
    from torch import Tensor

    from lingraft.finetuning.coders.common import InputShape, Item
    from lingraft.tasks.examples import Prediction, TaggedExample
    from lingraft.tasks.task import Task

    Offsets = Sequence[tuple[int, int]]


class TaggedPiece(NamedTuple):
    """The words of one input: a sentence, or a part of a long one."""

    words: tuple[str, ...]
    """The unknown token, or else the end token, in place of a word that has no tokens, or more than
    an input holds."""
    start: int
    """Number of the first among the sentence's words."""
    offsets: Offsets


class TagCoder(Coder):
    """Coder of tags: a token has that of the first unit that begins in it; others do not count.

    Of a word with several tokens the first counts; for a causal model the last, the only one that
    has seen the whole word. A sentence of words that is too long is read in
    pieces (XTREME); one of characters loses its end, which is O, or the last label where there is
    no O. KLUE's reference also scores the first and the last padding position, which we do not
    train: the predictions say O there.
    """

    head: ClassVar[str] = "token"

    def __init__(self, task: Task, shape: InputShape) -> None:
        super().__init__(task, shape)
        tokenizer = shape.tokenizer
        # byte-level BPE has no unknown one
        self.stand_in = tokenizer.unk_token or tokenizer.eos_token
        self.standing_in = replace(shape, inserted=self.stand_in)
        self.outside = "O" if "O" in self.labels else task.labels[-1]

    def encode(self, examples: Sequence[TaggedExample]) -> list[Item]:
        """Encode an example as an input, a long one as several; `extra`: offsets, or `Piece`."""
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
        """Yield the inputs of a sentence of words."""
        room = self.shape.max_length - int(self.shape.tokenizer.num_special_tokens_to_add())
        counts = tokens_of_words(example.units, [whole, *whole.overflowing])
        odd = [word for word, count in enumerate(counts) if not 0 < count <= room]
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
        """Tokenize words, of which some may be the stand-in."""
        shape = self.standing_in if self.stand_in in words else self.shape
        (encoding,) = shape.encode([" ".join(words)])
        return encoding

    def _labelled(
        self, index: int, words: Sequence[str], tags: Sequence[str], start: int, encoding: Encoding
    ) -> Iterator[Item]:
        """Yield the input of a piece of a sentence; two where it does not fit.

        A first word may take more tokens than it took behind a space, and no word is to be lost.
        """
        half = len(words) // 2
        if encoding.overflowing and half:
            for some, place in ((words[:half], 0), (words[half:], half)):
                again = self._read(some)
                yield from self._labelled(index, some, tags[place:], start + place, again)
            return
        labels: list[str | None] = [None] * len(encoding.offsets)
        for token, word in tokens_of(words, encoding.offsets, last=self.shape.causal):
            labels[token] = tags[word]
        extra = TaggedPiece(tuple(words), start, encoding.offsets)
        yield self.shape.item(index, encoding, self._numbers(labels), extra)

    def count(self, item: Item) -> int:
        """Return the number of tokens with a label."""
        return sum(label != IGNORED for label in item.target)

    def targets(self, items: Sequence[Item], width: int) -> dict[str, Tensor]:
        """Return the label numbers [B, T]."""
        return {"labels": padded([item.target for item in items], width)}

    def loss(self, outputs: Any, targets: dict[str, Tensor]) -> Tensor:
        """Return Σ cross entropy over labelled tokens."""
        return summed_cross_entropy(outputs["logits"], targets["labels"])

    def collect(self, outputs: Any, items: Sequence[Item]) -> list[Any]:
        """Return the likeliest label numbers, [T] an input."""
        best_BT = outputs["logits"].argmax(-1).cpu().tolist()
        return [row[: len(item.ids)] for row, item in zip(best_BT, items, strict=True)]

    def answer(self, example: Any, parts: Sequence[tuple[Item, Any]]) -> Prediction:
        """Return a tag for every character or word."""
        labelled = [(item, [self.task.labels[n] for n in best_T]) for item, best_T in parts]
        if example.characters:
            ((item, labels),) = labelled
            covered = None
            if item.cut:  # what stands behind the last token is not read
                ends = (end for _, end in labelled_tokens(example.text, item.extra).values())
                covered = max(ends, default=0)
            tags = character_tags(example.text, labels, item.extra)
            return TagPrediction(example.id, tags, covered=covered)
        joined = [self.outside] * len(example.units)
        for item, labels in labelled:
            piece: TaggedPiece = item.extra
            for token, word in tokens_of(piece.words, piece.offsets, last=self.shape.causal):
                joined[piece.start + word] = labels[token]
        return TagPrediction(example.id, tuple(joined))


def pieces(counts: Sequence[int], room: int) -> list[range]:
    """Cut a sentence between words so that every piece fits (XTREME's rule).

    Args:
        counts: tokens of each word; a word of none, or of more than `room`, counts as one token.
        room: tokens of a piece, without special ones.

    Returns:
        The words of each piece; all words, in order.
    """
    ranges, start, filled = [], 0, 0
    for word, count in enumerate(counts):
        size = count if 0 < count <= room else 1
        if filled + size > room and word > start:
            ranges.append(range(start, word))
            start, filled = word, 0
        filled += size
    return [*ranges, range(start, len(counts))]


def tokens_of_words(words: Sequence[str], encodings: Sequence[Encoding]) -> list[int]:
    """Count the tokens of each word; words are joined by one space, which is the next word's.

    Args:
        words: of a sentence.
        encodings: of it, the one that fits and what was left over.
    """
    text, starts, counts = " ".join(words), word_starts(words), [0] * len(words)
    for encoding in encodings:
        tokens = zip(encoding.offsets, encoding.special_tokens_mask, strict=True)
        for (first, end), special in tokens:
            if not special:
                place = first_letter(text, first, end)
                counts[word_at(starts, end if place is None else place)] += 1
    return counts


def tokens_of(words: Sequence[str], offsets: Offsets, *, last: bool) -> list[tuple[int, int]]:
    """Return (token, word) for the first or last labelled token of each word, in their order."""
    starts = word_starts(words)
    tokens: dict[int, int] = {}
    for token, (first, _) in labelled_tokens(" ".join(words), offsets).items():
        word = word_at(starts, first)
        if last or word not in tokens:
            tokens[word] = token
    return [(token, word) for word, token in tokens.items()]


def word_starts(words: Sequence[str]) -> list[int]:
    """Return where each word begins when they are joined by one space."""
    return list(accumulate((len(word) + 1 for word in words), initial=0))[:-1]


def word_at(starts: Sequence[int], character: int) -> int:
    """Return the word that a character belongs to."""
    return bisect_right(starts, character) - 1


def first_letter(text: str, start: int, end: int) -> int | None:
    """Return the place of the first character of a stretch that is no space; None where all are."""
    return next((place for place in range(start, end) if not text[place].isspace()), None)


def labelled_tokens(text: str, offsets: Offsets) -> dict[int, tuple[int, int]]:
    """Return token → first character that is not a space, and end; in the order of the tokens."""
    by_start: dict[int, tuple[int, int]] = {}
    for token, (start, end) in enumerate(offsets):
        first = first_letter(text, start, end)
        if first is not None:
            by_start[first] = (token, end)
    return {token: (first, end) for first, (token, end) in sorted(by_start.items())}


def token_labels(text: str, tags: Sequence[str], offsets: Offsets) -> list[str | None]:
    """Return the tag of each token's first character; None (−100 in the loss) for the others.

    Padding has to be None: the token-classification losses of transformers 5 ignore only −100,
    not what the attention mask hides.
    """
    labels: list[str | None] = [None] * len(offsets)
    for token, (first, _) in labelled_tokens(text, offsets).items():
        labels[token] = tags[first]
    return labels


def character_tags(text: str, labels: Sequence[str | None], offsets: Offsets) -> tuple[str, ...]:
    """Return a tag for every character; the inverse of `token_labels` but for tokens over a border.

    The first character of a token gets its label, the others I-X for a label B-X, and the same
    label otherwise; an unknown token is no exception. A character within a word that no token
    covers (the tokenizer drops it) goes on as the one before it. A space is inside an entity if the
    characters on both sides are. What was cut off is O.

    Args:
        text: the raw sentence.
        labels: what the model says of each token; those of tokens without a label are not read.
        offsets: of the tokens.
    """
    tags: list[str | None] = [None] * len(text)
    covered = 0
    for token, (first, end) in labelled_tokens(text, offsets).items():
        label = labels[token]
        assert label is not None
        tags[first:end] = [label, *[_inside(label)] * (end - first - 1)]
        covered = max(covered, end)
    for index in range(covered):
        if text[index].isspace():
            tags[index] = None
        elif tags[index] is None:
            before = tags[index - 1] if index else None
            tags[index] = _inside(before or "O")
    done = [tag or "O" for tag in tags]
    for index in range(1, len(text) - 1):
        if text[index].isspace():
            after = _next(text, done, index)
            if after.startswith("I-") and done[index - 1][2:] == after[2:]:
                done[index] = after
    return tuple(done)


def _inside(label: str) -> str:
    return f"I{label[1:]}" if label == "B" or label.startswith("B-") else label


def _next(text: str, tags: Sequence[str], index: int) -> str:
    return next((tags[i] for i in range(index, len(text)) if not text[i].isspace()), "O")
