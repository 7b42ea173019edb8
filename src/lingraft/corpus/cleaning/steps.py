"""Judge the sentences of documents.

What depends on other documents (near-duplicates, duplicates) is not decided here, so that each
document can be cleaned on its own, in any process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lingraft.corpus.cleaning import clean, scripts
from lingraft.corpus.cleaning.decontamination import Evaluations, texts_of
from lingraft.corpus.cleaning.scripts import LanguageIdentifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lingraft import recipe

    Codes = NDArray[np.int8]
    Numbers = NDArray[np.int64]


def mostly_lost(
    lost: NDArray[np.bool_], sizes: Numbers, owners: Numbers, documents: int
) -> NDArray[np.bool_]:
    """Return which documents go for what is wrong with their sentences, where all are kept whole.

    Args:
        lost: bool, an entry a sentence.
        sizes: characters of each sentence.
        owners: the number of each sentence's document.
        documents: how many there are.

    Returns:
        bool, an entry a document; True where sentences with more than half of its text are lost.
    """
    of_lost = np.bincount(owners, sizes * lost, documents)
    return of_lost > np.bincount(owners, sizes, documents) / 2


def _of_documents(codes: Codes, sizes: Numbers, owners: Numbers) -> Codes:
    """Give all sentences of a document the commonest reason for which it goes, or 0 if it stays.

    Sentences that a reader left words out of go by themselves, and count for nothing else.
    """
    missing = clean.REASONS.index(clean.WORDS_MISSING)
    incomplete = codes == missing
    codes, sizes = np.where(incomplete, 0, codes), np.where(incomplete, 0, sizes)
    shape = int(owners[-1]) + 1, len(clean.REASONS)
    counts = np.bincount(owners * shape[1] + codes, minlength=shape[0] * shape[1]).reshape(shape)
    contaminated = clean.REASONS.index(clean.CONTAMINATED)
    reasons = 1 + counts[:, 1:].argmax(1)
    reasons[counts[:, contaminated] > 0] = contaminated
    goes = mostly_lost(codes > 0, sizes, owners, shape[0]) | (reasons == contaminated)
    return np.where(incomplete, missing, (goes * reasons)[owners]).astype(np.int8)


class SentenceFilter:
    """A filter that cuts documents into sentences and tells which are not worth keeping.

    Args:
        section: the limits.
        language: BCP 47 code.

    Attributes:
        scripts: those of the language; none switches that filter off.
        split: cuts a text into normalised sentences.
        identifier: tells languages apart, where the recipe asks for it.

    Raises:
        RecipeError: the language or a script is not valid, or the model does not know the language.
        DataError: an evaluation cannot be read, or a package is missing.
    """

    def __init__(self, section: recipe.Corpus, language: str) -> None:
        self.section = section
        self.scripts = scripts.of_language(language, section.scripts)
        self.split = clean.splitter(language, split_sentences=section.split_sentences)
        self.identifier = LanguageIdentifier(language) if section.identify_language else None
        self.evaluations: Evaluations | None = None
        if section.decontaminate:
            self.evaluations = Evaluations(texts_of(section.decontaminate), self.split)

    @property
    def mix(self) -> dict[str, int]:
        """Return sentences by the language that the model takes them for, if it is asked."""
        return dict(self.identifier.mix) if self.identifier is not None else {}

    def codes(self, batch: Sequence[str], documents: Numbers | None = None) -> Codes:
        """Return why each sentence is dropped, the first reason that applies; 0 for those kept.

        Args:
            batch: normalised sentences, none empty.
            documents: the number of each one's document, which must be whole; None where the
                sentences have nothing to do with each other.

        Returns:
            int8, an index into `clean.REASONS` for each sentence, never that of DUPLICATE.
        """
        codes = clean.reasons(batch, self.section, self.scripts)
        if self.identifier is not None:
            owners = None if documents is None else documents[codes == 0]
            indices = np.flatnonzero(codes == 0)
            mask = self.identifier.foreign([batch[i] for i in indices.tolist()], owners)
            codes[indices[mask]] = clean.REASONS.index(clean.OTHER_LANGUAGE)
        whole = documents if self.section.whole_documents and len(batch) else None
        indices = np.flatnonzero(codes == 0) if whole is None else np.arange(len(batch))
        if self.evaluations is not None and len(indices):
            mask = self.evaluations.contaminated([batch[i] for i in indices.tolist()])
            codes[indices[mask]] = clean.REASONS.index(clean.CONTAMINATED)
        if whole is not None:
            return _of_documents(codes, np.array(list(map(len, batch))), whole)
        return codes
