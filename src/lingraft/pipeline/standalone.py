"""`lingraft evaluate`: intrinsic metrics of any stock masked or causal model on any text."""

from __future__ import annotations

import inspect
import logging
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.corpus import stage as corpus_stage
from lingraft.errors import DataError, RecipeError
from lingraft.evaluation import words
from lingraft.evaluation.records import paired, word_metrics
from lingraft.evaluation.scorer import Scorer, check_kind
from lingraft.models.families import FAMILIES
from lingraft.objectives.common import TokenIds
from lingraft.paths import path_of
from lingraft.pipeline import evaluating, judging
from lingraft.pretrained.load import check_longest, load_config, longest_text
from lingraft.recipe import Corpus, catalogue
from lingraft.stats import RESAMPLES, Resampling
from lingraft.tasks import choices
from lingraft.tasks.choice_metrics import METRICS, difference
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer import spelled
from lingraft.tokenizer.statistics import check_kept, statistics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from transformers import PreTrainedConfig, PreTrainedTokenizerFast

    from lingraft.evaluation.records import Blocks, WordRecord
    from lingraft.recipe import Choices
    from lingraft.stats import Difference

LONGEST = 512

logger = logging.getLogger(__name__)


def evaluate(
    model: str | Sequence[str],
    text: Sequence[str],
    *,
    language: str = "und",
    sentences: int = 10_000,
    rate: float = 0.15,
    seed: int = 0,
    num_words: int = 2_000,
    precision: str = "auto",
) -> dict[str, Any]:
    """Score a model on the first sentences of a text.

    Args:
        model: a masked or causal language model with its tokenizer: directory, Hub id, or a name of
            `lingraft list models`. Of several, which are of one kind, the first is scored, and
            compared with the others on what both score.
        text: files or directories, as in a recipe.
        language: for sentence splitting; "und" where it is not known.
        sentences: at most this many; of a causal model documents that hold about as many.
        rate: share of the tokens that is hidden from a masked model.
        seed: of the masks.
        num_words: words scored for bits per character.
        precision: auto, bf16 or fp32.

    Returns:
        Plain data: model, sentences, cut (longer than the model reads), tokens, unknown (those that
        stand for text which the vocabulary lacks, which is never asked for), masks, metrics by
        scheme, words; of a causal model documents, metrics, likelihood, next_token, masks. Under
        against_on_text, by other model: bits per character of the words that both score (of causal
        models per byte of all documents), its own and the first model's, and the first's less
        these with the 95 % interval and p (None for too little text).

    Raises:
        DataError, RecipeError: no model, head or text; a value that is not allowed for the model.
    """
    _check(text, rate, sentences, num_words, precision)
    model, *others = map(catalogue.resolve, [model] if isinstance(model, str) else model)
    causal = is_causal(load_config(model))
    for name in others:
        check_kind(name, "causal" if causal else "masked")
    if causal:
        _check_idle(model, rate=rate, seed=seed, num_words=num_words)
        return _likelihood(model, text, sentences, precision, others)
    tokenizers = {name: tokenizer_files.load(name) for name in (model, *others)}
    if others:
        _check_words(tokenizers, num_words)
    lines = _first_sentences(text, language, sentences)
    for name, tokenizer in tokenizers.items():
        check_kept(name, statistics(tokenizer, lines)["text_kept"])
    chosen = words.choose(lines, num_words, seed) if num_words else []
    first = _Masked.load(model, tokenizers[model], precision)
    result, own = _of_sentences(model, first, lines, chosen, rate, seed)
    del first  # before another is loaded
    compared = {}
    for name in others:
        other = _Masked.load(name, tokenizers[name], precision)
        theirs = words.measure(other.scorer, other.tokenizer, chosen, other.longest)
        compared[name] = _on_common_words(own, theirs)
    return result | ({"against_on_text": compared} if others else {})


def _check_idle(model: str, **given: float) -> None:
    """Refuse what is for masked models where it is not as it was."""
    defaults = inspect.signature(evaluate).parameters
    for name, value in given.items():
        if value != defaults[name].default:
            raise RecipeError(
                f"evaluate: {name} is for masked models, not for {model}; leave it out"
            )


