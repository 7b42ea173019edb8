"""A language joins a run that exists: the recipe of the run that goes on from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.errors import RecipeError
from lingraft.recipe.run import UNSIZED, Tokenizer
from lingraft.recipe.streams import standard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.recipe import Recipe, Stream

METHOD = "join"
FEWEST = 32
KEPT_OF_THE_TOKENIZER = {
    "normalization", "character_coverage", "max_train_sentences", "max_tokens", "language_code",
}  # fmt: skip


def joined(
    theirs: Recipe,
    model: str,
    new: Sequence[dict[str, Any]],
    *,
    masked: bool = True,
    pieces: int | None = None,
) -> dict[str, Any]:
    """Return plain data of a recipe in which new languages join those of a finished run.

    The source is the run's model. Its vocabulary is extended by pieces of the new languages' text
    alone. Each of these languages gets as many as one of those that the run's own pieces were
    learnt from has on average. The old languages' text is drawn beside the new one's, so that they
    are not forgotten, and the run's own model is scored on it too, to say whether they were.

    Args:
        theirs: the run's recipe.
        model: the folder of the model that the run exported.
        new: streams of the new languages, as plain data.
        masked: whether the model is a masked one. A causal one is judged beside its source anyway.
        pieces: of the run's model; of a vocabulary that was not trained `vocab_size` says nothing.

    Raises:
        RecipeError: there is no new language, or one is among the run's.
    """
    old = [_named(stream) for stream in theirs.texts]
    codes = {standard(str(stream["language"])) for stream in old}
    if not new or any(standard(str(stream["language"])) in codes for stream in new):
        raise RecipeError(
            "--join: name the text of a language that the run has not yet, as --text sw=sw.txt"
        )
    tokenizer = theirs.tokenizer.model_dump(mode="json", include=KEPT_OF_THE_TOKENIZER)
    learnt = {
        code
        for stream in theirs.texts
        if not theirs.tokenizer.streams or stream.name in theirs.tokenizer.streams
        for code in stream.languages
    }
    section = theirs.tokenizer
    size = section.vocab_size
    if section.action == "extend":
        size = section.new_pieces
    elif section.action in (*UNSIZED, "use") and pieces is not None:
        size = min(pieces, Tokenizer().vocab_size)
    evaluation = theirs.evaluation.model_dump(mode="json", exclude_defaults=True)
    before = [stream["name"] for stream in old if masked and "/" not in stream["language"]]
    return {
        "source": {"model": model},
        "streams": [*old, *new],
        "tokenizer": tokenizer
        | {
            "action": "add",
            "vocab_size": max(FEWEST, size // len(learnt) * len(new)),
            "streams": [stream["name"] for stream in new],
        },
        "training": {"method": METHOD},
        "hardware": theirs.hardware.model_dump(mode="json", exclude_none=True),
        "evaluation": evaluation | {"before": before},
    }


def _named(stream: Stream) -> dict[str, Any]:
    """Return a stream as plain data; that of the short form is called by its language."""
    plain = stream.model_dump(mode="json", exclude_none=True)
    return plain | {"name": stream.name or stream.language.lower()}
