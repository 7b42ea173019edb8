"""What a run leaves open is decided while it runs: preset 'auto', and budgets in time.

In two steps. `choose`, once the text is read, decides method, initialiser and vocabulary. `fix`,
once the model is grafted, measures how fast each phase trains (`speed`), decides the rest, turns
time into tokens and says the plan. From then on the recipe in the run is complete: the same command
goes on with it to the bits of a straight run, and measures nothing again.

A promise in time covers the whole run. What is left of it after text, vocabulary and graft, less
what evaluation, export and report will take, is training; a share of that is held back. While a
phase trains, `training.pace` shortens it where the machine has become slower.
"""

from __future__ import annotations

import logging
import math
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import broadcast_object_list

from lingraft.models.plans import check_layers
from lingraft.models.source import config_of
from lingraft.pipeline import foreseeing, planning, speed, trials
from lingraft.pipeline.plans import RESOURCES, completed, differing
from lingraft.pipeline.rows import tied_now
from lingraft.pipeline.stages import family_now
from lingraft.pipeline.suiting import suited
from lingraft.recipe import Budget, Recipe, auto, choosing
from lingraft.recipe.decoding import to_toml
from lingraft.recipe.facts import Facts
from lingraft.recipe.methods import is_open, promised, settled
from lingraft.report import plan as plan_report
from lingraft.rundir import read_json, write_record, write_text
from lingraft.training.pace import FILE as PACE
from lingraft.training.pace import Deadline, check_left
from lingraft.training.throughput import matrix_product_ceiling

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lingraft.pipeline.stages import Context
    from lingraft.recipe.choosing import Choice
    from lingraft.rundir import Run

logger = logging.getLogger(__name__)

MEASURING = 0.02
"""Of the promise, for measuring the speed of all phases; never more than `MOST_MEASURING`."""
MOST_MEASURING = 20.0
EFFICIENCY = 0.3
"""Share of a large matrix product's speed that training reaches, for the first rough estimate."""


@dataclass(frozen=True)
class Timekeeper:
    """The clock of a run, and when the run began."""

    began: float
    clock: Callable[[], float] = time.monotonic

    def passed(self) -> float:
        """Seconds since the run began."""
        return self.clock() - self.began


FREE = ("name", "training", "evaluation", "export")
"""Sections that no decision depends on: another value of theirs leaves the plan as it is."""
UNDECIDED = (*FREE, "corpus", "streams")
"""Sections that a plan does not keep: they are those that are asked for now."""


def asked(recipe: Recipe) -> dict[str, Any]:
    """What of an open recipe decides on its plan, to know it again."""
    settings = recipe.model_dump(mode="json", exclude_unset=True, exclude={*FREE})
    return settings | {"seed": recipe.seed}


def remembered(recipe: Recipe, run: Run) -> Recipe:
    """The complete recipe that the run has made of this open one; the open one before that.

    What decides nothing, and source, texts and other files, which may lie elsewhere now, are those
    of this one; only what the plan made smaller of [evaluation], so that the time suffices, stays.
    """
    complete = completed(run) if knows(run, recipe) else None
    if complete is None:
        return recipe
    changes = {name: getattr(recipe, name) for name in (*UNDECIDED, "source")}
    files = {key: getattr(recipe.resources, key) for key in RESOURCES}
    changes["resources"] = complete.resources.model_copy(update=files)
    given, cut = recipe.evaluation, read_json(run.plan_path).get("evaluation", {})
    smaller = {key: value for key, value in cut.items() if key not in given.model_fields_set}
    changes["evaluation"] = given.model_copy(update=smaller)
    return complete.model_copy(update=changes)


def knows(run: Run, recipe: Recipe) -> bool:
    """Whether the run was asked for this open recipe before."""
    return is_open(recipe) and run.plan_path.is_file() and not changed(run, recipe)


