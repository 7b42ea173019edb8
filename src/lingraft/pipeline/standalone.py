"""`lingraft evaluate`: intrinsic metrics of any stock masked language model on any text."""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.corpus import stage as corpus_stage
from lingraft.errors import DataError
from lingraft.evaluation import words
from lingraft.evaluation.scorer import Scorer
from lingraft.objectives.common import TokenIds
from lingraft.pipeline import evaluating
from lingraft.pretrained.load import check_longest, load_config, longest_text
from lingraft.recipe import Corpus, catalogue
from lingraft.tokenizer import files as tokenizer_files

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST = 512

logger = logging.getLogger(__name__)


def evaluate(
    model: str,
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
        model: a masked language model with its tokenizer: directory, Hub id, or a name of
            `lingraft list models`.
        text: files or directories, as in a recipe.
        language: for sentence splitting; "und" where it is not known.
        sentences: at most this many.
        rate: share of the tokens that is hidden.
        seed: of the masks.
        num_words: words scored for bits per character.
        precision: auto, bf16 or fp32.

    Returns:
        Plain data: model, sentences, cut (longer than the model reads), masks, metrics by scheme,
        words.

    Raises:
        DataError: no model, no masked-language-model head, no text.
    """
    model = catalogue.resolve(model)
    config = load_config(model)
    tokenizer = tokenizer_files.load(model)
    ids = TokenIds.of(tokenizer)
    section = Corpus(text=tuple(text))
    lines = list(islice(corpus_stage.read_clean(list(text), section, language), sentences))
    if not lines:
        raise DataError(f"{', '.join(text)}: holds no sentences; give UTF-8 text")
    longest = check_longest(model, min(LONGEST, longest_text(config, ids.pad)))
    encoded = tokenizer(lines, truncation=True, max_length=longest)["input_ids"]
    arrays = [np.array(row, dtype=np.int64) for row in encoded]
    scorer = Scorer.load(model, ids.pad, precision)
    result = evaluating.evaluate_sentences(
        scorer, tokenizer, arrays, rate=rate, seed=seed, number=0
    )
    answer = {
        "model": model,
        "sentences": len(arrays),
        "cut": sum(len(row) == longest for row in arrays),
        "vocab_size": ids.size,
        "precision": "bf16" if scorer.bf16 else "fp32",
        "masks": result["masks"],
        "metrics": result["metrics"],
    }
    if num_words and tokenizer_files.lower_cases(tokenizer):
        logger.warning("%s: lower-cases its text, so bits per character would not compare", model)
    elif num_words:
        chosen = words.choose(lines, num_words, seed)
        answer["words"] = words.bits_per_character(scorer, tokenizer, chosen, longest)
    return answer
