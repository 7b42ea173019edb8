"""An encoder–decoder from the weights of an encoder (VECO: Luo et al. 2021, §3.2).

The encoder is all of the model; layer j of the decoder is its layer `keep[j]`, one of the last,
with the cross-attention that it was trained with, or fresh one. Word embeddings, position
embeddings and their norm are the same in both stacks, and the word embeddings are the output
projection. What is written is transformers' EncoderDecoderModel. It keeps the head's transform,
which VECO's own code leaves out, and stores the embeddings of both stacks: the stock class does not
tie them, `tie_embeddings` does.
"""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from transformers import EncoderDecoderConfig, EncoderDecoderModel, GenerationConfig

from lingraft.errors import RecipeError, UnsupportedModelError
from lingraft.models import cross_attention, damage, export
from lingraft.models.families import FAMILIES
from lingraft.models.graft import build
from lingraft.models.modules import MODULES, in_folder, owners_of
from lingraft.models.parts import layer_index, tied_once
from lingraft.models.source import load_model as load_source
from lingraft.pretrained.checkpoints import folder_of
from lingraft.pretrained.load import load_config, longest_text
from lingraft.rundir import check_free, removed_on_failure, writing
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.files import state_of, wrapped
from lingraft.tokenizer.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from transformers import PreTrainedConfig, PreTrainedModel

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
    for key, value in {**special, "tie_word_embeddings": True}.items():
        setattr(encoder, key, value)
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
    target.generation_config = _generation(ids, longest_text(encoder, ids["pad"]))
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


def _generation(ids: Mapping[str, int], longest: int) -> GenerationConfig:
    """Return the settings by which `generate` decodes unless it is told otherwise."""
    return GenerationConfig(
        num_beams=5,
        length_penalty=1.0,
        early_stopping=False,
        min_new_tokens=1,
        max_new_tokens=min(LONGEST_TRANSLATION, longest),
        decoder_start_token_id=ids["eos"],
        pad_token_id=ids["pad"],
        bos_token_id=ids["bos"],
        eos_token_id=ids["eos"],
    )


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
