"""BLEU and chrF++ by sacrebleu (Post 2018), and the tokenised BLEU of papers (SPEC A.8).

A score of a corpus is no mean over its sentences: what is summed are n-gram counts of every
sentence, and sacrebleu makes the score of the sums. So a bootstrap costs no more than the sums.

Shape letters: R draws, N examples, K counts of a sentence.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lingraft.corpus.extras import require
from lingraft.tasks.examples import TranslationPrediction, of_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lingraft.tasks.examples import Prediction, TranslationExample
    from lingraft.tasks.weighted import Array, Score

EXTRA = "translate"
"""Of lingraft: brings sacrebleu and sacremoses."""


@dataclass(frozen=True)
class Scorer:
    """One way to score translations."""

    kind: Literal["BLEU", "CHRF"]
    """A class of `sacrebleu.metrics`."""
    options: tuple[tuple[str, Any], ...] = ()
    moses: bool = False
    """Both sides are normalised and cut into words by the Moses scripts first (`-a`)."""

    def metric(self) -> Any:
        """Sacrebleu's object.

        Raises:
            DataError: sacrebleu is not installed.
        """
        metrics = require("sacrebleu.metrics", "scores of translations", EXTRA)
        return getattr(metrics, self.kind)(**dict(self.options))

    def counts(self, hypotheses: Sequence[str], right: Sequence[str], language: str) -> Array:
        """[N, K] What sacrebleu sums over the sentences of a corpus.

        Args:
            hypotheses: translations.
            right: references, one each.
            language: of both, for the rules of Moses about abbreviations.
        """
        if self.moses:
            hypotheses, right = (moses_words(texts, language) for texts in (hypotheses, right))
        return np.array(self.metric()._extract_corpus_statistics(list(hypotheses), [list(right)]))

    def score(self, hypotheses: Sequence[str], right: Sequence[str], language: str) -> Score:
        """The score of the corpus as a function of how often each sentence counts."""
        counts_NK, metric = self.counts(hypotheses, right, language), self.metric()

        def weighted(weights_RN: Array) -> Array:
            sums_RK = np.rint(weights_RN @ counts_NK).astype(int).tolist()
            return np.array([metric._compute_score_from_stats(sums_K).score for sums_K in sums_RK])

        return weighted

    def signature(self) -> str:
        """What sacrebleu prints beside the score, for one reference a sentence.

        Raises:
            DataError: sacrebleu or sacremoses is not installed.
        """
        if self.moses:
            require("sacremoses", "tokenised BLEU", EXTRA)
        metric = self.metric()
        metric.num_refs = 1
        return ("moses-a|" if self.moses else "") + str(metric.get_signature())


AS_MULTI_BLEU = (("tokenize", "none"), ("smooth_method", "none"), ("force", True))
"""multi-bleu.perl: words are what stands between spaces, and nothing is smoothed."""
SCORERS: dict[str, Scorer] = {
    "bleu": Scorer("BLEU"),
    "chrf": Scorer("CHRF", (("word_order", 2),)),
    "bleu_tokenised": Scorer("BLEU", AS_MULTI_BLEU, moses=True),
    # -lc: the paper's table (SPEC A.8)
    "bleu_tokenised_lc": Scorer("BLEU", (*AS_MULTI_BLEU, ("lowercase", True)), moses=True),
    "bleu_char": Scorer("BLEU", (("tokenize", "char"),)),  # without spaces: Japanese, Thai
    "bleu_zh": Scorer("BLEU", (("tokenize", "zh"),)),
}
"""Name of a score → how it is computed."""


def moses_words(texts: Sequence[str], language: str) -> list[str]:
    """Texts normalised and cut into words as by Moses' normalize-punctuation and `tokenizer -a`.

    Args:
        texts: a line each.
        language: ISO 639-1; for one that Moses does not know it takes English.

    Raises:
        DataError: sacremoses is not installed.
    """
    normalise, tokenise = _moses(language)
    return [
        tokenise(normalise(text), aggressive_dash_splits=True, return_str=True) for text in texts
    ]


@cache
def _moses(language: str) -> tuple[Callable[..., str], Callable[..., str]]:
    moses = require("sacremoses", "tokenised BLEU", EXTRA)
    logger = logging.getLogger()  # it warns on the root logger of languages that it does not know
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        normaliser = moses.MosesPunctNormalizer(language, perl_parity=True)
        return normaliser.normalize, moses.MosesTokenizer(language).tokenize
    finally:
        logger.setLevel(level)


def of(name: str) -> Callable[..., dict[str, Score]]:
    """The entry of `metrics.METRICS` for a name of `SCORERS`."""

    def metric(
        examples: Sequence[TranslationExample],
        predictions: Sequence[Prediction],
        labels: Sequence[str],
    ) -> dict[str, Score]:
        translations = of_kind(predictions, TranslationPrediction, "translation")
        hypotheses = [prediction.translation for prediction in translations]
        right = [example.translation for example in examples]
        return {name: SCORERS[name].score(hypotheses, right, examples[0].language)}

    return metric


def signatures(metrics: Sequence[str]) -> dict[str, str]:
    """By score, what says how it was computed; scores with other signatures do not compare."""
    return {name: SCORERS[name].signature() for name in metrics if name in SCORERS}
