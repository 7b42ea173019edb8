"""Settings of fine-tuning a task and of cutting passages: a task's own, or changes to them."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from lingraft.recipe.base import Decay, Section

Count = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(ge=0, lt=1)]
OFF = ("clip", "patience")
"""Settings that a table turns off with 0; None does it in a task's own."""
LATER = (
    *("check_every", "steps", "batch_unit", "average_last", "dropout", "attention_dropout"),
    *("decay_all", "label_smoothing", "beams"),
)
"""Settings that results from before them lack: as they were, they leave fingerprints alone."""


class Values(Section):
    """Settings of fine-tuning a task."""

    epochs: Count = 5
    batch: Count = 32
    """Examples a step; for spans windows."""
    learning_rate: Annotated[float, Field(gt=0)] = 5e-5
    warmup: Annotated[float, Field(ge=0)] = 0.1
    """Below 1 a share of all steps, else a number of steps."""
    max_length: Annotated[int, Field(ge=8)] = 128
    """Tokens of an input, special ones included."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """Never on biases and normalisation weights, but with `decay_all`."""
    betas: Annotated[tuple[Decay, Decay], Field(strict=False)] = (0.9, 0.999)
    eps: Annotated[float, Field(gt=0)] = 1e-8
    clip: Annotated[float, Field(ge=0)] | None = 1.0
    """Largest gradient norm; None, in a table 0, clips nothing."""
    classifier_dropout: Rate | None = None
    """Before the last layer (`config.classifier_dropout`); None leaves the model's own."""
    schedule: Literal["linear", "constant"] = "linear"
    """Decay after the warm-up, to zero."""
    checks_per_epoch: Count = 1
    """Times an epoch that the selection split is scored."""
    check_every: Count | None = None
    """Optimizer steps between two checks; None goes by `checks_per_epoch`, or with `steps` checks
    ten times."""
    steps: Count | None = None
    """Optimizer steps of the whole training; None goes by `epochs`."""
    batch_unit: Literal["examples", "tokens"] = "examples"
    """Unit of `batch`; of translations the tokens of both sides."""
    average_last: Annotated[int, Field(ge=0)] = 0
    """The result is the mean of the weights at this many last checks; 0 keeps the best check's."""
    dropout: Rate | None = None
    """Everywhere in the model but on attention weights; None leaves the model's own."""
    attention_dropout: Rate | None = None
    decay_all: bool = False
    """Weight decay on biases and normalisation weights too (fairseq)."""
    label_smoothing: Rate = 0.0
    """Share of each target that is spread over the vocabulary, for translations."""
    beams: Count | None = None
    """Beams of final translations, where checks translate greedily; None takes the model's own."""
    patience: Annotated[int, Field(ge=0)] | None = None
    """Stop after this many checks without a better one; None, in a table 0, never stops early."""


class Settings(Values):
    """Settings of a task or a paper: values, all of which hold."""

    source: str = ""
    """Source of the values, and which of them are decided here."""

    def decisive(self) -> dict[str, Any]:
        """Return what of them decides a result; for fingerprints."""
        usual = {key: Settings.model_fields[key].default for key in LATER}
        values = self.model_dump(exclude={"source"})
        return {key: value for key, value in values.items() if value != usual.get(key, ...)}


class Limits(Section):
    """Limits of cutting passages into windows, and of finding answers in them."""

    doc_stride: Count = 128
    """Tokens from the start of a window to the start of the next."""
    max_query: Count = 64
    """Tokens of a question."""
    max_answer: Count = 30
    """Tokens of an answer."""
    null_threshold: float = 0.0
    """By how much "no answer" must be likelier than the best answer to be said."""


class Spans(Limits):
    """The limits of a task, and how many answers of a window are looked at."""

    n_best: int = 20


class Changes(Values, Limits):
    """Changes to a task's own settings: only what was said counts, and is written."""

    @model_serializer(mode="wrap")
    def _what_was_said(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in write(self).items() if key in self.model_fields_set}


class Paper(Changes):
    """Settings, and where they are from."""

    source: str = "the recipe"


T = TypeVar("T", Settings, Spans)


def changed(record: T, changes: Changes) -> T:
    """Return settings, or limits of windows and answers, with what differs."""
    names = type(record).model_fields.keys() & {*changes.model_fields_set, "source"}
    values = {key: value for key, value in changes if key in names}
    values |= {key: None for key in OFF if values.get(key) == 0}
    for key, counterpart in (("epochs", "steps"), ("checks_per_epoch", "check_every")):
        if key in values:  # what was said last holds
            values.setdefault(counterpart, None)
    return record.model_copy(update=values)


_TABLES = tomllib.loads(
    resources.files("lingraft.tasks").joinpath("catalogue/translation.toml").read_text("utf-8")
)
USUAL = {"span": Settings(max_length=384), "translation": Settings(**_TABLES["usual"])}
"""Settings of kinds with longer inputs; of passages as SQuAD's script, which `doc_stride` fits."""
OF_TRANSLATION = {
    # not validated: whole numbers stay so in fingerprints
    name: Settings.model_construct(**(table | {"betas": tuple(table.get("betas", (0.9, 0.999)))}))
    for name, table in _TABLES["papers"].items()
}
"""Settings of papers on translation, by name."""
