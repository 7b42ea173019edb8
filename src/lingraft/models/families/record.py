"""Record of a model family. No torch here.

Settings that transformers would load without a word, and no record holds for. No torch here.

Kinds of language model: what a family's record leaves to its kind. No torch here.

Who loads, masks attention, or sets special tokens asks the kind, so that a family of another kind
is a record in `families/` and no edit anywhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lingraft.errors import UnsupportedModelError
from lingraft.models.families import older

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


KindName = Literal["masked", "causal", "seq2seq"]

BOTH_ENDS = {"pad_token_id": "pad", "bos_token_id": "bos", "eos_token_id": "eos"}


@dataclass(frozen=True)
class Kind:
    """Kind of language model: what all its families have in common."""

    title: str
    """For messages."""
    auto_class: str
    """The class of transformers that loads it with its head."""
    attention: Literal["both sides", "before"]
    """Part of a sentence that a position sees, in the stack that predicts."""
    special_ids: Mapping[str, str] = field(default_factory=lambda: BOTH_ENDS)
    """Configuration key of a special token -> its role in a vocabulary."""
    objective: str | None = None
    """The only objective that trains it, whatever the method's phases say; None leaves it to them.
    """
    kept_ids: tuple[str, ...] = ()
    """More configuration keys of special tokens, whose role depends on the model: what the source
    has there, the target has too."""


KINDS: dict[KindName, Kind] = {
    "masked": Kind(
        "masked language model",
        "AutoModelForMaskedLM",
        "both sides",
        BOTH_ENDS | {"cls_token_id": "cls", "sep_token_id": "sep", "mask_token_id": "mask"},
    ),
    "causal": Kind("causal language model", "AutoModelForCausalLM", "before", objective="clm"),
    "seq2seq": Kind(
        "encoder–decoder",
        "AutoModelForSeq2SeqLM",
        "before",
        objective="denoise",
        kept_ids=("decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id"),
    ),
}


@dataclass(frozen=True)
class Identity:
    """Values of weights with which a layer gives back its input."""

    modules: tuple[str, ...]
    """Modules of a layer that write to the residual stream: weights and biases are set."""
    value: float = 0.0
    """To this; a norm that multiplies by 1 + weight is silent at -1."""
    where: tuple[str, bool] | None = None
    """Configuration key and the value that it must have for it to hold (OPT 350m is post-LN)."""

    def owns(self, name: str) -> bool:
        """Return whether a tensor, by its name in a layer or the model, is of one of `modules`."""
        return any(f".{module}." in f".{name}" for module in self.modules)


@dataclass(frozen=True)
class LayerList:
    """List of layers: an encoder has one, an encoder–decoder two."""

    layers: str
    """Prefix; a layer's tensors are `{layers}.{index}.…`."""
    depth_key: str
    """Configuration key of their number."""
    first: int = 0
    """Number of the first of them, so that a number names one layer of the model."""


DECODER = 1_000
"""Number of a decoder's first layer; no stack has as many (`pretrained.load.DEEPEST`)."""


