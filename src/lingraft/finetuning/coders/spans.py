"""Questions on passages: windows, places of answers, the best answer over windows.

Positions are of three kinds: characters of the passage, tokens of the passage (0 is its first) and
places in a window's input (0 is `<s>` or [CLS], which also stands for "no answer").
"""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch

from lingraft.errors import DataError
from lingraft.finetuning.coders.common import Coder
from lingraft.models.losses import summed_cross_entropy
from lingraft.tasks.examples import SpanPrediction

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenizers import Encoding
    from torch import Tensor

    from lingraft.finetuning.coders.common import InputShape, Item
    from lingraft.tasks.definition import Spans
    from lingraft.tasks.examples import Answer, Prediction, SpanExample
    from lingraft.tasks.task import Task

    Array = np.ndarray[Any, Any]
    Offsets = Sequence[tuple[int, int]]


class Window(NamedTuple):
    """A stretch of a passage's tokens, and where it begins in the window's input."""

    tokens: range
    """Tokens of the passage."""
    first: int
    """Place of `tokens.start` in the input."""

    def place(self, token: int) -> int:
        """Return the place in the input of a token of the passage."""
        return token - self.tokens.start + self.first


class SpanCoder(Coder):
    """Coder of a window of a passage, and the places of the answer's first and last token in it.

    Place 0 is right where the window does not hold the whole answer. `extra`: the window, and the
    offsets of all tokens of the passage.
    """

    head: ClassVar[str] = "span"

    def __init__(self, task: Task, shape: InputShape) -> None:
        assert task.spans is not None
        super().__init__(task, shape)
        self.spans = task.spans

    def encode(self, examples: Sequence[SpanExample]) -> list[Item]:
        """Encode every example as its windows."""
        return [
            item for index, example in enumerate(examples) for item in self._windows(index, example)
        ]

    def _windows(self, index: int, example: SpanExample) -> Iterator[Item]:
        """Yield the windows; KLUE's (and SQuAD's) `doc_stride` is the step from one to the next.

        Raises:
            DataError: the step is longer than a window: tokens between two would be lost.
        """
        question, step = self._question(example.question), self.spans.doc_stride
        passage = self._plain(example.context)
        special = int(self.shape.tokenizer.num_special_tokens_to_add(pair=True))
        room = self.shape.max_length - len(self._plain(question).ids) - special
        if room < step:
            raise DataError(
                f"a window has room for {room} tokens of the passage, less than doc_stride = "
                f"{step}; set doc_stride or max_query lower"
            )
        encodings = self.shape.encode(
            [question],
            [example.context],
            truncation="only_second",
            stride=room - step,
            return_overflowing_tokens=True,
        )
        first = encodings[0].sequence_ids.index(1) if passage.ids else 0
        parts = windows(len(passage.ids), room, step, first)
        answer = answer_tokens(example.answers[0], passage.offsets) if example.answers else None
        for window, encoding in zip(parts, encodings, strict=True):
            extra = (window, passage.offsets)
            item = self.shape.item(index, encoding, target(window, answer), extra)
            yield replace(item, cut=False)

    def _plain(self, text: str) -> Encoding:
        """Encode a whole text, without the special tokens around it."""
        (encoding,) = self.shape.encode([text], truncation=False, add_special_tokens=False)
        return encoding

    def _question(self, question: str) -> str:
        """Return the question without what comes after `max_query` tokens."""
        encoding = self._plain(question)
        if len(encoding.ids) <= self.spans.max_query:
            return question
        return question[: encoding.offsets[self.spans.max_query - 1][1]]

    def targets(self, items: Sequence[Item], width: int) -> dict[str, Tensor]:
        """Return the places of start and end [B, 2], and the lengths of the inputs [B]."""
        return {
            "places": torch.tensor([item.target for item in items]),
            "lengths": torch.tensor([len(item.ids) for item in items]),
        }

    def loss(self, outputs: Any, targets: dict[str, Tensor]) -> Tensor:
        """Return Σ mean of the cross entropies of start and end; padding is no place."""
        start_BT, end_BT = outputs["start_logits"], outputs["end_logits"]
        places_T = torch.arange(start_BT.shape[1], device=start_BT.device)
        padding_BT = places_T[None] >= targets["lengths"][:, None]
        start, end = (
            summed_cross_entropy(
                logits_BT.float().masked_fill(padding_BT, -torch.inf), targets["places"][:, side]
            )
            for side, logits_BT in enumerate((start_BT, end_BT))
        )
        return (start + end) / 2

    def collect(self, outputs: Any, items: Sequence[Item]) -> list[Any]:
        """Start and end logits [T]."""
        starts_BT = outputs["start_logits"].float().cpu().numpy()
        ends_BT = outputs["end_logits"].float().cpu().numpy()
        return [
            (starts_BT[row, : len(item.ids)].copy(), ends_BT[row, : len(item.ids)].copy())
            for row, item in enumerate(items)
        ]

    def answer(self, example: Any, parts: Sequence[tuple[Item, Any]]) -> Prediction:
        """Return the best answer over the windows of an example."""
        text = best_answer(
            example.context,
            parts[0][0].extra[1],
            [item.extra[0] for item, _ in parts],
            [logits for _, logits in parts],
            self.spans,
        )
        return SpanPrediction(example.id, text)


