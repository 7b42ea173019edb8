"""The plan of a run: time, tokens and steps of each stage, memory and disk, before it trains.

`Text` estimates what a run reads and writes beside training: looks, scores, samples.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lingraft.pipeline import preflight
from lingraft.recipe import Budget
from lingraft.recipe.evaluation import CHARACTERS_OF_A_SENTENCE, SAMPLE_TOKENS, SAMPLES_AT_ONCE
from lingraft.recipe.methods import baseline, promised
from lingraft.recipe.scales import FEWEST_TOKENS
from lingraft.training.pace import check_left

if TYPE_CHECKING:
    from lingraft.pipeline.speed import Speed
    from lingraft.pipeline.stages import Context
    from lingraft.recipe import Evaluation, Phase, Recipe

CONTEXT = 2.0
"""A word stands in a sentence of so many times the mean length: long ones have more words."""
FEWEST_LOOKED_AT = 100
"""Validation sentences of a look ..."""
FEWEST_DOCUMENTS, FEWEST_PREDICTED = 10, 2_000
"""... or of a causal model, which predicts every token of its documents."""
CHARACTERS_OF_A_TOKEN = 3.0
"""Of texts and questions that are judged beside the test text; about."""
A_TOKEN, A_LAYER = 2e-3, 1e-3
"""Seconds of a generated token that do not depend on the width: of the loop, and of a layer."""
READING = {"cpu": 1e-10, "cuda": 1e-12}
"""Seconds a byte of weights, which every generated token reads."""


@dataclass(frozen=True)
class Text:
    """What the tokenizer stage counted, of each stream: all are looked at, and scored."""

    streams: tuple[dict[str, Any], ...]
    causal: bool

    @classmethod
    def of(cls, result: dict[str, Any], *, causal: bool) -> Text:
        """From the stage's result."""
        return cls(tuple((result.get("streams") or {"": result}).values()), causal)

    def looked_at(self, sentences: int) -> float:
        """Tokens of a look at the validation text."""
        return sum(
            min(sentences, valid["sentences"]) * _length(valid)
            for valid in (stream["tokens"]["valid"] for stream in self.streams)
        )

    @property
    def most_looked_at(self) -> int:
        """Validation sentences that there are, of the stream with most."""
        return max(stream["tokens"]["valid"]["sentences"] for stream in self.streams)

    @property
    def most_scored(self) -> int:
        """Test sentences that there are, as `evaluation.sentences` counts them."""
        if not self.causal:
            return max(stream["tokens"]["test"]["sentences"] for stream in self.streams)
        most = max(_characters(stream) for stream in self.streams)
        return math.ceil(most / CHARACTERS_OF_A_SENTENCE)

    @property
    def fewest_looked_at(self) -> int:
        """Sentences of a look that tell enough; documents of causal models."""
        if not self.causal:
            return FEWEST_LOOKED_AT
        shortest = min(_length(stream["tokens"]["valid"]) for stream in self.streams)
        enough = math.ceil(FEWEST_PREDICTED / max(shortest, 1.0))
        return min(FEWEST_LOOKED_AT, max(FEWEST_DOCUMENTS, enough))

    def scored(self, section: Evaluation) -> float:
        """Tokens that an evaluation reads.

        Of an encoder two schemes, and a pass for each token of a word, at most one of a sentence.
        Of a causal model each document once, and by its source too, in the source's own tokens.
        """
        if self.causal:
            return sum(_documents(stream, section) for stream in self.streams) + _others(section)
        total = 0.0
        for stream in self.streams:
            test = stream["tokens"]["test"]
            per_word = stream["statistics"]["train"]["tokens_per_word"] or 2.0
            passes = min(section.words, test["sentences"]) * per_word * CONTEXT
            total += (2 * min(section.sentences, test["sentences"]) + passes) * _length(test)
        return total

    def writing(self, section: Evaluation, layers: int, parameters: int, device: str) -> float:
        """Seconds that a causal model and its source take to write what is asked for, alone."""
        if not self.causal:
            return 0.0
        samples = 2 * math.ceil(section.samples / SAMPLES_AT_ONCE)  # greedy and drawn
        written = (1 + section.untouched) * SAMPLE_TOKENS * samples
        reading = READING.get(device, READING["cuda"]) * 4 * parameters
        return written * (A_TOKEN + A_LAYER * layers + reading)


