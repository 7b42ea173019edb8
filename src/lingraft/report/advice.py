"""What to do after a run, and what to change where it has learnt little: rules over its facts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lingraft import log
from lingraft.recipe.defaults import FEWEST_TOKENS, TOKENS_A_PIECE
from lingraft.recipe.phase import SPREAD, Budget
from lingraft.report import numbers, tables
from lingraft.report.next_step import NextStep, command
from lingraft.report.variants import kind_of, labelled
from lingraft.report.verdict import verdict
from lingraft.rundir import read_json
from lingraft.tasks import GROUPS, TASKS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lingraft.report.tables import Line
    from lingraft.report.variants import PhaseRecord, Variant
    from lingraft.rundir import Run

FEW_STEPS = 1_000
"""A run of fewer steps that has learnt nothing is told to take more."""
BATCH_TOKENS = 2_048
"""The batch of recipes/demo-xpt.toml, for runs of few steps."""
SHORT_REACH = 5 * SPREAD
"""Learning rates that add up to less move new weights little beside their random start."""
LONG_WARMUP = 0.4
"""A longer warm-up, as a share of a phase, is called too long."""
STILL_FALLING = 0.02
"""Nats by which the validation loss fell over the last fifth of a run that could go on."""
HIGH_RATE, WIDE_RATE = 2e-3, 3e-4
"""The highest that are proposed: the demo's learning rate, and that of the papers' wider models."""
NARROW = 512
"""Width up to which the demo's learning rate is proposed."""
FEWEST_COVERED = 0.99
"""Share of a text's characters; a vocabulary that knows fewer does not suit it."""
MORE = 4
"""Times the budget, at least, where a model has learnt little."""
NER = "panx"
"""A task with training text of its own in most languages."""
TRANSLATED = ("pawsx", "xnli")
"""Tasks whose training examples are there in every language."""
OWN_TASK = "my-task.toml"
"""What a user calls a task of their own."""

OPTIONS = ("training.learning_rate", "training.batch")
KEYS = ("learning_rate", "batch")
"""What the rate and the batch are set with on a command line, and in a recipe."""


@dataclass(frozen=True)
class Facts:
    """What a finished run did, over all its phases."""

    steps: int
    tokens: int
    learning_rate: float
    """The highest peak of any part."""
    reach: float
    """The sum of the learning rates of all steps."""
    warmup: float
    """The longest, as a share of its phase."""
    learnt: int
    """Pieces that training had to teach: none of a vocabulary that is kept."""
    size: str
    """The setting that decides how many."""
    width: int
    """Of the hidden states."""
    by_option: bool
    """Whether settings were given as options; beside a recipe there are none for them."""
    longer: str
    """What more training is asked for with, in the unit of the run's budget."""
    covered: float | None
    """Share of the text's characters that the vocabulary knows."""
    falling: tuple[float, float] | None
    """Validation loss before the last fifth of the last phase and at its end, where it fell."""
    patience: int | None
    """Looks without a better loss after which a phase ended before its budget; None if none did."""


