"""A recipe becomes complete: what it leaves open is decided before its run begins, and only here.

`adapt`, `check` and the cells of a study all call `complete`. What decides is in `recipe.defaults`;
what the recipe says itself is never touched. A run keeps its complete recipe in recipe.toml, and
beside it in choices.json what was asked for, the facts, and what was decided.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from lingraft.errors import RecipeError
from lingraft.models.families import family_of
from lingraft.models.plans import check_layers
from lingraft.models.source import config_of
from lingraft.pipeline.facts import facts_of
from lingraft.pipeline.rows import tied_now
from lingraft.pipeline.source_config import local_folder
from lingraft.pipeline.suiting import suited
from lingraft.recipe import Recipe, Section, defaults
from lingraft.recipe.defaults import FEWEST_TOKENS
from lingraft.recipe.methods import as_written, expand, is_auto, time_budget, with_phases
from lingraft.recipe.needs import learns_vectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.recipe import Source
    from lingraft.recipe.defaults import Default

S = TypeVar("S", bound=Section)
GIVEN, MEASURED, EXTRAPOLATED = "given", "measured", "extrapolated"
OF_PHASES = "validation"
"""A section of every phase, not of the recipe."""


@dataclass(frozen=True)
class Completed:
    """A complete recipe, and how it came to be."""

    recipe: Recipe
    asked: dict[str, Any]
    facts: dict[str, Any] | None = None
    choices: tuple[dict[str, Any], ...] = ()
    """Of each key that was left open, or could have been: key, value, source and why."""
    notes: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """Return what choices.json holds."""
        return {"asked": self.asked, "facts": self.facts, "choices": list(self.choices)}


def leaves_open(asked: Recipe) -> bool:
    """Return whether anything is to be decided of a recipe."""
    validated = all("max_sentences" in one.validation.model_fields_set for one in asked.phases)
    evaluated = {"max_sentences", "max_words"} <= asked.evaluation.model_fields_set
    return is_auto(asked) or (time_budget(asked) is not None and not (evaluated and validated))


def complete(asked: Recipe, *, processes: int = 1, download: bool = True) -> Completed:
    """Return a recipe with everything written out that its run will do.

    Args:
        asked: by `methods.read_recipe` or `methods.recipe_from`.
        processes: that will train; a budget in time has more tokens with more of them.
        download: fetch config.json of a model of the Hub; False takes only what is here.

    Raises:
        LingraftError: the recipe cannot work, or what decides is not known.
    """
    decided = decide(asked, processes=processes, download=download)
    if download or _is_here(asked.source):
        tied = decided.facts["tied"] if decided.facts else None
        return replace(decided, recipe=fitted(decided.recipe, tied=tied))
    return replace(decided, recipe=as_written(suited(decided.recipe, None)))


def fitted(recipe: Recipe, *, tied: bool | None = None) -> Recipe:
    """Return a recipe with phases as its source's kind of model goes through them.

    Args:
        recipe: with phases.
        tied: whether the source's output projection is its word embeddings; None looks at it.
    """
    tied = tied_now(recipe) if tied is None else tied
    family = family_of(config_of(recipe.source).model_type)
    return as_written(suited(recipe, family, tied=tied))


def decide(asked: Recipe, *, processes: int = 1, download: bool = True) -> Completed:
    """Return a recipe with its phases, which have yet to be `fitted`.

    The arguments are those of `complete`.

    Raises:
        LingraftError: as `complete`.
    """
    plain, source = asked_of(asked), asked.source
    if not leaves_open(asked):
        return Completed(asked, plain)
    if not (download or _is_here(source)):
        raise RecipeError(
            "what the recipe leaves open is decided by the source's config.json, and that of "
            f"'{source.model}' is not on this machine; download it first (hf download "
            f"{source.model} config.json), or name a paper's preset (lingraft show presets)"
        )
    tied, config = tied_now(asked), config_of(source)
    facts, notes = facts_of(asked, config, tied=tied, processes=processes)
    decided = defaults.defaults(facts)
    if not is_auto(asked):
        decided = [one for one in decided if one.key.startswith((OF_PHASES, "evaluation."))]
    choices = [_choice(asked, one) for one in decided]
    recipe = _with(asked, choices)
    check_layers(family_of(config.model_type), config.to_dict(), recipe.graft)
    if not any(learns_vectors(recipe.embeddings, name) for name in recipe.embeddings.initializers):
        choices = [one for one in choices if not one["key"].startswith("embeddings.vector_")]
        recipe = _with(asked, choices)
    notes += _too_small(facts.tokens, knows=recipe.keeps_rows)
    return Completed(recipe, plain, asdict(facts), tuple(choices), tuple(notes))


def _is_here(source: Source) -> bool:
    return source.model is None or local_folder(source.model, source.revision) is not None


def asked_of(asked: Recipe) -> dict[str, Any]:
    """Return what a recipe asks for, as plain data by which it is known again."""
    plain = asked.model_dump(mode="json", exclude_unset=True) | {"seed": asked.seed}
    return {key: value for key, value in plain.items() if value not in (None, {}, [])}


def _choice(asked: Recipe, default: Default) -> dict[str, Any]:
    """Return what is chosen for a key: what the recipe gives itself goes before."""
    section, _, key = default.key.partition(".")
    owners: Sequence[Section] = [asked] if section in Recipe.model_fields else asked.phases
    sections = [getattr(owner, section) for owner in owners]
    if sections and all(key in one.model_fields_set for one in sections):
        value = sections[0].model_dump(mode="json")[key]
        return {"key": default.key, "value": value, "source": GIVEN, "why": ""}
    source = MEASURED if default.measured else EXTRAPOLATED
    return {"key": default.key, "value": default.value, "source": source, "why": default.why}


def _with(asked: Recipe, choices: Sequence[dict[str, Any]]) -> Recipe:
    """Return the recipe with what was chosen, and with its phases."""
    values: dict[str, dict[str, Any]] = {}
    for one in choices:
        section, _, key = one["key"].partition(".")
        values.setdefault(section, {})[key] = one["value"]
    looks = values.pop(OF_PHASES, {})
    update = {name: _filled(getattr(asked, name), own) for name, own in values.items()}
    recipe = asked.model_copy(update=update)
    if is_auto(asked):
        recipe = with_phases(expand(recipe))
    phases = (
        phase.model_copy(update={OF_PHASES: _filled(phase.validation, looks)})
        for phase in recipe.phases
    )
    return recipe.model_copy(update={"phases": tuple(phases)})


def _filled(section: S, values: dict[str, Any]) -> S:
    """Return a section with these values where it gives none."""
    return type(section).model_validate(values | section.model_dump(exclude_unset=True))


def _too_small(tokens: float, *, knows: bool) -> list[str]:
    """Return a note where a model may learn next to nothing from so few tokens."""
    if tokens >= FEWEST_TOKENS:
        return []
    unless = ", if the source does not know the language already" if knows else ""
    return [
        f"the budget is too small: about {tokens:,.0f} tokens of training, and with fewer than "
        f"{FEWEST_TOKENS:,} a model may be no better than guessing by frequency{unless}"
    ]
