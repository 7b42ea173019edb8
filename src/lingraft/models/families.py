"""Model families as records: where each architecture keeps what lingraft handles. No torch here.

To add a family, add a record to `FAMILIES`; the contract tests then run over it. Names are tensor
names of the stock class in transformers 5, `...ForMaskedLM` for a masked language model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lingraft.errors import UnsupportedModelError
from lingraft.models.kinds import KINDS

if TYPE_CHECKING:
    from lingraft.models.kinds import KindName


@dataclass(frozen=True)
class CrossSite:
    """Where cross-attention stands in a layer: behind self-attention, before the feed-forward."""

    behind: str
    """The module of a layer behind which it stands."""
    pre_norm: bool
    """Whether the layer normalises what a block reads, not what it gives: then cross-attention
    does so too, and the residual stream is the layer's input plus that module's output."""
    norm_epsilon: str
    """Configuration key."""
    dropout: str
    """Configuration key of the dropout behind the output projection."""
    attention_dropout: str
    """Configuration key of the dropout of attention probabilities."""


@dataclass(frozen=True)
class LayerList:
    """One list of layers: an encoder has one, an encoder–decoder two."""

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
    """Where one architecture keeps its parts."""

    model_type: str
    """`config.model_type`."""
    word_embeddings: str
    """The word-embedding matrix [V, D]."""
    decoder: str
    """The output projection [V, D]: the same tensor where the configuration ties it."""
    output_bias: tuple[str, ...]
    """The output bias [V], under each of its names; empty where the head has none. The names are
    tied where the output projection is."""
    layers: str
    """Prefix of the layer list; a layer's tensors are `{layers}.{index}.…`."""
    embedding_norm: tuple[str, ...]
    """Prefixes of what lies between the embedding rows and the first layer: token types, norm,
    projection."""
    head: tuple[str, ...]
    """Modules that turn hidden states into logits, applied in this order."""
    head_tensors: tuple[str, ...]
    """Prefixes of the language-model head without decoder and bias."""
    positions: tuple[str, ...] = ()
    """Learned position rows; empty where positions are rotary."""
    first_position: Literal["zero", "after padding"] = "zero"
    """Position of a sentence's first token: 0, or padding_idx + 1 as in RoBERTa."""
    body_tensors: tuple[str, ...] = ()
    """Prefixes of encoder tensors outside the layer list (a final norm)."""
    dropout_keys: tuple[str, ...] = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    """Configuration keys of the dropout probabilities that act in pretraining."""
    layer_types_key: str | None = None
    """Configuration key of a per-layer list that has to grow with the depth."""
    first_layer_lacks: str | None = None
    """Tensor that every layer has but the first (ModernBERT's attention norm)."""
    residual_sites: tuple[str, ...] = ("attention.output.dropout", "output.dropout")
    """Modules of a layer whose output is added to the residual stream."""
    layer_output: str = "output.dense.weight"
    """A tensor of every layer whose first axis is as long as the layer's output is wide."""
    cross_site: CrossSite | None = None
    """Where cross-attention can be plugged in; None where no place is known."""
    kind: KindName = "masked"
    """What kind of language model it is: a key of `kinds.KINDS`."""
    depth_key: str = "num_hidden_layers"
    """Configuration key of the number of layers."""
    decoder_list: LayerList | None = None
    """The second list of layers of an encoder–decoder; `layers` is the encoder's."""
    embedding_aliases: tuple[str, ...] = ()
    """More names of the word embeddings, always tied."""
    position_modules: tuple[str, ...] = ()
    """Of an encoder–decoder: modules that give positions, the encoder's and the decoder's, where
    they count along the row; empty where attention alone knows them."""
    first_layer_has: str | None = None
    """Tensor that the first layer of a list alone has, for all of them (T5's relative positions):
    it goes with the place, not with the layer, and is of the part positions."""
    decoder_start: Literal["pad", "eos"] = "eos"
    """What a decoder that is trained from nothing starts with."""
    head_scale_key: str | None = None
    """Configuration key of whether states are multiplied by D^-½ before the head."""
    corruption: Literal["spans", "infilling"] | None = None
    """What `denoise` does to text, as the family's own pretraining did."""

    @property
    def lists(self) -> tuple[LayerList, ...]:
        """Its lists of layers."""
        own = LayerList(self.layers, self.depth_key)
        return (own, self.decoder_list) if self.decoder_list else (own,)

    @property
    def pad_decides_positions(self) -> bool:
        """Whether the padding id must be kept because position rows are counted from it."""
        return self.first_position == "after padding"


