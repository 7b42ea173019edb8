"""Questions on passages: windows, places of answers, the best answer over windows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch

from lingraft.finetuning.coders.common import Coder
from lingraft.models.losses import summed_cross_entropy
from lingraft.tasks.examples import SpanPrediction
from lingraft.tasks.windows import Window, answer_tokens, n_best, overlap, target, windows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tokenizers import Encoding
    from torch import Tensor

    from lingraft.finetuning.coders.common import Item, Shape
    from lingraft.tasks.examples import Prediction, SpanExample
    from lingraft.tasks.task import Task

    Offsets = list[tuple[int, int]]


class Passage(NamedTuple):
    """What is needed to find an answer in a window's outputs."""

    window: Window
    offsets: Offsets
    """Of all tokens of the passage."""


class SpanCoder(Coder):
    """A window of a passage, and the places of the answer's first and last token in it.

    Place 0 is right where the window does not hold the whole answer.
    """

    head: ClassVar[str] = "span"

    def __init__(self, task: Task, shape: Shape) -> None:
        assert task.spans is not None
        super().__init__(task, shape)
        self.spans = task.spans

    def encode(self, examples: Sequence[SpanExample]) -> list[Item]:
        """The windows of every example."""
        return [
            item for index, example in enumerate(examples) for item in self._windows(index, example)
        ]

    def check(self, examples: Iterable[Any]) -> None:
        """Look whether the windows have room beside the longest of the questions.

        Raises:
            DataError: one has room for less than the step from a window to the next.
        """
        if self.special + self.spans.max_query + self.spans.doc_stride > self.shape.max_length:
            questions = (self._question(example.question) for example in examples)
            self._shared(max(len(self._plain(question).ids) for question in questions))

    @property
    def special(self) -> int:
        """How many special tokens stand around and between question and passage."""
        return int(self.shape.tokenizer.num_special_tokens_to_add(pair=True))

    def _shared(self, n_question: int) -> int:
        """Tokens of the passage that two windows share beside a question of so many tokens."""
        return overlap(self.shape.max_length, n_question, self.special, self.spans.doc_stride)

    def _windows(self, index: int, example: SpanExample) -> Iterator[Item]:
        question = self._question(example.question)
        n_question = len(self._plain(question).ids)
        passage = self._plain(example.context)
        shared = self._shared(n_question)
        encodings = self.shape.encode(
            [question],
            [example.context],
            truncation="only_second",
            stride=shared,
            return_overflowing_tokens=True,
        )
        room = shared + self.spans.doc_stride
        first = encodings[0].sequence_ids.index(1) if passage.ids else 0
        parts = windows(len(passage.ids), room, self.spans.doc_stride, first)
        answer = answer_tokens(example.answers[0], passage.offsets) if example.answers else None
        for window, encoding in zip(parts, encodings, strict=True):
            tokens = window.tokens
            assert (
                encoding.ids[first : first + len(tokens)] == passage.ids[tokens.start : tokens.stop]
            )
            extra = Passage(window, passage.offsets)
            item = self.shape.item(index, encoding, target(window, answer), extra)
            yield replace(item, cut=False)

    def _plain(self, text: str) -> Encoding:
        """A whole text, without the special tokens around it."""
        (encoding,) = self.shape.encode([text], truncation=False, add_special_tokens=False)
        return encoding

    def _question(self, question: str) -> str:
        """The question without what comes after `max_query` tokens."""
        encoding = self._plain(question)
        if len(encoding.ids) <= self.spans.max_query:
            return question
        return question[: encoding.offsets[self.spans.max_query - 1][1]]

    def targets(self, items: Sequence[Item], width: int) -> dict[str, Tensor]:
        """[B, 2] places of start and end, and [B] lengths of the inputs."""
        return {
            "places": torch.tensor([item.target for item in items]),
            "lengths": torch.tensor([len(item.ids) for item in items]),
        }

    def loss(self, outputs: Any, targets: dict[str, Tensor]) -> Tensor:
        """Σ mean of the cross entropies of start and end; padding is no place."""
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

    def decode(
        self, examples: Sequence[SpanExample], items: Sequence[Item], collected: Sequence[Any]
    ) -> list[Prediction]:
        """The best answer over the windows of each example."""
        by_example: dict[int, list[tuple[Item, Any]]] = {}
        for item, logits in zip(items, collected, strict=True):
            by_example.setdefault(item.example, []).append((item, logits))
        predictions: list[Prediction] = []
        for index, example in enumerate(examples):
            parts = by_example[index]
            best, *_ = n_best(
                example.context,
                parts[0][0].extra.offsets,
                [item.extra.window for item, _ in parts],
                [logits for _, logits in parts],
                self.spans,
            )
            predictions.append(SpanPrediction(example.id, best.text))
        return predictions