def _length(counts: dict[str, int]) -> float:
    """Mean tokens of a sentence."""
    return counts["tokens"] / max(counts["sentences"], 1)


def _documents(stream: dict[str, Any], section: Evaluation) -> float:
    """Tokens of the test documents of a stream, by the model and its source."""
    sides = [stream["statistics"]["test"]]
    if section.untouched and "source_statistics" in stream:
        sides.append(stream["source_statistics"]["test"])
    a_token = [side["characters_per_token"] or CHARACTERS_OF_A_TOKEN for side in sides]
    characters = min(_characters(stream), section.sentences * CHARACTERS_OF_A_SENTENCE)
    return sum(characters / per_token for per_token in a_token)


def _characters(stream: dict[str, Any]) -> float:
    """Of the test text of a stream."""
    a_token = stream["statistics"]["test"]["characters_per_token"] or CHARACTERS_OF_A_TOKEN
    return float(stream["tokens"]["test"]["tokens"] * a_token)


def _others(section: Evaluation) -> float:
    """Tokens of kept texts, by the model and its source."""
    kept = [section.sentences * CHARACTERS_OF_A_SENTENCE] * len(section.kept)
    return (1 + section.untouched) * sum(kept) / CHARACTERS_OF_A_TOKEN


SAFETY = 0.03
"""Of the time for training, held back."""
FORWARD = 3.0
"""A training step takes as long as so many forward passes."""
LOOKS = 10
"""At the validation text, in a phase."""
LOOKING, EVALUATING = 0.05, 0.10
"""Shares of a budget in time above which less text is looked at, and scored."""
FEWEST_SENTENCES, FEWEST_WORDS = 300, 100
FEWEST_STEPS = 100
"""Of a phase; the cells behind the rules (`recipe.auto`) have 146 and more."""
ENDING = {"model": 1.0, "report": 2.0}
"""Seconds that writing and loading a small model again, and drawing the report, take alone."""
A_BYTE = 4e-9
"""Seconds a byte of weights, for those."""
MOST_SLOWED = 4.0
"""Times as long as alone: the few seconds of measuring may have been unlucky."""


@dataclass(frozen=True)
class Row:
    """One stage of the plan."""

    name: str
    seconds: float
    tokens: int | None = None
    steps: int | None = None
    tokens_per_second: float | None = None


@dataclass(frozen=True)
class Draft:
    """What will be done, and the complete recipe for it."""

    recipe: Recipe
    promised: float | None
    """Seconds of the whole run."""
    stages: tuple[Row, ...]
    phases: tuple[Row, ...]
    memory: str
    """What the phase that takes most needs, and whether it fits."""
    disk_bytes: int | None
    warnings: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """For plan.json."""
        return {
            "promised": self.promised,
            "stages": [asdict(row) for row in self.stages],
            "memory": self.memory,
            "disk_bytes": self.disk_bytes,
            "warnings": list(self.warnings),
        }


