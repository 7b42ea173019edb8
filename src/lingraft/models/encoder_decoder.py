"""An encoder–decoder from the weights of an encoder (VECO: Luo et al. 2021, §3.2).

The encoder is all of the model; layer j of the decoder is its layer `keep[j]`, with the
cross-attention that it was trained with, or fresh one. Word embeddings, position embeddings and
their norm are the same in both stacks, and the word embeddings are the output projection. What is
written is a stock checkpoint, in one of two formats:

- `encoder-decoder`: transformers' EncoderDecoderModel. It keeps the head's transform, and stores
  the embeddings of both stacks: the stock class does not tie them, `tie_embeddings` does.
- `bart`: BartForConditionalGeneration, whose layers are the same. The head's transform is left out,
  as in VECO's own code: logits are the decoder's states times the word embeddings.

Shape letters: V vocabulary, D width, P positions.
"""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    EncoderDecoderConfig,
    EncoderDecoderModel,
    GenerationConfig,
)

from lingraft.errors import DataError, RecipeError, UnsupportedModelError
from lingraft.models import bart, cross_attention, damage, export
from lingraft.models.families import FAMILIES
from lingraft.models.graft import build
from lingraft.models.modules import MODULES, in_folder, owners_of
from lingraft.models.parts import layer_index, tied_once
from lingraft.models.source import load_model as load_source
from lingraft.pretrained.checkpoints import folder_of
from lingraft.pretrained.load import load_config, load_model, longest_text, quiet_transformers
from lingraft.rundir import check_free, removed_on_failure, writing
from lingraft.tasks.sentences import lines
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.files import state_of, wrapped
from lingraft.tokenizer.trimming import without_unused
from lingraft.tokenizer.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

    from lingraft.models.families import Family
    from lingraft.models.source import LoadedSource

logger = logging.getLogger(__name__)

Format = Literal["encoder-decoder", "bart"]
CROSS = MODULES["cross_attention"]
SHARE_OF_LAYERS = 4
"""The paper's decoder has 6 of 24 layers."""
LONGEST_TRANSLATION = 200
"""Tokens."""


@dataclass(frozen=True)
class Options:
    """Settings of an encoder–decoder to build."""

    decoder_layers: int | None = None
    """None for a quarter of the encoder's."""
    keep: Literal["last", "first"] = "last"
    """End of the encoder whose layers the decoder starts from."""
    format: Format = "encoder-decoder"
    random: bool = False
    """Keep the shape alone."""
    seed: int = 0
    """Seed of fresh weights."""
    trim: tuple[Path, ...] = ()
    """Files of text; pieces that they do not have are left out."""
    decoder_start: str | None = None
    """The token with which the decoder starts; None for the end of a sentence."""


@dataclass(frozen=True)
class Made:
    """Summary of what was written."""

    depth: int
    """Layers of the encoder."""
    keep: list[int]
    """Encoder layers, from 0, that the decoder has."""
    parameters: int
    """Embeddings counted once."""
    pieces: tuple[int, int]
    """Pieces of the vocabulary, and those before trimming."""
    fresh_cross_attention: bool


def family_for(name: str, config: PreTrainedConfig) -> Family:
    """Return the record of a checkpoint that an encoder–decoder can be built from; load no weights.

    Args:
        name: directory or Hub id.
        config: its configuration.

    Raises:
        UnsupportedModelError: it is no encoder, has adapters, or no stock decoder has its layers.
    """
    family, types = FAMILIES.get(config.model_type), _known()
    if config.is_encoder_decoder:
        raise UnsupportedModelError(
            f"{name}: is an encoder–decoder already; fine-tune it as it is (the format is chosen "
            "when it is made)"
        )
    if family is None or family.kind != "masked":
        raise UnsupportedModelError(
            f"{name}: is a {config.model_type} model, no encoder that lingraft knows; choose one "
            f"of {', '.join(types)}"
        )
    if config.model_type not in types:
        raise UnsupportedModelError(
            f"{name}: transformers has no decoder with the layers of {config.model_type} and "
            f"cross-attention, so the result could not be opened; choose one of "
            f"{', '.join(types)}"
        )
    folder = folder_of(name)
    if own := [module for module in (in_folder(folder) if folder else []) if module is not CROSS]:
        raise UnsupportedModelError(
            f"{name}: has {own[0].part}, which no stock class has; choose a model without them"
        )
    return family