@dataclass(frozen=True)
class Family:
    """Record of one architecture: where it keeps its parts."""

    model_type: str
    """`config.model_type`."""
    word_embeddings: str
    """The word-embedding matrix [V, D]."""
    decoder: str
    """The output projection [V, D]: the same tensor where the configuration ties it."""
    layers: str
    """Prefix of the layer list; a layer's tensors are `{layers}.{index}.…`."""
    output_bias: tuple[str, ...] = ()
    """The output bias [V], under each of its names; empty where the head has none. The names are
    tied where the output projection is."""
    embedding_norm: tuple[str, ...] = ()
    """Prefixes of what lies between the embedding rows and the first layer: token types, norm,
    projection."""
    head: tuple[str, ...] = ("lm_head",)
    """Modules that turn hidden states into logits, applied in this order."""
    head_tensors: tuple[str, ...] = ()
    """Prefixes of the language-model head without decoder and bias."""
    positions: tuple[str, ...] = ()
    """Learned position rows; empty where positions are rotary."""
    pad_decides_positions: bool = False
    """Whether the padding id must be kept because position rows are counted from it: a sentence's
    first token has padding_idx + 1 as in RoBERTa, else 0."""
    body_tensors: tuple[str, ...] = ()
    """Prefixes of encoder tensors outside the layer list (a final norm)."""
    dropout_keys: tuple[str, ...] = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    """Configuration keys of the dropout probabilities that act in pretraining."""
    per_layer: tuple[str, ...] = ()
    """Configuration keys of lists with an entry a layer; an entry goes where its layer goes."""
    window_everywhere: bool = False
    """Whether every layer attends to `sliding_window` tokens alone, where the configuration has it;
    else that depends on the layer's entry in `layer_types`."""
    other_positions: str = ""
    """Kind of positions where the other fields do not say: neither learned nor rotary."""
    attention: Literal["replaced", "own", "alibi", "disentangled"] = "replaced"
    """Attention of packed rows: lingraft's in the place of the class's; the class's own, under a
    mask alone; that one with its own distances (`stacks.py`)."""
    identity: Identity | None = None
    """Identity by which an inserted layer leaves the model as it is; None where none can, for a
    layer ends with a norm of the sum (post-LN)."""
    stored: tuple[tuple[str, str], ...] = ()
    """Names in the class that checkpoints give otherwise: a part of the stored name, ours."""
    logits_divided_by: str | None = None
    """Configuration key of what the logits are divided by (Granite)."""
    logits_multiplied_by: str | None = None
    """Configuration key of what they are multiplied by (HyperCLOVA X)."""
    logits_cap: str | None = None
    """Configuration key of the size that logits cannot exceed, by tanh (Gemma 2); null has none."""
    older: Callable[[Mapping[str, Any]], dict[str, Any]] | None = older.rope
    """From config.json of transformers 5, what version 4.57 looks for; None where 4.57 does not
    have the class."""
    own_pattern: bool = False
    """Whether transformers 5 cuts text by the family's own pattern, whatever the files of the
    tokenizer say: its class for the family goes before the class that they name (Qwen 2)."""
    note: str = ""
    """For the page of families: what a user should know."""
    first_layer_lacks: str | None = None
    """Tensor that every layer has but the first (ModernBERT's attention norm)."""
    residual_sites: tuple[str, ...] = ("attention.output.dropout", "output.dropout")
    """Modules of a layer whose output is added to the residual stream."""
    cross_attention: bool = False
    """Whether cross-attention can be plugged in behind self-attention, as into BERT's layers."""
    kind: KindName = "masked"
    """Kind of language model: a key of `kinds.KINDS`."""
    depth_key: str = "num_hidden_layers"
    """Configuration key of the number of layers."""
    decoder_list: LayerList | None = None
    """The second list of layers of an encoder–decoder; `layers` is the encoder's."""
    embedding_aliases: tuple[str, ...] = ()
    """More names of the word embeddings, always tied."""
    position_modules: tuple[str, ...] = ()
    """Modules of an encoder–decoder that give positions, the encoder's and the decoder's, where
    they count along the row; empty where attention alone knows them."""
    first_layer_has: str | None = None
    """Tensor that the first layer of a list alone has, for all of them (T5's relative positions):
    it goes with the place, not with the layer, and is of the part positions."""
    decoder_start: Literal["pad", "eos"] = "eos"
    """Token that a decoder which is trained from nothing starts with."""
    head_scale_key: str | None = None
    """Configuration key of whether states are multiplied by D^-½ before the head."""
    corruption: Literal["spans", "infilling"] | None = None
    """Corruption of text by `denoise`, as the family's own pretraining did."""

    @property
    def lists(self) -> tuple[LayerList, ...]:
        """Return the architecture's lists of layers."""
        own = LayerList(self.layers, self.depth_key)
        return (own, self.decoder_list) if self.decoder_list else (own,)

    @property
    def types_of_layers(self) -> bool:
        """Return whether `layer_types` says which layers attend to a window."""
        return "layer_types" in self.per_layer

    @property
    def kind_of_positions(self) -> str:
        """Return how a token's place is known."""
        if self.positions:
            return "learned"
        kind = "sinusoidal" if self.position_modules else self.other_positions or "rotary"
        return "relative" if self.first_layer_has else kind


SETTINGS: dict[str, tuple[tuple[str, ...], object, str]] = {
    "decoder_bias": (("modernbert",), True, "its head then has no bias"),
    "tie_word_embeddings": (
        ("bart", "mbart", "m2m_100"),
        True,
        "encoder, decoder and output then have embeddings each",
    ),
    "scale_attn_by_inverse_layer_idx": (
        ("gpt2",),
        False,
        "attention is scaled by a layer's number, so no layer can be inserted",
    ),
}
"""By key of config.json: for which families, its default, which alone works, and why."""
ATTENTIONS = ("full_attention", "sliding_attention")
"""Attentions that packed rows are isolated for; not chunked or linear attention."""


def check_config(name: str, config: Mapping[str, Any]) -> None:
    """Refuse a checkpoint that its family's record does not hold for.

    Args:
        name: directory, Hub id or 'source.architecture', for the message.
        config: its config.json.

    Raises:
        UnsupportedModelError: its rows would leak, or a setting is another than the record's.
    """
    types = config.get("layer_types")
    unknown = sorted({*map(str, types)} - {*ATTENTIONS}) if isinstance(types, list) else []
    reasons = [f"has layers of type {kind}, in which rows would leak" for kind in unknown]
    for key, (families, works, reason) in SETTINGS.items():
        if config.get("model_type") in families and config.get(key, works) != works:
            reasons.append(f"{key} is {config[key]!r}: {reason}")
    if reasons:
        title = name if name == "source.architecture" else f"source model '{name}'"
        raise UnsupportedModelError(f"{title}: {'; '.join(reasons)}; choose another model")
