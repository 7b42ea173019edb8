"""Count what a user should be told of a text that is kept as it is, and say it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lingraft.corpus.cleaning.clean import WRONG_SCRIPT
from lingraft.corpus.cleaning.scripts import letters_by_script

if TYPE_CHECKING:
    from collections.abc import Iterable

NUMBERED = re.compile(r"\s*\d+\t")
ENDED = re.compile(r"[.!?…:;。！？؟۔।]['\"”’»」』)\]]*\s*\Z")
WIDTHS = range(30, 121)
"""Characters after which text is wrapped."""
SPREAD = 8
"""Most wrapped lines are shorter than their width by fewer characters: a word that did not fit."""
LEAST = 0.05
"""Smaller shares of lines and sentences are not told."""
WRAPPED, STEEP = 0.25, 1.5
"""Share of the lines that are nearly as long as the longest and end no sentence, and how many more
such long lines there are than somewhat shorter ones."""
LONGER = 0.02
"""Share of the lines that may be longer than the width."""
RARER = 0.02
"""Share of the rarer form of a letter; other languages' words bring a few."""
FORMS = ("şș", "ţț", "ŞȘ", "ŢȚ", "يی", "كک", "əǝ")
"""Letters that are typed with two characters, which Unicode's normal forms keep apart."""


@dataclass
class Notices:
    """Counts of lines as they were read, and of letters."""

    lines: Counter[str] = field(default_factory=Counter)
    """All, and those that begin with a number and a TAB."""
    lengths: Counter[str] = field(default_factory=Counter)
    """Characters of lines."""
    unended: Counter[str] = field(default_factory=Counter)
    """Characters of lines that end no sentence."""
    scripts: Counter[str] = field(default_factory=Counter)
    """Letters by script, of sentences that are dropped for it."""
    letters: Counter[str] = field(default_factory=Counter)
    """Those of `FORMS` in sentences that are kept."""

    @classmethod
    def of(cls, plain: dict[str, dict[str, int]]) -> Notices:
        """Take what was counted elsewhere, as `vars` gives it."""
        return cls(**{name: Counter(counts) for name, counts in plain.items()})

    def read(self, text: str) -> None:
        """Count the lines of a text as it was read."""
        for line in text.splitlines():
            if length := min(len(line.strip()), WIDTHS.stop):
                self.lines["all"] += 1
                self.lines["numbered"] += NUMBERED.match(line) is not None
                self.lengths[str(length)] += 1
                self.unended[str(length)] += ENDED.search(line) is None

    def sort(self, kept: Iterable[str], wrong_script: Iterable[str]) -> None:
        """Count the letters of sentences, kept or dropped for their script."""
        text = "".join(kept)
        self.letters.update({letter: n for letter in "".join(FORMS) if (n := text.count(letter))})
        self.scripts.update(letters_by_script("".join(wrong_script)))

    def told(self, result: dict[str, Any]) -> list[str]:
        """Say what was found, a line each.

        Args:
            result: of the corpus stage.
        """
        return [*self._numbers(), *self._wrapping(), *self._scripts(result), *self._letters()]

    def _numbers(self) -> Iterable[str]:
        if (share := self.lines["numbered"] / max(self.lines["all"], 1)) >= LEAST:
            yield (
                f"{share:.0%} of the lines begin with a number and a TAB, which stay in the text; "
                "take them off: cut -f2- FILE > NEW"
            )

    def _wrapping(self) -> Iterable[str]:
        total = max(self.lines["all"], 1)
        longer = total
        for width in range(1, WIDTHS.stop):
            longer -= self.lengths[str(width)]
            if longer <= LONGER * total:
                break
        near = range(width - SPREAD + 1, width + 1)
        long, shorter = (sum(self.lengths[str(n - less)] for n in near) for less in (0, SPREAD))
        share = sum(self.unended[str(n)] for n in near) / total
        if width in WIDTHS and share >= WRAPPED and long > STEEP * shorter:
            yield (
                f"{share:.0%} of the lines end at {near.start} to {width} characters within a "
                "sentence: text that was wrapped is cut there; put each paragraph on one line: "
                "perl -00 -lpe 's/\\s*\\n/ /g' FILE > NEW"
            )

    def _scripts(self, result: dict[str, Any]) -> Iterable[str]:
        share = result["dropped"].get(WRONG_SCRIPT, 0) / max(result["sentences_in"], 1)
        if share >= LEAST:
            found = [name for name, _ in self.scripts.most_common(2)]
            names = ", ".join(f'"{name}"' for name in (*result["scripts"], *found[:1]))
            yield (
                f"{share:.0%} of the sentences are dropped as not in "
                f"{'/'.join(result['scripts'])} but in {'/'.join(found) or 'no script'}; if they "
                f"are of the language, set corpus.scripts = [{names}]"
            )

    def _letters(self) -> Iterable[str]:
        both = []
        for one, other in map(tuple, FORMS):
            total = self.letters[one] + self.letters[other]
            share = min(self.letters[one], self.letters[other]) / max(total, 1)
            if share >= RARER:
                both.append(f"{_named(one)} and {_named(other)} ({share:.0%} are the rarer)")
        if both:
            yield (
                "letters are stored in two ways, so that the vocabulary learns words twice: "
                f"{', '.join(both)}; write one: sed 's/x/y/g' FILE > NEW"
            )


def _named(letter: str) -> str:
    return f"{letter} (U+{ord(letter):04X})"
