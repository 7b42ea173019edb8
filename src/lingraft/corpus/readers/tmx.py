"""TMX translation memories, streamed.

Read with expat, which holds one translation unit at a time and fetches nothing. Entities that the
file declares are refused, so that none can be expanded into more than memory holds.

The format: https://www.gala-global.org/tmx-14b
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING
from xml.parsers import expat

from lingraft.corpus.pairs import Pair
from lingraft.corpus.readers.lines import Reading, opened, reading_errors
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lingraft.corpus.readers.parallel import Layout

MISSING_LANGUAGE = "a language missing"
UNIT_TOO_LONG = "translation unit too long"
MAX_UNIT_CHARACTERS = 1_000_000
BITE_BYTES = 1 << 16
# Their content is mark-up of the original document, not text; `hi` and `sub` hold text.
MARKUP = {"bpt", "ept", "it", "ph", "ut"}


class Units:
    """Collects translation units while expat reads.

    Args:
        path: named in messages.
        reading: counts the units that are too long.
    """

    def __init__(self, path: Path, reading: Reading) -> None:
        self.path = path
        self.reading = reading
        self.done: list[dict[str, str]] = []
        self.unit: dict[str, str] | None = None
        self.language = ""
        self.pieces: list[str] = []
        self.depth = {"seg": 0, **dict.fromkeys(MARKUP, 0)}
        self.size = 0
        self.root: str | None = None

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        if self.root is None:
            self.root = name
            if name != "tmx":
                raise DataError(
                    f"{self.path}: is no TMX file (its root is <{name[:40]}>, not <tmx>); "
                    "rename it or leave it out"
                )
        if name in self.depth:
            self.depth[name] += 1
        if name == "tu":
            self.unit, self.size = {}, 0
        elif name == "tuv":
            self.language = attributes.get("xml:lang", attributes.get("lang", "")).lower()
        elif name == "seg":
            self.pieces = []

    def text(self, data: str) -> None:
        """Characters; those of a segment count unless they are mark-up of its document."""
        if not self.depth["seg"] or any(self.depth[name] for name in MARKUP):
            return
        self.size += len(data)
        if self.size <= MAX_UNIT_CHARACTERS:
            self.pieces.append(data)

    def end(self, name: str) -> None:
        """An element ends."""
        if name in self.depth:
            self.depth[name] -= 1
        if self.unit is None:
            return
        if name == "seg" and self.language:
            self.unit.setdefault(self.language, "".join(self.pieces))
            self.pieces = []
        elif name == "tu":
            if self.size > MAX_UNIT_CHARACTERS:
                self.reading.drop(UNIT_TOO_LONG)
            else:
                self.done.append(self.unit)
            self.unit = None

    def refuse_entity(self, name: str, *rest: object) -> None:
        """An entity is declared."""
        raise DataError(
            f"{self.path}: declares the XML entity '{name[:40]}'; entities are not expanded, since "
            "a few lines of them can fill any memory; take the declaration out"
        )


def read_pairs(path: Path, layout: Layout, reading: Reading) -> Iterator[Pair]:
    """The pairs of two languages in a TMX file.

    A language matches its regional forms ('ko' is also ko-KR), the exact form first; of several
    segments of one language in a unit, the first counts.

    Args:
        path: a .tmx file, plain or compressed, in any encoding that its XML declaration names.
        layout: names the languages by their BCP 47 codes.
        reading: counts units, and those that lack a language or are too long.

    Raises:
        DataError: the file is unreadable, cut short, no XML or no TMX, or declares entities.
    """
    for unit in units(path, reading):
        sides = _side(unit, layout.source), _side(unit, layout.target)
        if sides[0] is None or sides[1] is None:
            reading.drop(MISSING_LANGUAGE)
        else:
            yield Pair(sides[1], sides[0])


def units(path: Path, reading: Reading) -> Iterator[dict[str, str]]:
    """Every translation unit: its first segment by language (in lower case).

    Raises:
        DataError: as `read_pairs`.
    """
    collected = Units(path, reading)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = collected.start
    parser.EndElementHandler = collected.end
    parser.CharacterDataHandler = collected.text
    parser.EntityDeclHandler = collected.refuse_entity
    with reading_errors(path), opened(path, reading) as stream:
        while True:
            bite = stream.read(BITE_BYTES)
            try:
                parser.Parse(bite, not bite)
            except (expat.ExpatError, LookupError, ValueError) as error:
                if isinstance(error, DataError):
                    raise
                yield from collected.done
                raise DataError(
                    f"{path}: broken or cut short after {parser.CurrentByteIndex:,} bytes "
                    f"({error}); copy or download the file again"
                ) from None
            yield from collected.done
            collected.done.clear()
            if not bite:
                return


def _side(unit: dict[str, str], language: str) -> str | None:
    code = language.lower().replace("_", "-")
    forms = [(name.replace("_", "-"), text) for name, text in unit.items()]
    exact = (text for name, text in forms if name == code)
    regional = (text for name, text in forms if name.split("-")[0] == code)
    return next(itertools.chain(exact, regional), None)
