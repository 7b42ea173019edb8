"""The short form of a recipe: options of `lingraft adapt`, arguments of `lingraft.adapt`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from lingraft.errors import RecipeError
from lingraft.recipe.methods import recipe_from
from lingraft.recipe.run import UNSIZED

if TYPE_CHECKING:
    from lingraft.recipe import Recipe

Paths = str | Path | Sequence[str | Path]


class ShortForm(TypedDict, total=False):
    """What `lingraft.adapt` takes in the place of a recipe, as `lingraft adapt` does.

    Attributes:
        source: the source model: a folder, a Hub id or a name of `lingraft show models`.
        text: files, folders or hub:DATASET; of several languages a dict of them by language code,
            without `language`.
        language: of the text, a BCP 47 code such as "ko".
        method: by default "xpt-sp", with a paper's preset "xpt"; `lingraft show methods`.
        preset: by default the method's own, mostly "auto", what our studies found best.
        vocab_size: pieces of the new vocabulary; with "auto" by the size of the text, else 50,000.
        tokenizer: instead, one that exists: a folder, or the Hub id of a model that has it.
        minutes: budget: time of the whole run.
        hours: budget: the same in hours.
        tokens: budget: tokens of training over all phases, as a number or "5M".
        steps: budget: optimizer steps over all phases.
        learning_rate: its peak; "auto" may let the embeddings learn at a multiple of it.
        batch_tokens: tokens of one step.
        lexicons: dictionaries, for initializers and methods that read some.
        kept: text of the source's language, on which a causal model is scored too.
        baselines: methods to train on the same budget, to compare.
        seed: of weights, order and masks.
    """

    source: str | Path | None
    text: Paths | Mapping[str, Paths]
    language: str
    method: str | None
    preset: str | None
    vocab_size: int | None
    tokenizer: str | Path | None
    minutes: float | None
    hours: float | None
    tokens: float | str | None
    steps: int | None
    learning_rate: float | None
    batch_tokens: int | None
    lexicons: Sequence[str | Path] | None
    kept: Sequence[str | Path] | None
    baselines: Sequence[str] | None
    seed: int | None


def tables(form: ShortForm, texts: dict[str, Any], budget: dict[str, Any] | None) -> dict[str, Any]:
    """The tables of a recipe that a short form stands for.

    Args:
        form: what was given.
        texts: the tables that its texts stand for (`named_texts`).
        budget: the table that its budget stands for; None where it has none.
    """
    source, batch = form.get("source"), form.get("batch_tokens")
    return {
        "source": {"model": None if source is None else str(source)},
        **texts,
        "tokenizer": _tokenizer(form),
        "training": given(
            method=form.get("method"),
            preset=form.get("preset"),
            budget=budget,
            learning_rate=form.get("learning_rate"),
            batch=None if batch is None else {"size": batch, "unit": "tokens"},
        ),
        "embeddings": given(lexicons=[str(path) for path in form.get("lexicons") or ()]),
        "evaluation": given(kept=[str(path) for path in form.get("kept") or ()]),
        "baselines": [{"method": name} for name in form.get("baselines") or ()],
    }


def complete(data: dict[str, Any], assignments: Sequence[str], where: str) -> Recipe:
    """The recipe of these tables.

    Args:
        data: with what `tables` made.
        assignments: overrides such as "phases.0.budget.value=10".
        where: for messages.

    Raises:
        RecipeError: as `recipe_from`; a size of a vocabulary that is not trained.
    """
    recipe = recipe_from(data, assignments, where)
    action = recipe.tokenizer.action
    if action in UNSIZED and "vocab_size" in data["tokenizer"]:
        instead = "set tokenizer.new_pieces" if action == "extend" else "leave it out"
        raise RecipeError(
            f"vocab_size: is of a vocabulary that is trained, and tokenizer.action '{action}' "
            f"takes the source's; {instead}"
        )
    return recipe


def _tokenizer(form: ShortForm) -> dict[str, Any]:
    """The table of a vocabulary's size, or of a tokenizer that exists.

    Raises:
        RecipeError: both are given.
    """
    size, model = form.get("vocab_size"), form.get("tokenizer")
    if model is None:
        return given(vocab_size=size)
    if size is not None:
        raise RecipeError(
            "vocab_size: a tokenizer that exists has its pieces already; leave one of both out"
        )
    return {"action": "use", "model": str(model)}


def given(**values: Any) -> dict[str, Any]:
    """What was given of them."""
    return {key: value for key, value in values.items() if value not in (None, [])}
