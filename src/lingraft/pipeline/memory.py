"""How much memory a phase will take, and what this machine has. No torch: `lingraft check` asks.

Sizes come from the headers of the source's files. It is a sum of what is certain (weights,
gradients, the optimiser's two moments) and of what the layers keep for the backward pass: what
their maps read and write, what norms keep, and on a CPU attention's maps, which grow with the rows.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lingraft.models.families import DECODER
from lingraft.models.parts import layer_index
from lingraft.models.rows import ROW_MULTIPLE
from lingraft.recipe.base import READ_PAIRS
from lingraft.recipe.defaults import TOKENS_PER_SENTENCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lingraft.models.families import Family
    from lingraft.pipeline.hardware import Machine
    from lingraft.pipeline.trainable import Trained
    from lingraft.recipe import Data, Phase, Recipe
    from lingraft.recipe.base import Objective
    from lingraft.recipe.phase import Masking

PROGRAM = 600_000_000
"""Bytes of Python with torch and transformers, before any model."""
LOGITS_AT_ONCE = 1 << 25
"""Logits of clm that are there at a time; `models.chunked` says why, and a test that it is so."""
HEAD_COUNT = ("num_attention_heads", "n_head", "encoder_attention_heads", "num_heads", "n_heads")
ACTIVATION = ("activation_function", "hidden_act", "dense_act_fn", "feed_forward_proj")
WRITTEN_OUT = ("gelu_new", "gelu_fast", "gated-gelu")
"""Activations that are a formula of several steps, three of which keep something more."""
WIDTH = ("hidden_size", "n_embd", "d_model", "dim")


def width_of(config: Mapping[str, Any]) -> int | None:
    """Numbers in a hidden state, as a config.json has them under one name or another."""
    return next((int(config[key]) for key in WIDTH if config.get(key)), None)


@dataclass(frozen=True)
class Layers:
    """What a target's layers are like."""

    number: int
    width: int
    heads: int
    read: int
    """Numbers that the linear maps of a layer read for each token."""
    written: int
    """Numbers that they write, and the steps of an activation keep."""
    parameters: int
    """Of all linear maps of all layers."""
    rows: int
    """Of the embeddings."""
    attentions: int
    """In all layers; a decoder's layer that also sees an encoder has two."""
    dropout: float
    """Of attention's probabilities."""
    context: int | None = None
    """Tokens that the model reads at once; None where positions are not numbered."""

    @classmethod
    def of(
        cls,
        shapes: Mapping[str, tuple[int, ...]],
        config: Mapping[str, Any],
        family: Family,
        recipe: Recipe,
    ) -> Layers | None:
        """From the source's tensors; None where its config.json lacks a number.

        Args:
            shapes: of the source's tensors.
            config: its config.json.
            family: its record.
            recipe: what is inserted, and how many rows there will be.
        """
        numbers = {index for name in shapes if (index := layer_index(name, family)) is not None}
        width = width_of(config)
        heads = next((int(config[key]) for key in HEAD_COUNT if config.get(key)), None)
        if not numbers or width is None or heads is None:
            return None
        maps = [
            shape
            for name, shape in shapes.items()
            if layer_index(name, family) == max(numbers) and len(shape) == 2
        ]
        in_first, out_first = (0, 1) if family.model_type == "gpt2" else (1, 0)
        widest = max((shape[out_first] for shape in maps), default=0)
        by_hand = 3 * widest if any(config.get(key) in WRITTEN_OUT for key in ACTIVATION) else 0
        lists = len(family.lists)
        inserted = recipe.graft.places.number(len(numbers) // lists)
        number = len(numbers) + lists * inserted
        decoding = [index for index in numbers if index >= DECODER]
        numbered = config.get("n_positions") if family.kind == "causal" else None  # not T5's
        return cls(
            number,
            width,
            heads,
            sum(shape[in_first] for shape in maps),
            sum(shape[out_first] for shape in maps) + by_hand,
            number * sum(math.prod(shape) for shape in maps),
            recipe.tokenizer.most_rows(shapes[family.word_embeddings][0]),
            number + (len(decoding) + inserted if decoding else 0),
            float(config.get(_attention_dropout(family)) or 0),
            config.get("max_position_embeddings", numbered),
        )


@dataclass(frozen=True)
class Need:
    """Bytes that a phase takes at its peak, by what they are for."""

    weights: int
    gradients: int
    optimiser: int
    activations: int
    """What layers keep for the backward pass, and the copies in bf16 that they compute with."""
    logits: int
    program: int = PROGRAM

    @property
    def total(self) -> int:
        """All together."""
        return sum(dataclasses.astuple(self))


@dataclass(frozen=True)
class Target:
    """A model and where it trains: what the memory of every phase depends on."""

    recipe: Recipe
    """How long rows are, and how the machine is used."""
    by_part: Mapping[str, int]
    """Parameters."""
    layers: Layers
    machine: Machine


@dataclass(frozen=True)
class Read:
    """What a phase reads under one objective."""

    objective: Objective
    masking: Masking
    row: int
    """Tokens of a row."""
    tokens: int
    """That go through the model at once."""
    crosses: bool
    """Whether the model reads them with cross-attention (VECO)."""
    passes: int
    """How often it reads them before the backward pass."""


def need(target: Target, phase: Phase, trained: Trained) -> Need:
    """What a phase takes, with the most demanding of its batches.

    Args:
        target: the model, and where it trains.
        phase: what trains on what.
        trained: what of the target the phase trains.
    """
    training, machine = target.recipe.training, target.machine
    is_auto = training.precision == "auto"
    half = training.precision in ("bf16", "fp16") or (is_auto and (machine.bf16 or machine.is_gpu))
    size = 2 if half else 4
    batches = [
        (
            _kept(target, phase, trained, read, size),
            read.passes * _logit_bytes(target, phase, read, size),
        )
        for read in _read(target, phase)
    ]
    activations, logits = max(batches, key=sum)
    maps = target.layers.parameters + target.by_part["cross_attention"]
    weights = 4 * (sum(target.by_part.values()) + trained.teacher)
    if training.frozen_weights == "bf16" and half:
        weights -= 2 * trained.frozen_maps
    return Need(
        weights,
        4 * (trained.parameters + trained.matrices),
        8 * trained.parameters,
        activations + (2 * maps if half else 0),
        logits,
    )


def _read(target: Target, phase: Phase) -> list[Read]:
    """All that a phase reads."""
    return [
        _read_as(target, phase, entry, objective, bilingual=stream.bilingual)
        for entry, stream in target.recipe.read_in(phase)
        for objective in phase.objectives_of(entry)
    ]


def _read_as(
    target: Target, phase: Phase, entry: Data, objective: Objective, *, bilingual: bool
) -> Read:
    """A stream under an objective.

    A row is longer than `row_tokens` where one thing that it holds is. Sentences are taken to fit
    into a row, and so is each side of a translation that is not said to be longer; what is filled
    up to a length has it: pieces of documents, blocks, and both of two neighbouring stretches.
    """
    training, most = target.recipe.training, target.recipe.tokenizer.max_tokens
    context = target.layers.context or 2 * most
    crosses, unit = objective == "ca_mlm", 0
    if objective in READ_PAIRS:
        side = min(entry.max_tokens or most, most, context)
        if bilingual and entry.max_tokens is None:
            side = min(side, training.row_tokens)
        unit = 2 * side if crosses else min(2 * side, context)
    elif objective == "clm" or phase.join_sentences:
        unit = min(most, context)
    row = max(training.row_tokens, -(-unit // ROW_MULTIPLE) * ROW_MULTIPLE)
    batch = phase.batch.size
    if bilingual and phase.mixture.bilingual_batch is not None:
        batch = phase.mixture.bilingual_batch
    if phase.batch.unit == "sentences":
        batch *= max(row, most)
    tokens = max(row, min(training.at_once, batch))
    # where cross-attention trains alone the pass without it has nothing to learn, and keeps nothing
    passes = 2 if crosses and not phase.crosses_alone else 1
    return Read(objective, entry.masking or phase.masking, row, tokens, crosses, passes)


def _kept(target: Target, phase: Phase, trained: Trained, read: Read, size: int) -> int:
    """Activations of a batch: what all passes keep until the backward pass."""
    layers, width = target.layers, target.layers.width
    attention = backward = 0
    if not target.machine.is_gpu and trained.layers:  # a GPU's fused kernel keeps no maps
        attention = _attention_bytes(layers, phase, read.row, size)
        backward = 3 * size * layers.heads * read.row  # gradients of one attention's maps, a mask
    learning, still = (
        _layer_bytes(layers, size, trained=trains) + attention * layers.attentions // layers.number
        for trains in (True, False)
    )
    # its norm, and what its four maps read, where they train, and write
    trains = "cross_attention" in phase.trained
    crossing = 8 * width + size * width * (8 if trains else 5) + attention if read.crosses else 0
    everything = learning * trained.learning + still * (trained.layers - trained.learning)
    crossed = crossing * trained.layers
    if target.recipe.training.gradient_checkpointing and trained.layers:
        most = learning if trained.learning else still
        everything, crossed = 4 * width * trained.layers + most, crossing
    return read.tokens * (read.passes * (everything + 8 * width) + crossed + backward)


def _layer_bytes(layers: Layers, size: int, *, trained: bool) -> int:
    """What a layer keeps for each token until the backward pass, attention's maps apart."""
    norms = 16 * layers.width  # their input and the normalised input, twice, in fp32
    return norms + size * (layers.written + (layers.read if trained else layers.width))


def _attention_bytes(layers: Layers, phase: Phase, row: int, size: int) -> int:
    """What one attention takes for each token on a CPU, by plain products.

    It keeps the probabilities, and with dropout also its mask (16 bits) and what the mask leaves.
    A map of scores was there on the way: memory of freed blocks is kept
    (`training.machine.keep_freed_memory`), and the next map does not go into the place of this one:
    to align it, glibc looks for a little more than there was (seen with 2.36).
    """
    dropout = layers.dropout if phase.dropout is None else phase.dropout
    return layers.heads * row * (2 * size + (size + 2 if dropout else 0))


def _attention_dropout(family: Family) -> str:
    """The configuration key of the dropout of attention's probabilities."""
    return next((key for key in family.dropout_keys if "att" in key), family.dropout_keys[-1])


def _logit_bytes(target: Target, phase: Phase, read: Read, size: int) -> int:
    """Logits of what is predicted at once, with their softmax and gradient in fp32."""
    rows = target.layers.rows
    if read.objective == "clm":
        at_once = min(read.tokens * rows, LOGITS_AT_ONCE)
        own = 2 * 4 * target.by_part["embeddings"] if "embeddings" in phase.trained else 0
        return at_once * (8 + size) + own  # the head's gradient too, before it is scaled
    return int(read.tokens * _predicted(read) * rows * (8 + size))


def _predicted(read: Read) -> float:
    """The share of the tokens at once that is predicted."""
    share = read.masking.rate
    if read.objective != "denoise":
        return share
    if read.masking.scheme != "spans":  # the decoder writes the whole sentence
        return 1.0
    return min(1.0, share * (1 + 1 / read.masking.mean_span) + 2 / TOKENS_PER_SENTENCE)
