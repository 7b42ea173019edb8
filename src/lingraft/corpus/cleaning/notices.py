"""Count what a user should be told of a text that is kept as it is, and say it."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lingraft.corpus.cleaning.clean import WRONG_SCRIPT
from lingraft.corpus.cleaning.scripts import letters_by_script

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LEAST = 0.05
"""Smaller shares of sentences that are dropped for their script are not told."""
RARER = 0.02
"""Share of the rarer form of a letter; other languages' words bring a few."""
LEAST_ODD = 0.005
"""Smaller shares of sentences with letters of another form are not told."""
EXAMPLES = 3
FORMS = ("şș", "ţț", "ŞȘ", "ŢȚ", "يی", "كک", "əǝ")
"""Letters that are typed with two characters, which Unicode's normal forms keep apart."""
COMPATIBILITY, LOOK_ALIKE = "compatibility", "look-alike"
ODD = {
    COMPATIBILITY: r"[\ufb00-\ufb17\ufb50-\ufdfb\ufe70-\ufefc\uff10-\uff19\uff21-\uff3a"
    r"\uff41-\uff5a\uff66-\uffdc\U0001d400-\U0001d7ff]",
    LOOK_ALIKE: r"(?:[A-Za-z][\u0400-\u04ff]|[\u0400-\u04ff][A-Za-z])",
}
"""Ligatures, Arabic presentation forms, letters and digits of another width or font; Latin and
Cyrillic letters side by side."""
TOLD = {
    COMPATIBILITY: "hold letters of another form or width, as {}: Unicode's NFKC has them as one; "
    'set tokenizer.normalization = "nfkc"',
    LOOK_ALIKE: "hold words of Latin and Cyrillic letters, as {}: letters that look alike make "
    "two words of one; write each word in one script",
}


@dataclass
class Notices:
    """Counts of sentences and letters."""

    sentences: Counter[str] = field(default_factory=Counter)
    """All that are kept, and those with a word of `ODD`."""
    scripts: Counter[str] = field(default_factory=Counter)
    """Letters by script, of sentences that are dropped for it."""
    letters: Counter[str] = field(default_factory=Counter)
    """Those of `FORMS` in sentences that are kept."""
    examples: dict[str, list[str]] = field(default_factory=dict)
    """Words with a letter of `FORMS`, or of `ODD`."""

    @classmethod
    def of(cls, plain: dict[str, dict[str, Any]]) -> Notices:
        """Take what was counted elsewhere, as `vars` gives it."""
        counted = {name: Counter(counts) for name, counts in plain.items() if name != "examples"}
        return cls(**counted, examples=plain.get("examples", {}))

    def sort(self, kept: Sequence[str], wrong_script: Iterable[str]) -> None:
        """Count the letters of sentences, kept or dropped for their script."""
        text = "\n".join(kept)
        self.sentences["all"] += len(kept)
        for letter in "".join(FORMS):
            if count := text.count(letter):
                self.letters[letter] += count
                self._show(letter, letter, text)
        for kind, pattern in ODD.items():
            if re.search(pattern, text):
                self.sentences[kind] += sum(bool(re.search(pattern, one)) for one in kept)
                self._show(kind, pattern, text)
        self.scripts.update(letters_by_script("".join(wrong_script)))

    def _show(self, kind: str, pattern: str, text: str) -> None:
        """Keep a few words as examples."""
        words = (word[0] for word in re.finditer(rf"\w{{0,20}}{pattern}\w{{0,20}}", text))
        shown = dict.fromkeys((*self.examples.get(kind, ()), *itertools.islice(words, 50)))
        self.examples[kind] = list(shown)[:EXAMPLES]

    def told(self, result: dict[str, Any]) -> list[str]:
        """Say what was found, a line each.

        Args:
            result: of the corpus stage.
        """
        return [*self._scripts(result), *self._letters(), *self._odd()]

    def _odd(self) -> Iterable[str]:
        for kind, told in TOLD.items():
            share = self.sentences[kind] / max(self.sentences["all"], 1)
            if share >= LEAST_ODD:
                yield f"{share:.1%} of the sentences " + told.format(", ".join(self.examples[kind]))

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
        for pair in FORMS:
            rarer, more = sorted(pair, key=self.letters.__getitem__)
            share = self.letters[rarer] / max(self.letters[rarer] + self.letters[more], 1)
            if share >= RARER:
                words = ", ".join(self.examples.get(rarer, ()))
                both.append(f"{_named(rarer)} beside {_named(more)} ({share:.0%}, as {words})")
        if both:
            yield (
                "letters are stored in two ways, so that the vocabulary learns words twice: "
                f"{', '.join(both)}; write one: sed 's/x/y/g' FILE > NEW"
            )


def _named(letter: str) -> str:
    return f"{letter} (U+{ord(letter):04X})"