def changed(run: Run, recipe: Recipe) -> list[str]:
    """The sections in which an open recipe differs from the one that the run was asked for."""
    before = {"seed": 0} | _in_minutes(read_json(run.plan_path)["asked"])
    now = _in_minutes(asked(recipe))
    old = {key: value for key, value in before.items() if key not in FREE}
    return differing(old, now, run, recipe)


def _in_minutes(plain: Any) -> Any:
    """Plain data of a recipe with budgets of hours in minutes: an hour is 60 of them."""
    if isinstance(plain, list):
        return [_in_minutes(one) for one in plain]
    if not isinstance(plain, dict):
        return plain
    if plain.get("unit") == "hours":
        return {"value": plain["value"] * 60, "unit": "minutes"}
    return {key: _in_minutes(one) for key, one in plain.items()}


def forget(run: Run, request: Recipe) -> None:
    """Delete the plan of a run that is now asked for a complete recipe which says otherwise."""
    if is_open(request) or not run.plan_path.is_file():
        return
    planned = completed(run)
    if planned is None or _decided(planned) != _decided(request):
        run.plan_path.unlink()


def _decided(recipe: Recipe) -> dict[str, Any]:
    """What a plan may have decided of a complete recipe."""
    undecided = dict.fromkeys(UNDECIDED, True) | {"resources": {*RESOURCES}}
    return settled(recipe).model_dump(mode="json", exclude=undecided)


def choose(context: Context, request: Recipe) -> Context:
    """Decide what vocabulary and graft need; of a complete recipe nothing.

    Args:
        context: the run, behind its text.
        request: the recipe as it was asked for; what was decided of it for another text is decided
            anew.
    """
    run, fingerprint = context.run, context.run.stage("corpus").fingerprint()
    has_plan = knows(run, request)
    if has_plan and read_json(run.plan_path).get("corpus", fingerprint) != fingerprint:
        logger.warning("the text is not the one that the plan was made for: it is made anew")
        context, has_plan = replace(context, recipe=request), False
    recipe = context.recipe
    if has_plan and context.accelerator.is_main_process:  # the text may lie elsewhere now
        write_record(run.plan_path, read_json(run.plan_path) | {"asked": asked(request)})
    if not is_open(recipe):
        return context
    context.accelerator.wait_for_everyone()
    if context.accelerator.is_main_process and not has_plan:
        facts = _facts(context)
        decided = choosing.choices(recipe, facts, before_speed=True) if _is_auto(recipe) else []
        plan: dict[str, Any] = {"asked": asked(recipe), "corpus": fingerprint}
        plan |= {"choices": [choice.plain() for choice in decided]}
        write_record(run.plan_path, plan | {"facts": asdict(facts), "fixed": None})
    context.accelerator.wait_for_everyone()
    return as_planned(context, recipe)


def take_mean(run: Run, reason: str) -> bool:
    """Put 'mean' in the place of the initialiser that the rules chose; False where they did not.

    Args:
        run: whose plan is changed.
        reason: why the other found nothing, for log and report.
    """
    plan = read_json(run.plan_path) if run.plan_path.is_file() else {"choices": []}
    own = {"key": "graft.embeddings", "value": "mean", "rule": "mean", "candidates": []}
    for choice in plan["choices"]:
        if choice["key"] == own["key"] and choice["rule"] != choosing.GIVEN:
            why = f"'{choice['value']}' was chosen, and there is too little text for it: {reason}"
            logger.warning("graft: takes 'mean', for %s", why)
            choice.update(own, why=why, sure=False)
            write_record(run.plan_path, plan)
            return True
    return False


def as_planned(context: Context, request: Recipe) -> Context:
    """The context with what the run's plan decided so far; of a complete recipe as it is."""
    if not is_open(context.recipe):
        return context
    early = [choosing.Choice(**choice) for choice in read_json(context.run.plan_path)["choices"]]
    return replace(context, recipe=_with(request, early))


def _is_auto(recipe: Recipe) -> bool:
    return recipe.method.preset == auto.AUTO


