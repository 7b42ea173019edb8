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
from lingraft.pipeline import causal_evaluation, evaluating
from lingraft.pretrained.load import check_longest, load_config, longest_text
from lingraft.recipe import Corpus, catalogue
from lingraft.stats import Resampling
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer import spelled
from lingraft.tokenizer.statistics import check_kept, statistics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from transformers import PreTrainedConfig, PreTrainedTokenizerFast

    from lingraft.evaluation.records import Blocks, WordRecord
    from lingraft.stats import Difference

LONGEST = 512

logger = logging.getLogger(__name__)


def evaluate(
    model: str | Sequence[str],
    text: Sequence[str],
    *,
    language: str = "und",
    max_sentences: int = 10_000,
    masking_rate: float = 0.15,
    seed: int = 0,
    max_words: int = 2_000,
    precision: str = "auto",
) -> dict[str, Any]:
    """Score a model on the first sentences of a text.

    Args:
        model: a masked or causal language model with its tokenizer: directory, Hub id, or a name of
            `lingraft show models`. Of several, which are of one kind, the first is scored, and
            compared with the others on what both score.
        text: files or directories, as in a recipe.
        language: for sentence splitting; "und" where it is not known.
        max_sentences: at most this many; of a causal model documents that hold about as many.
        masking_rate: share of the tokens that is hidden from a masked model.
        seed: of the masks.
        max_words: words scored for bits per character.
        precision: auto, bf16 or fp32.

    Returns:
        Plain data: model, sentences, cut (longer than the model reads), tokens, unknown (never
        asked for), masks, metrics by scheme, words; of a causal model documents, metrics,
        likelihood, next_token, masks. Under against_on_text, by other model: bits per character of
        common words (of causal models per byte), both models', and their difference with p.

    Raises:
        DataError, RecipeError: no model, head or text; a value that is not allowed for the model.
    """
    _check(text, masking_rate, max_sentences, max_words, precision)
    model, *others = map(catalogue.resolve, [model] if isinstance(model, str) else model)
    causal = is_causal(load_config(model))
    for name in others:
        check_kind(name, "causal" if causal else "masked")
    if causal:
        _check_idle(
            model, language=language, masking_rate=masking_rate, seed=seed, max_words=max_words
        )
        return _likelihood(model, text, max_sentences, precision, others)
    tokenizers = {name: tokenizer_files.load(name) for name in (model, *others)}
    if others:
        _check_words(tokenizers, max_words)
    lines = _first_sentences(text, language, max_sentences)
    for name, tokenizer in tokenizers.items():
        check_kept(name, statistics(tokenizer, lines)["text_kept"])
    chosen = words.choose(lines, max_words, seed) if max_words else []
    first = _Masked.load(model, tokenizers[model], precision)
    result, own = _of_sentences(model, first, lines, chosen, masking_rate, seed)
    del first  # before another is loaded
    compared = {}
    for name in others:
        other = _Masked.load(name, tokenizers[name], precision)
        theirs = words.measure(other.scorer, other.tokenizer, chosen, other.longest)
        compared[name] = _on_common_words(own, theirs)
    return result | ({"against_on_text": compared} if others else {})


def _check_idle(model: str, **given: str | float) -> None:
    """Refuse what is for masked models where it is not as it was."""
    defaults = inspect.signature(evaluate).parameters
    for name, value in given.items():
        if value != defaults[name].default:
            raise RecipeError(
                f"evaluate: {name} is for masked models, not for {model}; leave it out"
            )


def _check(
    text: Sequence[str], masking_rate: float, max_sentences: int, max_words: int, precision: str
) -> None:
    if precision not in ("auto", "bf16", "fp32"):
        raise RecipeError(f"evaluate: precision must be auto, bf16 or fp32; got {precision}")
    if not text:
        raise DataError("evaluate: text names no file; name at least one")
    if not 0 < masking_rate < 1:
        raise RecipeError(
            f"evaluate: masking_rate must be above 0 and below 1; got {masking_rate:g}"
        )
    if max_sentences < 1 or max_words < 0:
        raise RecipeError(
            "evaluate: max_sentences must be 1 or more, and max_words 0 or more; "
            f"got {max_sentences} and {max_words}"
        )


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
            "evaluate: masked models compare by the words that both score; leave out max_words=0, "
            "or against"
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
    name: str, text: Sequence[str], sentences: int, precision: str, others: Sequence[str]
) -> dict[str, Any]:
    """Score causal models on whole documents, whose every byte counts."""
    texts = causal_evaluation.read_documents(text, sentences)
    model, scores = _of_documents(name, texts, precision)
    blocks = scores["blocks"]["likelihood"]["bits_per_byte"]
    answer = {
        "model": name,
        "context": model.context,
        "begins": scores["begins"],
        "vocab_size": len(model.tokenizer),
        "precision": "bf16" if model.scorer.bf16 else "fp32",
        "masks": scores["masks"],
        "metrics": scores["metrics"],
        "next_token": scores["pieces"]["all"],
        "likelihood": scores["likelihood"],
    }
    compared = {}
    for other in others:
        _, theirs = _of_documents(other, texts, precision)
        compared[other] = {"unknown": theirs["likelihood"]["unknown"]} | _on_all_bytes(
            blocks, theirs["blocks"]["likelihood"]["bits_per_byte"]
        )
    return ({"against_on_text": compared} if others else {}) | answer


def _of_documents(
    name: str, texts: Sequence[str], precision: str
) -> tuple[causal_evaluation.CausalModel, dict[str, Any]]:
    model = causal_evaluation.CausalModel.load(name, precision, LONGEST)
    check_kept(name, statistics(model.tokenizer, texts)["text_kept"])
    return model, causal_evaluation.score_documents(model, texts)


def _plain(result: Difference) -> dict[str, float | None]:
    return {key: getattr(result, key) for key in ("value", "low", "high", "p")}
