"""From examples to a model's inputs, from its outputs to loss and predictions: one coder a kind.

B: inputs of a micro-batch, T: tokens of its longest, C: labels of the task.
"""

from __future__ import annotations

import copy
import inspect
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from tokenizers import Tokenizer

from lingraft.errors import UnsupportedModelError
from lingraft.finetuning.head_settings import is_causal
from lingraft.models.losses import IGNORED
from lingraft.pretrained.load import first_position
from lingraft.tokenizer.files import state_of
from lingraft.tokenizer.frame import ROLES, kept_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Encoding
    from torch import Tensor
    from transformers import PreTrainedConfig, PreTrainedTokenizerFast

    from lingraft.tasks.examples import Prediction
    from lingraft.tasks.task import Task

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Item:
    """An input of the model: an example, or a window of one."""

    example: int
    """Its place among the examples."""
    ids: Array
    """[T]"""
    types: Array | None
    """[T] token types, where the model has several."""
    target: Any
    """The right answer, in the coder's own form."""
    extra: Any = None
    """Anything that the coder needs to read the outputs."""
    cut: bool = False
    """Whether the input was longer than the model reads."""
    partner: Item | None = None
    """Input that this one is read with, of a model that is plugged in."""


@dataclass(frozen=True)
class TaskBatch:
    """A padded micro-batch."""

    inputs: dict[str, Tensor]
    """input_ids, attention_mask and token_type_ids [B, T], as the model takes them."""
    targets: dict[str, Tensor]
    count: int
    """Number of targets, over all inputs."""
    predict: bool = False
    """Give the outputs beside the loss."""
    partner: TaskBatch | None = None
    """The partners of the inputs, in their order."""

    def to(self, device: torch.device) -> TaskBatch:
        """Return the batch on another device."""
        return TaskBatch(
            {key: value.to(device, non_blocking=True) for key, value in self.inputs.items()},
            {key: value.to(device, non_blocking=True) for key, value in self.targets.items()},
            self.count,
            self.predict,
            self.partner and self.partner.to(device),
        )


@dataclass(frozen=True)
class InputShape:
    """Facts of tokenizer and model that a coder must know."""

    tokenizer: PreTrainedTokenizerFast
    pad: int
    max_length: int
    types: bool
    """Whether the model tells two texts apart by token types."""
    generation: Any = None
    """The generation configuration of a model that writes."""
    causal: bool = False
    """Whether a position sees only what stands before it."""
    inserted: str | None = None
    """Special token with a role that the coder puts into texts; elsewhere such a token is text."""

    @classmethod
    def of(
        cls, tokenizer: PreTrainedTokenizerFast, config: PreTrainedConfig, forward: Any, limit: int
    ) -> InputShape:
        """Return the shape for a model.

        Args:
            tokenizer: the model's.
            config: the model's.
            forward: its forward function, which may take token types or not.
            limit: the task's max_length; a model that reads less has its own limit.

        Raises:
            UnsupportedModelError: the tokenizer has no padding token.
        """
        if tokenizer.pad_token_id is None:
            raise UnsupportedModelError(
                f"'{tokenizer.name_or_path}': the tokenizer has no padding token; set pad_token in "
                "its tokenizer_config.json"
            )
        pad = int(tokenizer.pad_token_id)
        limits = [limit, tokenizer.model_max_length]
        for part in (config, *(getattr(config, name) for name in config.sub_configs)):
            positions = getattr(part, "max_position_embeddings", None)
            if isinstance(positions, int) and positions > 0:
                limits.append(positions - first_position(part, pad))
        types = (
            int(getattr(config, "type_vocab_size", 0) or 0) > 1
            and "token_type_ids" in inspect.signature(forward).parameters
        )
        return cls(tokenizer, pad, int(min(limits)), types, causal=is_causal(config))

    def encode(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, **options: Any
    ) -> Sequence[Encoding]:
        """Tokenize texts or pairs, cut at `max_length`.

        A special token with a role is text there: BART, say, reads a text at its one end token.
        """
        encoded = self._reader(
            list(texts),
            None if pairs is None else list(pairs),
            split_special_tokens=True,
            **{"truncation": "longest_first", "max_length": self.max_length, **options},
        )
        return encoded.encodings

    @cached_property
    def _roles(self) -> set[str]:
        """Return the special tokens that no piece of a text is."""
        roles = {getattr(self.tokenizer, role) for role in ROLES}
        return {*roles, *kept_ids(self.tokenizer)} - {None, self.inserted}

    @cached_property
    def _reader(self) -> PreTrainedTokenizerFast:
        """Return a copy of the tokenizer for which these alone are special."""
        reader, state = copy.copy(self.tokenizer), state_of(self.tokenizer)
        for token in state["added_tokens"]:
            token["special"] = token["special"] and token["content"] in self._roles
        reader._tokenizer = Tokenizer.from_str(json.dumps(state))
        return reader

    def item(self, example: int, encoding: Encoding, target: Any, extra: Any = None) -> Item:
        """Return an encoded text as the model's input.

        A piece that spells a special token is unknown: vocabularies of Unigram have such pieces.
        A text without any token, as GPT-2's tokenizer makes of an empty one, is the token that
        begins texts, or else the one that ends them.
        """
        tokenizer = self.tokenizer
        first = (tokenizer.bos_token_id, tokenizer.eos_token_id, self.pad)
        ids, unknown = encoding.ids, tokenizer.unk_token_id
        if unknown is not None and not self._roles.isdisjoint(encoding.tokens):
            pairs = zip(ids, encoding.tokens, encoding.special_tokens_mask, strict=True)
            ids = [
                unknown if piece in self._roles and not around else token
                for token, piece, around in pairs
            ]
        ids = ids or [token for token in first if token is not None][:1]
        return Item(
            example,
            np.array(ids, dtype=np.int64),
            np.array(encoding.type_ids, dtype=np.int64) if self.types else None,
            target,
            extra,
            bool(encoding.overflowing),
        )


