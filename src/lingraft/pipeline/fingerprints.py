"""Fingerprints of what a run is made from, by content: files count wherever they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.corpus import streams
from lingraft.corpus.readers.columns import model_parts
from lingraft.corpus.readers.documents import ending
from lingraft.files import path_of
from lingraft.pretrained.checkpoints import folder_of, place_of
from lingraft.recipe.streams import MODEL_PREFIX
from lingraft.rundir import FORMAT, checkpoint_digests, digest, fingerprint

if TYPE_CHECKING:
    from lingraft.recipe import Embeddings, Recipe

RESOURCES = ("lexicons", "source_text", "source_vectors", "target_vectors")
"""Keys of [embeddings] that name files."""


def corpus_fingerprint(recipe: Recipe) -> str:
    """Return the fingerprint of what `corpus` makes of the text as it is now."""
    is_read = any(
        text.corpus.identify_language or any(".xml" in name for name in text.corpus.text)
        for text in recipe.texts
    )
    marks: list[Any] = [FORMAT["read"]] if is_read else []
    names = (name for text in recipe.texts for name in text.corpus.text)
    writers = [model_parts(name)[0] for name in names if name.startswith(MODEL_PREFIX)]
    marks += [model_contents(name) for name in writers]
    return fingerprint(FORMAT["corpus"], *marks, *streams.inputs(recipe))


def model_contents(name: str, revision: str | None = None) -> list[Any]:
    """Return the digests of a model's local files, else its id and revision.

    Of an adapter those of its base and of its own files.
    """
    place = place_of(name, revision)
    folder = folder_of(place.name)
    base = place[:2] if folder is None else (checkpoint_digests(folder),)
    return [*base, *map(checkpoint_digests, place.adapters)]


def source_fingerprint(recipe: Recipe) -> str:
    """Return the fingerprint of the source."""
    if recipe.source.model is None:
        return fingerprint(recipe.source)
    return fingerprint(*model_contents(recipe.source.model, recipe.source.revision))


def named_resources(section: Embeddings) -> dict[str, tuple[str, ...]]:
    """Return the files and Hub data sets of [embeddings], by the key that names them."""
    given = {key: names for key in RESOURCES if (names := getattr(section, key))}
    return {key: (names,) if isinstance(names, str) else names for key, names in given.items()}


def named_files(section: Embeddings) -> list[str]:
    """Return the files of [embeddings], but for Hub data sets."""
    names = (name for names in named_resources(section).values() for name in names)
    return [name for name in names if not name.startswith("hub:")]


def resource_contents(section: Embeddings) -> dict[str, list[list[str]]]:
    """Return endings and digests of the files of [embeddings], by the key that names them.

    In their order; of Hub data sets the names.
    """
    return {
        key: [of for name in names for of in _files(name)]
        for key, names in named_resources(section).items()
    }


def _files(name: str) -> list[list[str]]:
    path = path_of(name)
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    return [[ending(file), digest(file)] for file in files if file.is_file()] or [[name]]
