"""What decides a cell's result, as fingerprints that are the same on every machine.

Nothing here depends on absolute paths, times of change or the machine: the source's weights and the
text count by their content. A Hub model or data set counts by its name and revision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.corpus.inputs import digests, file_digest, texts
from lingraft.corpus.streams import contents_of
from lingraft.paths import path_of
from lingraft.pretrained.checkpoints import folder_of, named_tokenizer, named_weights
from lingraft.recipe.embeddings import FROM_OUTSIDE
from lingraft.recipe.methods import as_written
from lingraft.rundir import FORMAT, checkpoint_digests, fingerprint

if TYPE_CHECKING:
    from lingraft.recipe import Embeddings, Recipe

NOT_DECISIVE = {"name", "baselines", "hardware", "export"}
"""Names, the use of the machine, and what only other things read."""
SHOWN = "samples"
"""Of [evaluation]: how many texts are shown."""
WITHOUT_RESOURCES = {"random", "random-statistics", "match", "mean", "first-piece"}
"""Initializers that read nothing of [embeddings]."""


def cell(recipe: Recipe) -> str:
    """Of everything that decides the result of training and evaluating this recipe.

    Raises:
        DataError: a file that the recipe names is not there.
    """
    plain = _plain(recipe)
    plain["training"] = recipe.training.method
    plain.get("evaluation", {}).pop(SHOWN, None)
    plain["embeddings"] = _embeddings(recipe.embeddings.decisive)
    return fingerprint(FORMAT["study"], plain)


def decides(key: str) -> bool:
    """Whether a key of a recipe, written with dots, can change a cell's result."""
    return key.partition(".")[0] not in NOT_DECISIVE and key != f"evaluation.{SHOWN}"


def corpus(recipe: Recipe) -> str:
    """Of what the corpus stage makes."""
    plain = _plain(recipe)
    if recipe.streams:
        return fingerprint(FORMAT["study"], plain["streams"])
    return fingerprint(FORMAT["study"], plain["language"], plain["corpus"])


def tokenizer(recipe: Recipe) -> str:
    """Of what the corpus and the tokenizer stage make."""
    plain = _plain(recipe)
    return fingerprint(FORMAT["study"], corpus(recipe), plain.get("tokenizer"), plain["source"])


def _plain(recipe: Recipe) -> dict[str, Any]:
    """What differs from the defaults, with contents in place of paths."""
    whole = as_written(recipe).model_copy(update={"embeddings": recipe.embeddings.decisive})
    plain = whole.model_dump(mode="json", exclude_defaults=True, exclude=NOT_DECISIVE)
    for stream, written in zip(recipe.texts, plain.get("streams", [plain]), strict=True):
        written["corpus"]["text"] = contents_of(stream)
        if stream.corpus.decontaminate:
            written["corpus"]["decontaminate"] = digests(stream.corpus.decontaminate)
    if recipe.source.model is not None:
        folder = folder_of(recipe.source.model)
        plain["source"] = (
            {"model": recipe.source.model, "revision": recipe.source.revision}
            if folder is None
            else checkpoint_digests(folder)
        )
    if recipe.tokenizer.model is not None:
        plain["tokenizer"] = fingerprint(*named_tokenizer(recipe.tokenizer))
    for written in plain.get("phases", ()):
        if "teacher" in (distil := written.get("distil") or {}):
            distil["teacher"] = named_weights(distil["teacher"])
    if recipe.evaluation.kept:  # under the key that committed rows count it by
        plain["evaluation"] |= {"kept": None, "choices": [texts(recipe.evaluation.kept)]}
    return plain


def _embeddings(section: Embeddings) -> dict[str, Any]:
    plain = section.model_dump(mode="json", exclude_defaults=True)
    if WITHOUT_RESOURCES.issuperset(section.initializers):
        return {key: value for key, value in plain.items() if key not in FROM_OUTSIDE}
    for key, value in plain.items():
        if key == "lexicons":
            plain[key] = [file_digest(path_of(name)) for name in value]
        elif key in ("source_vectors", "target_vectors"):
            plain[key] = file_digest(path_of(value))
        elif key == "source_text":
            plain[key] = texts(section.source_text)
    return plain