def draft(context: Context, speeds: list[Speed], passed: float, slowdown: float) -> Draft:
    """Make a plan; budgets in time become tokens.

    Args:
        context: the run, behind its graft.
        speeds: of each phase.
        passed: seconds since the run began.
        slowdown: how many times as long as alone work took when the run began.

    Raises:
        RecipeError: the time that was given does not suffice.
    """
    recipe = context.recipe
    text = text_of(context)
    whole = promised(recipe)
    fastest = max(rate.tokens_per_second for rate in speeds)
    processes = context.accelerator.num_processes  # all of them train, one evaluates
    recipe = _smaller(recipe, text, whole, fastest, processes)
    plan = preflight.check(recipe)
    slowed, alone = min(MOST_SLOWED, slowdown), speeds[-1].tokens_per_second / processes
    ending = _ending(text, alone, slowed, plan, context.accelerator.device.type)
    models = 1 + len(recipe.baselines)
    share = 1 / (1 + sum(_ratio(recipe, index, plan) for index in range(models - 1)))
    left = math.inf if whole is None else whole - passed - sum(ending.values()) * models
    check_left(whole, left)
    rows, phases = [], []
    for phase, speed in zip(recipe.phases, speeds, strict=True):
        seconds = None
        if whole is not None and phase.budget.seconds is not None:
            seconds = left * share * phase.budget.seconds / whole
            if (step := speed.tokens_per_step / speed.tokens_per_second) > seconds:
                check_left(whole, seconds - step)  # not a single step would fit
        row, counted = _planned(phase, speed, text, seconds)
        rows.append(row)
        phases.append(counted)
    before = [
        Row(name, float(context.run.stage(name).done()["seconds"]))
        for name in ("corpus", "tokenizer", "graft")
    ]
    before.append(Row("start, measuring", max(0.0, passed - sum(row.seconds for row in before))))
    trained = sum(row.seconds for row in rows)
    asked = recipe.method.budget or recipe.phases[-1].budget
    baselines = [
        Row(
            f"baseline {section.method}",
            trained * _ratio(recipe, index, plan) + ending["evaluation"],
        )
        for index, section in enumerate(recipe.baselines)
    ]
    last = [Row(name, seconds) for name, seconds in ending.items()]
    return Draft(
        recipe=recipe.model_copy(update={"phases": tuple(phases)}),
        promised=whole,
        stages=(*before, *rows, last[0], *baselines, *last[1:]),
        phases=tuple(rows),
        memory=plan.fits,
        disk_bytes=plan.disk_bytes_estimate,
        warnings=_warnings(rows, whole, asked.unit, share, knows=recipe.keeps_rows),
    )


def text_of(context: Context) -> Text:
    """What the run's tokenizer stage counted."""
    causal = context.recipe.phases[0].objective == "clm"
    return Text.of(context.run.stage("tokenizer").result(), causal=causal)


def _planned(phase: Phase, speed: Speed, text: Text, seconds: float | None) -> tuple[Row, Phase]:
    """What a phase takes, and the phase with its budget in tokens.

    Args:
        phase: as the recipe has it.
        speed: measured.
        text: what it reads.
        seconds: its share of the promised time; None where its budget is no time.
    """
    step, rate = speed.tokens_per_step, speed.tokens_per_second
    if phase.batch.unit == "tokens":  # the last one of a pass over the text is smaller
        step = speed.tokens_per_epoch / math.ceil(speed.tokens_per_epoch / phase.batch.size)
    look = text.looked_at(phase.validation.sentences) / FORWARD / rate
    if seconds is None:
        tokens = round(tokens_of(phase, speed))
        seconds = tokens / rate + LOOKS * look
    else:
        training = seconds * (1 - SAFETY)
        few = math.floor(training / (step / rate + look))  # a look behind each
        spent = (training - LOOKS * look) * rate if few >= LOOKS else few * step
        tokens = max(round(spent), 1)
        phase = phase.model_copy(update={"budget": Budget(value=tokens, unit="tokens")})
    steps = max(1, round(tokens / step))
    if phase.budget.unit == "steps":
        steps = math.ceil(phase.budget.value)
    return Row(phase.name, seconds, tokens, steps, round(speed.tokens_per_second, 1)), phase


def tokens_of(phase: Phase, speed: Speed) -> float:
    """Tokens of a budget that is not in time."""
    of = {"epochs": speed.tokens_per_epoch, "steps": speed.tokens_per_step, "tokens": 1.0}
    return phase.budget.value * of[phase.budget.unit]


def _ratio(recipe: Recipe, index: int, plan: preflight.Plan) -> float:
    """How long a baseline trains, as a multiple of the run's own model: by their parameters."""
    other_plan = preflight.check(baseline(recipe, index))
    sizes = [
        sum(n for part, n in model.by_part.items() if part not in ("embeddings", "output_bias"))
        for model in (other_plan, plan)
    ]
    return sizes[0] / sizes[1] if all(sizes) else 1.0


