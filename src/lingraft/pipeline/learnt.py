"""What an initializer learns from: text, beside the source, and files of [embeddings]."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from lingraft.corpus import streams
from lingraft.corpus.streams import read_lines
from lingraft.embeddings import INITIALIZERS
from lingraft.paths import path_of
from lingraft.pipeline.contents import RESOURCES, named_files, resource_contents
from lingraft.pipeline.reading import training_text
from lingraft.recipe import Embeddings
from lingraft.recipe.phase import most_sentences
from lingraft.rundir import digest
from lingraft.tokenizer import files as tokenizer_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingraft.recipe import Recipe, Stream
    from lingraft.rundir import Run


def embeddings(recipe: Recipe, *, placed: bool = True) -> list[Any]:
    """How embeddings start, and from which files, as parts of a fingerprint.

    Args:
        recipe: whose [embeddings] are read.
        placed: whether the files' names are part of it, or how they end alone.
    """
    section = recipe.embeddings.decisive
    if not placed:
        rest = section.model_copy(update={key: getattr(Embeddings(), key) for key in RESOURCES})
        return [rest, resource_contents(section)]
    paths = [path_of(name) for name in named_files(section)]
    files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*"))]
    return [section, sorted((str(path), digest(path)) for path in files if path.is_file())]


def share(recipe: Recipe) -> list[Any]:
    """How much of the text an initializer learns from, as parts of a fingerprint."""
    learns = any(INITIALIZERS[name].learns_from_text for name in recipe.embeddings.initializers)
    most = most_sentences(recipe.phases)
    return ["sentences", most] if learns and most is not None else []


def sentences(recipe: Recipe, run: Run) -> Iterator[str]:
    """Give the text that an initializer may learn from: what the phases train on, and no more.

    Of each language at most `embeddings.max_sentences` sentences.
    """
    for stream in recipe.texts:
        yield from islice(_trained_on(recipe, run, stream), recipe.embeddings.max_sentences)


def _trained_on(recipe: Recipe, run: Run, stream: Stream) -> Iterator[str]:
    """Give the sentences of a stream that the phases train on, and no more."""
    most = most_sentences(recipe.phases)
    if most is None:
        corpus = streams.folder_of(run.stage("corpus").path, stream)
        yield from read_lines(corpus / "train.txt")
        return
    folder = run.stage("tokenizer").path
    tokenizer = tokenizer_files.load(str(folder))
    for rows in training_text(folder, stream, most).chunks():
        ids = [row.tolist() for row in rows]
        yield from tokenizer.batch_decode(ids, skip_special_tokens=True)
