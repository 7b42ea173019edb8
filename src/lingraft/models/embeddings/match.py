"""Pieces that the source's vocabulary has too keep their embedding: what MetaXLM does."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lingraft.models.embeddings.common import RowPlan
from lingraft.tokenizer.vocabulary import Canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lingraft.models.embeddings.common import Inputs
    from lingraft.tokenizer.vocabulary import Vocabulary

# The accents of Latin, Greek and Cyrillic. Other combining marks are no accents: the voicing mark
# of kana and the vowel signs and viramas of Indic scripts make other syllables.
ACCENTS = re.compile("[\u0300-\u036f]")


def match(inputs: Inputs) -> RowPlan:
    """Copy the rows of pieces that both vocabularies have; draw the others from N(0, 0.02).

    The padding row is zero.

    Pieces are compared in canonical form (word start and bytes, `lingraft.tokenizer.vocabulary`),
    in a cascade of which the first hit wins: exact; NFKC; lower case; without accents, lower case.
    Each of the last three compares the target's normal form with the source's pieces as they are,
    then with theirs in the same normal form; of several source pieces the lowest id wins. Pieces
    that are no whole characters match exactly or not at all.

    Source: MetaXLM (Chi et al. 2021), §3.2.

    Differs from the paper: its "normalized word" is not defined; the cascade is ours. Of
    the marks that NFKD splits off, only the accents of Latin, Greek and Cyrillic (U+0300–U+036F)
    are dropped.
    """
    return RowPlan(find_matches(inputs.source, inputs.target))


def nfkc(text: str) -> str:
    """Return the Unicode compatibility form: "ﬁ" is "fi"."""
    return unicodedata.normalize("NFKC", text)


def lower(text: str) -> str:
    """Return the compatibility form in lower case."""
    return nfkc(text).lower()


def without_accents(text: str) -> str:
    """Return the compatibility form in lower case without accents: "Café" is "cafe"."""
    return lower(ACCENTS.sub("", unicodedata.normalize("NFKD", text)))


STAGES: dict[str, Callable[[str], str]] = {"nfkc": nfkc, "lower": lower, "accents": without_accents}


def normalised(form: Canonical | None, normalise: Callable[[str], str]) -> Canonical | None:
    """Return the form with its text normalised; None where that is nothing or half a character."""
    if form is None:
        return None
    try:
        text = normalise(form.text.decode())
    except UnicodeDecodeError:
        return None
    return Canonical(form.word_start, text.encode()) if text else None


def first_of_each(forms: Iterable[Canonical | None]) -> dict[Canonical, int]:
    """Return the lowest id of each form."""
    found = [(form, index) for index, form in enumerate(forms) if form is not None]
    return dict(reversed(found))


@dataclass(frozen=True)
class Cascade:
    """The source's pieces in the order in which a piece is looked for among them."""

    exact: dict[Canonical, int]
    stages: dict[str, dict[Canonical, int]]
    """For each rule the pieces as they are, and those in the rule's normal form."""

    @classmethod
    def of(cls, source: Vocabulary) -> Cascade:
        exact = source.forms
        stages = {
            rule: first_of_each(normalised(form, normalise) for form in source.canonical) | exact
            for rule, normalise in STAGES.items()
        }
        return cls(exact, stages)

    def find(self, form: Canonical) -> tuple[str, int] | None:
        """Return the rule that hits first and the id of the source piece; None if no rule does."""
        if form in self.exact:
            return "exact", self.exact[form]
        for rule, index in self.stages.items():
            key = normalised(form, STAGES[rule])
            if key is not None and key in index:
                return rule, index[key]
        return None


def find_matches(
    source: Vocabulary, target: Vocabulary, cascade: Cascade | None = None
) -> dict[int, tuple[str, int]]:
    """Return the rule and the matching source piece's id for each target id that has one.

    Args:
        source: vocabulary that is searched.
        target: vocabulary whose pieces are looked up.
        cascade: of the source, where it is made already.
    """
    cascade = cascade or Cascade.of(source)
    matches = find_exact_matches(source, target)
    for target_id in range(target.size):
        hits = map(cascade.find, () if target_id in matches else target.sought(target_id))
        if hit := next(filter(None, hits), None):
            matches[target_id] = hit
    return matches


def find_exact_matches(source: Vocabulary, target: Vocabulary) -> dict[int, tuple[str, int]]:
    """Return the exact matches of `find_matches` only: the same word start and the same bytes.

    Where the source has a piece of the very same spelling, that is the one.
    """
    exact = source.forms
    spelt = {source.pieces[i]: i for i, form in enumerate(source.canonical) if form is not None}
    matches: dict[int, tuple[str, int]] = {}
    for target_id in range(target.size):
        form = next((form for form in target.sought(target_id) if form in exact), None)
        if form is not None:
            twin = spelt.get(target.pieces[target_id], exact[form])
            same = source.canonical[twin] == target.canonical[target_id]
            matches[target_id] = ("exact", twin if same else exact[form])
    return matches
