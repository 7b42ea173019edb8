"""An encoder–decoder from the weights of an encoder (VECO: Luo et al. 2021, §3.2).

The encoder is all of the model; layer j of the decoder is its layer `keep[j]`, one of the last,
with the cross-attention that it was trained with, or fresh one. Word embeddings, position
embeddings and their norm are the same in both stacks, and the word embeddings are the output
projection. What is written is transformers' EncoderDecoderModel. It keeps the head's transform,
which VECO's own code leaves out, and stores the embeddings of both stacks: the stock class does not
tie them, `tie_embeddings` does.

Translations by any stock encoder–decoder, through transformers' own `generate()`.

Shape letters: B sequences, T tokens.
"""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from transformers import EncoderDecoderConfig, EncoderDecoderModel, GenerationConfig

from lingraft import log
from lingraft.corpus.readers.lines import batched
from lingraft.errors import RecipeError, UnsupportedModelError
from lingraft.files import check_free, removed_on_failure, writing
from lingraft.models import cross_attention, damage, export
from lingraft.models.families import FAMILIES
from lingraft.models.graft import build
from lingraft.models.modules import MODULES, in_folder, owners_of
from lingraft.models.parts import layer_index, tied_once
from lingraft.models.rows import batches_by_length, padded
from lingraft.models.source import load_model as load_source
from lingraft.pretrained.checkpoints import folder_of
from lingraft.pretrained.load import load_config, longest_text
from lingraft.processes import growing
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.files import state_of, wrapped
from lingraft.tokenizer.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    from lingraft.models.families import Family
    from lingraft.models.source import LoadedSource


logger = logging.getLogger(__name__)

CROSS = MODULES["cross_attention"]
SHARE_OF_LAYERS = 4
"""The paper's decoder has 6 of 24 layers."""
LONGEST_TRANSLATION = 200
"""Tokens."""


@dataclass(frozen=True)
class Made:
    """Summary of what was written."""

    depth: int
    """Layers of the encoder."""
    keep: list[int]
    """Encoder layers, from 0, that the decoder has."""
    parameters: int
    """Embeddings counted once."""
    fresh_cross_attention: bool


def check_source(name: str, config: PreTrainedConfig) -> None:
    """Refuse a checkpoint that no encoder–decoder can be built from; load no weights.

    Args:
        name: directory or Hub id.
        config: its configuration.

    Raises:
        UnsupportedModelError: it is no encoder, has adapters, or no stock decoder has its layers.
    """
    fitting = [key for key, family in FAMILIES.items() if family.cross_attention]
    folder = folder_of(name)
    own = [module.part for module in (in_folder(folder) if folder else []) if module is not CROSS]
    if own or config.model_type not in fitting:
        raise UnsupportedModelError(
            f"{name}: is a {' with '.join([config.model_type, *own])} model, and no stock class is "
            f"an encoder–decoder of its layers; choose one of {', '.join(fitting)} without adapters"
        )


