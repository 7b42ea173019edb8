"""The tables that stand for phases: a named method, and others to compare it with."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from lingraft.errors import RecipeError
from lingraft.recipe.base import Section, Share
from lingraft.recipe.phase import Batch, Budget, Schedule, Shape

PAPER = "paper"
"""The preset's own budget."""


class Training(Section):
    """A named method, which fills in [graft], [embeddings] and [[phases]] where these are open."""

    method: str = "xpt"
    """`lingraft show methods`. If left out, preset 'auto' takes xpt-sp, which is xpt in one phase.
    """
    preset: (
        Literal[
            "auto",
            "xpt2021",
            "chameleon2022",
            "metaxlm2021",
            "veco2021",
            "chinese-llama2023",
            "two-by-two2024",
            "vinasmol",
        ]
        | None
    ) = None
    """Whose hyper-parameters are used (`lingraft show presets`). None: the method's own, mostly
    'auto', which needs a budget, and decides what the recipe leaves open by source, text and budget
    (docs/background/automatic-settings.md)."""
    budget: Annotated[
        Budget | None, BeforeValidator(lambda given: None if given == PAPER else given)
    ] = None
    """Total over all phases; None or "paper" takes the preset's, of which 'auto' has none."""
    batch: Batch | None = None
    """None takes the preset's."""
    max_train_sentences: Annotated[int, Field(ge=1)] | None = None
    """Train on this many sentences only, in every phase; the vocabulary is of the whole text."""
    masking_rate: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Share of the tokens that is masked and predicted; None takes the preset's, mostly 0.15."""
    packing: bool | None = None
    """The model reads blocks of sentences (`phases.packing`), not single ones. None takes
    the preset's: metaxlm2021 joins, the others do not."""
    learning_rate: Annotated[float, Field(gt=0)] | None = None
    """Peak learning rate of every phase; None takes the preset's."""
    embedding_rate_factor: Annotated[float, Field(gt=0)] | None = None
    """Peak learning rate of the embeddings as a multiple of that of the rest, in every phase that
    trains all of them; None takes the preset's: but for 'auto' they have the same."""
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Dropout everywhere in the model while it trains; None takes the preset's, mostly the source's
    own."""
    weight_decay: Annotated[float, Field(ge=0)] | None = None
    """AdamW's weight decay of matrices; None takes the preset's, mostly 0.01. Text that is read ten
    times gained by 1.0 (research/pages/log.md)."""
    max_gradient_norm: Annotated[float, Field(gt=0)] | None = None
    """Clip the global gradient norm to this; None: the preset's (auto and metaxlm2021 have 1)."""
    warmup: Annotated[float, Field(ge=0)] | None = None
    """Warm-up of every phase: below 1 a share of it, else a number of steps. None takes the
    preset's; 0.06 where that is in steps, and a quarter of a phase or more."""
    schedule: Shape | None = None
    """Shape of the learning rate over every phase (`phases.schedule`); None takes the preset's."""
    decay: Annotated[float, Field(gt=0, le=1)] | None = None
    """With schedule 'wsd' the share of a phase, at its end, in which the rate falls."""
    first_phase_warmup: Annotated[float, Field(ge=0)] | None = None
    """Warm-up of the first of two phases; None takes `warmup`."""
    first_phase_share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Share of the budget that phase 1 gets, if the method has two. If left out, `veco` gives it
    0.1 and `in-place` 0.6."""
    replay: dict[str, Share] | None = None
    """Streams that are read only to keep what the source knows (text in its language), and the
    share of the tokens of every phase that each gets. The other streams divide the rest as they
    would without these."""

    def schedule_from(self, preset: Schedule, warmup: float) -> Schedule:
        """Return a preset's schedule with this warm-up, and the shape and decay that are given.

        Raises:
            RecipeError: a decay is given, and the shape has none.
        """
        shape = self.schedule or preset.shape
        if shape != "wsd" and self.decay is not None:
            raise RecipeError(f"training.decay: is of schedule = 'wsd', not '{shape}'")
        own = Schedule.model_fields["decay"].default if shape != preset.shape else preset.decay
        update = {"warmup": warmup, "shape": shape, "decay": self.decay or own}
        return preset.model_copy(update=update)


class Baseline(Section):
    """A second method trained on the same corpus, tokenizer and budget, for comparison."""

    method: str = "scratch"
    """`lingraft show methods`."""
    learning_rate: Annotated[float, Field(gt=0)] | None = None
    """None takes that of the run's last phase."""
