"""Passages cut into windows, and answers found in what a model says of them.

Positions are of three kinds: characters of the passage, tokens of the passage (0 is its first) and
places in a window's input (0 is `<s>` or [CLS], which also stands for "no answer").
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.tasks.examples import Answer
    from lingraft.tasks.settings import Spans

    Array = np.ndarray[Any, Any]
    Offsets = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a passage's tokens, and where it begins in the window's input."""

    tokens: range
    """Of the passage."""
    first: int
    """Place of `tokens.start` in the input."""

    def place(self, token: int) -> int:
        """Where a token of the passage is in the input."""
        return token - self.tokens.start + self.first


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible answer; `tokens` are its first and last, None for "no answer"."""

    text: str
    score: float
    """Start logit plus end logit."""
    tokens: tuple[int, int] | None


def overlap(max_length: int, n_question: int, n_special: int, doc_stride: int) -> int:
    """The `stride` of transformers' tokenizers, which is what two windows share.

    KLUE's (and SQuAD's) `doc_stride` is the step from one window to the next.

    Raises:
        DataError: the step is longer than a window: tokens between two windows would be lost.
    """
    room = max_length - n_question - n_special
    if room < doc_stride:
        raise DataError(
            f"a window of {max_length} tokens has room for {room} of the passage, less than "
            f"doc_stride = {doc_stride}; set doc_stride or max_query lower"
        )
    return room - doc_stride


def windows(n_tokens: int, room: int, doc_stride: int, first: int) -> list[Window]:
    """The windows of a passage of `n_tokens` tokens, `room` tokens each, the last one shorter.

    Args:
        n_tokens: of the passage.
        room: tokens of the passage that a window holds.
        doc_stride: from the start of one to the start of the next.
        first: place of the passage in the input, after question and special tokens.
    """
    parts = []
    start = 0
    while True:
        end = min(n_tokens, start + room)
        parts.append(Window(range(start, end), first))
        if end == n_tokens:
            return parts
        start += min(room, doc_stride)


def answer_tokens(answer: Answer, offsets: Offsets) -> tuple[int, int] | None:
    """First and last token of the passage that hold a character of the answer.

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
    """Places of the answer's first and last token in the input; (0, 0) if it is not all there."""
    if answer is None or answer[0] not in window.tokens or answer[1] not in window.tokens:
        return (0, 0)
    return (window.place(answer[0]), window.place(answer[1]))


def home_windows(parts: Sequence[Window]) -> dict[int, int]:
    """Token of the passage → the window in which it has the most context.

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


def n_best(
    context: str,
    offsets: Offsets,
    parts: Sequence[Window],
    logits: Sequence[tuple[Array, Array]],
    spans: Spans,
) -> list[Candidate]:
    """The answers that the model finds likely, the best first.

    In every window the `n_best` most likely starts are tried with the `n_best` most likely ends. An
    answer lies inside the passage, starts in its start's home window, ends where it starts or
    later, and is at most `max_answer` tokens long. "No answer" has the sum of the logits at
    place 0, the least over the windows. It comes first, and the answer is empty, if it exceeds the
    best other candidate by more than `null_threshold`.

    Args:
        context: the passage.
        offsets: of its tokens.
        parts: its windows.
        logits: of every window, start_T and end_T over the places of its input.
        spans: the limits.

    Returns:
        At most `n_best` candidates of different texts, with the empty one among them.
    """
    home = home_windows(parts)
    null = min(float(start_T[0] + end_T[0]) for start_T, end_T in logits)
    candidates: list[Candidate] = []
    for index, (window, (start_T, end_T)) in enumerate(zip(parts, logits, strict=True)):
        starts = [place - window.first + window.tokens.start for place in _top(start_T, spans)]
        ends = [place - window.first + window.tokens.start for place in _top(end_T, spans)]
        for start in starts:
            if start not in window.tokens or home[start] != index:
                continue
            for end in ends:
                if end in window.tokens and 0 <= end - start < spans.max_answer:
                    score = float(start_T[window.place(start)] + end_T[window.place(end)])
                    text = context[offsets[start][0] : _end(context, offsets, end)].strip()
                    candidates.append(Candidate(text, score, (start, end)))
    candidates.sort(key=lambda candidate: -candidate.score)
    texts: set[str] = set()
    best: list[Candidate] = []
    for candidate in candidates:
        if candidate.text and candidate.text not in texts and len(best) < spans.n_best:
            texts.add(candidate.text)
            best.append(candidate)
    nothing = Candidate("", null, None)
    if not best or null - best[0].score > spans.null_threshold:
        return [nothing, *best]
    return [best[0], *sorted([nothing, *best[1:]], key=lambda candidate: -candidate.score)]


def _end(context: str, offsets: Offsets, token: int) -> int:
    """Where a token ends, with the marks on its last letter that a tokenizer has taken off."""
    end = offsets[token][1]
    limit = offsets[token + 1][0] if token + 1 < len(offsets) else len(context)
    while end < limit and unicodedata.category(context[end]) == "Mn":
        end += 1
    return end


def _top(logits_T: Array, spans: Spans) -> list[int]:
    order = np.argsort(-np.asarray(logits_T), kind="stable")
    return [int(place) for place in order[: spans.n_best]]
