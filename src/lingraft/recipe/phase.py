"""The tables that say how a phase trains.

The tables that stand for phases: a named method, and others to compare it with.
"""

from __future__ import annotations

import re
import typing
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_serializer, model_validator

from lingraft.errors import RecipeError
from lingraft.recipe.base import (
    Decay,
    LayerPart,
    Names,
    Objective,
    Part,
    RatedPart,
    Section,
    Share,
    trained_parts,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


AMOUNT = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)\s*([kMB]?)\s*([a-z]+)", re.ASCII)
"""Pattern of an amount: a number, thousands of it, and a unit."""
THOUSANDS = {"": 1, "k": 1_000, "M": 1_000_000, "B": 1_000_000_000}
UNITS = {
    "tok": "tokens", "token": "tokens", "step": "steps", "epoch": "epochs", "sentence": "sentences",
    "m": "minutes", "min": "minutes", "minute": "minutes",
    "h": "hours", "hour": "hours",
}  # fmt: skip
"""Other words for units."""
EXAMPLES = {
    "sentences": "256 sentences", "tokens": "5Mtok", "steps": "300 steps", "hours": "8h",
}  # fmt: skip
"""Amounts by unit, for messages."""


class Amount(Section):
    """So many of a unit, as in "5 Mtok" or "256 sentences"; written back as it reads."""

    @model_validator(mode="before")
    @classmethod
    def _read(cls, data: Any) -> Any:
        if not isinstance(data, str):
            return data
        number, *_ = cls.model_fields
        units = typing.get_args(cls.model_fields["unit"].annotation)
        match = AMOUNT.fullmatch(data.strip())
        unit = UNITS.get(match[3], match[3]) if match else ""
        if match is None or unit not in units:
            example = " or ".join(f'"{EXAMPLES[unit]}"' for unit in units if unit in EXAMPLES)
            raise ValueError(f"'{data[:60]}' is no amount; write it as {example}")
        exact = float(match[1].replace("_", "")) * THOUSANDS[match[2]]
        return {number: int(exact) if exact.is_integer() else exact, "unit": unit}

    @model_serializer
    def _write(self) -> str:
        number, unit = dict(self).values()
        return f"{int(number) if float(number).is_integer() else repr(number)} {unit}"


SECONDS = {"minutes": 60, "hours": 3_600}
"""Seconds of a budget's units of time."""


class Budget(Amount):
    """Length of a phase."""

    value: Annotated[float, Field(gt=0)]
    """Number of units."""
    unit: Literal["steps", "tokens", "epochs", "minutes", "hours"] = "steps"
    """Optimizer steps, real tokens (padding never counts), or passes over the training sentences
    (of several streams: as many draws as all have sentences). Minutes and hours are the phase's
    share of the time of the whole run, all stages together: the clock is the schedule."""

    @property
    def seconds(self) -> float | None:
        """Return the seconds of the clock; None where the budget is not in time."""
        unit = SECONDS.get(self.unit)
        return None if unit is None else self.value * unit


class Batch(Amount):
    """Sentences or tokens of one optimizer step, over all processes and micro-batches together."""

    size: Annotated[int, Field(ge=1)] = 256
    """Number of units."""
    unit: Literal["sentences", "tokens"] = "sentences"
    """The papers count sentences; preset 'auto' counts tokens, and asks for the unit."""


class Optimizer(Section):
    """AdamW; the defaults are RoBERTa's."""

    learning_rate: Annotated[float, Field(gt=0)] = 1e-4
    """Peak learning rate."""
    betas: Annotated[tuple[Decay, Decay], Field(strict=False)] = (0.9, 0.98)
    """Decay rates of the first and the second moment."""
    epsilon: Annotated[float, Field(gt=0)] = 1e-6
    """Added to the root of the second moment."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Decoupled; never applied to biases and normalisation weights."""
    max_gradient_norm: Annotated[float, Field(gt=0)] | None = None
    """Clip the global gradient norm to this; None does not clip (the papers)."""
    rates: dict[RatedPart, Annotated[float, Field(gt=0)]] = {}
    """Peak learning rates of parts that have their own, of what the phase trains; the schedule is
    the same. Rows, layers and 'inserted.gains' go before the part that they lie in; 'lora' is what
    LoRA adds."""

    @property
    def peaks(self) -> str:
        """Return the peak learning rate, and those of parts that have their own, in words."""
        own = [f"{part.replace('_', ' ')} {rate:g}" for part, rate in self.rates.items()]
        return "; ".join([f"{self.learning_rate:g}", *own])


