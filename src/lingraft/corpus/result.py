"""Tell and check what became of a corpus, and what a user must know of its text."""

from __future__ import annotations

import itertools
import logging
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lingraft.corpus.cleaning import clean
from lingraft.corpus.cleaning.scripts import letters_by_script
from lingraft.corpus.split import LEAST, SPLITS
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingraft import recipe

logger = logging.getLogger(__name__)

WRONG_SCRIPT_LIMIT = 0.95
NOT_IN_SUBSET = "not in the subset"
HELD_OUT = "held out as well"
"""In another stream."""
PLACES = "places"
"""Places of a row's sentences in the whole document, where some were left out."""


def log_result(result: dict[str, Any], section: recipe.Corpus) -> None:
    """Log the whole way from documents to splits, one line a fact."""
    read = f"{result['documents']:,}", f"{result['sentences_in']:,}"
    logger.info("corpus: %s documents and %s sentences", *read)
    for reason, count in result["dropped"].items():
        logger.info("corpus: %s left out: %s", f"{count:,}", reason)
        for text in result.get("samples", {}).get(reason, ()):
            logger.debug("corpus: left out: %s: %s", reason, text)
    for kind, count in result["changed"].items():
        logger.info("corpus: %s changed: %s", f"{count:,}", kind)
    for notice in result["notices"]:
        logger.warning("corpus: %s", notice)
    if not section.deduplicate:
        logger.warning("corpus: deduplicate = false: held-out sentences may stand in train, too")
    if result["widened"]:
        logger.info(
            "corpus: the shares give fewer than %d documents to %s, so more are held out",
            *(LEAST, " and ".join(result["widened"])),
        )
    for name, counts in result["splits"].items():
        figures = (f"{counts[key]:,}" for key in ("sentences", "documents", "characters"))
        logger.info("corpus: %s: %s sentences of %s documents, %s characters", name, *figures)


def check_result(result: dict[str, Any], section: recipe.Corpus) -> None:
    """Refuse a corpus that cannot be trained on.

    Raises:
        DataError: nearly all is in another script, or a split that was asked for is empty.
    """
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in result["dropped"].items())
    counts = (
        f"{result['documents']:,} documents, {result['sentences_in']:,} sentences; "
        f"dropped: {dropped or 'none'}"
    )
    wrong = result["dropped"].get(clean.WRONG_SCRIPT, 0)
    if wrong > WRONG_SCRIPT_LIMIT * max(result["sentences_in"], 1):
        raise DataError(
            f"corpus: {wrong:,} of {result['sentences_in']:,} sentences are not in "
            f"{'/'.join(result['scripts'])}, the script of language '{result['language']}' "
            f"({counts}); check language and corpus.text, or set corpus.scripts"
        )
    shares = {"train": 1.0, "valid": section.valid, "test": section.test}
    for name in SPLITS:
        if shares[name] > 0 and not result["splits"][name]["sentences"]:
            mend = (
                "check corpus.text, corpus.where, and the filters in [corpus]"
                if name == "train"
                else f"give more documents or raise corpus.{name}, or say what a document of a "
                '.txt file is (corpus.document = "line"); documents of one id count as one'
            )
            raise DataError(f"corpus: no {name} sentence is left ({counts}); {mend}")


TOLD = 0.05
"""Smaller shares of sentences that are dropped for their script are not told."""
RARER = 0.02
"""Share of the rarer form of a letter; other languages' words bring a few."""
FORMS = ("şș", "ţț", "ŞȘ", "ŢȚ", "يی", "كک", "əǝ")
"""Letters that are typed with two characters, which Unicode's normal forms keep apart."""


@dataclass
class Notices:
    """Counts of letters."""

    scripts: Counter[str] = field(default_factory=Counter)
    """Letters by script, of sentences that are dropped for it."""
    letters: Counter[str] = field(default_factory=Counter)
    """Counts of the letters of `FORMS` in sentences that are kept."""
    examples: dict[str, list[str]] = field(default_factory=dict)
    """Words with a letter of `FORMS`."""

    def add(self, kept: Sequence[str], wrong_script: Iterable[str]) -> None:
        """Count the letters of sentences, kept or dropped for their script."""
        text = "\n".join(kept)
        for letter in "".join(FORMS):
            if count := text.count(letter):
                self.letters[letter] += count
                if letter not in self.examples:
                    found = re.finditer(rf"\w{{0,20}}{letter}\w{{0,20}}", text)
                    shown = dict.fromkeys(word[0] for word in itertools.islice(found, 50))
                    self.examples[letter] = list(shown)[:3]
        self.scripts.update(letters_by_script("".join(wrong_script)))

    def told(self, result: dict[str, Any]) -> list[str]:
        """Say what was found, a line each, of the corpus stage's result."""
        lines = []
        share = result["dropped"].get(clean.WRONG_SCRIPT, 0) / max(result["sentences_in"], 1)
        if share >= TOLD:
            found = [name for name, _ in self.scripts.most_common(2)]
            names = ", ".join(f'"{name}"' for name in (*result["scripts"], *found[:1]))
            lines.append(
                f"{share:.0%} of the sentences are dropped as not in "
                f"{'/'.join(result['scripts'])} but in {'/'.join(found) or 'no script'}; if they "
                f"are of the language, set corpus.scripts = [{names}]"
            )
        both = []
        for pair in FORMS:
            rarer, more = sorted(pair, key=self.letters.__getitem__)
            share = self.letters[rarer] / max(self.letters[rarer] + self.letters[more], 1)
            if share >= RARER:
                words = ", ".join(self.examples.get(rarer, ()))
                named = " beside ".join(f"{one} (U+{ord(one):04X})" for one in (rarer, more))
                both.append(f"{named} ({share:.0%}, as {words})")
        if both:
            lines.append(
                "letters are stored in two ways, so that the vocabulary learns words twice: "
                f"{', '.join(both)}; write one: sed 's/x/y/g' FILE > NEW"
            )
        return lines
