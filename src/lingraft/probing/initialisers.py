"""Rank embedding initialisers by a short training: the loss before it misranks them (PEERS 2).

A probe is a study whose axis is `graft.embeddings`: one phase with the settings of the recipe's
first one, everything trained, the same sentences and masks for all.
"""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, get_args

from lingraft.errors import RecipeError
from lingraft.pipeline.vocabularies import lacks_source_words
from lingraft.recipe import Budget, Initialiser, Recipe
from lingraft.recipe.methods import settled
from lingraft.recipe.run import READ_LEXICONS, RUN_MODEL, learns_vectors
from lingraft.recipe.selectors import trained_parts
from lingraft.stats import LEVEL, paired_t_test
from lingraft.study import recipe as studies
from lingraft.study.rows import CurveRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lingraft.recipe import Phase
    from lingraft.study.recipe import Study
    from lingraft.study.rows import AnyRow

AXIS = "graft.embeddings"
LOOKS = 5
"""Looks at the validation text in a probe."""
WARMUP = 0.1
"""In place of a warm-up that is counted in steps, which would outlast the probe."""
INITIALISERS: tuple[str, ...] = get_args(Initialiser)


@dataclass(frozen=True)
class Ranked:
    """One initialiser: mean validation losses in nats over seeds, and ranks; equals share one."""

    initialiser: str
    seeds: int
    first: float
    """Before the first step."""
    last: float
    """After the last one."""
    first_rank: int
    last_rank: int
    by_seed: dict[int, float]
    """After the last step, of each seed."""


def base_of(recipe: Recipe, steps: int, train: Sequence[str]) -> Recipe:
    """The recipe that every cell of the probe starts from.

    Args:
        recipe: complete.
        steps: of the one phase.
        train: the parts that train.

    Raises:
        RecipeError: there is no source to take embeddings from, or nothing trains.
    """
    if recipe.source.model is None:
        raise RecipeError("probe: the recipe has no source model, so there is nothing to compare")
    if not recipe.phases:
        raise RecipeError(
            f"probe: method '{recipe.method.name}' does not train, so no initialiser can learn; "
            "set method.name=xpt-sp"
        )
    changes = {
        "phases": (shortened(recipe.phases[0], steps, train),),
        "baselines": (),
        "evaluation": recipe.evaluation.model_copy(
            update={"sentences": 200, "words": 0, "samples": 0}
        ),
        "name": f"probe-{recipe.name}",
    }
    return settled(recipe.model_copy(update=changes))


def shortened(phase: Phase, steps: int, train: Sequence[str], looks: int = LOOKS) -> Phase:
    """A phase of so many steps, with so many looks at the validation text.

    Where other parts train than the phase's, LoRA and settings of parts that rest are left out.
    """
    if {*train} != {*phase.train}:
        optimiser = phase.optimiser
        settings = {
            key: _of_trained(getattr(optimiser, key), train) for key in ("rates", "weight_decays")
        }
        changes = {"lora": None, "optimiser": optimiser.model_copy(update=settings)}
        phase = phase.model_copy(update=changes)
    warmup = phase.schedule.warmup if phase.schedule.warmup < 1 else WARMUP
    often = {"every_steps": math.ceil(steps / looks), "patience": None}
    return phase.model_copy(
        update={
            "name": "probe",
            "train": tuple(train),
            "budget": Budget(value=steps, unit="steps"),
            "schedule": phase.schedule.model_copy(update={"warmup": warmup}),
            "validation": phase.validation.model_copy(update=often),
        }
    )


def _of_trained(settings: Mapping[str, float], train: Sequence[str]) -> dict[str, float]:
    """Settings by part, but for those of parts of which nothing trains."""
    trained = {_whole(name) for name in trained_parts(train, "probe")}
    return {name: value for name, value in settings.items() if _whole(name) in trained}


def _whole(name: str) -> str:
    """The part that rows or layers lie in; all layers are one."""
    part = name.partition(".")[0].partition("[")[0]
    return "layers" if part in ("body", "itl", "inserted") else part


def study_of(base: Recipe, initialisers: Sequence[str], seeds: int) -> Study:
    """The probe as a study.

    Args:
        base: see `base_of`.
        initialisers: names.
        seeds: how many, counted up from the recipe's own.
    """
    return along(AXIS, initialisers, base, seeds, "probe")