def facts(variant: Variant) -> Facts | None:
    """The facts of a variant; None while a phase, the tokenizer or the graft is missing."""
    tokenizer, graft = variant.result("tokenizer"), variant.result("graft")
    done = [
        (phase, phase.plan, phase.result)
        for phase in variant.phases
        if phase.plan is not None and phase.result is not None
    ]
    if tokenizer is None or graft is None or not done or len(done) < len(variant.phases):
        return None
    steps = [int(result["steps"]) for _, _, result in done]
    plans = [plan for _, plan, _ in done]
    vocabulary = int(tokenizer["vocab_size"])
    embeddings = int(graft["parameters"]["by_part"]["embeddings"])
    learnt, size = _new_pieces(variant, tokenizer)
    return Facts(
        steps=sum(steps),
        tokens=sum(int(result["tokens"]) for _, _, result in done),
        learning_rate=max(plan.optimizer.highest for plan in plans),
        reach=sum(plan.reach(own) for plan, own in zip(plans, steps, strict=True)),
        warmup=max(plan.warmup_share(own) for plan, own in zip(plans, steps, strict=True)),
        learnt=learnt,
        size=size,
        width=int(graft.get("width") or embeddings // vocabulary),  # older runs have no "width"
        by_option=_by_option(variant),
        longer=_asked_for(variant),
        covered=tokenizer["statistics"]["train"]["character_coverage"],
        falling=_falling(done[-1][0], steps[-1]),
        patience=next((p.validation.patience for phase, p, _ in done if _impatient(phase)), None),
    )


def _impatient(phase: PhaseRecord) -> bool:
    """Whether a phase ended before its budget: a larger one would not make it longer."""
    return (phase.result or {}).get("stopped") == "patience"


def _new_pieces(variant: Variant, tokenizer: Mapping[str, Any]) -> tuple[int, str]:
    """How many pieces are new to the model, and the setting that decides on their number."""
    extension, action = tokenizer.get("extension"), variant.recipe.tokenizer.action
    if action == "use":
        return 0, ""
    size = "tokenizer.vocab_size"
    if extension is None:
        return int(tokenizer["vocab_size"]), size
    size = "tokenizer.new_pieces" if action == "extend" else size
    return int(extension.get("added", 0)), size


def _by_option(variant: Variant) -> bool:
    called = str((variant.environment or {}).get("command", ""))
    return not {"--source", "--join"}.isdisjoint(w.partition("=")[0] for w in called.split())


def _asked_for(variant: Variant) -> str:
    """As it was asked for: by an option of the command line, or in a recipe."""
    run = variant.run
    asked = read_json(run.choices_path)["asked"] if run.choices_path.is_file() else {}
    given = asked.get("training", {}).get("budget")
    budget = variant.recipe.phases[-1].budget if given is None else Budget.model_validate(given)
    return f"More {budget.unit} ({'--budget' if _by_option(variant) else 'budget'})"


def _falling(phase: PhaseRecord, steps: int) -> tuple[float, float] | None:
    """The loss before the last fifth and at the end, where the end is the best and lower."""
    looks = [(int(row["step"]), float(row["loss"])) for row in phase.valid]
    before = [loss for step, loss in looks if step <= 0.8 * steps]
    if not before or looks[-1][1] > min(loss for _, loss in looks):
        return None
    return (before[-1], looks[-1][1]) if before[-1] - looks[-1][1] >= STILL_FALLING else None


def advice(variant: Variant, line: Line) -> list[str]:
    """What to change, the most likely cause first.

    A model that has learnt gets none, but for a loss that still fell at the end.

    Args:
        variant: the run's own model.
        line: its numbers.
    """
    stats = facts(variant)
    if stats is None or line.perplexity is None or not math.isfinite(line.perplexity):
        return []
    if line.too_few:  # nothing is known that could be mended
        return []
    causes = [] if line.learnt else _causes(stats)
    if stats.covered is not None and stats.covered < FEWEST_COVERED:
        causes.insert(
            0,
            "Another vocabulary (tokenizer.action), or a higher tokenizer.character_coverage: "
            f"{numbers.percent(1 - stats.covered)} of the text's characters are unknown to it.",
        )
    if stats.falling is not None and (line.learnt or stats.tokens >= FEWEST_TOKENS):
        before, end = stats.falling
        causes.append(
            f"{stats.longer}: the validation loss still fell over the last fifth of the last "
            f"phase, from {numbers.fixed(before, 2)} to {numbers.fixed(end, 2)}."
        )
    if not causes and not line.learnt:
        causes = [
            f"No simple cause fits: {stats.steps:,} steps, {numbers.short(stats.tokens)} tokens "
            f"and a learning rate of {stats.learning_rate:g} are no small plan. Look at the curve "
            "of the loss, and at what was left out of the text."
        ]
    return causes


def _causes(stats: Facts) -> list[str]:
    few = stats.steps < FEW_STEPS
    rate, batch = OPTIONS if stats.by_option else KEYS
    causes = []
    highest = HIGH_RATE if stats.width <= NARROW else WIDE_RATE
    if stats.reach < SHORT_REACH and stats.learning_rate < highest:
        causes.append(
            f"A larger learning rate ({rate}): it was {stats.learning_rate:g}. Over "
            f"{log.counted(stats.steps, 'step')} the rates add up to {stats.reach:.2g}, which is "
            f"about as far as a weight can move; new weights start with a spread of {SPREAD:g}. "
            f"{_example(stats)}"
        )
    per_step = stats.tokens / stats.steps
    if few and per_step > 1.25 * BATCH_TOKENS:
        more = round(stats.tokens / BATCH_TOKENS)
        causes.append(
            f"A smaller batch ({batch}): a step took {per_step:,.0f} tokens. With "
            f"{BATCH_TOKENS:,} the same number of tokens gives {more:,} steps in place of "
            f"{stats.steps:,}."
        )
    if stats.patience is not None:
        causes.append(
            f"More patience (validation.patience): a phase ended before its budget, after "
            f"{stats.patience:,} looks at the validation text without a better loss."
        )
    elif stats.tokens < FEWEST_TOKENS:
        causes.append(
            f"{stats.longer}: {numbers.short(stats.tokens)} tokens are few. With fewer than "
            f"{FEWEST_TOKENS:,} a model may be no better than guessing by frequency."
        )
    elif few and stats.falling is None:
        causes.append(
            f"{stats.longer}: {stats.steps:,} steps are few, with "
            f"{numbers.short(stats.tokens)} tokens in all."
        )
    if stats.warmup > LONG_WARMUP:
        causes.append(
            f"A shorter warm-up (schedule.warmup): it took {numbers.percent(stats.warmup, 0)} of a "
            "phase."
        )
    if stats.tokens < TOKENS_A_PIECE * stats.learnt:
        each = stats.tokens // stats.learnt
        causes.append(
            f"A smaller vocabulary ({stats.size}) or more tokens of training: "
            f"{stats.learnt:,} pieces were trained on {numbers.short(stats.tokens)} tokens, "
            f"{each or 'fewer than 1'} for each piece."
        )
    return causes


def _example(stats: Facts) -> str:
    if stats.width <= NARROW:
        return f"recipes/demo-xpt.toml takes 2e-3; this model's width is {stats.width}."
    return f"The papers' models of width 768 take 1e-4 to 3e-4; this one's width is {stats.width}."


def after_run(main: Variant, line: Line) -> NextStep:
    """What follows a run: going on with it, training it longer, or fine-tuning its model.

    Args:
        main: the run's own model.
        line: its numbers.
    """
    evaluation, path = main.result("evaluation"), main.run.path
    if evaluation is None:
        called = str((main.environment or {}).get("command", ""))
        again = command("adapt", path / "recipe.toml", "--out", path, "--update")
        words = [word for word in called.split(" ") if word != "--force"]
        has_command = words[:2] == ["lingraft", "adapt"]
        return NextStep(
            "The run has not ended. This goes on where it was:",
            " ".join(words) if has_command else again,
        )
    if line.too_few:
        where = "streams.0.corpus" if main.recipe.streams else "corpus"
        return NextStep(
            "The test text is too small to judge by. Give more text, or hold more of it out, in a "
            "run of its own:",
            command("adapt", path / "recipe.toml", f"{where}.test=0.2", "--out", f"{path}-test"),
        )
    if main.phases and not line.learnt:
        early, times = any(map(_impatient, main.phases)), _times(main)
        longer = (
            f"give it {MORE} times the patience" if early else f"train it {times} times as long"
        )
        return NextStep(
            f"The model has learnt little. Change what the report proposes, or {longer}, in a run "
            "of its own:",
            command(
                "adapt", path / "recipe.toml", *_longer(main, times), "--out", f"{path}-longer"
            ),
        )
    if main.recipe.graft.cross_attention:
        return NextStep(
            "Fine-tune the model plugged in, each example beside its translation "
            "(docs/guides/translation.md), or plugged out without plug=in:",
            command("finetune", path / "model", *_translated(main.recipe.languages), "plug=in"),
        )
    if kind_of(evaluation) == "seq2seq":
        task, where = OWN_TASK, f"{OWN_TASK} describes it"
    else:
        task, where = _task(main.recipe.languages)
    return NextStep(
        f"Fine-tune the model on a task ({where}):",
        command("finetune", path / "model", "--task", task, "--data", "data"),
    )


def _longer(main: Variant, times: int) -> list[str]:
    """The options that multiply a run's budget, or the patience of a phase that it ended."""
    words = []
    for at, (phase, record) in enumerate(zip(main.recipe.phases, main.phases, strict=True)):
        setting = f"budget={times * phase.budget.value:.15g} {phase.budget.unit}"
        if phase.validation.patience and _impatient(record):
            setting = f"validation.patience={MORE * phase.validation.patience}"
        words.append(f"phases.{at}.{setting}")
    return words


def _times(main: Variant) -> int:
    """Times the budget, for as many tokens as a model needs at least."""
    tokens = sum(
        phase.budget.value
        if phase.budget.unit == "tokens"  # a phase may have got longer than its budget
        else (record.result or {}).get("tokens", 0)
        for phase, record in zip(main.recipe.phases, main.phases, strict=True)
    )
    return max(MORE, math.ceil(FEWEST_TOKENS / max(tokens, 1)))


def _task(languages: Sequence[str]) -> tuple[str, str]:
    """A task for the first of the languages that has one, and where its files are named."""
    in_groups = {group.member(code) for group in GROUPS.values() for code in group.languages}
    for language in languages:
        code = language.partition("-")[0]
        own = [name for name in TASKS if code in TASKS[name].languages and name not in in_groups]
        shared = [GROUPS[NER].member(code)] if code in GROUPS[NER].languages else []
        for name in (*own, *shared):
            return name, "lingraft show tasks says where its files come from"
    return OWN_TASK, f"{OWN_TASK} describes it"


def _translated(languages: Sequence[str]) -> list[str]:
    """The options for a task whose examples have translations in two of the languages or more."""
    codes = {language.partition("-")[0] for language in languages}
    for name in TRANSLATED:
        own = sorted(
            codes.intersection(GROUPS[name].languages), key=lambda code: (code != "en", code)
        )
        if len(own) > 1:
            return ["--task", name, "--train-language", *own, "--data", "data"]
    return ["--task", OWN_TASK, "--data", "data"]


def lines(main: Variant, line: Line) -> list[str]:
    """The advice on a model, for a terminal; none where there is none."""
    changes = advice(main, line)
    return [tables.advice_heading(line), *(f"- {change}" for change in changes)] if changes else []


def summary(runs: Sequence[Run]) -> str:
    """Verdict and advice on the first run, for a terminal.

    Raises:
        DataError: a folder is not a run.
    """
    variants = labelled(runs)
    compared = tables.compare(variants)
    return "\n".join([verdict(compared), *lines(variants[0], compared.lines[0])])