def _check(
    text: Sequence[str], rate: float, sentences: int, num_words: int, precision: str
) -> None:
    check_precision(precision)
    if not text:
        raise DataError("evaluate: text names no file; name at least one")
    if not 0 < rate < 1:
        raise RecipeError(f"evaluate: rate must be above 0 and below 1; got {rate:g}")
    if sentences < 1 or num_words < 0:
        raise RecipeError(
            "evaluate: sentences must be 1 or more, and words 0 or more; "
            f"got {sentences} and {num_words}"
        )


def check_precision(precision: str) -> None:
    """Refuse what would count as fp32.

    Raises:
        RecipeError: there is no such precision.
    """
    if precision not in ("auto", "bf16", "fp32"):
        raise RecipeError(f"evaluate: precision must be auto, bf16 or fp32; got {precision}")


def _first_sentences(text: Sequence[str], language: str, number: int) -> list[str]:
    section = Corpus(text=tuple(text))
    lines = list(islice(corpus_stage.read_clean(list(text), section, language), number))
    if not lines:
        raise DataError(f"{', '.join(text)}: holds no sentences; give UTF-8 text")
    return lines


def is_causal(config: PreTrainedConfig) -> bool:
    """Whether a model with this configuration predicts each token from those before it."""
    family = FAMILIES.get(config.model_type)
    return family is not None and family.kind == "causal"


@dataclass(frozen=True)
class _Masked:
    """A masked model ready to be scored."""

    scorer: Scorer
    tokenizer: PreTrainedTokenizerFast
    longest: int
    """Tokens that it reads at once here."""

    @classmethod
    def load(cls, name: str, tokenizer: PreTrainedTokenizerFast, precision: str) -> _Masked:
        config, pad_id = load_config(name), TokenIds.of(tokenizer).pad
        longest = check_longest(name, min(LONGEST, longest_text(config, pad_id)))
        return cls(Scorer.load(name, pad_id, precision), tokenizer, longest)


def _check_words(tokenizers: Mapping[str, PreTrainedTokenizerFast], num_words: int) -> None:
    """Refuse to compare what scores no words."""
    if not num_words:
        raise RecipeError(
            "evaluate: masked models compare by the words that both score; leave out words = 0, or "
            "against"
        )
    for name, tokenizer in tokenizers.items():
        if tokenizer_files.lower_cases(tokenizer):
            raise DataError(
                f"{name}: lower-cases its text, which is easier to guess, so it compares with none "
                "that does not; leave it out"
            )


def _of_sentences(
    model: str,
    loaded: _Masked,
    lines: list[str],
    chosen: Sequence[words.Word],
    rate: float,
    seed: int,
) -> tuple[dict[str, Any], list[WordRecord]]:
    """What `evaluate` says of a masked model, and how it scored the words that were chosen."""
    scorer, tokenizer, longest = loaded.scorer, loaded.tokenizer, loaded.longest
    encoded = spelled.cut(tokenizer, lines, longest, spelled.without_special(tokenizer))
    arrays = encoded["input_ids"]
    result = evaluating.evaluate_sentences(
        scorer, tokenizer, arrays, rate=rate, seed=seed, number=0
    )
    answer = {
        "model": model,
        "sentences": len(arrays),
        "cut": sum(bool(encoding.overflowing) for encoding in encoded.encodings or ()),
        "tokens": sum(map(len, arrays)),
        "unknown": sum(int((row == tokenizer.unk_token_id).sum()) for row in arrays),
        "vocab_size": TokenIds.of(tokenizer).size,
        "precision": "bf16" if scorer.bf16 else "fp32",
        "masks": result["masks"],
        "metrics": result["metrics"],
    }
    scored: list[WordRecord] = []
    if chosen and tokenizer_files.lower_cases(tokenizer):
        logger.warning("%s: lower-cases its text, so bits per character would not compare", model)
    elif chosen:
        scored = words.measure(scorer, tokenizer, chosen, longest)
        answer["words"] = word_metrics(scored)
    return answer, scored


def _on_common_words(own: Sequence[WordRecord], other: Sequence[WordRecord]) -> dict[str, Any]:
    """Two models on the words that both score."""
    found = paired(own, other)
    words = 0 if found is None else found.words
    both = {"words": words, "dropped": len(own) - words}
    if found is None:
        return both
    return both | _told("bits_per_character", *found.bits, found.difference)


def _on_all_bytes(own: Blocks, other: Blocks) -> dict[str, Any]:
    """Two causal models on the bytes of the same documents."""
    ours, theirs = (float(np.divide(*np.sum(side, axis=0))) for side in (own, other))
    return _told("bits_per_byte", ours, theirs, Resampling().between_blocks(own, other))


