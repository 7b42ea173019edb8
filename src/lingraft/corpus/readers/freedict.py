"""FreeDict dictionaries in their own form, TEI XML (`.tei`), streamed.

The form: https://github.com/freedict/fd-dictionaries/wiki/FreeDict-HOWTO
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.parsers import expat

from lingraft.corpus.readers.lines import Reading, opened, reading_errors
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator
    from pathlib import Path

NO_TRANSLATION = "entry without a translation"
BITE_BYTES = 1 << 16
MAX_TEXT_CHARACTERS = 10_000
# A translation is `cit type="trans"` (or "translation") with a `quote`, in older files `trans`
# with `tr`.
TRANSLATION_TYPES = {"trans", "translation"}


class Entries:
    """Collects the entries while expat reads.

    Args:
        path: named in messages.
        dropped: counts entries without a translation.
    """

    def __init__(self, path: Path, dropped: Counter[str]) -> None:
        self.path = path
        self.dropped = dropped
        self.done: list[tuple[str, str]] = []
        self.inside: list[tuple[str, str]] = []
        self.pieces: list[str] = []
        self.size = 0
        self.words: list[str] = []
        self.meanings: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        name = name.lower()
        self.inside.append((name, attributes.get("type", "").lower()))
        if name == "entry":
            self.words, self.meanings = [], []
        elif name in ("orth", "quote", "tr"):
            self.pieces, self.size = [], 0

    def text(self, data: str) -> None:
        """Characters."""
        self.size += len(data)
        if self.size <= MAX_TEXT_CHARACTERS:
            self.pieces.append(data)

    def end(self, name: str) -> None:
        """An element ends."""
        name, _ = self.inside.pop()
        names = {element for element, _ in self.inside}
        if name == "orth" and "form" in names and "sense" not in names:
            self.words.append("".join(self.pieces))
        elif (name == "quote" and self._in_translation()) or (name == "tr" and "trans" in names):
            self.meanings.append("".join(self.pieces))
        elif name == "entry":
            if not (self.words and self.meanings):
                self.dropped[NO_TRANSLATION] += 1
            self.done += [(word, meaning) for word in self.words for meaning in self.meanings]

    def _in_translation(self) -> bool:
        """Whether every `cit` around is a translation; those of examples stand within another."""
        kinds = [kind for name, kind in self.inside if name == "cit"]
        return bool(kinds) and TRANSLATION_TYPES.issuperset(kinds)

    def refuse_entity(self, name: str, *rest: object) -> None:
        """An entity is declared."""
        raise DataError(
            f"{self.path}: declares the XML entity '{name[:40]}'; entities are not expanded, since "
            "a few lines of them can fill any memory; take the declaration out"
        )


def read(path: Path, dropped: Counter[str]) -> Iterator[tuple[str, str]]:
    """Headword and translation, a pair each; translations within examples do not count.

    Args:
        path: a .tei file, plain or compressed.
        dropped: counts entries without a translation.

    Raises:
        DataError: the file is unreadable, cut short or no XML, or declares entities.
    """
    entries = Entries(path, dropped)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = entries.start
    parser.EndElementHandler = entries.end
    parser.CharacterDataHandler = entries.text
    parser.EntityDeclHandler = entries.refuse_entity
    with reading_errors(path), opened(path, Reading()) as stream:
        bite = b" "
        while bite:
            bite = stream.read(BITE_BYTES)
            try:
                parser.Parse(bite, not bite)
            except (expat.ExpatError, LookupError) as error:
                raise DataError(
                    f"{path}: broken or cut short after {parser.CurrentByteIndex:,} bytes "
                    f"({error}); copy or download the file again"
                ) from None
            yield from entries.done
            entries.done.clear()
