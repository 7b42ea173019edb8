"""Choose a source: graft each candidate for a few steps, and rank only what intervals tell apart.

The probe is a study whose axis is `source.model`: the recipe's first phase cut to so many steps;
the same text, split, vocabulary, words and seeds for all candidates. What the recipe leaves to the
rules of preset 'auto' they choose for each candidate, as they would in `adapt`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lingraft.errors import RecipeError
from lingraft.pipeline.foreseeing import decided_now
from lingraft.probing.initialisers import along, shortened
from lingraft.recipe import Budget, Source, catalogue
from lingraft.recipe.auto import AUTO
from lingraft.recipe.methods import expand, is_open, preset_of, settled
from lingraft.recipe.run import KEEPING
from lingraft.stats import Resampling, interval
from lingraft.study.analysis import difference, replicates, shared_blocks
from lingraft.study.metrics import BITS
from lingraft.study.recipe import Rule
from lingraft.study.results import collect

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lingraft.recipe import Recipe
    from lingraft.study.recipe import Study
    from lingraft.study.results import Group
    from lingraft.study.rows import AnyRow

AXIS = "source.model"
LOOKS = 4
"""Looks at the validation text in a probe."""
DECIDED = ("graft", "resources")
"""Sections in which candidates may differ where rules choose; phases too."""
ONE_KIND = "unigram"
"""Of the target's vocabulary where the recipe leaves it to the source: one for all candidates."""


@dataclass(frozen=True)
class Candidate:
    """A model that may become the source."""

    label: str
    """As it was named."""
    model: str
    """Directory or Hub id."""
    texts: tuple[str, ...] = ()
    """Text of its language, where some is given."""


def candidates(names: Sequence[str], texts: Sequence[str] = ()) -> list[Candidate]:
    """The candidates that names stand for.

    Args:
        names: directories, Hub ids, or names of `lingraft list models`.
        texts: CANDIDATE=PATH, the candidate as in `names`.

    Raises:
        RecipeError: none is named, one is named twice, or a text belongs to none.
    """
    if not names:
        raise RecipeError(
            "--candidates: name the models to choose from, say --candidates demo/source,xlm-r-base"
        )
    by_name: dict[str, Candidate] = {}
    for name in names:
        model = catalogue.resolve(name)
        if any(model == candidate.model for candidate in by_name.values()):
            raise RecipeError(f"--candidates: '{name}' is named twice; leave one out")
        by_name[name] = Candidate(name, model)
    for text in texts:
        name, _, path = text.partition("=")
        if not path or name not in by_name:
            raise RecipeError(
                f"--source-text {text}: write CANDIDATE=PATH, the candidate as in --candidates: "
                f"{', '.join(by_name)}"
            )
        by_name[name] = replace(by_name[name], texts=(*by_name[name].texts, path))
    return list(by_name.values())


def with_source(recipe: Recipe, candidate: Candidate) -> Recipe:
    """The recipe with a candidate for its source."""
    return recipe.model_copy(update={"source": Source(model=candidate.model)})


def base_of(
    recipe: Recipe, first: Candidate, steps: int, words: int, train: Sequence[str] = ()
) -> Recipe:
    """The recipe that every cell of the probe starts from.

    Args:
        recipe: complete.
        first: a candidate; each cell has its own.
        steps: of the one phase.
        words: that are scored for bits per character.
        train: the parts that train; empty takes those of the recipe's first phase.

    Raises:
        RecipeError: the recipe reads several texts, does not train, draws the source's weights
            anew, or keeps the source's vocabulary.
    """
    if len(recipe.texts) > 1:
        raise RecipeError(
            "sources: the recipe reads several texts, and a source is chosen for one language; "
            "give a recipe with language and [corpus]"
        )
    if not recipe.phases or recipe.graft.source_weights == "random":
        raise RecipeError(
            f"sources: method '{recipe.method.name}' does not learn from the source's weights, so "
            "all candidates would do the same; set method.name=xpt"
        )
    if recipe.tokenizer.kind in (*KEEPING, "replace"):
        raise RecipeError(
            f"sources: tokenizer.kind '{recipe.tokenizer.kind}' gives every candidate a vocabulary "
            "of its own; compare them with one of the target's: set unigram, byte-bpe or wordpiece"
        )
    kind = ONE_KIND if recipe.tokenizer.kind == "source" else recipe.tokenizer.kind
    phase = shortened(recipe.phases[0], steps, train or recipe.phases[0].train, LOOKS)
    changes = {
        "source": Source(model=first.model),
        "tokenizer": recipe.tokenizer.model_copy(update={"kind": kind}),
        "phases": (phase,),
        "baselines": (),
        "evaluation": recipe.evaluation.model_copy(
            update={"sentences": 200, "words": words, "samples": 0}
        ),
        "name": f"sources-{recipe.name}",
    }
    return settled(recipe.model_copy(update=changes))


def as_decided(recipe: Recipe, candidate: Candidate, steps: int) -> Recipe:
    """The recipe with a candidate, and with what preset 'auto' chooses for it and so many steps.

    Steps are of one size for all candidates.

    Raises:
        RecipeError: rules are to choose, and the candidate's config is not on this machine.
    """
    own = with_source(recipe, candidate)
    if not is_open(own) or own.method.preset != AUTO:
        return own
    update = {
        "budget": Budget(value=steps, unit="steps"),
        "batch": own.method.batch or preset_of(own.method).batch,
    }
    method = own.method.model_copy(update=update)
    return decided_now(expand(own.model_copy(update={"method": method, "phases": ()})))