def _known() -> list[str]:
    """Return architectures whose layers, with cross-attention, are those of a stock decoder."""
    return [
        name
        for name, family in FAMILIES.items()
        if family.kind == "masked" and family.cross_site and not family.cross_site.pre_norm
    ]


def kept_layers(depth: int, decoder_layers: int | None, keep: str = "last") -> list[int]:
    """Return the encoder layer that each decoder layer starts from.

    Args:
        depth: layers of the encoder.
        decoder_layers: layers of the decoder; None for a quarter of the encoder's, as in the paper.
        keep: 'last', which is better (table 4 of the paper), or 'first'.

    Raises:
        RecipeError: there are not so many.
    """
    count = -(-depth // SHARE_OF_LAYERS) if decoder_layers is None else decoder_layers
    if not 1 <= count <= depth:
        raise RecipeError(
            f"--decoder-layers {count}: the encoder has {depth} layers; give 1 to {depth}"
        )
    return list(range(depth))[-count:] if keep == "last" else list(range(count))


def assemble(
    source: LoadedSource,
    keep: Sequence[int],
    ids: Mapping[str, int],
    *,
    rows: Sequence[int] | None = None,
    random: bool = False,
    seed: int = 0,
) -> EncoderDecoderModel:
    """Build an encoder–decoder.

    Args:
        source: an encoder of a family that `family_for` lets through; where it has no
            cross-attention, fresh one is put into it.
        keep: for each decoder layer the encoder layer that it starts from.
        ids: `pad`, `bos` and `eos` of the vocabulary, and `start`, with which the decoder starts.
        rows: for each row of the new vocabulary the source's; None keeps all.
        random: keep the shape alone: all weights are drawn anew.
        seed: of what is drawn.

    Returns:
        The model in fp32, in evaluation mode; embeddings of both stacks are equal.
    """
    model, family = source.model, source.family
    if not source.model.config.tie_word_embeddings and not random:
        logger.warning("the source's output projection is its own; the word embeddings replace it")
    special = {f"{role}_token_id": ids[role] for role in ("pad", "bos", "eos")}
    encoder = copy.deepcopy(model.config)
    size = len(rows) if rows is not None else int(encoder.vocab_size)
    for key, value in {**special, "vocab_size": size, "tie_word_embeddings": True}.items():
        setattr(encoder, key, value)
    encoder._name_or_path, encoder.architectures = "", None
    decoder = copy.deepcopy(encoder)
    decoder.num_hidden_layers = len(keep)
    decoder.is_decoder = decoder.add_cross_attention = decoder.use_cache = True
    settings: dict[str, Any] = {**special, "vocab_size": size}
    settings["decoder_start_token_id"] = ids["start"]
    config = EncoderDecoderConfig(encoder=encoder.to_dict(), decoder=decoder.to_dict(), **settings)
    target = build(EncoderDecoderModel, config, seed)
    if random:
        state = {
            f"decoder.{model.base_model_prefix}.{name}": tensor
            for name, tensor in target.get_encoder().state_dict().items()
            if name.startswith("embeddings")
        }
    else:
        if not owners_of(model.state_dict()):
            cross_attention.insert(model, family, int(encoder.num_hidden_layers), seed)
        state = _weights(model, family, keep, rows)
    absent, strays = target.load_state_dict(state, strict=False)
    assert not strays, f"{strays} have no place"
    target.tie_weights()
    tied = {f"decoder.{name}" for name in (family.decoder, *family.output_bias)}
    lacking = [name for name in absent if name not in tied and ".pooler." not in name]
    assert random or not lacking, f"{lacking} have no weights"
    target.generation_config = _generation(ids, longest_text(encoder, ids["pad"]))
    return target.eval()


def _weights(
    model: PreTrainedModel, family: Family, keep: Sequence[int], rows: Sequence[int] | None
) -> dict[str, torch.Tensor]:
    """Return the tensors of both stacks from an encoder's with cross-attention."""
    tensors, base = model.state_dict(), f"{model.base_model_prefix}."
    state: dict[str, torch.Tensor] = {}
    for name in tied_once(tensors, family):
        tensor, index = tensors[name], layer_index(name, family)
        if rows is not None and name in (family.word_embeddings, *family.output_bias):
            tensor = tensor[torch.tensor(rows)]
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
        decoder_start_token_id=ids["start"],
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


def make(name: str, out: Path, options: Options) -> Made:
    """Write an encoder–decoder built from a checkpoint, and open it again to compare.

    Args:
        name: of the encoder: directory or Hub id.
        out: the folder, made here.
        options: what is wanted.

    Raises:
        RecipeError: there are not so many layers, or no such token.
        DataError: `out` is not empty, a text is empty or cannot be read, or the checkpoint is
            broken.
        UnsupportedModelError: as `family_for`, `bart.check`; the tokenizer lacks a role.
    """
    check_free(out)
    quiet_transformers()
    config = load_config(name)
    family = family_for(name, config)
    keep = kept_layers(int(config.num_hidden_layers), options.decoder_layers, options.keep)
    if options.format == "bart":
        bart.check(name, config)
    source_tokenizer = tokenizer_files.load(name)
    tokenizer, rows = _tokenizer(source_tokenizer, config, family, options)
    ids = _ids(tokenizer, options.decoder_start)
    source = load_source(name)
    damage.tell(name, damage.mend(name, source, source_tokenizer), source_tokenizer)
    fresh = options.random or not owners_of(source.model.state_dict())
    built = assemble(source, keep, ids, rows=rows, random=options.random, seed=options.seed)
    model = bart.of(built) if options.format == "bart" else built
    with removed_on_failure(out), writing(out):
        out.mkdir(parents=True, exist_ok=True)
        export.save(model, out)
        tokenizer_files.save(tokenizer, out)
        _check(model, out)
    tie_embeddings(model)
    return Made(
        int(config.num_hidden_layers),
        keep,
        sum(parameter.numel() for parameter in model.parameters()),
        (len(tokenizer), len(source_tokenizer)),
        fresh_cross_attention=fresh,
    )


def _tokenizer(
    source: PreTrainedTokenizerFast, config: PreTrainedConfig, family: Family, options: Options
) -> tuple[PreTrainedTokenizerFast, list[int] | None]:
    """Return the tokenizer, and the old id of each of its ids where pieces were left out."""
    state, rows = state_of(source), None
    if options.trim:
        fixed = int(config.pad_token_id) if family.pad_decides_positions else -1
        start = () if options.decoder_start is None else (options.decoder_start,)
        state = without_unused(state, _sentences(options.trim), fixed, start)
    tokenizer = wrapped(state, source)
    if options.trim:
        before: dict[str, int] = source.get_vocab()
        after: dict[str, int] = tokenizer.get_vocab()
        rows = [before[piece] for piece in sorted(after, key=after.__getitem__)]
    tokenizer.model_input_names = ["input_ids", "attention_mask"]  # a sentence has one token type
    return tokenizer, rows


def _sentences(texts: Sequence[Path]) -> Iterator[str]:
    """Yield the lines of files; in a table of translations each column is a sentence."""
    for path in texts:
        filled = False
        for line in lines(path):
            filled = filled or bool(line.strip())
            yield from line.split("\t")
        if not filled:
            raise DataError(f"--trim: {path} holds no text; give text of both languages")


def _ids(tokenizer: PreTrainedTokenizerFast, start: str | None) -> dict[str, int]:
    vocabulary = Vocabulary.of(tokenizer)
    pieces: dict[str, int] = tokenizer.get_vocab()
    if start is not None and start not in pieces:
        raise RecipeError(
            f"--decoder-start '{start}': the vocabulary has no such piece; give one that it has, "
            f"or leave it out for '{vocabulary.pieces[vocabulary.specials['sep']]}'"
        )
    ids = vocabulary.specials
    ids |= {"bos": ids["cls"], "eos": ids["sep"]}  # an encoder's tokenizer puts these around texts
    return ids | {"start": ids["eos"] if start is None else pieces[start]}


@torch.inference_mode()
def _check(model: PreTrainedModel, folder: Path) -> None:
    """Open the folder as stock transformers does, and compare.

    Raises:
        DataError: a tensor is missing, or logits differ.
    """
    again, info = load_model(AutoModelForSeq2SeqLM, str(folder))
    strays = [f"{key}: {min(map(str, names))}" for key, names in info.items() if names]
    generator = torch.Generator().manual_seed(0)
    ids_BT = torch.randint(0, int(model.config.vocab_size), (2, 2, 8), generator=generator)
    inputs = {"input_ids": ids_BT[0], "decoder_input_ids": ids_BT[1]}
    inputs["attention_mask"] = torch.ones_like(ids_BT[0])
    if strays or not torch.equal(model(**inputs).logits, again.eval()(**inputs).logits):
        raise DataError(
            f"{folder}: does not open as it was written ({', '.join(strays) or 'other logits'}); "
            "nothing was kept"
        )
