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
from lingraft.pipeline.estimates import facts_of
from lingraft.pipeline.model_kinds import for_model_kind
from lingraft.pipeline.outline import is_source_tied, local_folder
from lingraft.recipe import Recipe, Section, defaults
from lingraft.recipe.defaults import FEWEST_TOKENS
from lingraft.recipe.methods import as_written, expand, is_auto, with_phases
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
    """Choices, one a key that was left open or could have been: key, value, source and why."""
    notes: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """Return what choices.json holds."""
        return {"asked": self.asked, "facts": self.facts, "choices": list(self.choices)}


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
    return replace(decided, recipe=as_written(for_model_kind(decided.recipe, None)))


def fitted(recipe: Recipe, *, tied: bool | None = None) -> Recipe:
    """Return a recipe with phases as its source's kind of model goes through them.

    Args:
        recipe: with phases.
        tied: whether the source's output projection is its word embeddings; None looks at it.
    """
    tied = is_source_tied(recipe) if tied is None else tied
    family = family_of(config_of(recipe.source).model_type)
    return as_written(for_model_kind(recipe, family, tied=tied))


def decide(asked: Recipe, *, processes: int = 1, download: bool = True) -> Completed:
    """Return a recipe with its phases, which have yet to be `fitted`.

    The arguments are those of `complete`.

    Raises:
        LingraftError: as `complete`.
    """
    plain, source = asked_of(asked), asked.source
    if not is_auto(asked):
        return Completed(asked, plain)
    if not (download or _is_here(source)):
        raise RecipeError(
            f"source '{source.model}': is not on this machine, and decides what the recipe leaves "
            f"open; download it first (hf download {source.model} config.json)"
        )
    tied, config = is_source_tied(asked), config_of(source)
    facts, notes = facts_of(asked, config, tied=tied, processes=processes)
    choices = [_choice(asked, one) for one in defaults.defaults(facts)]
    recipe = _with(asked, choices)
    check_layers(family_of(config.model_type), config.to_dict(), recipe.graft)
    if not any(learns_vectors(recipe.embeddings, name) for name in recipe.embeddings.initializers):
        choices = [one for one in choices if not one["key"].startswith("embeddings.vector_")]
        recipe = _with(asked, choices)
    if facts.tokens < FEWEST_TOKENS:
        notes.append(f"the budget is small: about {facts.tokens:,.0f} tokens of training")
    return Completed(recipe, plain, asdict(facts), tuple(choices), tuple(notes))


def _is_here(source: Source) -> bool:
    return source.model is None or local_folder(source) is not None


def asked_of(asked: Recipe) -> dict[str, Any]:
    """Return what a recipe asks for, as plain data by which it is known again."""
    plain = asked.model_dump(mode="json", exclude_unset=True) | {"seed": asked.seed}
    return {key: value for key, value in plain.items() if value not in (None, {}, [])}


def _choice(asked: Recipe, default: Default) -> dict[str, Any]:
    """Return what is chosen for a key: what the recipe gives itself goes before."""
    name, _, key = default.key.partition(".")
    section = getattr(asked, name, None)
    if section is not None and key in section.model_fields_set:
        value = section.model_dump(mode="json")[key]
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
    recipe = with_phases(expand(asked.model_copy(update=update)))
    phases = (
        phase.model_copy(update={OF_PHASES: _filled(phase.validation, looks)})
        for phase in recipe.phases
    )
    return recipe.model_copy(update={"phases": tuple(phases)})


def _filled(section: S, values: dict[str, Any]) -> S:
    """Return a section with these values where it gives none."""
    return type(section).model_validate(values | section.model_dump(exclude_unset=True))
