"""Translations by any stock encoder–decoder, through transformers' own `generate()`.

Shape letters: B sequences, T tokens.
"""

from __future__ import annotations

import copy
import logging
from typing import TYPE_CHECKING, Any

from transformers import GenerationConfig

from lingraft.models.padding import batches_by_length, padded
from lingraft.pretrained.load import longest_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

MOST_NEW_TOKENS = 200
"""Limit where neither caller nor checkpoint has one, as fairseq's --max-len-b; transformers: 20."""
BATCH_TOKENS = 4_096
KEPT = (
    *("num_beams", "length_penalty", "early_stopping", "use_cache", "renormalize_logits"),
    *("max_length", "max_new_tokens", "min_length", "min_new_tokens", "no_repeat_ngram_size"),
    *("repetition_penalty", "encoder_repetition_penalty", "encoder_no_repeat_ngram_size"),
    *("bad_words_ids", "suppress_tokens", "begin_suppress_tokens", "sequence_bias"),
    *("exponential_decay_length_penalty", "remove_invalid_values", "decoder_start_token_id"),
    *("pad_token_id", "bos_token_id", "eos_token_id", "forced_bos_token_id", "forced_eos_token_id"),
)
"""Keys of `generation_config` that decide a translation. Others are for sampling, prompts or speed,
for one text at a time, or run code on the Hub."""


def translate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    *,
    beams: int | None = None,
    max_new_tokens: int | None = None,
    batch_tokens: int = BATCH_TOKENS,
    on_batch: Callable[[int], object] | None = None,
) -> list[str]:
    """Translate texts in batches of like lengths; a translation does not depend on its batch.

    Args:
        model: an encoder–decoder with `generate()`, on any device; it attends as it is set to.
        tokenizer: of the model; where there are several languages, `src_lang` says the source, and
            `forced_bos_token_id` of the model's `generation_config` the target.
        texts: in any order. One of white space alone has an empty translation.
        beams: of beam search, 1 is greedy; None takes the value of `generation_config`.
        max_new_tokens: of a translation; None takes the value of `generation_config`.
        batch_tokens: source tokens of a batch, padding included, times beams.
        on_batch: called after every batch with the number of texts that it finished.

    Returns:
        The translations, each on one line without special tokens, in the order of the texts.
    """
    settings = _settings(model, beams, max_new_tokens)
    translations = [""] * len(texts)
    filled = [place for place, text in enumerate(texts) if text.strip()]
    sequences = _encoded(model, tokenizer, [texts[place] for place in filled])
    if on_batch is not None and len(filled) < len(texts):
        on_batch(len(texts) - len(filled))
    generate: Any = model.generate
    tokens, pad = batch_tokens // (settings.num_beams or 1), int(tokenizer.pad_token_id)
    was_training, own = model.training, model.generation_config
    model.eval()
    model.generation_config = GenerationConfig()  # whose values it takes wherever one is None
    try:
        for places in batches_by_length(list(map(len, sequences)), tokens):
            ids_BT, mask_BT = padded([sequences[place] for place in places], pad)
            output_BT = generate(
                input_ids=ids_BT.to(model.device),
                attention_mask=mask_BT.long().to(model.device),
                generation_config=settings,
            )
            outputs = tokenizer.batch_decode(
                output_BT, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
            for place, text in zip(places, outputs, strict=True):
                translations[filled[place]] = " ".join(text.splitlines()).strip()
            if on_batch is not None:
                on_batch(len(places))
    finally:
        model.train(was_training)
        model.generation_config = own
    return translations


def _settings(
    model: PreTrainedModel, beams: int | None, max_new_tokens: int | None
) -> GenerationConfig:
    """Return the checkpoint's settings, changed as asked, that never pass the last position."""
    own = {key: getattr(model.generation_config, key) for key in KEPT}
    settings = GenerationConfig(**copy.deepcopy(own))
    if beams is not None:
        settings.num_beams = beams
    if max_new_tokens is None and settings.max_new_tokens is None and settings.max_length is None:
        max_new_tokens = MOST_NEW_TOKENS
    if max_new_tokens is not None:
        settings.max_new_tokens = max_new_tokens
    longest = _positions(model.get_decoder().config)
    if settings.max_new_tokens is not None:
        settings.max_new_tokens = min(settings.max_new_tokens, longest - 1)
        settings.max_length = None
    else:
        settings.max_length = min(settings.max_length, longest)
    return settings


def _positions(config: PreTrainedConfig) -> int:
    """Return the number of tokens that a stack reads at once; any with relative positions."""
    if not hasattr(config, "max_position_embeddings"):
        return 1 << 30
    return longest_text(config, config.pad_token_id or 0)


def _encoded(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]
) -> list[list[int]]:
    """Return token ids with the special tokens; too long texts lose their end, with a warning."""
    if not texts:
        return []
    longest = min(_positions(model.get_encoder().config), tokenizer.model_max_length)
    whole: list[list[int]] = tokenizer(list(texts), verbose=False)["input_ids"]
    for place, ids in enumerate(whole):
        if len(ids) > longest:
            logger.warning("text %d: only %d of %d tokens are read", place, longest, len(ids))
            cut = tokenizer(texts[place], truncation=True, max_length=longest)
            whole[place] = cut["input_ids"]
    return whole