def _with(recipe: Recipe, decided: Sequence[Choice]) -> Recipe:
    """The open recipe with what was decided, for its kind of source.

    Raises:
        LingraftError: the source cannot have the layers that were decided on.
    """
    if not decided:
        return recipe
    family, complete = family_now(recipe), choosing.applied(recipe, decided)
    check_layers(family, config_of(recipe.source).to_dict(), complete.graft)
    return suited(complete, family, tied=tied_now(recipe))


def _facts(context: Context) -> Facts:
    recipe = context.recipe
    family = family_now(recipe)
    text = context.run.stage("corpus").result()["splits"]["train"]
    characters = int(text["characters"])
    config = config_of(recipe.source)
    width, depth = int(config.hidden_size), int(getattr(config, family.depth_key))
    tokens, slowdown = _rough_tokens(context, text, width, depth)
    known = Facts(family.kind, width, characters, tokens, slowdown=slowdown)
    return foreseeing.facts_of(recipe, int(text["sentences"]), known)


def _rough_tokens(
    context: Context, text: dict[str, Any], width: int, depth: int
) -> tuple[float, float]:
    """Tokens of the budget; of one in time estimated from the speed of a matrix product.

    Returns:
        Tokens, and how many times as long as alone the product took (1 of other budgets).
    """
    recipe, characters = context.recipe, int(text["characters"])
    if (seconds := promised(recipe)) is None:
        return foreseeing.tokens_of(recipe, characters, math.nan, int(text["sentences"])), 1.0
    wall, cpu = time.perf_counter(), time.process_time()
    precision, device = context.accelerator.mixed_precision, context.accelerator.device
    ceiling = matrix_product_ceiling(device, precision, width, seconds=0.3, rows=512)
    passed, busy = time.perf_counter() - wall, time.process_time() - cpu
    on_gpu = device.type == "cuda"
    slowdown = 1.0 if on_gpu else max(1.0, passed * torch.get_num_threads() / max(busy, 1e-9))
    a_token = foreseeing.operations(width, depth, characters)
    a_second = EFFICIENCY * ceiling * context.accelerator.num_processes
    alone = foreseeing.speed_of(a_token, a_second, seconds, on_gpu)
    return foreseeing.tokens_of(recipe, characters, alone / slowdown), slowdown


def look(recipe: Recipe, time: Timekeeper) -> None:
    """Look at the clock after a stage, and refuse to go on where no time is left to train.

    Raises:
        RecipeError: none is left.
    """
    passed = [time.passed()]
    broadcast_object_list(passed)  # the first process' clock counts
    whole = promised(recipe)
    check_left(whole, math.inf if whole is None else whole - passed[0])


def note_time(run: Run, time: Timekeeper) -> None:
    """Write down how long a run took that was promised a time, and say it."""
    plan = read_json(run.plan_path)
    if (whole := plan["promised"]) is None:
        return
    took = time.passed()
    write_record(run.plan_path, plan | {"took": took})
    logger.log(
        logging.WARNING if took > whole else logging.INFO, "time: %s", plan_report.kept(took, whole)
    )


