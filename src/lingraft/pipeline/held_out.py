"""A run watches its training by held-out text, and is scored on some: none is refused early."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError, RecipeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lingraft.recipe import Recipe, Stream

USES = {"valid": "watches its training by", "test": "is scored on"}


def check_shares(recipe: Recipe) -> None:
    """Refuse a recipe that holds out nothing.

    Raises:
        RecipeError: a share that the run needs is 0.
    """
    for stream in recipe.texts:
        for split in _needed(recipe):
            if not getattr(stream.corpus, split):
                raise RecipeError(f"corpus.{split} = 0: {_lacking(split, stream)}")


def check_text(recipe: Recipe, result: Mapping[str, Any]) -> None:
    """Refuse text without held-out sentences; a corpus that was made before may have none.

    Args:
        recipe: of the run.
        result: of its corpus stage.

    Raises:
        DataError: a split that the run needs is empty.
    """
    for stream in recipe.texts:
        splits = result.get("streams", {}).get(stream.name, result)["splits"]
        for split in _needed(recipe):
            if not splits[split]["sentences"]:
                raise DataError(f"corpus: it holds no {split} sentences: {_lacking(split, stream)}")


def _needed(recipe: Recipe) -> Sequence[str]:
    return ("valid", "test") if recipe.phases else ("test",)


def _lacking(split: str, stream: Stream) -> str:
    of = f" of stream '{stream.name}'" if stream.name else ""
    return (
        f"a run {USES[split]} the {split} text{of}; hold out a share of the documents "
        f"(corpus.{split} = 0.02)"
    )