def _smaller(
    recipe: Recipe, text: Text, whole: float | None, speed: float, processes: int
) -> Recipe:
    """Less to look at and to score, where it would take too much of a promise in time."""
    if whole is None:
        return recipe
    section, models = recipe.evaluation, 1 + len(recipe.baselines)
    cost = models * text.scored(section) / FORWARD / speed * processes
    changes: dict[str, int] = {}
    if cost > EVALUATING * whole:
        share = EVALUATING * whole / cost
        fewest = {"sentences": FEWEST_SENTENCES}
        if not text.causal:  # whose evaluation has no words
            fewest["words"] = FEWEST_WORDS
        for key, least in fewest.items():
            value = min(getattr(section, key), text.most_scored)
            if key not in section.model_fields_set and value > least:
                changes[key] = max(least, int(share * value))
    phases = []
    for phase in recipe.phases:
        looks = LOOKS * text.looked_at(phase.validation.sentences) / FORWARD / speed
        most = LOOKING * (phase.budget.seconds or whole)
        if looks > most and "sentences" not in phase.validation.model_fields_set:
            there = min(phase.validation.sentences, text.most_looked_at)
            fewer = max(text.fewest_looked_at, int(there * most / looks))
            watch = phase.validation.model_copy(update={"sentences": fewer})
            phase = phase.model_copy(update={"validation": watch})
        phases.append(phase)
    return recipe.model_copy(
        update={"phases": tuple(phases), "evaluation": section.model_copy(update=changes)}
    )


def _ending(
    text: Text, speed: float, slowdown: float, plan: preflight.Plan, device: str
) -> dict[str, float]:
    """Seconds of what comes after training, at the speed of one process."""
    section, parameters = plan.recipe.evaluation, plan.parameters or 0
    layers = plan.layers.number if plan.layers else 0
    weights = 4 * parameters * A_BYTE
    alone = 1.0 + weights + text.writing(section, layers, parameters, device)
    ending = {"evaluation": text.scored(section) / FORWARD / speed + alone * slowdown}
    return ending | {name: (seconds + weights) * slowdown for name, seconds in ENDING.items()}


def _warnings(
    rows: list[Row], whole: float | None, unit: str, share: float = 1.0, *, knows: bool = False
) -> tuple[str, ...]:
    """What is wrong with the phases.

    Args:
        rows: of the phases.
        whole: seconds that the run may take; None where its budget is not in time.
        unit: of the budget.
        share: of the time for training that is theirs, not baselines'.
        knows: whether the source's own pieces go on, so that it may know the text before it learns.
    """
    tokens = sum(row.tokens or 0 for row in rows)
    if tokens >= FEWEST_TOKENS:
        return tuple(_few_steps(row) for row in rows if 0 < (row.steps or 0) < FEWEST_STEPS)
    unless = ", if the source does not know the language already" if knows else ""
    warning = (
        f"the budget is too small: {tokens:,} tokens of training, and with fewer than "
        f"{FEWEST_TOKENS:,} a model may be no better than guessing by frequency{unless}"
    )
    if whole is not None:
        enough = whole + _missing(rows) / share
        return (f"{warning}; here that takes about {math.ceil(enough / 60):,} minutes",)
    return (f"{warning}; give more {unit}",)


def _missing(rows: list[Row]) -> float:
    """Seconds that phases lack for the fewest tokens, each at its own speed, with their looks."""
    speeds = [row.tokens_per_second or 1.0 for row in rows]
    fastest = sum(row.seconds * speed for row, speed in zip(rows, speeds, strict=True))
    missing = sum(
        FEWEST_TOKENS * row.seconds / fastest - (row.tokens or 0) / speed
        for row, speed in zip(rows, speeds, strict=True)
    )
    return missing / (1 - SAFETY - LOOKING)


def _few_steps(row: Row) -> str:
    size = (row.tokens or 0) // (row.steps or 1)
    return (
        f"{row.name} has {row.steps:,} steps of about {size:,} tokens: with fewer than "
        f"{FEWEST_STEPS} it learns little; give it more, or smaller steps (--batch-tokens)"
    )