def _told(measure: str, ours: float, theirs: float, result: Difference | None) -> dict[str, Any]:
    """What the other model and the first need, and the paired difference."""
    sides = {measure: theirs, f"{measure}_of_the_first": ours}
    return sides | {"difference": None if result is None else _plain(result)}


def _likelihood(
    model: str, text: Sequence[str], sentences: int, precision: str, others: Sequence[str]
) -> dict[str, Any]:
    """Score causal models on whole documents, whose every byte counts."""
    texts, none_new = judging.texts_of(text, sentences), np.zeros(0, np.int64)
    judged = judging.Judged.load(model, precision, LONGEST)
    check_kept(model, statistics(judged.tokenizer, texts)["text_kept"])
    scores = judging.on_text(judged, texts, none_new)
    blocks = scores["blocks"]["likelihood"]["bits_per_byte"]
    compared = {}
    for name in others:
        other = judging.Judged.load(name, precision, LONGEST)
        check_kept(name, statistics(other.tokenizer, texts)["text_kept"])
        theirs = judging.on_text(other, texts, none_new)
        compared[name] = {"unknown": theirs["likelihood"]["unknown"]} | _on_all_bytes(
            blocks, theirs["blocks"]["likelihood"]["bits_per_byte"]
        )
    return ({"against_on_text": compared} if others else {}) | {
        "model": model,
        "context": judged.context,
        "begins": scores["begins"],
        "vocab_size": len(judged.tokenizer),
        "precision": "bf16" if judged.scorer.bf16 else "fp32",
        "masks": scores["masks"],
        "metrics": scores["metrics"],
        "next_token": scores["pieces"]["all"],
        "likelihood": scores["likelihood"],
    }


def check_answerable(
    models: Sequence[str], files: Sequence[Choices], limit: int | None = None
) -> None:
    """Refuse what `answer` would, as far as it is known before a model is loaded.

    Args:
        models: directories, Hub ids, or names of `lingraft list models`.
        files: of questions.
        limit: at most the first so many questions of a file.

    Raises:
        DataError: no model, one that is not causal, or a broken file.
        RecipeError: two files have one name.
    """
    titles = [entry.title for entry in files]
    if len(set(titles)) < len(titles):
        raise RecipeError(f"--choices: two files have one name, in {titles}; rename one")
    for entry in files:
        choices.read(path_of(entry.file), entry.shape, limit)
    for name in models:
        check_kind(catalogue.resolve(name), "causal")


def answer(
    model: str,
    files: Sequence[Choices],
    *,
    against: Sequence[str] = (),
    limit: int | None = None,
    precision: str = "auto",
    resamples: int = RESAMPLES,
) -> dict[str, Any]:
    """Answer multiple-choice questions by likelihood, with a causal model or several.

    Args:
        model: directory, Hub id, or a name of `lingraft list models`.
        files: of questions.
        against: other models, with which the first is compared on the same questions.
        limit: at most the first so many questions of a file.
        precision: auto, bf16 or fp32.
        resamples: draws of the paired bootstrap.

    Returns:
        Plain data: model; by the file's title, scores as `judging.choose`; and by other model its
        scores, and the first model's less these with the 95 % interval and p.

    Raises:
        DataError: no model, one that is not causal, or a broken file.
        RecipeError: two files have one name; no such precision.
    """
    check_precision(precision)
    check_answerable((model, *against), files, limit)
    names = [catalogue.resolve(name) for name in (model, *against)]
    results = {}
    for name in dict.fromkeys(names):
        judged = judging.Judged.load(name, precision)
        results[name] = {entry.title: judging.choose(judged, entry, limit) for entry in files}
    own = results[names[0]]
    resampling = Resampling(resamples)
    result: dict[str, Any] = {
        "model": names[0],
        "choices": {title: scores for title, (scores, _) in own.items()},
    }
    if against:
        result["against"] = {
            name: {
                title: {
                    "scores": scores,
                    "difference": {
                        metric: _plain(difference(own[title][1], answers, metric, resampling))
                        for metric in METRICS
                    },
                }
                for title, (scores, answers) in results[name].items()
            }
            for name in names[1:]
        }
    return result


def _plain(result: Difference) -> dict[str, float | None]:
    return {key: getattr(result, key) for key in ("value", "low", "high", "p")}
