"""What decides a cell's result, as fingerprints that are the same on every machine.

Nothing here depends on absolute paths, times of change or the machine: the source's weights and the
text count by their content. A Hub model or data set counts by its name and revision.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.corpus.cleaning import evaluations
from lingraft.corpus.readers import documents, parallel
from lingraft.corpus.readers.lines import reading_errors
from lingraft.pretrained.checkpoints import folder_of
from lingraft.recipe.methods import settled
from lingraft.rundir import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lingraft.recipe import Recipe, Stream

FORMAT = 1
"""Part of every fingerprint; raise it when the same recipe gives other results. Values that a
recipe leaves at their defaults are not part of it, so that a new key changes no fingerprint."""
NOT_DECISIVE = {"name", "baselines", "training", "export"}
"""Names, the use of the machine, and what only other things read."""
SOURCE_FILES = (".json", ".safetensors", ".bin", ".txt", ".model")
WITHOUT_RESOURCES = ("random", "random-statistics", "match", "mean")
"""Initialisers that read nothing of [resources]."""
CHUNK = 1 << 20


class Identity:
    """Fingerprints of cells and of what they share; reads each file once."""

    def __init__(self) -> None:
        self.digests: dict[Path, str] = {}

    def cell(self, recipe: Recipe) -> str:
        """Of everything that decides the result of training and evaluating this recipe.

        Raises:
            DataError: a file that the recipe names is not there.
        """
        plain = self._plain(recipe)
        plain["method"] = recipe.method.name
        plain.get("evaluation", {}).pop("samples", None)
        if recipe.graft.embeddings in WITHOUT_RESOURCES:
            plain.pop("resources", None)
        else:
            plain["resources"] = self._resources(recipe)
        return fingerprint(FORMAT, plain)

    def corpus(self, recipe: Recipe) -> str:
        """Of what the corpus stage makes."""
        plain = self._plain(recipe)
        if recipe.streams:
            return fingerprint(FORMAT, plain["streams"])
        return fingerprint(FORMAT, plain["language"], plain["corpus"])

    def tokenizer(self, recipe: Recipe) -> str:
        """Of what the corpus and the tokenizer stage make."""
        plain = self._plain(recipe)
        return fingerprint(FORMAT, self.corpus(recipe), plain.get("tokenizer"), plain["source"])

    def _plain(self, recipe: Recipe) -> dict[str, Any]:
        """What differs from the defaults, with contents in place of paths."""
        whole = settled(recipe).model_copy(update={"graft": recipe.graft.decisive})
        plain = whole.model_dump(mode="json", exclude_defaults=True, exclude=NOT_DECISIVE)
        for stream, written in zip(recipe.texts, plain.get("streams", [plain]), strict=True):
            written["corpus"]["text"] = self._stream(stream)
            if stream.corpus.decontaminate:
                found = evaluations.files_of(stream.corpus.decontaminate)
                written["corpus"]["decontaminate"] = [self._file(path) for path in found]
        if recipe.source.model is not None:
            plain["source"] = self._source(recipe.source.model, recipe.source.revision)
        return plain

    def _resources(self, recipe: Recipe) -> dict[str, Any]:
        section = recipe.resources
        plain = section.model_dump(mode="json", exclude_defaults=True)
        for key in ("lexicons", "parallel"):
            if key in plain:
                plain[key] = [self._file(Path(name).expanduser()) for name in plain[key]]
        for key in ("source_vectors", "target_vectors"):
            if key in plain:
                plain[key] = self._file(Path(plain[key]).expanduser())
        if "source_text" in plain:
            plain["source_text"] = self._texts(section.source_text)
        return plain

    def _stream(self, stream: Stream) -> list[str]:
        if stream.pair is None:
            return self._texts(stream.corpus.text)
        return [
            self._file(path)
            for path in parallel.files(stream.corpus.text, parallel.Layout(*stream.pair))
        ]

    def _texts(self, names: Iterable[str]) -> list[str]:
        return [
            source.name if source.path is None else self._file(source.path)
            for source in documents.resolve(names)
        ]

    def _source(self, name: str, revision: str | None) -> Any:
        folder = folder_of(name)
        if folder is None:
            return {"model": name, "revision": revision}
        files = sorted(path for path in folder.iterdir() if path.suffix in SOURCE_FILES)
        return [[path.name, self._file(path)] for path in files if path.name != "done.json"]

    def _file(self, path: Path) -> str:
        """SHA-256 of a file's content."""
        key = path.resolve()
        if key not in self.digests:
            digest = hashlib.sha256()
            with reading_errors(path), path.open("rb") as file:
                while chunk := file.read(CHUNK):
                    digest.update(chunk)
            self.digests[key] = digest.hexdigest()
        return self.digests[key]