def study_of(
    recipe: Recipe,
    models: Sequence[Candidate],
    steps: int,
    words: int,
    train: Sequence[str] = (),
    *,
    seeds: int,
) -> Study:
    """The probe as a study.

    Args:
        recipe: complete, or one that leaves things to the rules.
        models: the candidates.
        steps: as for `base_of`, and so are the next two.
        words: see there.
        train: see there.
        seeds: how many, counted up from the recipe's own.
    """
    bases = [
        base_of(as_decided(recipe, model, steps), model, steps, words, train) for model in models
    ]
    study = along(AXIS, [model.label for model in models], bases[0], seeds, "sources")
    plain = [base.model_dump(mode="json", exclude_unset=True, exclude_none=True) for base in bases]
    rules = [
        Rule(
            when={AXIS: model.label},
            set={"phases": one["phases"]}
            | {
                f"{name}.{key}": value
                for name in DECIDED
                for key, value in one.get(name, {}).items()
            },
        )
        for model, one in zip(models, plain, strict=True)
    ]
    shared = {section: value for section, value in plain[0].items() if section not in DECIDED}
    return study.model_copy(update={"base": shared, "set": {}, "rules": tuple(rules)})


@dataclass(frozen=True)
class Standing:
    """Where a candidate stands after the probe."""

    candidate: str
    seeds: int
    bits: float
    """Per character of the held-out words, mean over the seeds."""
    low: float | None
    """Bounds of the 95 % interval over blocks of words and seeds; None without blocks."""
    high: float | None
    rank: int
    """1 + how many candidates are better with an interval that does not hold 0."""
    ahead_of: tuple[str, ...]
    """Candidates that are worse with such an interval."""


def by_candidate(rows: Iterable[AnyRow]) -> dict[str, Group]:
    """The probe's groups by candidate; of seeds that failed nothing is there."""
    groups = [group for group in collect(rows).groups if group.rows(BITS)]
    return {str(group.cells[0].end.axes[AXIS]): group for group in groups}


def standings(groups: Mapping[str, Group], resampling: Resampling) -> list[Standing]:
    """The candidates by bits per character, and which of them the intervals tell apart.

    The draws are the same for all: blocks of the test text and seeds, in pairs (`stats`). A
    candidate is ahead of another where the 95 % interval of their difference does not hold 0.

    Args:
        groups: by candidate, with bits per character over the same words.
        resampling: how intervals are drawn.

    Raises:
        DataError: two candidates were scored on other texts.
    """
    worse: dict[str, list[str]] = {name: [] for name in groups}
    names = sorted(groups, key=lambda name: groups[name].mean(BITS) or math.inf)
    for at, name in enumerate(names):
        for other in names[at + 1 :]:
            low, high = _bounds(groups[name], groups[other], resampling)
            if high is not None and high < 0:
                worse[name].append(other)
            elif low is not None and low > 0:
                worse[other].append(name)
    ranking = []
    for name in names:
        group = groups[name]
        low, high = own_interval(group, resampling)
        rank = 1 + sum(name in rivals for rivals in worse.values())
        values = group.values(BITS)
        mean = group.mean(BITS)
        assert mean is not None
        ranking.append(Standing(name, len(values), mean, low, high, rank, tuple(worse[name])))
    return sorted(ranking, key=lambda standing: (standing.rank, standing.bits))


def _bounds(a: Group, b: Group, resampling: Resampling) -> tuple[float | None, float | None]:
    if not a.rows(BITS).keys() & b.rows(BITS).keys():
        return None, None  # each failed where the other did not
    result = difference(a, b, BITS, resampling)
    return result.low, result.high


def own_interval(group: Group, resampling: Resampling) -> tuple[float | None, float | None]:
    """The 95 % interval of a candidate's own bits per character, over blocks and seeds."""
    rows = group.rows(BITS)
    blocks_B = shared_blocks(list(rows.values()))
    if blocks_B is None:
        return None, None
    replicates_RS = replicates(list(rows.values()), BITS, blocks_B, resampling)
    return interval(resampling.mean(replicates_RS, list(rows)))


def verdict(ranking: Sequence[Standing], asked: int = 1) -> str:
    """What the intervals allow to say, in a sentence or two.

    Args:
        ranking: of the candidates whose probe has ended.
        asked: how many were to be probed, where more than one were.
    """
    if not ranking:
        return "No candidate's probe has ended: nothing is compared."
    if len(ranking) < 2:
        why = f"Only {ranking[0].candidate} has ended" if asked > 1 else "One candidate"
        return f"{why}: there is nothing to choose."
    first = [standing.candidate for standing in ranking if standing.rank == 1]
    rest = [standing for standing in ranking if standing.rank > 1]
    if not rest:
        return f"No candidate can be told from the others: {_listed(first)} tie."
    if len(first) == 1:
        others = [one.candidate for one in rest if one.candidate not in ranking[0].ahead_of]
        if others:
            return (
                f"No candidate is ahead of {first[0]} ({ranking[0].bits:.3f} bits per character), "
                f"but its difference to {_listed(others)} may be luck."
            )
        return (
            f"{first[0]} is best of {len(ranking)}: every interval of its difference to another "
            f"candidate lies below 0 ({ranking[0].bits:.3f} bits per character)."
        )
    are = "is" if len(rest) == 1 else "are"
    behind = _listed(standing.candidate for standing in rest)
    return f"{_listed(first)} tie for the first place; {behind} {are} behind one of them or more."


def _listed(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