def _bert_like(model_type: str, prefix: str, logits: str, **changes: object) -> Family:
    fields: dict[str, object] = {
        "model_type": model_type,
        "word_embeddings": f"{prefix}.embeddings.word_embeddings.weight",
        "decoder": f"{logits}.decoder.weight",
        "output_bias": (f"{logits}.bias", f"{logits}.decoder.bias"),
        "layers": f"{prefix}.encoder.layer",
        "positions": (f"{prefix}.embeddings.position_embeddings.weight",),
        "cross_site": CrossSite(
            "attention",
            pre_norm=False,
            norm_epsilon="layer_norm_eps",
            dropout="hidden_dropout_prob",
            attention_dropout="attention_probs_dropout_prob",
        ),
        "embedding_norm": (
            f"{prefix}.embeddings.token_type_embeddings.",
            f"{prefix}.embeddings.LayerNorm.",
        ),
    }
    return Family(**(fields | changes))  # type: ignore[arg-type]


ROBERTA_HEAD: dict[str, object] = {
    "head": ("lm_head",),
    "head_tensors": ("lm_head.dense.", "lm_head.layer_norm."),
    "first_position": "after padding",
}

FAMILIES: dict[str, Family] = {
    "bert": _bert_like(
        "bert",
        "bert",
        "cls.predictions",
        head=("cls.predictions",),
        head_tensors=("cls.predictions.transform.",),
    ),
    "roberta": _bert_like("roberta", "roberta", "lm_head", **ROBERTA_HEAD),
    "xlm-roberta": _bert_like("xlm-roberta", "roberta", "lm_head", **ROBERTA_HEAD),
    "electra": _bert_like(
        "electra",
        "electra",
        "generator_lm_head",
        decoder="generator_lm_head.weight",
        output_bias=("generator_lm_head.bias",),
        embedding_norm=(
            "electra.embeddings.token_type_embeddings.",
            "electra.embeddings.LayerNorm.",
            "electra.embeddings_project.",
        ),
        head=("generator_predictions", "generator_lm_head"),
        head_tensors=("generator_predictions.",),
    ),
    "modernbert": Family(
        model_type="modernbert",
        word_embeddings="model.embeddings.tok_embeddings.weight",
        decoder="decoder.weight",
        output_bias=("decoder.bias",),
        layers="model.layers",
        embedding_norm=("model.embeddings.norm.",),
        head=("head", "decoder"),
        head_tensors=("head.",),
        body_tensors=("model.final_norm.",),
        dropout_keys=("embedding_dropout", "mlp_dropout", "attention_dropout"),
        layer_types_key="layer_types",
        first_layer_lacks="attn_norm.weight",
        residual_sites=("attn.out_drop", "mlp"),
        cross_site=CrossSite(
            "attn",
            pre_norm=True,
            norm_epsilon="norm_eps",
            dropout="attention_dropout",
            attention_dropout="attention_dropout",
        ),
        layer_output="mlp.Wo.weight",
    ),
}


def _bart_like(model_type: str, *, positions: bool, norm: bool, final: bool) -> Family:
    stacks = ("model.encoder", "model.decoder")
    return Family(
        model_type=model_type,
        word_embeddings="model.shared.weight",
        embedding_aliases=tuple(f"{stack}.embed_tokens.weight" for stack in stacks),
        decoder="lm_head.weight",
        output_bias=("final_logits_bias",) if positions else (),
        layers="model.encoder.layers",
        depth_key="encoder_layers",
        decoder_list=LayerList("model.decoder.layers", "decoder_layers", DECODER),
        positions=tuple(f"{stack}.embed_positions.weight" for stack in stacks) if positions else (),
        position_modules=tuple(f"{stack}.embed_positions" for stack in stacks),
        first_position="zero" if positions else "after padding",
        embedding_norm=tuple(f"{stack}.layernorm_embedding." for stack in stacks) if norm else (),
        body_tensors=tuple(f"{stack}.layer_norm." for stack in stacks) if final else (),
        head=("lm_head",),
        head_tensors=(),
        dropout_keys=("dropout", "attention_dropout", "activation_dropout"),
        layer_output="fc2.weight",
        kind="seq2seq",
        corruption="infilling",
    )