def along(axis: str, values: Sequence[str], base: Recipe, seeds: int, where: str) -> Study:
    """A study of one axis that keeps no weights and measures the loss before the first step too.

    Args:
        axis: dotted path of the recipe.
        values: of the axis.
        base: the recipe of every cell.
        seeds: how many, counted up from the recipe's own.
        where: what an error names.
    """
    plain = base.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    axes = {axis: list(values), "seed": list(range(base.seed, base.seed + seeds))}
    study: dict[str, Any] = {"name": base.name, "base": plain, "grids": [axes]}
    study |= {"keep": "none", "initial_loss": True, "set": {"phases": plain["phases"]}}
    return studies.decode(study, where)


def missing(recipe: Recipe, initialiser: str) -> str | None:
    """What an initialiser needs that is not there, or None.

    Raises:
        RecipeError: there is no such initialiser.
    """
    if initialiser not in INITIALISERS:
        raise RecipeError(
            f"--initialisers: '{initialiser}' is not known; there are {', '.join(INITIALISERS)}"
        )
    resources = recipe.resources
    if initialiser in READ_LEXICONS and not resources.lexicons:
        return "needs a bilingual dictionary: resources.lexicons"
    if lacks_source_words(resources, initialiser):
        return "needs vectors or text of the source language: resources.source_vectors, source_text"
    if learns_vectors(resources, initialiser) and importlib.util.find_spec("gensim") is None:
        return 'learns static vectors, which needs gensim: pip install "lingraft[vectors]"'
    return None


def usable(recipe: Recipe, initialisers: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The initialisers that can run, and why the others cannot.

    Args:
        recipe: whose resources count.
        initialisers: names; empty takes all.

    Raises:
        RecipeError: an unknown name, or none can run.
    """
    reasons = {name: missing(recipe, name) for name in initialisers or INITIALISERS}
    if not initialisers:
        reasons |= dict.fromkeys(RUN_MODEL, "runs a causal source to learn rows: name it to try it")
    left_out = {name: reason for name, reason in reasons.items() if reason}
    names = [name for name in reasons if name not in left_out]
    if not names:
        first = next(iter(left_out))
        raise RecipeError(f"probe: no initialiser can run; {first} {left_out[first]}")
    return names, left_out


def ranking(rows: Iterable[AnyRow]) -> list[Ranked]:
    """Initialisers by the validation loss at the end, the best first."""
    ends: dict[str, list[tuple[float, float]]] = {}
    by_seed: dict[str, dict[int, float]] = {}
    for row in rows:
        if isinstance(row, CurveRow) and row.split == "valid":
            losses = (row.points[0][1], row.points[-1][1])
            ends.setdefault(str(row.axes[AXIS]), []).append(losses)
            by_seed.setdefault(str(row.axes[AXIS]), {})[int(str(row.axes["seed"]))] = losses[1]
    first, last = (
        {name: fmean(pair[end] for pair in pairs) for name, pairs in ends.items()} for end in (0, 1)
    )
    return [
        Ranked(
            name,
            len(ends[name]),
            first[name],
            last[name],
            1 + sum(loss < first[name] for loss in first.values()),
            1 + sum(loss < last[name] for loss in last.values()),
            by_seed[name],
        )
        for name in sorted(last, key=last.__getitem__)
    ]


def verdict(ranked: Sequence[Ranked]) -> str:
    """What the seeds allow to say of the first, in a sentence; empty where nothing is compared."""
    first, *others = ranked or (None,)
    if first is None or not others:
        return ""
    if max(one.seeds for one in ranked) == 1:
        return (
            "One seed cannot tell luck from merit: initialisers that lie close may be equal "
            "(--seeds 3 tells more)."
        )
    close = []
    for other in others:
        common = first.by_seed.keys() & other.by_seed.keys()
        p = paired_t_test([first.by_seed[seed] - other.by_seed[seed] for seed in sorted(common)])
        if p is None or p >= 1 - LEVEL:
            close.append(other.initialiser)
    if not close:
        return f"{first.initialiser} is ahead of each other one (paired t-tests over the seeds)."
    return (
        f"Not told apart from {first.initialiser} by paired t-tests over the seeds: "
        f"{', '.join(close)}."
    )
