"""Tags for translations: what a model says that was fine-tuned on the original."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lingraft.errors import RecipeError, UnsupportedModelError
from lingraft.finetuning import heads
from lingraft.finetuning.coders.tagging import TagCoder
from lingraft.finetuning.problem import Finetuning
from lingraft.pretrained.load import load_config
from lingraft.tasks.examples import TaggedExample, TagPrediction

if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from pathlib import Path

    from accelerate import Accelerator

    from lingraft.finetuning.coders.common import Coder, Item, Shape
    from lingraft.tasks import Task
    from lingraft.tasks.examples import Example

logger = logging.getLogger(__name__)


def check(folder: Path, task: Task) -> None:
    """Refuse a teacher that is none for a task.

    Raises:
        RecipeError: the model was fine-tuned on something else, or not at all.
    """
    config = load_config(str(folder))
    labels = tuple((config.id2label or {}).values())
    tags = any("TokenClassification" in name for name in config.architectures or ())
    if labels != task.labels or not tags:
        raise RecipeError(
            f"plug_in.teacher {folder}: is no model that tags for {task.name}; fine-tune one on it "
            "plugged out, with keep_models=true, and name its seed's folder best"
        )


class Probabilities(TagCoder):
    """Instead of tags, the probabilities [T, C] of each input's tokens."""

    def __init__(self, task: Task, shape: Shape, temperature: float) -> None:
        super().__init__(task, shape)
        self.temperature = temperature

    def collect(self, outputs: Any, items: Sequence[Item]) -> list[Any]:
        """[T, C]."""
        soft_BTC = (outputs["logits"].float() / self.temperature).softmax(-1).cpu().numpy()
        return [soft_BTC[row, : len(item.ids)].copy() for row, item in enumerate(items)]

    def decode(
        self, examples: Sequence[Example], items: Sequence[Item], collected: Sequence[Any]
    ) -> list[Any]:
        """An array an input."""
        return list(collected)


class Teacher:
    """A fine-tuned model and what it reads."""

    def __init__(
        self,
        folder: Path,
        task: Task,
        accelerator: Accelerator,
        tokens: int,
        temperature: float | None,
    ) -> None:
        """Loads it.

        Args:
            folder: of a kept seed (`keep_models`).
            task: the one that it was fine-tuned on.
            accelerator: where it runs.
            tokens: that go through it at once.
            temperature: of probabilities as soft labels; None gives the likeliest tags alone.
        """
        check(folder, task)
        self.task, self.accelerator, self.tokens = task, accelerator, tokens
        self.temperature = temperature
        self.tokenizer = heads.tokenizer_for(folder, task)
        self.shape = heads.shape_of(folder, task, self.tokenizer)
        model = heads.build(folder, task, self.tokenizer, seed=0)
        self.model = model.to(accelerator.device)

    def _says(self, coder: Coder, examples: Sequence[Example], items: Sequence[Item]) -> list[Any]:
        problem = Finetuning(self.model, coder, self.shape, items, [], self.tokens)
        predictions, _ = problem.predict(problem.module, self.accelerator, examples, items)
        return list(predictions)

    def tagged(self, examples: Sequence[Example], bare: Container[int]) -> list[Example]:
        """The examples; those at the places `bare` with the likeliest tags."""
        untagged: list[Any] = [x for index, x in enumerate(examples) if index in bare]
        coder = TagCoder(self.task, self.shape)
        predictions = iter(self._says(coder, untagged, coder.encode(untagged)))
        logger.info("teacher: tags %d of %d translations", len(untagged), len(examples))
        result: list[Example] = []
        for index, example in enumerate(examples):
            if index in bare:
                assert isinstance(example, TaggedExample)
                answer = next(predictions)
                assert isinstance(answer, TagPrediction)
                example = replace(example, tags=answer.tags)
            result.append(example)
        return result

    def softened(self, items: Sequence[Item], bare: Container[int], shape: Shape) -> list[Item]:
        """Inputs; those of the examples `bare` with the probabilities of their tokens.

        Raises:
            UnsupportedModelError: the teacher has other tokens than the model that learns.
        """
        if self.temperature is None:
            return list(items)
        if self.tokenizer.get_vocab() != shape.tokenizer.get_vocab():
            raise UnsupportedModelError(
                "plug_in.temperature: the teacher has another vocabulary than the model that "
                "learns, so its probabilities are of other tokens; leave the temperature out"
            )
        coder = Probabilities(self.task, self.shape, self.temperature)
        untagged = [item for item in items if item.example in bare]
        soft = iter(self._says(coder, [], untagged))
        return [replace(item, soft=next(soft)) if item.example in bare else item for item in items]
