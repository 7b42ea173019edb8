"""The steps between a document that was read and the sentences that are kept.

Whole documents are repaired, masked and judged first; then they are cut, and every sentence is
judged. What depends on other documents (near-duplicates, duplicates) is not decided here, so that
each document can be cleaned on its own, in any process.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.corpus.cleaning import clean, personal, repair, repetition, scripts, sentences
from lingraft.corpus.cleaning.decontamination import Evaluations
from lingraft.corpus.cleaning.evaluations import texts_of
from lingraft.corpus.cleaning.language_id import LanguageIdentifier
from lingraft.corpus.readers.lines import SAMPLE_CHARACTERS, SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from lingraft import recipe
    from lingraft.corpus.readers.documents import Document


@dataclass
class Tally:
    """What was dropped or changed, and a few examples of each.

    Attributes:
        dropped: documents or sentences, by reason.
        changed: documents with a repaired encoding; addresses and numbers masked, by kind.
        samples: for each reason the first few texts that were dropped for it, cut short.
    """

    dropped: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    samples: dict[str, list[str]] = field(default_factory=dict)

    def drop(self, reason: str, text: str) -> None:
        """Count one thing that is left out."""
        self.dropped[reason] += 1
        self.show(reason, text)

    def show(self, reason: str, text: str) -> None:
        """Keep an example, if there are not enough yet."""
        examples = self.samples.setdefault(reason, [])
        if len(examples) < SAMPLES:
            examples.append(text[:SAMPLE_CHARACTERS])


def add(total: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add counts, in tables or alone, and the first few examples to those of other parts."""
    for name, value in more.items():
        if isinstance(value, Mapping):
            add(total.setdefault(name, {}), value)
        elif isinstance(value, list):
            total[name] = [*total.get(name, ()), *value][:SAMPLES]
        else:
            total[name] = total.get(name, 0) + value


def cleaned(
    documents: Iterable[Document], section: recipe.Corpus, tally: Tally
) -> Iterator[Document]:
    """Documents with what the recipe asks to be done to whole ones.

    Masking comes before what shows a sample of what it drops.

    Args:
        documents: changed in place.
        section: what is asked for.
        tally: gets what was changed or left out.
    """
    for document in documents:
        if section.repair_encoding:
            document.text, changed = repair.repair(document.text)
            tally.changed += Counter({repair.REPAIRED: int(changed)})
        if section.mask_personal_data:
            document.text, masked = personal.mask(document.text)
            tally.changed += masked
        reason = ""
        if section.repetition is not None:
            reason = repetition.reason(document.text, section.repetition)
        if reason:
            tally.drop(reason, document.text)
        else:
            yield document


def mostly_lost(
    lost: NDArray[np.bool_],
    sizes: NDArray[np.int64],
    owners: NDArray[np.int64],
    documents: int,
) -> NDArray[np.bool_]:
    """Which documents go for what is wrong with their sentences, where they are kept whole.

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


def _of_documents(
    codes: NDArray[np.int8], sizes: NDArray[np.int64], owners: NDArray[np.int64]
) -> NDArray[np.int8]:
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
    """Cuts documents into sentences and says which of them are not worth keeping.

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
        self.split = sentences.splitter(language, split_sentences=section.split_sentences)
        self.identifier: LanguageIdentifier | None = None
        self.evaluations: Evaluations | None = None
        if section.identify_language:
            self.identifier = LanguageIdentifier(language, section.min_language_probability)
        if section.decontaminate:
            texts = texts_of(section.decontaminate)
            if section.mask_personal_data:  # what is compared with them is masked
                texts = (
                    form for text in texts for form in dict.fromkeys((text, personal.mask(text)[0]))
                )
            self.evaluations = Evaluations(texts, self.split)

    @property
    def mix(self) -> dict[str, int]:
        """Sentences by the language that the model takes them for, if it is asked."""
        return dict(self.identifier.mix) if self.identifier is not None else {}

    def codes(
        self, batch: Sequence[str], documents: NDArray[np.int64] | None = None
    ) -> NDArray[np.int8]:
        """Why each sentence is dropped, the first reason that applies; 0 for those that are kept.

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
            find = functools.partial(self.identifier.foreign, documents=owners)
            _mark(codes, batch, find, clean.OTHER_LANGUAGE)
        whole = documents if self.section.whole_documents and len(batch) else None
        if self.evaluations is not None and whole is not None:
            contaminated = self.evaluations.contaminated(batch)
            codes[contaminated] = clean.REASONS.index(clean.CONTAMINATED)
        elif self.evaluations is not None:
            _mark(codes, batch, self.evaluations.contaminated, clean.CONTAMINATED)
        if whole is not None:
            return _of_documents(codes, np.array(list(map(len, batch))), whole)
        return codes


def _mark(
    codes: NDArray[np.int8],
    batch: Sequence[str],
    find: Callable[[Sequence[str]], NDArray[np.bool_]],
    reason: str,
) -> None:
    """Give what `find` finds among the sentences that are still kept the code of a reason."""
    indices = np.flatnonzero(codes == 0)
    if len(indices):
        codes[indices[find([batch[i] for i in indices.tolist()])]] = clean.REASONS.index(reason)
