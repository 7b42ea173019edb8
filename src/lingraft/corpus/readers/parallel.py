"""Readers of parallel text: files in, `Pair`s out.

Formats: TSV (`.tsv`, two columns or those that are named), JSON lines
(`{"translation": {"en": …, "ko": …}}` or the languages as keys), TMX, and Moses (two files
`NAME.en` and `NAME.ko`, named together as `NAME.en` or as `NAME`).

Reading one more format is one function here and one line in `FORMATS`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from lingraft.corpus.pairs import Pair
from lingraft.corpus.readers.lines import (
    BROKEN_JSON,
    BROKEN_UTF8,
    COMPRESSED,
    LINE_TOO_LONG,
    Reading,
    json_value,
    kind,
    opened,
    raw_lines,
    reading_errors,
    text_lines,
)
from lingraft.errors import DataError
from lingraft.paths import path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

FEW_COLUMNS, MISSING_LANGUAGE = "too few columns", "a language missing"
MAX_LINE_BYTES = 10_000_000
MARKUP = {"bpt", "ept", "it", "ph", "ut"}
"""Elements of TMX whose content is mark-up of the original document; `hi` and `sub` hold text."""
XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


@dataclass(frozen=True)
class Layout:
    """How pairs lie in a file.

    Attributes:
        source: language of the source side, as the files write it (BCP 47 or Moses suffix).
        target: of the target side.
        columns: of a TSV file, those of source and target, counted from 0.
        max_line_bytes: longer lines are left out.
    """

    source: str
    target: str
    columns: tuple[int, int] = (0, 1)
    max_line_bytes: int = MAX_LINE_BYTES


def read(names: Iterable[str | Path], layout: Layout, reading: Reading) -> Iterator[Pair]:
    """The pairs of several files, in their order.

    Args:
        names: files; a Moses corpus by either file, by both, or by the name that they share.
        layout: languages and columns.
        reading: counts pairs, what is left out and why, and bytes.

    Raises:
        DataError: a file is missing, of an unknown kind, cut short or broken, or the two files of
            a Moses corpus differ in length.
    """
    for name, found in _found(names, layout).items():
        suffix = kind(found[0])
        if len(found) == 1 and suffix not in FORMATS:
            raise DataError(
                f"{name}: unknown kind of parallel text; allowed: {' '.join(FORMATS)} "
                f"(also with {' '.join(COMPRESSED)}) and Moses pairs "
                f"NAME.{layout.source} NAME.{layout.target}"
            )
        if len(found) == 2:
            pairs = _moses(found[0], found[1], layout, reading)
        else:
            pairs = FORMATS[suffix](found[0], layout, reading)
        for pair in pairs:
            reading.documents += 1
            yield pair


def files(names: Iterable[str | Path], layout: Layout) -> list[Path]:
    """Return the files that `read` will open.

    Raises:
        DataError: one is missing.
    """
    return list(itertools.chain.from_iterable(_found(names, layout).values()))


def _found(names: Iterable[str | Path], layout: Layout) -> dict[str | Path, tuple[Path, ...]]:
    """Return the file of each name, or both of a Moses corpus; those named again are left out.

    Raises:
        DataError: one is missing.
    """
    found: dict[str | Path, tuple[Path, ...]] = {}
    for name in names:
        path = path_of(name)
        own = _moses_files(path, layout) or (path,)
        if not own[0].is_file():
            raise DataError(
                f"{name}: no such file, nor {path.name}.{layout.source} with "
                f"{path.name}.{layout.target} beside it; give files of parallel text"
            )
        if own[0].resolve() not in {paths[0].resolve() for paths in found.values()}:
            found[name] = own
    return found


def _moses_files(path: Path, layout: Layout) -> tuple[Path, Path] | None:
    """Return both files of a Moses corpus that is named by one of them or by their common name."""
    packing = path.suffix if path.suffix.lower() in COMPRESSED else ""
    stem = path.name.removesuffix(packing)
    for language in (layout.source, layout.target):
        stem = stem.removesuffix(f".{language}")
    for packed in dict.fromkeys((packing, "", *COMPRESSED)):
        # with_name refuses a path such as '.'
        left, right = (
            path.parent / f"{stem}.{language}{packed}"
            for language in (layout.source, layout.target)
        )
        if left.is_file() and right.is_file():
            return left, right
    return None


def _moses(source: Path, target: Path, layout: Layout, reading: Reading) -> Iterator[Pair]:
    limit = layout.max_line_bytes
    both = itertools.zip_longest(raw_lines(source, limit), raw_lines(target, limit), fillvalue=...)
    for number, (left, right) in enumerate(both):
        if left is ... or right is ...:
            longer, shorter = (source, target) if right is ... else (target, source)
            raise DataError(
                f"{longer}: goes on after line {number:,}, where {shorter.name} ends; the two "
                "files of a Moses corpus need a line for each other's; get both again"
            )
        if left is None or right is None:
            reading.drop(LINE_TOO_LONG)
            continue
        try:
            yield Pair(right.decode(), left.decode())
        except UnicodeDecodeError:
            reading.drop(BROKEN_UTF8)


def _tsv(path: Path, layout: Layout, reading: Reading) -> Iterator[Pair]:
    left, right = layout.columns
    good = bad = 0
    for line in text_lines(path, layout.max_line_bytes, reading):
        cells = line.split("\t")
        if len(cells) <= max(left, right):
            if line.strip():
                reading.drop(FEW_COLUMNS)
                bad += 1
            continue
        good += 1
        yield Pair(cells[right], cells[left])
    if bad and not good:
        raise DataError(
            f"{path}: no line has the columns {left} and {right} (counted from 0, parted by tabs); "
            "check the file and the columns"
        )


def _json_lines(path: Path, layout: Layout, reading: Reading) -> Iterator[Pair]:
    rows = good = 0
    for line in text_lines(path, layout.max_line_bytes, reading):
        if not line or line.isspace():
            continue
        rows += 1
        try:
            row = json_value(line)
        except (ValueError, RecursionError):
            reading.drop(BROKEN_JSON)
            continue
        sides = _sides(row, layout)
        if sides is None:
            reading.drop(MISSING_LANGUAGE)
            continue
        good += 1
        yield sides
    if rows and not good:
        raise DataError(
            f"{path}: none of its {rows:,} lines is a JSON object with both '{layout.source}' and "
            f"'{layout.target}'; check the file and the languages"
        )


def _sides(row: Any, layout: Layout) -> Pair | None:
    if isinstance(row, dict):
        row = row.get("translation", row)
    if not isinstance(row, dict):
        return None
    source, target = row.get(layout.source), row.get(layout.target)
    return Pair(target, source) if isinstance(source, str) and isinstance(target, str) else None


def _tmx(path: Path, layout: Layout, reading: Reading) -> Iterator[Pair]:
    """Give the pairs of two languages in a TMX file (https://www.gala-global.org/tmx-14b).

    A language matches its regional forms ('ko' is also ko-KR), the exact form first; of several
    segments of one language in a unit, the first counts. A unit is held at a time, nothing fetched.
    """
    try:
        with reading_errors(path), opened(path) as stream:
            events = ET.iterparse(stream, ("start", "end"))
            _, root = next(events)
            if root.tag != "tmx":
                raise DataError(f"{path}: is no TMX file; rename it or leave it out")
            body = root
            for event, element in events:
                if event == "start" and element.tag == "body":
                    body = element
                elif event == "end" and element.tag == "tu":
                    sides = [_segment(element, one) for one in (layout.source, layout.target)]
                    body.clear()
                    if sides[0] is None or sides[1] is None:
                        reading.drop(MISSING_LANGUAGE)
                    else:
                        yield Pair(sides[1], sides[0])
    except (ET.ParseError, LookupError, ValueError, StopIteration) as error:
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


FORMATS: dict[str, Callable[[Path, Layout, Reading], Iterator[Pair]]] = {
    ".tsv": _tsv,
    ".jsonl": _json_lines,
    ".tmx": _tmx,
}