def _t5_like(model_type: str, head_scale_key: str | None) -> Family:
    return Family(
        model_type=model_type,
        word_embeddings="shared.weight",
        embedding_aliases=("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"),
        decoder="lm_head.weight",
        output_bias=(),
        layers="encoder.block",
        depth_key="num_layers",
        decoder_list=LayerList("decoder.block", "num_decoder_layers", DECODER),
        first_layer_has="layer.0.SelfAttention.relative_attention_bias.weight",
        embedding_norm=(),
        body_tensors=("encoder.final_layer_norm.", "decoder.final_layer_norm."),
        head=("lm_head",),
        head_tensors=(),
        head_scale_key=head_scale_key,
        decoder_start="pad",
        dropout_keys=("dropout_rate",),
        layer_output="layer.1.DenseReluDense.wo.weight",
        kind="seq2seq",
        corruption="spans",
    )


FAMILIES |= {
    "bart": _bart_like("bart", positions=True, norm=True, final=False),
    "mbart": _bart_like("mbart", positions=True, norm=True, final=True),
    "m2m_100": _bart_like("m2m_100", positions=False, norm=False, final=True),
    "t5": _t5_like("t5", "scale_decoder_outputs"),
    "mt5": _t5_like("mt5", None),
}


def _llama_like(model_type: str, **changes: object) -> Family:
    fields: dict[str, object] = {
        "model_type": model_type,
        "word_embeddings": "model.embed_tokens.weight",
        "decoder": "lm_head.weight",
        "output_bias": (),
        "layers": "model.layers",
        "embedding_norm": (),
        "head": ("lm_head",),
        "head_tensors": (),
        "body_tensors": ("model.norm.",),
        "dropout_keys": ("attention_dropout",),
        "residual_sites": ("self_attn.o_proj", "mlp.down_proj"),
        "layer_output": "mlp.down_proj.weight",
        "kind": "causal",
    }
    return Family(**(fields | changes))  # type: ignore[arg-type]


FAMILIES |= {
    "gpt2": Family(
        model_type="gpt2",
        word_embeddings="transformer.wte.weight",
        decoder="lm_head.weight",
        output_bias=(),
        layers="transformer.h",
        depth_key="n_layer",
        positions=("transformer.wpe.weight",),
        embedding_norm=(),
        head=("lm_head",),
        head_tensors=(),
        body_tensors=("transformer.ln_f.",),
        dropout_keys=("resid_pdrop", "embd_pdrop", "attn_pdrop"),
        residual_sites=("attn.resid_dropout", "mlp"),
        layer_output="ln_2.weight",
        kind="causal",
    ),
    "llama": _llama_like("llama"),
}
REFUSED = {
    "umt5": "transformers 5 divides its logits by √d_model, which the released weights do not "
    "expect; choose mt5",
    "marian": "transformers draws its table of positions anew when it loads it; choose m2m_100",
    "t5gemma": "its encoder and decoder have embeddings each; choose t5 or mt5",
}
"""Encoder–decoders that are not grafted onto, and why."""


def family_of(model_type: str) -> Family:
    """The record of an architecture.

    Raises:
        UnsupportedModelError: there is none.
    """
    if model_type in REFUSED:
        raise UnsupportedModelError(
            f"models of type '{model_type}' cannot be grafted onto: {REFUSED[model_type]}"
        )
    if model_type not in FAMILIES:
        known = ", ".join(sorted(FAMILIES))
        raise UnsupportedModelError(
            f"models of type '{model_type}' cannot be grafted onto yet; lingraft knows {known} "
            "(a new family is one record in models/families.py)"
        )
    return FAMILIES[model_type]


def check_masked(family: Family, what: str) -> None:
    """Refuse what knows encoders alone.

    Raises:
        UnsupportedModelError: the family is of another kind.
    """
    if family.kind != "masked":
        raise UnsupportedModelError(
            f"{what}: is for masked language models, and a {family.model_type} model is a "
            f"{KINDS[family.kind].title}; give an encoder"
        )
