"""Translations by any stock encoder–decoder, through transformers' own `generate()`.

Shape letters: B sequences, T tokens.
"""

from __future__ import annotations

import contextlib
import copy
import logging
from typing import TYPE_CHECKING, Any

from transformers import DynamicCache, EncoderDecoderCache, GenerationConfig

from lingraft.errors import UnsupportedModelError
from lingraft.models.padding import batches_by_length, padded
from lingraft.pretrained.load import longest_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import torch
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

MOST_NEW_TOKENS = 200
"""Limit where neither caller nor checkpoint has one, as fairseq's --max-len-b; transformers: 20."""
BATCH_TOKENS = 4_096
LEFT_OUT = (
    *("prompt_lookup_num_tokens", "assistant_early_exit", "is_assistant", "use_mtp"),
    *("speculation_type", "low_memory", "prefill_chunk_size", "token_healing", "max_time"),
)
"""Keys of `generation_config` that are for one text at a time, for prompts that go on, or for
speed alone, and `max_time`, by which a translation would depend on its batch and the machine."""
NOT_STOCK = {
    "constrained_beam_search": "force_words_ids",
    "contrastive_search": "penalty_alpha",
    "dola_generation": "dola_layers",
    "group_beam_search": "num_beam_groups",
}
"""Ways to decode that transformers 5 runs by code on the Hub alone, and what asks for them."""


class SentenceCache(EncoderDecoderCache):
    """Keys and values where all beams of a sentence read the same states of the encoder.

    Beam search reorders a cache by its beams at every token. Across beams of one sentence what
    cross-attention reads does not differ, so it need not be moved; stock `generate()` moves it.
    """

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        """Reorder what the decoder has said."""
        self.self_attention_cache.reorder_cache(beam_idx)


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
    more: dict[str, Any] = {"tokenizer": tokenizer} if settings.stop_strings else {}
    tokens, pad = batch_tokens // (settings.num_beams or 1), int(tokenizer.pad_token_id)
    with _evaluating(model):
        for places in batches_by_length(list(map(len, sequences)), tokens):
            ids_BT, mask_BT = padded([sequences[place] for place in places], pad)
            output_BT = generate(
                input_ids=ids_BT.to(model.device),
                attention_mask=mask_BT.long().to(model.device),
                generation_config=settings,
                **_cache(model, settings),
                **more,
            )
            outputs = tokenizer.batch_decode(
                output_BT, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
            for place, text in zip(places, outputs, strict=True):
                translations[filled[place]] = " ".join(text.splitlines()).strip()
            if on_batch is not None:
                on_batch(len(places))
    return translations


def check(name: str, generation: GenerationConfig, *beams: int | None) -> None:
    """Say what of a checkpoint's own settings is left out.

    Args:
        name: of the checkpoint, for messages.
        generation: its settings.
        beams: each as in `translate`.

    Raises:
        UnsupportedModelError: they ask for what stock transformers does not do.
    """
    modes = [_decoding(generation, number).get_generation_mode() for number in beams]
    keys = [NOT_STOCK[mode] for mode in modes if mode in NOT_STOCK]
    if generation.guidance_scale not in (None, 1):
        keys.append("guidance_scale")
    for key in keys:
        raise UnsupportedModelError(
            f"{name}: generation_config.json has {key}, by which transformers cannot decode "
            f"{'with an encoder' if key == 'guidance_scale' else 'without code on the Hub'}; "
            "delete it there"
        )
    if left_out := [key for key in LEFT_OUT if getattr(generation, key) not in (None, False)]:
        logger.warning(
            "%s: left out of its generation_config.json, as texts are translated in batches: %s",
            name,
            ", ".join(left_out),
        )


@contextlib.contextmanager
def _evaluating(model: PreTrainedModel) -> Iterator[None]:
    """Run without dropout, and without the checkpoint's own settings of generation.

    transformers takes those wherever a setting is None, also for one that is left out.
    """
    was_training, own = model.training, model.generation_config
    model.eval()
    model.generation_config = GenerationConfig()
    try:
        yield
    finally:
        model.train(was_training)
        model.generation_config = own


def _decoding(generation: GenerationConfig, beams: int | None) -> GenerationConfig:
    """Return the checkpoint's settings, changed as asked, without sampling and `LEFT_OUT`."""
    settings = copy.deepcopy(generation)
    settings.do_sample, settings.num_return_sequences = False, 1
    settings.return_dict_in_generate = False  # ids alone are wanted
    for key in LEFT_OUT:
        setattr(settings, key, None)
    if beams is not None:
        settings.num_beams = beams
    return settings


def _settings(
    model: PreTrainedModel, beams: int | None, max_new_tokens: int | None
) -> GenerationConfig:
    """Return the settings of `_decoding`, and never past the last position."""
    settings = _decoding(model.generation_config, beams)
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


def _cache(model: PreTrainedModel, settings: GenerationConfig) -> dict[str, Any]:
    """Return the cache that `generate()` would make itself, but for its reordering."""
    no_beams = (settings.num_beams or 1) == 1
    if no_beams or settings.use_cache is False or settings.cache_implementation:
        return {}
    config = model.config.get_text_config(decoder=True)
    return {"past_key_values": SentenceCache(*(DynamicCache(config=config) for _ in range(2)))}


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
    long = [place for place, ids in enumerate(whole) if len(ids) > longest]
    if long:
        logger.warning(
            "%s of %s texts have more than the %s tokens that the model reads; their ends are "
            "not translated",
            *(f"{number:,}" for number in (len(long), len(texts), longest)),
        )
    for place in long:
        whole[place] = tokenizer(texts[place], truncation=True, max_length=longest)["input_ids"]
    return whole
