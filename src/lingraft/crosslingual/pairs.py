"""Sentences and their translations to be found: line n of one side translates line n of the other.

Read are the files of the Tatoeba test sets (Artetxe and Schwenk 2019): `tatoeba.kor-eng.kor` with
`tatoeba.kor-eng.eng`, and tables of two columns such as `eng-kor.tsv`. They measure, so nothing is
repaired or left out: a line that is no pair is an error. No torch here.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import langcodes
from langcodes.tag_parser import LanguageTagError

from lingraft.corpus.readers.lines import COMPRESSED
from lingraft.errors import DataError, RecipeError
from lingraft.paths import path_of
from lingraft.tasks import RETRIEVAL_GROUPS
from lingraft.tasks.sentences import translations

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingraft.tasks.retrieval import Bitext

ENGLISH = ("en", "eng")
CODE = r"[a-z]{2,3}(?:[_-][A-Za-z]{2,8})?"
NAMED = re.compile(rf"(?:.*[._])?({CODE})-({CODE})")
TABLE = ".tsv"
XTREME = RETRIEVAL_GROUPS["tatoeba"].languages
"""XTREME's 36 languages of Tatoeba, which are also those of MetaXLM's figure 3."""
SORTED_LEAST = 20
"""Lines from which alphabetical order is no accident."""


@dataclass(frozen=True)
class Pairs:
    """Translations in one language."""

    language: str
    """As it was asked for, or as the file's name has it."""
    english: tuple[str, ...]
    other: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.english)

    @classmethod
    def of(cls, language: str, bitext: Bitext) -> Pairs:
        """Of a benchmark whose sides are aligned, the second in English."""
        return cls(language, tuple(bitext.target.values()), tuple(bitext.source.values()))

    def first(self, number: int | None) -> Pairs:
        """So many of them; all for None."""
        return Pairs(self.language, self.english[:number], self.other[:number])

    @property
    def english_is_sorted(self) -> bool:
        """Whether the English side is in alphabetical order, as in XTREME's release.

        There the lines do not translate each other, and every accuracy is wrong.
        """
        return len(self) >= SORTED_LEAST and list(self.english) == sorted(self.english)


@dataclass(frozen=True)
class _Place:
    """Where the pairs of a language lie."""

    language: str
    files: tuple[Path, ...]
    """A table, or a file a side."""
    english_first: bool = True


def read(names: Sequence[str], languages: Sequence[str] = ()) -> list[Pairs]:
    """The pairs of some languages.

    Args:
        names: directories, files, or LANGUAGE=FILE with English in the first column.
        languages: of any code (ko, kor); 'xtreme' stands for XTREME's 36; all that are there where
            none is named.

    Raises:
        RecipeError: a language is named twice.
        DataError: a file or a language is not there, or a line is no pair.
    """
    places = [place for name in names for place in _places(name)]
    tags = [place.language for place in places]
    twice = sorted({language for language in tags if tags.count(language) > 1})
    if twice:
        raise DataError(
            f"{', '.join(names)}: pairs of '{twice[0]}' are there twice; name the files that you "
            "mean"
        )
    wanted_codes = codes(languages)
    if not wanted_codes:
        return [_read(place, place.language) for place in places]
    by_place: dict[_Place, str] = {}
    for code in wanted_codes:
        first = by_place.setdefault(_of_language(code, places, names), code)
        if first != code:
            raise RecipeError(
                f"--languages: '{first}' and '{code}' are one language here; name it once"
            )
    return [_read(place, code) for place, code in by_place.items()]


def codes(languages: Sequence[str]) -> list[str]:
    """The languages that are meant; 'xtreme' stands for its 36.

    Raises:
        RecipeError: a language is named twice.
    """
    tags = [code for name in languages for code in (XTREME if name == "xtreme" else (name,))]
    if len(set(tags)) < len(tags):
        again = next(code for code in tags if tags.count(code) > 1)
        raise RecipeError(f"--languages: names '{again}' twice; name each language once")
    return tags


def _places(name: str) -> list[_Place]:
    language, sign, file = name.partition("=")
    if sign and re.fullmatch(CODE, language):
        return [_Place(language, (_existing(path_of(file)),))]
    path = path_of(name)
    if not path.is_dir():
        place = _named(_existing(path))
        if place is None:
            raise DataError(
                f"{name}: its name does not say which language is paired with English; call it "
                f"eng-kor.tsv or tatoeba.kor-eng.kor, or write LANGUAGE={name}"
            )
        return [place]
    places = [place for file in sorted(path.iterdir()) if (place := _named(file)) is not None]
    distinct = list(dict.fromkeys(places))
    if not distinct:
        raise DataError(
            f"{name}: holds no pairs with English; expected are files such as eng-kor.tsv (also "
            "with .gz .xz .zst .bz2) or tatoeba.kor-eng.kor with tatoeba.kor-eng.eng"
        )
    return distinct


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise DataError(f"{path}: no such file; give a file of pairs, or a directory of them")
    return path


def _named(path: Path) -> _Place | None:
    """Where the pairs lie that a file belongs to; None where its name has no such form."""
    packing = path.suffix if path.suffix in COMPRESSED else ""
    stem, ending = Path(path.name.removesuffix(packing)).stem, Path(path.stem).suffix
    ending = ending if packing else path.suffix
    match = NAMED.fullmatch(stem)
    if match is None or path.is_dir():
        return None
    first, second = match.groups()
    if (first in ENGLISH) == (second in ENGLISH):
        return None
    english_first = first in ENGLISH
    language = second if english_first else first
    if ending == TABLE:
        return _Place(language, (path,), english_first)
    if ending.removeprefix(".") not in (first, second):
        return None
    sides = [path.with_name(f"{stem}.{code}{packing}") for code in (first, second)]
    for side in sides:
        if not side.is_file():
            raise DataError(
                f"{path}: {side.name} is not beside it; the two sides of a test set go together"
            )
    return _Place(language, tuple(sides), english_first)


def _of_language(code: str, places: Iterable[_Place], names: Sequence[str]) -> _Place:
    """The pairs of a language: its code, else the same language's (kor, cmn), else none."""
    places = list(places)
    for form in (str, _subtag, functools.partial(_subtag, macro=True)):
        tag = form(code)
        for place in places:
            if form(place.language) == tag:
                return place
    choices = ", ".join(place.language for place in places)
    raise DataError(f"{', '.join(names)}: no pairs of '{code}' with English; there are: {choices}")


def _subtag(code: str, *, macro: bool = False) -> str:
    try:
        return langcodes.standardize_tag(code, macro=macro).partition("-")[0]
    except LanguageTagError:
        return code


def _read(place: _Place, language: str) -> Pairs:
    first, second, _ = zip(*translations(place.files), strict=True)
    return Pairs(language, *((first, second) if place.english_first else (second, first)))
