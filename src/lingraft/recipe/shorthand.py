"""The short form of a recipe: what the options of `lingraft adapt` and of `lingraft.adapt` say."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from lingraft.errors import RecipeError
from lingraft.recipe.methods import recipe_from
from lingraft.recipe.streams import named_texts

if TYPE_CHECKING:
    from lingraft.recipe import Recipe

Paths = str | Path | Sequence[str | Path]
NEEDED = ("source", "text", "language")


class ShortForm(TypedDict, total=False):
    """What `lingraft.adapt` takes in the place of a recipe, as `lingraft adapt` does.

    Attributes:
        source: the source model: a folder, a Hub id or a name of `lingraft list models`.
        text: files, folders or hub:DATASET; of several languages a dict of them by language code,
            without `language`.
        language: of the text, a BCP 47 code such as "ko".
        method: "xpt" by default; `lingraft list methods`.
        preset: a paper's hyper-parameters; the method's own by default.
        vocab_size: pieces of the new vocabulary.
        steps: optimiser steps over all phases.
        learning_rate: its peak.
        batch_tokens: tokens of one step.
        lexicons: dictionaries, for initialisers and methods that read some.
        baselines: methods to train on the same budget, to compare.
        seed: of weights, order and masks.
    """

    source: str | Path | None
    text: Paths | Mapping[str, Paths]
    language: str
    method: str | None
    preset: str | None
    vocab_size: int | None
    steps: int | None
    learning_rate: float | None
    batch_tokens: int | None
    lexicons: Sequence[str | Path] | None
    baselines: Sequence[str] | None
    seed: int | None


def tables(form: ShortForm, texts: dict[str, Any]) -> dict[str, Any]:
    """The tables of a recipe that a short form stands for.

    Args:
        form: what was given.
        texts: the tables that its texts stand for (`named_texts`).
    """
    source = form.get("source")
    return {
        "source": {"model": None if source is None else str(source)},
        **texts,
        "tokenizer": _given(vocab_size=form.get("vocab_size")),
        "method": _given(
            name=form.get("method"),
            preset=form.get("preset"),
            budget=_counted(form.get("steps"), "steps", "value"),
            learning_rate=form.get("learning_rate"),
            batch=_counted(form.get("batch_tokens"), "tokens", "size"),
        ),
        "resources": _given(lexicons=[str(path) for path in form.get("lexicons") or ()]),
        "baselines": [{"method": name} for name in form.get("baselines") or ()],
    }


def recipe_of(form: ShortForm, out: str | Path | None, settings: Sequence[str] = ()) -> Recipe:
    """The recipe that the arguments of `lingraft.adapt` stand for.

    Args:
        form: what was given.
        out: the run's folder, whose name becomes that of the recipe.
        settings: overrides such as "phases.0.budget.value=10".

    Raises:
        RecipeError: an argument is unknown, missing or wrong.
    """
    for name in form:
        if name not in ShortForm.__annotations__:
            near = difflib.get_close_matches(name, ShortForm.__annotations__, 1)
            hint = f"did you mean {near[0]}=?" if near else "see help(lingraft.adapt)"
            raise RecipeError(f"adapt: there is no argument {name}=; {hint}")
    text = form.get("text")
    several = isinstance(text, Mapping)
    missing = [
        f"{name}=" for name in NEEDED if not form.get(name) and not (several and name == "language")
    ]
    if missing:
        raise RecipeError(
            f"adapt: give a recipe, or source=, text= and language=; missing: {', '.join(missing)}"
        )
    if several and form.get("language"):
        raise RecipeError("adapt: text= names its languages; leave language= out")
    if out is None:
        raise RecipeError("adapt: name the run's folder, for example out='runs/ko'")
    seed = form.get("seed")
    named = {"name": Path(out).resolve().name or "run"} | _given(seed=seed)
    data = named | tables(form, _texts(text, form.get("language")))
    return recipe_from(data, list(settings), "lingraft.adapt")


def _texts(text: Any, language: str | None) -> dict[str, Any]:
    if isinstance(text, Mapping):
        return named_texts([f"{code}={path}" for code in text for path in _paths(text[code])], None)
    return named_texts(_paths(text), language)


def _paths(text: Paths) -> list[str]:
    return [str(path) for path in ([text] if isinstance(text, str | Path) else text)]


def _given(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value not in (None, [])}


def _counted(number: int | None, unit: str, key: str) -> dict[str, Any] | None:
    return None if number is None else {key: number, "unit": unit}