class Coder(ABC):
    """Coder of a kind of task; its examples are of that kind (`tasks.examples`)."""

    head: ClassVar[str]
    """A key of `heads.HEADS`."""

    def __init__(self, task: Task, shape: InputShape) -> None:
        self.task, self.shape = task, shape
        self.labels = {label: index for index, label in enumerate(task.labels)}

    @abstractmethod
    def encode(self, examples: Sequence[Any]) -> list[Item]:
        """Encode examples as inputs; an example may become several."""

    def encode_training(self, examples: Sequence[Any]) -> list[Item]:
        """Encode examples as the inputs to learn from."""
        return self.encode(examples)

    def adapt(self, model: Any) -> None:  # noqa: B027 - most kinds need nothing
        """Set what a new model must know of the task."""

    def size(self, item: Item) -> tuple[int, ...]:
        """Count the tokens of an input and its partner; with an encoder and a decoder, of each."""
        return tuple(len(side.ids) for side in (item, item.partner) if side is not None)

    def count(self, item: Item) -> int:
        """Return the number of targets of an input: what the summed loss is divided by."""
        return 1

    def run(self, model: Any, batch: TaskBatch) -> Any:
        """Run the model on a micro-batch: its outputs are for `loss` and `collect`."""
        return dict(model(**batch.inputs))

    @abstractmethod
    def targets(self, items: Sequence[Item], width: int) -> dict[str, Tensor]:
        """Return the targets of a micro-batch of inputs padded to `width` tokens."""

    @abstractmethod
    def loss(self, outputs: Any, targets: dict[str, Tensor]) -> Tensor:
        """Return the loss summed over targets, in nats (for regression: squares)."""

    @abstractmethod
    def collect(self, outputs: Any, items: Sequence[Item]) -> list[Any]:
        """Return what `decode` wants to know of each input, on the CPU."""

    def generate(
        self, model: Any, items: Sequence[Item], places: Sequence[int], on_batch: Any, *, best: bool
    ) -> list[Any] | None:
        """Write the model's texts for inputs, in place of `collect`; None where it only reads.

        Args:
            model: without a distributed wrapper.
            items: the inputs of a whole split.
            places: of those that this process writes for.
            on_batch: called with the number of inputs that are done, now and then.
            best: whether time matters less than quality.
        """
        return None

    def decode(
        self, examples: Sequence[Any], items: Sequence[Item], collected: Sequence[Any]
    ) -> list[Prediction]:
        """Return one prediction an example, in their order."""
        parts: list[list[tuple[Item, Any]]] = [[] for _ in examples]
        for item, result in zip(items, collected, strict=True):
            parts[item.example].append((item, result))
        return [self.answer(example, of) for example, of in zip(examples, parts, strict=True)]

    @abstractmethod
    def answer(self, example: Any, parts: Sequence[tuple[Item, Any]]) -> Prediction:
        """Return the prediction of an example from its inputs and what was collected of each."""


def collate(coder: Coder, items: Sequence[Item], *, predict: bool) -> TaskBatch:
    """Pad inputs to the longest of them, as a micro-batch."""
    shape = coder.shape
    width = max(len(item.ids) for item in items)
    inputs = {
        "input_ids": padded([item.ids for item in items], width, shape.pad),
        "attention_mask": padded([np.ones_like(item.ids) for item in items], width, 0),
    }
    if shape.types:
        types = [() if item.types is None else item.types for item in items]
        inputs["token_type_ids"] = padded(types, width, 0)
    count = sum(coder.count(item) for item in items)
    partners = [item.partner for item in items if item.partner]
    partner = collate(coder, partners, predict=predict) if partners else None
    return TaskBatch(inputs, coder.targets(items, width), count, predict, partner)


def padded(rows: Sequence[Sequence[int] | Array], width: int, fill: int = IGNORED) -> Tensor:
    """Return rows padded to [B, width] whole numbers."""
    table = torch.full((len(rows), width), fill, dtype=torch.long)
    for index, row in enumerate(rows):
        table[index, : len(row)] = torch.as_tensor(row, dtype=torch.long)
    return table