def fix(context: Context, request: Recipe, time: Timekeeper) -> Context:
    """Measure, decide the rest, and make the recipe complete; of a complete one nothing.

    Args:
        context: the run, behind its graft.
        request: the recipe as it was asked for.
        time: its clock.

    Raises:
        RecipeError: the time that was given is over before training could begin.
    """
    if not is_open(context.recipe):
        return context
    main, run = context.accelerator.is_main_process, context.run
    plan = read_json(run.plan_path)
    early = [choosing.Choice(**choice) for choice in plan["choices"]]
    graft = run.weights([])
    recipe, late = context.recipe, _late(request, context.recipe, plan["facts"])
    if late:
        recipe = _with(request, [*early, *late])
    speeds = _speeds(replace(context, recipe=recipe), graft, time)
    tokens = _affordable(recipe, speeds)
    if late and tokens is not None:
        measured = recipe
        late = _late(request, recipe, plan["facts"] | {"tokens": tokens})
        recipe = _with(request, [*early, *late])
        if [phase.batch for phase in recipe.phases] != [phase.batch for phase in measured.phases]:
            speeds = _speeds(replace(context, recipe=recipe), graft, time)
    context = replace(context, recipe=recipe)
    decided = [*early, *late]
    if late:
        probe = trials.Probe(context, lambda choices: _with(request, choices), speeds)
        decided = probe.decide(decided)
        recipe = _with(request, decided)
    slowdown = float(plan["facts"]["slowdown"])
    draft = planning.draft(replace(context, recipe=recipe), speeds, time.passed(), slowdown)
    # each has read what stands in the run so far, and deleted what it threw away
    context.accelerator.wait_for_everyone()
    if main:
        trials.settle(replace(context, recipe=recipe))
        # before the plan: a kill between the two leaves a run that is still undecided
        write_text(run.recipe_path, to_toml(settled(draft.recipe)))
        write_record(
            run.plan_path,
            plan
            | {
                "choices": [choice.plain() for choice in decided],
                "evaluation": _cut(recipe, draft.recipe),
                "fixed": settled(draft.recipe).model_dump(mode="json", exclude_none=True),
                **draft.plain(),
            },
        )
    context.accelerator.wait_for_everyone()
    complete = completed(run)
    assert complete is not None
    return replace(context, recipe=complete, deadlines=_deadlines(draft, time))


def _cut(before: Recipe, after: Recipe) -> dict[str, Any]:
    """What of [evaluation] the plan made smaller."""
    asked, planned = (recipe.evaluation.model_dump(mode="json") for recipe in (before, after))
    return {key: value for key, value in planned.items() if value != asked[key]}


def _speeds(context: Context, graft: Path, time: Timekeeper) -> list[speed.Speed]:
    phases = context.recipe.phases
    whole = promised(context.recipe)
    seconds = MOST_MEASURING if whole is None else min(MOST_MEASURING, MEASURING * whole)
    speeds = []
    for phase in phases:
        speeds.append(speed.measure(context, phase, graft, seconds / len(phases), time.clock))
        per_second = f"{speeds[-1].tokens_per_second:,.0f} tokens/s"
        logger.info("%s: %s, from %d timed", phase.name, per_second, speeds[-1].steps)
        look(context.recipe, time)
    broadcast_object_list(speeds)  # the first process' clock counts
    return speeds


def _late(request: Recipe, recipe: Recipe, facts: dict[str, Any]) -> list[Choice]:
    """What the rules decide once the model is there; nothing without preset 'auto'."""
    if not _is_auto(request):
        return []
    model_facts = Facts(**facts).with_method(recipe)
    return choosing.choices(request, model_facts, before_speed=False)


def _affordable(recipe: Recipe, speeds: list[speed.Speed]) -> float | None:
    """Tokens of a budget in time, at the measured speeds; None of other budgets."""
    if promised(recipe) is None:
        return None
    pairs = zip(recipe.phases, speeds, strict=True)
    total = sum((phase.budget.seconds or 0.0) * rate.tokens_per_second for phase, rate in pairs)
    return total / (1 + len(recipe.baselines))


def _deadlines(draft: planning.Draft, time: Timekeeper) -> dict[str, Deadline]:
    """When each phase must end; nothing where no time was promised."""
    if draft.promised is None:
        return {}
    at, deadlines = time.clock(), {}
    for phase in draft.phases:
        at += phase.seconds
        deadlines[phase.name] = Deadline(at, time.clock)
    return deadlines


def as_trained(context: Context) -> Recipe:
    """The recipe with the budgets that its phases had in the end, for baselines to share."""
    phases = []
    for phase in context.recipe.phases:
        path = context.run.stage(phase.name).path / PACE
        if path.is_file():
            end = float(read_json(path)[-1][1])
            phase = phase.model_copy(update={"budget": Budget(value=end, unit="tokens")})
        phases.append(phase)
    return context.recipe.model_copy(update={"phases": tuple(phases)})
