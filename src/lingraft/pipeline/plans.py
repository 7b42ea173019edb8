"""What a run's plan.json says of its recipe; light, so that a study can read it, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.corpus import streams
from lingraft.corpus.inputs import form
from lingraft.recipe.decoding import decode
from lingraft.rundir import fingerprint, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lingraft.recipe import Recipe
    from lingraft.rundir import Run


PLACES = {"text", "decontaminate"}
"""Keys of a corpus that say where its files lie."""


def completed(run: Run) -> Recipe | None:
    """The complete recipe that a run has made of an open one; None where it has not yet."""
    fixed = read_json(run.plan_path)["fixed"] if run.plan_path.is_file() else None
    return decode(fixed) if fixed else None


def is_undecided(run: Run) -> bool:
    """Whether a run has a plan that does not say all yet."""
    return run.plan_path.is_file() and not read_json(run.plan_path)["fixed"]


def corpus_fingerprint(recipe: Recipe, *, placed: bool = True) -> str:
    """Of what `corpus` makes of the text as it is now; see `streams.inputs` for `placed`."""
    sections = [text.corpus for text in recipe.streams or recipe.texts]
    return fingerprint(*form(*sections), *streams.inputs(recipe, placed=placed))


def has_text_of(run: Run, recipe: Recipe) -> bool:
    """Whether the run was made from the recipe's text, which may have lain elsewhere."""
    stage = run.stage("corpus")
    if stage.fingerprint() is None:
        return False
    return bool(stage.result().get("contents") == corpus_fingerprint(recipe, placed=False))


def differing(
    before: Mapping[str, Any], now: Mapping[str, Any], run: Run, recipe: Recipe
) -> list[str]:
    """The sections in which two recipes differ; that a text lies elsewhere is no difference.

    Args:
        before: the run's recipe, as plain data.
        now: the other one.
        run: whose text is compared where what they say of it differs.
        recipe: the other one.
    """
    keys = [key for key in dict.fromkeys((*now, *before)) if before.get(key) != now.get(key)]
    if not {"corpus", "streams"}.intersection(keys) or not has_text_of(run, recipe):
        return keys
    return [key for key in keys if _anywhere(before.get(key)) != _anywhere(now.get(key))]


def _anywhere(section: Any) -> Any:
    """What a recipe says of its texts, without where they lie."""
    if isinstance(section, list | tuple):
        return [_anywhere(one) for one in section]
    if not isinstance(section, dict):
        return section
    return {key: _anywhere(value) for key, value in section.items() if key not in PLACES}
