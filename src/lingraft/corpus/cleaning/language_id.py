"""Identify the language of texts by an optional model that comes with its package.

The model is py3langid's (BSD-3-Clause, 4.5 MB, no download). It spreads its probability over near
languages: of short good sentences of Xhosa or Slovene it gives a third less than one half to their
own language, though none has more. So what counts here is the likeliest other language alone, and
what the rest of the document is in. The figures are in the repository (research/pages/corpora.md).
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import TYPE_CHECKING, Any

import langcodes
import numpy as np

from lingraft.corpus.cleaning import scripts
from lingraft.corpus.extras import require
from lingraft.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MIN_CHARACTERS = 20
MAX_CHARACTERS = 4_000
MIN_PROBABILITY = 0.5

PRIOR = 2.0
"""Factor by which the language asked for is likelier than another before a text is looked at."""
MOST_CONTEXT = 5.0
"""Most that the rest of a document may raise or lower that by; more would keep quotations."""
LEAST_CONTEXT = 0.02
"""Added to each language's share of a document: a share of much less says nothing."""

# What the model calls by another name than BCP 47, or tells apart though a corpus of the first
# holds the others too: members of macrolanguages that share a written standard.
SAME = (
    {"zh", "yue", "wuu", "hak", "nan", "gan", "lzh", "cdo", "hsn"},
    {"no", "nb", "nn"},
    {"sh", "hr", "sr", "bs", "cnr"},
    {"ar", "arz", "ary", "apc", "ajp", "acm", "acq", "aeb", "ars"},
    {"fa", "pes", "prs"},
    {"ms", "zsm", "zlm"},
    {"sw", "swh"},
    {"lv", "lvs"},
    {"et", "ekk"},
    {"ku", "kmr"},
)


class LanguageIdentifier:
    """A model that tells whether texts are in one language.

    Args:
        language: BCP 47 code.

    Attributes:
        mix: how many of the texts looked at were most likely in which language, by the model's
            codes.

    Raises:
        DataError: the package py3langid is not installed.
        RecipeError: the language code is not valid, or the model does not know the language.
    """

    def __init__(self, language: str) -> None:
        subtag = scripts.language_subtag(language)
        accepted = set(next((group for group in SAME if subtag in group), {subtag}))
        accepted.add(str(langcodes.get(subtag).prefer_macrolanguage().language))
        self.model = _model()
        self.labels: list[str] = self.model.labels
        self.mix: Counter[str] = Counter()
        # The model's tl is fil in the registry of languages, its kik ki.
        self.accepted = {
            label for label in self.labels if {label, str(langcodes.get(label).language)} & accepted
        }
        if not self.accepted:
            raise RecipeError(
                f"language: '{language}' is not among the {len(self.labels)} languages that "
                "the language identification model knows; switch language identification off"
            )
        self.own = np.array([label in self.accepted for label in self.labels])

    def foreign(
        self, texts: Sequence[str], documents: NDArray[np.int64] | None = None
    ) -> NDArray[np.bool_]:
        """Return which texts are in another language.

        A text shorter than `MIN_CHARACTERS` is never called foreign, since names and headings
        cannot be told apart; of a long one the first `MAX_CHARACTERS` are looked at.

        Args:
            texts: sentences, say.
            documents: the number of each text's document: the others of the same document are
                evidence of its language. None takes each text by itself.

        Returns:
            bool, an entry a text; True is to be dropped: beside some other language, the language
            and its varieties together have a probability below `MIN_PROBABILITY`.
        """
        foreign = np.zeros(len(texts), np.bool_)
        long = [place for place, text in enumerate(texts) if len(text) >= MIN_CHARACTERS]
        if not long:
            return foreign
        probabilities_NL = np.array([self._probabilities(texts[place]) for place in long])
        owners = np.arange(len(long)) if documents is None else documents[long]
        own_N1 = probabilities_NL[:, self.own].sum(1, keepdims=True)
        others_NL = probabilities_NL / self._prior(probabilities_NL, owners)
        # The varieties of the language are no rivals of it.
        rivals_NL = np.where(self.own, 0.0, others_NL)
        foreign[long] = (own_N1 * (1 - MIN_PROBABILITY) < rivals_NL * MIN_PROBABILITY).any(1)
        likeliest = np.where(self.own, probabilities_NL, others_NL).argmax(1)
        self.mix.update(self.labels[label] for label in likeliest.tolist())
        return foreign

    def _probabilities(self, text: str) -> list[float]:
        ranked = dict(self.model.rank(text[:MAX_CHARACTERS]))
        return [ranked[label] for label in self.labels]

    def _prior(
        self, probabilities_NL: NDArray[np.float64], owners: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return how much likelier the language is than each one: `PRIOR`, and the context.

        The context is the mean of the probabilities of the document's other texts. A mean of
        probabilities, unlike one of their logarithms, does not let the English lines of a
        document decide between Macedonian and Bulgarian.
        """
        _, document, counts = np.unique(owners, return_inverse=True, return_counts=True)
        sums = np.zeros((len(counts), len(self.labels)))
        np.add.at(sums, document, probabilities_NL)
        rest_NL = np.maximum(sums[document] - probabilities_NL, 0) + LEAST_CONTEXT
        own_N1 = rest_NL[:, self.own].sum(1, keepdims=True)
        prior_NL: NDArray[np.float64] = np.clip(own_N1 / rest_NL, 1 / MOST_CONTEXT, MOST_CONTEXT)
        prior_NL[counts[document] == 1] = 1.0
        prior_NL *= PRIOR
        return prior_NL


@functools.lru_cache(maxsize=1)
def _model() -> Any:
    langid = require("py3langid.langid", "language identification", "clean")
    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