Shape = Literal["linear", "cosine", "constant", "wsd"]


class Schedule(Section):
    """The learning rate over a phase."""

    shape: Shape = "linear"
    """After the warm-up the rate falls to zero in a line or a half cosine, or stays; with 'wsd'
    (warm-up, stable, decay) it stays, and falls in a line at the end."""
    warmup: Annotated[float, Field(ge=0)] = 0.06
    """Below 1 a share of the phase, else a number of steps."""
    floor: Annotated[float, Field(ge=0, le=1)] = 0.0
    """End of the fall, as a share of the peak."""
    decay: Annotated[float, Field(gt=0, le=1)] = 0.1
    """With 'wsd' the share of the phase, at its end, in which the rate falls."""

    @model_validator(mode="after")
    def _whose(self) -> Schedule:
        if self.shape != "wsd" and self.decay != Schedule.model_fields["decay"].default:
            raise ValueError(f"'decay' is of shape = 'wsd', not '{self.shape}'; leave it out")
        return self


class Masking(Section):
    """Choice of the tokens that are predicted (masked language modelling, denoising)."""

    rate: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of a sentence's tokens that is predicted; at least one token, never special tokens."""
    scheme: Literal["bert", "mask-only", "spans", "infilling"] = "bert"
    """bert: 80 % <mask>, 10 % a random token, 10 % as it was; mask-only: always <mask>. For
    denoise: 'spans' puts a sentinel in place of each span, and the decoder writes the spans (T5);
    'infilling' puts one <mask> there, and the decoder writes the whole sentence (BART)."""


class Validation(Section):
    """Validation of a phase: when, on how much text, and when to stop."""

    every_steps: Annotated[int, Field(ge=1)] | None = None
    """Steps between two validations; None validates ten times a phase."""
    patience: Annotated[int, Field(ge=1)] | None = None
    """Stop after this many validations without a better loss; None runs the whole budget."""
    max_sentences: Annotated[int, Field(ge=1)] = 2_000
    """The most sentences that a validation reads."""


class PhaseData(Section):
    """An entry of what a phase reads: a stream, under an objective."""

    stream: str
    """The name of one of [[streams]]."""
    objective: Objective | None = None
    """None takes the phase's."""
    masking: Masking | None = None
    """None takes the phase's."""
    also: Annotated[tuple[Objective, ...], Field(strict=False)] = ()
    """More objectives for the same draws: each pair that is drawn is read under all of them."""
    max_tokens: Annotated[int, Field(ge=8)] | None = None
    """For ca_mlm and tlm: the longest side of a pair, special tokens included. Neighbouring
    stretches of a document are filled up to it, a translation is cut at it. None takes
    tokenizer.max_tokens, which is also the most."""
    weight: Annotated[float, Field(gt=0)] | None = None
    """Weight of its draws, relative to the others. If all have none, size decides
    (mixture.alpha)."""
    share: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Share of the phase's tokens, on average. Entries without a share divide the rest by their
    weights or sizes."""
    soft_labels: bool = False
    """Learn the text by the source's probabilities in place of its own tokens, in a vocabulary that
    keeps the source's pieces (not encoder–decoders). Takes a second model in memory."""


class Mixture(Section):
    """Mixture of several streams in a phase."""

    alpha: Annotated[float, Field(ge=0, le=1)] = 0.7
    """A stream of N sentences is drawn with a probability that is proportional to N^alpha. With 1,
    size decides; with 0, all are drawn equally often (MetaXLM takes 0.7)."""
    draw: Literal["sentences", "alternate"] = "sentences"
    """A stream is drawn for every sentence of a batch. 'alternate':
    batches from streams in one language and batches from streams of translations come in turn, and
    within a batch a stream is drawn for every pair (VECO)."""
    bilingual_batch: Annotated[int, Field(ge=1)] | None = None
    """With 'alternate': the size of batches of translations, in the unit of `batch`; None takes
    that of the others."""


class Distil(Section):
    """An auxiliary loss on the sentences of one stream: the states of the source (xlm-kd)."""

    stream: str | None = None
    """The stream in the source's language; None takes the first English one."""


