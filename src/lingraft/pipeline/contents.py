"""Whether a run was made from the contents that a recipe names, wherever these lie now."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from lingraft.corpus import streams
from lingraft.corpus.inputs import form
from lingraft.corpus.readers.folders import ending
from lingraft.paths import path_of
from lingraft.pretrained.checkpoints import folder_of
from lingraft.rundir import checkpoint_digests, digest, fingerprint

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lingraft.recipe import Embeddings, Recipe
    from lingraft.rundir import Run


PLACES = {"text", "decontaminate"}
"""Keys of a corpus that say where its files lie."""
RESOURCES = ("lexicons", "source_text", "source_vectors", "target_vectors")
"""Keys of [embeddings] that name files."""


def corpus_fingerprint(recipe: Recipe, *, placed: bool = True) -> str:
    """Of what `corpus` makes of the text as it is now; see `streams.inputs` for `placed`."""
    sections = [text.corpus for text in recipe.streams or recipe.texts]
    return fingerprint(*form(*sections), *streams.inputs(recipe, placed=placed))


def _noted(run: Run, stage: str, key: str) -> str | None:
    """What a finished stage has noted under a key; None of one that is not."""
    made = run.stage(stage)
    return None if made.fingerprint() is None else made.result().get(key)


def has_text_of(run: Run, recipe: Recipe) -> bool:
    """Whether the run was made from the recipe's text, which may have lain elsewhere."""
    noted = _noted(run, "corpus", "contents")
    return noted is not None and noted == corpus_fingerprint(recipe, placed=False)


def named_resources(section: Embeddings) -> dict[str, tuple[str, ...]]:
    """The files and Hub data sets of [embeddings], by the key that names them."""
    given = {key: names for key in RESOURCES if (names := getattr(section, key))}
    return {key: (names,) if isinstance(names, str) else names for key, names in given.items()}


def named_files(section: Embeddings) -> list[str]:
    """Return the files of [embeddings], but for Hub data sets."""
    names = chain.from_iterable(named_resources(section).values())
    return [name for name in names if not name.startswith("hub:")]


def resource_contents(section: Embeddings) -> dict[str, list[list[str]]]:
    """Endings and digests of the files of [embeddings], in their order; of Hub data sets the names.

    By the key that names them.
    """
    return {
        key: [of for name in names for of in _files(name)]
        for key, names in named_resources(section).items()
    }


def _files(name: str) -> list[list[str]]:
    path = path_of(name)
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    return [[ending(file), digest(file)] for file in files if file.is_file()] or [[name]]


def has_resources_of(run: Run, recipe: Recipe) -> bool:
    """Whether the run was grafted with the files of [embeddings], which may have lain elsewhere."""
    noted = _noted(run, "graft", "resources")
    return noted is not None and noted == fingerprint(resource_contents(recipe.embeddings))


def source_fingerprint(recipe: Recipe) -> str:
    """Names the source: its files' contents where it is local, else id and revision."""
    if recipe.source.model is None:
        return fingerprint(recipe.source)
    path = folder_of(recipe.source.model)
    if path is None:
        return fingerprint(recipe.source.model, recipe.source.revision)
    return fingerprint(checkpoint_digests(path))


def has_source_of(run: Run, recipe: Recipe) -> bool:
    """Whether the run was grafted onto the recipe's source, which may have lain elsewhere."""
    noted = _noted(run, "graft", "source")
    return noted is not None and noted == source_fingerprint(recipe)


def differing(
    before: Mapping[str, Any], now: Mapping[str, Any], run: Run, recipe: Recipe
) -> list[str]:
    """The sections in which two recipes differ; that a file lies elsewhere is no difference.

    Args:
        before: the run's recipe, as plain data.
        now: the other one.
        run: whose text, resources or source are compared where what they say of them differs.
        recipe: the other one.
    """
    keys = [key for key in dict.fromkeys((*now, *before)) if before.get(key) != now.get(key)]
    moved: set[str] = set()
    if {"corpus", "streams"}.intersection(keys) and has_text_of(run, recipe):
        moved |= PLACES
    if "embeddings" in keys and has_resources_of(run, recipe):
        moved |= {*RESOURCES}
    if "source" in keys and has_source_of(run, recipe):
        keys.remove("source")
    return [
        key for key in keys if _without(before.get(key), moved) != _without(now.get(key), moved)
    ]


def _without(section: Any, moved: Collection[str]) -> Any:
    """What a recipe says in a section, but for these keys."""
    if isinstance(section, list | tuple):
        return [_without(one, moved) for one in section]
    if not isinstance(section, dict):
        return section
    return {key: _without(value, moved) for key, value in section.items() if key not in moved}