def windows(n_tokens: int, room: int, doc_stride: int, first: int) -> list[Window]:
    """Return the windows of a passage, `room` tokens each, the last one shorter.

    Args:
        n_tokens: of the passage.
        room: tokens of the passage that a window holds.
        doc_stride: from the start of one to the start of the next.
        first: place of the passage in the input, after question and special tokens.
    """
    step = min(room, doc_stride)
    starts = range(0, max(0, n_tokens - room) + step, step)
    return [Window(range(start, min(n_tokens, start + room)), first) for start in starts]


def answer_tokens(answer: Answer, offsets: Offsets) -> tuple[int, int] | None:
    """Return first and last token of the passage that hold a character of the answer.

    Args:
        answer: in characters.
        offsets: of the passage's tokens.

    Returns:
        None if no token does (the tokenizer dropped it).
    """
    inside = [
        token
        for token, (start, end) in enumerate(offsets)
        if start < answer.end and end > answer.start and start < end
    ]
    return (inside[0], inside[-1]) if inside else None


def target(window: Window, answer: tuple[int, int] | None) -> tuple[int, int]:
    """Return places of the answer's first and last token; (0, 0) if it is not all there."""
    if answer is None or answer[0] not in window.tokens or answer[1] not in window.tokens:
        return (0, 0)
    return (window.place(answer[0]), window.place(answer[1]))


def home_windows(parts: Sequence[Window]) -> dict[int, int]:
    """Return token of the passage → the window in which it has the most context.

    Context is the smaller of the numbers of tokens to its left and right, plus 0.01 × the window's
    length; of equals the first window.
    """
    best: dict[int, tuple[float, int]] = {}
    for index, window in enumerate(parts):
        size = len(window.tokens)
        for position, token in enumerate(window.tokens):
            score = min(position, size - 1 - position) + 0.01 * size
            if token not in best or score > best[token][0]:
                best[token] = (score, index)
    return {token: index for token, (_, index) in best.items()}


def best_answer(
    context: str,
    offsets: Offsets,
    parts: Sequence[Window],
    logits: Sequence[tuple[Array, Array]],
    spans: Spans,
) -> str:
    """Return the answer that the model finds likeliest; empty where it finds none.

    In every window the `n_best` most likely starts are tried with the `n_best` most likely ends. An
    answer lies inside the passage, starts in its start's home window, ends where it starts or
    later, and is at most `max_answer` tokens long; of equally likely ones the first counts. "No
    answer" has the sum of the logits at place 0, the least over the windows; it is said if it
    exceeds the best answer by more than `null_threshold`.

    Args:
        context: the passage.
        offsets: of its tokens.
        parts: its windows.
        logits: of every window, start_T and end_T over the places of its input.
        spans: the limits.
    """
    home = home_windows(parts)
    null = min(float(start_T[0] + end_T[0]) for start_T, end_T in logits)
    best, answer = -np.inf, ""
    for index, (window, (start_T, end_T)) in enumerate(zip(parts, logits, strict=True)):
        starts, ends = (
            [place - window.first + window.tokens.start for place in _top(side_T, spans)]
            for side_T in (start_T, end_T)
        )
        for start in (one for one in starts if one in window.tokens and home[one] == index):
            for end in ends:
                if end not in window.tokens or not 0 <= end - start < spans.max_answer:
                    continue
                score = float(start_T[window.place(start)] + end_T[window.place(end)])
                text = context[offsets[start][0] : _end(context, offsets, end)].strip()
                if text and score > best:
                    best, answer = score, text
    return "" if null - best > spans.null_threshold else answer


def _end(context: str, offsets: Offsets, token: int) -> int:
    """Return a token's end, with the marks on its last letter that a tokenizer has taken off."""
    end = offsets[token][1]
    limit = offsets[token + 1][0] if token + 1 < len(offsets) else len(context)
    while end < limit and unicodedata.category(context[end]) == "Mn":
        end += 1
    return end


def _top(logits_T: Array, spans: Spans) -> list[int]:
    order = np.argsort(-np.asarray(logits_T), kind="stable")
    return [int(place) for place in order[: spans.n_best]]