class Lora(Section):
    """LoRA (Hu et al. 2022): layers train by low-rank matrices beside theirs; needs peft.

    A frozen matrix W becomes W + (alpha / rank)·B·A while the phase trains, and is that sum in what
    the phase leaves.
    """

    parts: Annotated[tuple[LayerPart, ...], Field(strict=False, min_length=1)] = ("body",)
    """The layers: 'body', 'inserted' or 'layers[…]'. `train` must not name them too."""
    rank: Annotated[int, Field(ge=1)] = 8
    """Columns of B and rows of A."""
    alpha: Annotated[int, Field(ge=1)] = 16
    """The sum is scaled by alpha / rank."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Dropout on what A reads."""
    modules: Names = ()
    """Linear maps by the end of their names, such as 'q_proj'; none named takes all of the layers.
    """


class Phase(Section):
    """A stretch of training: what trains, on which objective and data, for how long."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    """The folder in the run: lower-case letters, digits and '-'."""
    train: Annotated[tuple[Part, ...], Field(strict=False)]
    """The parts that train; all others stay bit-identical. 'all' trains everything. Rows
    ('embeddings.new') and layers ('layers[:2]') are parts too: docs/concepts.md."""
    lora: Lora | None = None
    """Layers that train by LoRA, beside `train` or alone (train = []); None trains none so."""
    objective: Objective = "mlm"
    """`lingraft show objectives`."""
    data: Annotated[tuple[PhaseData, ...], Field(strict=False)] = ()
    """Streams to read; nothing written takes all, under the phase's own objective."""
    mixture: Mixture = Mixture()
    """Mixture of several streams."""
    distil: Distil | None = None
    """Also draw the states of one stream's sentences to those of the source; None does not."""
    budget: Budget
    """Length of the phase."""
    max_train_sentences: Annotated[int, Field(ge=1)] | None = None
    """Train on this many sentences of the training text (of each stream's) only; smaller sets are
    contained in larger ones. The vocabulary is still that of the whole text. None takes all."""
    packing: bool = False
    """The model reads blocks, and `batch` counts them. A block is as many whole sentences as fit
    into tokenizer.max_tokens, in the order of the text, also over the end of a document (MetaXLM).
    False: it reads single sentences. Validation always does."""
    batch: Batch = Batch()
    """Sentences or tokens of a step."""
    optimizer: Optimizer = Optimizer()
    """AdamW's settings."""
    schedule: Schedule = Schedule()
    """Learning rate over the phase."""
    masking: Masking = Masking()
    """Tokens that are predicted."""
    mean_teacher: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Weight of the labels of a mean teacher (Tarvainen and Valpola 2017), beside the text's own:
    the mean of the weights over the last steps, which the phase also leaves. For masked words; 0
    has none."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] | None = None
    """Dropout probability everywhere in the model while this phase trains; None keeps the source's
    own."""
    validation: Validation = Validation()
    """When to look at the validation text, and when to stop."""

    @property
    def trained(self) -> frozenset[str]:
        """Return the parts that train, 'all' written out (`selectors.trained_parts`)."""
        return trained_parts(self.train, self.name)

    @property
    def crosses_alone(self) -> bool:
        """Return whether only cross-attention trains, so that states without it learn nothing."""
        return self.trained == {"cross_attention"} and self.lora is None

    def objectives_of(self, entry: PhaseData) -> tuple[Objective, ...]:
        """Return the objectives that an entry is read under, first its own or the phase's."""
        return (entry.objective or self.objective, *entry.also)

    @model_validator(mode="after")
    def _trains(self) -> Phase:
        if not self.train and self.lora is None:
            raise ValueError("train: names nothing; name a part, or give lora")
        return self


def most_sentences(phases: Iterable[Phase]) -> int | None:
    """Return the largest of the phases' shares of the text; None where one takes all of it."""
    sizes = [phase.max_train_sentences for phase in phases]
    limits = [size for size in sizes if size is not None]
    return max(limits) if limits and len(limits) == len(sizes) else None


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
        Budget | None, BeforeValidator(lambda given: None if given == "paper" else given)
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
    """AdamW's weight decay of matrices; None takes the preset's, mostly 0.01. 'auto' takes more for
    small encoders whose text is read eight times or more."""
    mean_teacher: Annotated[float, Field(ge=0, le=1)] | None = None
    """Weight of a mean teacher's labels (`phases.mean_teacher`); None has none, but 'auto' where it
    takes more weight decay."""
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
    would without these. Where the vocabulary keeps the source's pieces, and but for LoRA, they have
    soft labels (`phases.data.soft_labels`)."""

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