def kept_layers(depth: int, decoder_layers: int | None) -> list[int]:
    """Return the encoder layer that each decoder layer starts from: the last ones (table 4).

    Args:
        depth: layers of the encoder.
        decoder_layers: layers of the decoder; None for a quarter of the encoder's, as in the paper.

    Raises:
        RecipeError: there are not so many.
    """
    count = -(-depth // SHARE_OF_LAYERS) if decoder_layers is None else decoder_layers
    if not 1 <= count <= depth:
        raise RecipeError(f"decoder_layers={count}: the encoder has {depth}; give 1 to {depth}")
    return list(range(depth))[-count:]


def assemble(
    source: LoadedSource, keep: Sequence[int], ids: Mapping[str, int], seed: int = 0
) -> EncoderDecoderModel:
    """Build an encoder–decoder.

    Args:
        source: an encoder of a family that `check_source` lets through; where it has no
            cross-attention, fresh one is put into it.
        keep: for each decoder layer the encoder layer that it starts from.
        ids: `pad`, `bos` and `eos` of the vocabulary; the decoder starts with `eos`.
        seed: of what is drawn.

    Returns:
        The model in fp32, in evaluation mode; embeddings of both stacks are equal.
    """
    model, family = source.model, source.family
    if not model.config.tie_word_embeddings:
        logger.warning("the source's output projection is its own; the word embeddings replace it")
    special = {f"{role}_token_id": ids[role] for role in ("pad", "bos", "eos")}
    encoder = copy.deepcopy(model.config)
    encoder.update({**special, "tie_word_embeddings": True})
    encoder._name_or_path, encoder.architectures = "", None
    decoder = copy.deepcopy(encoder)
    decoder.num_hidden_layers = len(keep)
    decoder.is_decoder = decoder.add_cross_attention = decoder.use_cache = True
    settings: dict[str, Any] = {**special, "vocab_size": int(encoder.vocab_size)}
    settings["decoder_start_token_id"] = ids["eos"]
    config = EncoderDecoderConfig(encoder=encoder.to_dict(), decoder=decoder.to_dict(), **settings)
    target = build(EncoderDecoderModel, config, seed)
    if not owners_of(model.state_dict()):
        cross_attention.insert(model, family, int(encoder.num_hidden_layers), seed)
    absent, strays = target.load_state_dict(_weights(model, family, keep), strict=False)
    target.tie_weights()
    tied = {f"decoder.{name}" for name in (family.decoder, *family.output_bias)}
    lacking = [name for name in absent if name not in tied and ".pooler." not in name]
    assert not [*strays, *lacking], f"{strays} have no place, {lacking} have no weights"
    target.generation_config = GenerationConfig(
        num_beams=5,
        length_penalty=1.0,
        early_stopping=False,
        min_new_tokens=1,
        max_new_tokens=min(LONGEST_TRANSLATION, longest_text(encoder, ids["pad"])),
        decoder_start_token_id=ids["eos"],
        **special,
    )
    return target.eval()


def _weights(
    model: PreTrainedModel, family: Family, keep: Sequence[int]
) -> dict[str, torch.Tensor]:
    """Return the tensors of both stacks from an encoder's with cross-attention."""
    tensors, base = model.state_dict(), f"{model.base_model_prefix}."
    state: dict[str, torch.Tensor] = {}
    for name in tied_once(tensors, family):
        tensor, index = tensors[name], layer_index(name, family)
        if name.startswith(base) and not CROSS.owns(name):
            state[f"encoder.{name.removeprefix(base)}"] = tensor
        if index is None:
            state[f"decoder.{name}"] = tensor
        rest = name.removeprefix(f"{family.layers}.{index}.")
        for layer in (layer for layer, from_layer in enumerate(keep) if from_layer == index):
            state[f"decoder.{family.layers}.{layer}.{rest}"] = tensor
    return state


def tie_embeddings(model: PreTrainedModel) -> bool:
    """Let the stacks of an encoder–decoder share equal word embeddings, in place.

    Where they are equal bit for bit in encoder and decoder they become one parameter, as they are
    in `bart`; positions stay each stack's own. `loading.save` stores them under both names, as the
    stock class wants.

    Returns:
        Whether both stacks now have the same word embeddings; True where they had before.
    """
    encoder, decoder = model.get_encoder(), model.get_decoder()
    own, other = encoder.get_input_embeddings(), decoder.get_input_embeddings()
    if isinstance(model, EncoderDecoderModel) and torch.equal(own.weight, other.weight):
        own.weight = other.weight
    return own.weight is other.weight


def make(name: str, out: Path, decoder_layers: int | None = None, seed: int = 0) -> Made:
    """Write an encoder–decoder built from a checkpoint, and open it again to compare.

    Args:
        name: of the encoder: directory or Hub id.
        out: the folder, made here.
        decoder_layers: None for a quarter of the encoder's.
        seed: of fresh cross-attention.

    Raises:
        RecipeError: there are not so many layers.
        DataError: `out` is not empty, or the checkpoint is broken.
        UnsupportedModelError: as `check_source`; the tokenizer lacks a role.
    """
    check_free(out)
    config = load_config(name)
    check_source(name, config)
    keep = kept_layers(int(config.num_hidden_layers), decoder_layers)
    theirs = tokenizer_files.load(name)
    tokenizer = wrapped(state_of(theirs), theirs)
    tokenizer.model_input_names = ["input_ids", "attention_mask"]  # a sentence has one token type
    ids = Vocabulary.of(tokenizer).specials
    ids |= {"bos": ids["cls"], "eos": ids["sep"]}  # an encoder's tokenizer puts these around texts
    source = load_source(name)
    damage.tell(name, damage.mend(name, source, theirs), theirs)
    fresh = not owners_of(source.model.state_dict())
    model = assemble(source, keep, ids, seed)
    with removed_on_failure(out), writing(out):
        out.mkdir(parents=True, exist_ok=True)
        export.save(model, out)
        tokenizer_files.save(tokenizer, out)
        export.check_reload(model, out)
    tie_embeddings(model)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Made(int(config.num_hidden_layers), keep, parameters, fresh)


MOST_NEW_TOKENS = 200
"""Limit where neither caller nor checkpoint has one, as fairseq's --max-len-b; transformers: 20."""
BATCH_TOKENS = 4_096
BLOCK = 1_024
"""Lines that are sorted by length together, and kept together."""
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
    as_text = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
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
            outputs = tokenizer.batch_decode(output_BT, **as_text)
            for place, text in zip(places, outputs, strict=True):
                translations[filled[place]] = " ".join(text.splitlines()).strip()
            if on_batch is not None:
                on_batch(len(places))
    finally:
        model.train(was_training)
        model.generation_config = own
    return translations


def write_lines(
    texts: Sequence[str], translate: Callable[..., list[str]], out: Path, made_of: str, title: str
) -> int:
    """Write the translations of texts, a line each; a call that is killed goes on.

    Args:
        texts: to translate.
        translate: as the function of this name, with texts and `on_batch`.
        out: the file.
        made_of: fingerprint of all that the lines depend on.
        title: of the progress.

    Returns:
        The lines that an earlier call had written.
    """
    with (
        growing(out, made_of, BLOCK) as (file, before),
        log.progress(title, len(texts), "lines") as ticker,
    ):
        if before:
            logger.info("%s: goes on after %s lines", out, f"{before:,}")
        ticker.start_at(before)
        for block in batched(texts[before:], BLOCK):
            lines = translate(block, on_batch=ticker.advance)
            file.write("".join(f"{line}\n" for line in lines).encode())
            file.flush()
    return before


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
