"""`lingraft evaluate`: intrinsic metrics of a stock masked or causal model on any text."""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.corpus.stage import read_clean
from lingraft.errors import DataError
from lingraft.evaluation import words
from lingraft.evaluation.records import paired, word_metrics
from lingraft.evaluation.scorer import check_kind
from lingraft.models.families import FAMILIES
from lingraft.pipeline import causal_evaluation, evaluating
from lingraft.pipeline.causal_evaluation import ScoredModel
from lingraft.pretrained.load import load_config
from lingraft.recipe import Corpus, catalogue
from lingraft.stats import Resampling
from lingraft.tokenizer import files as tokenizer_files, shards
from lingraft.tokenizer.statistics import check_kept, statistics
from lingraft.training.objectives.common import TokenIds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.evaluation.records import WordRecord
    from lingraft.evaluation.settings import Scoring
    from lingraft.models.families.record import KindName
    from lingraft.stats import Difference

LONGEST = 512

logger = logging.getLogger(__name__)


def evaluate(
    models: Sequence[str], text: Sequence[str], language: str, scoring: Scoring
) -> dict[str, Any]:
    """Score a model on the first sentences of a text.

    Args:
        models: masked or causal language models with their tokenizers, all of a kind: directories,
            Hub ids, or names of `lingraft show models`. The first is compared with the others.
        text: files or directories, as in a recipe.
        language: for sentence splitting; "und" where it is not known.
        scoring: how much of the text, and how.

    Returns:
        Plain data: model, sentences, cut (longer than the model reads), tokens, unknown (never
        asked for), masks, metrics by scheme, words; of a causal model documents, metrics,
        likelihood, next_token, masks. Under against_on_text, by other model: bits per character of
        common words (of causal models per byte), both models', and their difference with p.

    Raises:
        DataError, RecipeError: no model, head or text.
    """
    model, *others = map(catalogue.resolve, models)
    family = FAMILIES.get(load_config(model).model_type)
    kind: KindName = "causal" if family is not None and family.kind == "causal" else "masked"
    for name in others:
        check_kind(name, kind)
    if kind == "causal":
        return _likelihood(model, text, scoring, others)
    sentences = read_clean(text, Corpus(text=tuple(text)), language)
    lines = list(islice(sentences, scoring.max_sentences))
    if not lines:
        raise DataError(f"{', '.join(text)}: holds no sentences; give UTF-8 text")
    chosen = words.choose(lines, scoring.max_words, scoring.seed) if scoring.max_words else []
    scored = ScoredModel.load(model, scoring.precision, LONGEST, kind="masked")
    check_kept(model, statistics(scored.tokenizer, lines)["text_kept"])
    result = _of_sentences(scored, lines, scoring)
    own = _words(model, scored, chosen)
    del scored  # before another is loaded
    if own:
        result["words"] = word_metrics(own)
    compared = {name: _beside(name, scoring.precision, chosen, own) for name in others}
    return {"model": model} | result | ({"against_on_text": compared} if others else {})


def _beside(
    name: str, precision: str, chosen: Sequence[words.Word], own: Sequence[WordRecord]
) -> dict[str, Any]:
    """Compare another model on the words that both score.

    Raises:
        DataError: one of both scores none.
    """
    theirs = _words(name, ScoredModel.load(name, precision, LONGEST, kind="masked"), chosen)
    if not (own and theirs):
        raise DataError(f"{name}: is compared by words, and one of both models scores none")
    return _on_common_words(own, theirs)


def _words(name: str, model: ScoredModel, chosen: Sequence[words.Word]) -> list[WordRecord]:
    """Score words; none by a model that lower-cases them, whose bits would not compare."""
    if chosen and tokenizer_files.lower_cases(model.tokenizer):
        logger.warning("%s: lower-cases its text, so bits per character would not compare", name)
        return []
    return words.measure(model.scorer, model.tokenizer, chosen, model.context) if chosen else []


def _of_sentences(model: ScoredModel, lines: list[str], scoring: Scoring) -> dict[str, Any]:
    """Score a masked model on sentences."""
    scorer, tokenizer = model.scorer, model.tokenizer
    encoded = shards.cut(tokenizer, lines, model.context, shards.without_special(tokenizer))
    arrays = encoded["input_ids"]
    result = evaluating.evaluate_sentences(
        scorer, tokenizer, arrays, rate=scoring.masking_rate, seed=scoring.seed, number=0
    )
    return {
        "sentences": len(arrays),
        "cut": sum(bool(encoding.overflowing) for encoding in encoded.encodings or ()),
        "tokens": sum(map(len, arrays)),
        "unknown": sum(int((row == tokenizer.unk_token_id).sum()) for row in arrays),
        "vocab_size": TokenIds.of(tokenizer).size,
        "precision": "bf16" if scorer.bf16 else "fp32",
        "masks": result["masks"],
        "metrics": result["metrics"],
    }


def _on_common_words(own: Sequence[WordRecord], other: Sequence[WordRecord]) -> dict[str, Any]:
    """Compare two models on the words that both score."""
    found = paired(own, other)
    words = 0 if found is None else found.words
    both = {"words": words, "dropped": len(own) - words}
    if found is None:
        return both
    return both | _compared("bits_per_character", *found.bits, found.difference)


def _compared(
    measure: str, ours: float, theirs: float, difference: Difference | None
) -> dict[str, Any]:
    """Return what the other model and the first need, and the paired difference."""
    keys = ("value", "low", "high", "p")
    plain = None if difference is None else {key: getattr(difference, key) for key in keys}
    return {measure: theirs, f"{measure}_of_the_first": ours, "difference": plain}


def _likelihood(
    name: str, text: Sequence[str], scoring: Scoring, others: Sequence[str]
) -> dict[str, Any]:
    """Score causal models on whole documents, whose every byte counts."""
    texts = causal_evaluation.read_documents(text, scoring.max_sentences)
    model, scores = _of_documents(name, texts, scoring.precision)
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
        _, theirs = _of_documents(other, texts, scoring.precision)
        unknown, sides = theirs["likelihood"]["unknown"], theirs["blocks"]["likelihood"]
        pair = blocks, sides["bits_per_byte"]
        ours, its = (float(np.divide(*np.sum(side, axis=0))) for side in pair)
        difference = Resampling().between_blocks(*pair)
        compared[other] = {"unknown": unknown} | _compared("bits_per_byte", ours, its, difference)
    return ({"against_on_text": compared} if others else {}) | answer


def _of_documents(
    name: str, texts: Sequence[str], precision: str
) -> tuple[ScoredModel, dict[str, Any]]:
    model = ScoredModel.load(name, precision, LONGEST)
    check_kept(name, statistics(model.tokenizer, texts)["text_kept"])
    return model, causal_evaluation.score_documents(model, texts)
