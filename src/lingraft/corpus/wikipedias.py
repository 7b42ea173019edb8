"""How the articles of Wikipedia are spread over its languages (Lee et al. 2021, Figure 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lingraft.corpus.readers.lines import Reading, text_lines
from lingraft.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

MAX_LINE_BYTES = 1 << 16
TOP = 10


@dataclass(frozen=True)
class Wikipedias:
    """Languages and their numbers of articles, most first.

    Attributes:
        articles: by language code.
    """

    articles: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.articles.values())

    @property
    def top_share(self) -> float:
        """Share of all articles that the ten largest have together."""
        return sum(list(self.articles.values())[:TOP]) / self.total

    def rank(self, language: str) -> int | None:
        """The place of a language, from 1; None where it has no Wikipedia."""
        names = list(self.articles)
        return names.index(language) + 1 if language in self.articles else None

    def share(self, language: str) -> float:
        """A language's share of all articles."""
        return self.articles.get(language, 0) / self.total


def read(path: Path) -> Wikipedias:
    """Read a TSV of language code and number of articles; its first line may be a heading.

    Raises:
        DataError: the file cannot be read, a line is something else, or there is no article.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file; --wikipedias takes a TSV of language and articles")
    found: dict[str, int] = {}
    for number, line in enumerate(text_lines(path, MAX_LINE_BYTES, Reading()), 1):
        cells = [cell.strip() for cell in line.split("\t")]
        digits = cells[1].replace(",", "") if len(cells) > 1 else ""
        if digits.isascii() and digits.isdigit():
            found[cells[0]] = found.get(cells[0], 0) + int(digits)
        elif line.strip() and number > 1:
            raise DataError(
                f"{path}: line {number} is no language code and number with a tab between; "
                "write for example ko TAB 650000"
            )
    if not sum(found.values()):
        raise DataError(f"{path}: holds no article; write a language code and a number a line")
    return Wikipedias(dict(sorted(found.items(), key=lambda item: (-item[1], item[0]))))
