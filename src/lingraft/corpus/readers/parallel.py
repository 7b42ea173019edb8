"""Readers of parallel text: files in, `Pair`s out.

Formats: TSV (`.tsv`, two columns or those that are named), JSON lines
(`{"translation": {"en": …, "ko": …}}` or the languages as keys), TMX, and Moses (two files
`NAME.en` and `NAME.ko`, named together as `NAME.en` or as `NAME`).

Reading one more format is one function here and one line in `read`.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from xml.etree import ElementTree as ET

from lingraft.corpus.pairs import Pair
from lingraft.corpus.readers import lines
from lingraft.errors import DataError
from lingraft.files import path_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lingraft.corpus.readers.lines import Counts

FEW_COLUMNS, MISSING_LANGUAGE = "too few columns", "a language missing"
MARKUP = {"bpt", "ept", "it", "ph", "ut"}
"""Elements of TMX whose content is mark-up of the original document; `hi` and `sub` hold text."""
XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"

Languages: TypeAlias = tuple[str, str]
"""Codes of the source and the target side, as the files write them (BCP 47 or Moses suffix)."""


def read(
    names: Iterable[str | Path],
    languages: Languages,
    reading: Counts,
    columns: tuple[int, int] = (0, 1),
) -> Iterator[Pair]:
    """Give the pairs of several files, in their order.

    Args:
        names: files; a Moses corpus by either file, by both, or by the name that they share.
        languages: source and target.
        reading: counts pairs, and what is left out and why.
        columns: of a TSV file, those of source and target, counted from 0.

    Raises:
        DataError: a file is missing, of an unknown kind, cut short or broken, or the two files of
            a Moses corpus differ in length.
    """
    for found in _found(names, languages):
        suffix = lines.kind(found[0])
        sides: Iterator[tuple[Any, Any]]
        if len(found) == 2:
            sides = _moses(found[0], found[1], reading)
        elif suffix == ".tsv":
            sides = _tsv(found[0], columns, reading)
        elif suffix == ".jsonl":
            sides = _json_lines(found[0], languages, reading)
        elif suffix == ".tmx":
            sides = _tmx(found[0], languages)
        else:
            raise DataError(
                f"{found[0]}: unknown kind of parallel text; allowed: .tsv .jsonl .tmx "
                f"(also packed) and Moses pairs NAME.{languages[0]} NAME.{languages[1]}"
            )
        for source, target in sides:
            if isinstance(source, str) and isinstance(target, str):
                reading.documents += 1
                yield Pair(target, source)
            else:
                reading.drop(MISSING_LANGUAGE)


def files(names: Iterable[str | Path], languages: Languages) -> list[Path]:
    """Return the files that `read` will open.

    Raises:
        DataError: one is missing.
    """
    return list(itertools.chain.from_iterable(_found(names, languages)))


def _found(names: Iterable[str | Path], languages: Languages) -> list[tuple[Path, ...]]:
    """Return the file of each name, or both of a Moses corpus, each once.

    Raises:
        DataError: one is missing.
    """
    found: dict[Path, tuple[Path, ...]] = {}
    for name in names:
        path = path_of(name)
        packing = path.suffix if path.suffix.lower() in lines.COMPRESSED else ""
        stem = path.name.removesuffix(packing)
        for language in languages:
            stem = stem.removesuffix(f".{language}")
        own: tuple[Path, ...] = tuple(path.parent / f"{stem}.{x}{packing}" for x in languages)
        if not all(map(Path.is_file, own)):
            own = (path,)
        if not own[0].is_file():
            raise DataError(
                f"{name}: no such file, nor {stem}.{languages[0]}{packing} with "
                f"{stem}.{languages[1]}{packing}; give files of parallel text"
            )
        found.setdefault(own[0].resolve(), own)
    return list(found.values())


def _moses(source: Path, target: Path, reading: Counts) -> Iterator[tuple[str, str]]:
    sides = (lines.raw_lines(path, lines.MAX_LINE_BYTES) for path in (source, target))
    for number, (left, right) in enumerate(itertools.zip_longest(*sides, fillvalue=...)):
        if left is ... or right is ...:
            raise DataError(
                f"{source}, {target.name}: one ends after line {number:,}, the other goes on; "
                "get both again"
            )
        if left is None or right is None:
            reading.drop(lines.LINE_TOO_LONG)
            continue
        try:
            yield left.decode(), right.decode()
        except UnicodeDecodeError:
            reading.drop(lines.BROKEN_UTF8)


def _tsv(path: Path, columns: tuple[int, int], reading: Counts) -> Iterator[tuple[str, str]]:
    for line in filter(str.strip, lines.text_lines(path, reading)):
        cells = line.split("\t")
        if len(cells) > max(columns):
            yield cells[columns[0]], cells[columns[1]]
        else:
            reading.drop(FEW_COLUMNS, line)


def _json_lines(path: Path, languages: Languages, reading: Counts) -> Iterator[tuple[Any, Any]]:
    for line in filter(str.strip, lines.text_lines(path, reading)):
        try:
            row = lines.json_value(line)
        except (ValueError, RecursionError):
            reading.drop(lines.BROKEN_JSON)
            continue
        row = row.get("translation", row) if isinstance(row, dict) else None
        found = row if isinstance(row, dict) else {}
        yield found.get(languages[0]), found.get(languages[1])


def _tmx(path: Path, languages: Languages) -> Iterator[tuple[str | None, str | None]]:
    """Give the pairs of two languages in a TMX file (https://www.gala-global.org/tmx-14b).

    A language matches its regional forms ('ko' is also ko-KR), the exact form first; of several
    segments of one language in a unit, the first counts. A unit is held at a time, nothing fetched.
    """
    try:
        with lines.reading_errors(path), lines.opened(path) as stream:
            body = ET.Element("body")
            for event, element in ET.iterparse(stream, ("start", "end")):
                if event == "start" and element.tag == "body":
                    body = element
                elif event == "end" and element.tag == "tu":
                    yield _segment(element, languages[0]), _segment(element, languages[1])
                    body.clear()
    except (ET.ParseError, LookupError, ValueError) as error:
        raise DataError(
            f"{path}: broken or cut short ({error}); copy or download the file again"
        ) from None


def _segment(unit: ET.Element, language: str) -> str | None:
    code = language.lower().replace("_", "-")
    forms: dict[str, str] = {}
    for side in unit.iter("tuv"):
        name = side.get(XML_LANGUAGE, side.get("lang", "")).lower().replace("_", "-")
        if name and (segment := side.find("seg")) is not None:
            for child in segment.iter():
                if child.tag in MARKUP:
                    tail = child.tail
                    child.clear()
                    child.tail = tail
            forms.setdefault(name, "".join(segment.itertext()))
    regional = (text for name, text in forms.items() if name.split("-")[0] == code)
    return forms.get(code, next(regional, None))
