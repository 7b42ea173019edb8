"""Tags for translations: what a model says that was fine-tuned on the original."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from lingraft.errors import RecipeError
from lingraft.finetuning import heads
from lingraft.finetuning.coders.tagging import TagCoder
from lingraft.finetuning.problem import Finetuning
from lingraft.pretrained.load import load_config
from lingraft.tasks.examples import TaggedExample, TagPrediction

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from accelerate import Accelerator

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


class Teacher:
    """A fine-tuned model and what it reads."""

    def __init__(self, folder: Path, task: Task, accelerator: Accelerator, tokens: int) -> None:
        """Loads it.

        Args:
            folder: of a kept seed (`keep_models`).
            task: the one that it was fine-tuned on.
            accelerator: where it runs.
            tokens: that go through it at once.
        """
        check(folder, task)
        self.task, self.accelerator, self.tokens = task, accelerator, tokens
        self.tokenizer = heads.tokenizer_for(folder, task)
        self.shape = heads.shape_of(folder, task, self.tokenizer)
        model = heads.build(folder, task, self.tokenizer, seed=0)
        self.model = model.to(accelerator.device)

    def tagged(self, examples: Sequence[Example]) -> list[Example]:
        """The examples; those without tags with the likeliest ones."""
        outside = (self.task.labels[-1],)
        bare = {
            index: replace(example, tags=outside * len(example.units))
            for index, example in enumerate(examples)
            if isinstance(example, TaggedExample) and not example.tags
        }
        coder = TagCoder(self.task, self.shape)
        items = coder.encode(list(bare.values()))
        problem = Finetuning(self.model, coder, self.shape, items, [], self.tokens)
        predictions, _ = problem.predict(
            problem.module, self.accelerator, list(bare.values()), items
        )
        logger.info("teacher: tags %d of %d translations", len(bare), len(examples))
        result = list(examples)
        for (index, example), answer in zip(bare.items(), predictions, strict=True):
            assert isinstance(answer, TagPrediction)
            result[index] = replace(example, tags=answer.tags)
        return result
