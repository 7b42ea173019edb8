"""The head of a checkpoint: labels, dropout, and what differs under a causal model."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import Tokenizer
from torch import nn
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, PreTrainedModel

from lingraft.errors import UnsupportedModelError
from lingraft.models.families import FAMILIES
from lingraft.models.packed import attend_fast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedConfig, PreTrainedTokenizerFast

    from lingraft.tasks.task import Task

logger = logging.getLogger(__name__)

NAMED = ("sequence", "token")
"""Heads with an output a label."""
OUTPUTS = {"score": 1, "span": 2}
"""Outputs of other heads, whatever a checkpoint was fine-tuned on before."""
PROBLEMS = {"sequence": "single_label_classification", "score": "regression"}
"""Names of problems in config.json, by which a stock class chooses its loss."""


def label_settings(head: str, labels: Sequence[str]) -> dict[str, Any]:
    """Return the configuration values of a head.

    Args:
        head: a key of `heads.HEADS`.
        labels: of the task.
    """
    if head == "translation":
        return {}
    values: dict[str, Any] = {"problem_type": PROBLEMS.get(head)}
    if head in OUTPUTS:
        values["num_labels"] = OUTPUTS[head]
    if head in NAMED:
        values["id2label"] = dict(enumerate(labels))
        values["label2id"] = {label: index for index, label in enumerate(labels)}
    return values


class Exact(nn.Linear):
    """Linear map in fp32 outside training: scores that autocast rounds to bf16 are often equal."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - torch's name
        """Map [..., width] to [..., outputs]."""
        if self.training:
            return super().forward(input)
        with torch.autocast(input.device.type, enabled=False):
            return super().forward(input.float())


def predict_in_fp32(model: nn.Module, outputs: int) -> None:
    """Make the last linear map `Exact` in place, where it is a head's; names stay as they are.

    Args:
        model: a stock model with a head, or a head alone.
        outputs: of the head.
    """
    body = getattr(model, "base_model", None)  # some classes do not say which part that is
    inside = set() if body is None or body is model else set(body.modules())
    layers = [m for m in model.modules() if isinstance(m, nn.Linear) and m not in inside]
    if layers and layers[-1].out_features == outputs:
        layers[-1].__class__ = Exact


def has_labels(config: PreTrainedConfig, head: str, labels: Sequence[str]) -> bool:
    """Return whether a checkpoint's head is for a task's labels, in their order.

    Upper and lower case are the same, since MNLI's labels are spelled in both. A head without names
    (`LABEL_0` …) is taken to have the task's order.
    """
    names = [str(name).casefold() for _, name in sorted((config.id2label or {}).items())]
    unnamed = all(name == f"label_{number}" for number, name in enumerate(names))
    return head not in NAMED or unnamed or names == [label.casefold() for label in labels]


# -- dropout

CLASSIFIER = ("classifier_dropout", "classifier_dropout_prob", "cls_dropout", "seq_classif_dropout")
"""Names that architectures have for the dropout before the last layer."""
HIDDEN = (
    *("hidden_dropout_prob", "dropout", "dropout_rate", "embedding_dropout", "mlp_dropout"),
    *("resid_pdrop", "embd_pdrop", "hidden_dropout"),
)
ATTENTION = ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop")


def dropout_settings(task: Task, config: PreTrainedConfig, head: str) -> dict[str, Any]:
    """Return configuration values for a task's dropout.

    Args:
        task: with the settings that are to be used.
        config: of the model.
        head: a key of `heads.HEADS`.

    Raises:
        UnsupportedModelError: the model has no dropout of a kind that the task sets.
    """
    settings = whole_model(config, task.settings.dropout, task.settings.attention_dropout)
    dropout = task.settings.classifier_dropout
    if dropout is None or head not in ("sequence", "score", "token") or is_causal(config):
        return settings  # `finish_model` sets that of a causal model's tokens
    key = next((key for key in CLASSIFIER if hasattr(config, key)), None)
    if key is None:
        raise UnsupportedModelError(
            f"models of type '{config.model_type}' have no classifier dropout, which {task.name} "
            "sets; choose another model"
        )
    return settings | {key: dropout}


def whole_model(
    config: PreTrainedConfig, everywhere: float | None, attention: float | None
) -> dict[str, Any]:
    """Return configuration values for a dropout, in encoder and decoder too where there are both.

    Raises:
        UnsupportedModelError: the configuration has no such dropout.
    """
    rates = {HIDDEN: everywhere, ATTENTION: attention}
    inner = {n: whole_model(getattr(config, n), everywhere, attention) for n in config.sub_configs}
    settings: dict[str, Any] = {name: changed for name, changed in inner.items() if changed}
    for keys, value in rates.items() if not inner else ():
        present_keys = [key for key in keys if hasattr(config, key)]
        single = everywhere is not None and hasattr(config, "dropout_rate")  # T5's is everywhere
        if value is not None and not (present_keys or single):
            raise UnsupportedModelError(
                f"models of type '{config.model_type}' have no {' or '.join(keys)}; leave dropout "
                "and attention_dropout out"
            )
        if value is not None:
            settings |= dict.fromkeys(present_keys, value)
    return settings


# -- causal models: a position sees only what stands before it, so the stock classes read a text at
# -- its last token that is not padding (model and tokenizer have to agree on a padding token), and
# -- of a word with several tokens the last one has its tag (`coders.tagging`)

BOTH_SIDES = ("bert-generation", "xlnet")
"""Architectures that see both sides though transformers calls them causal language models alone."""
STAND_INS = ("eos_token", "bos_token", "unk_token")
"""Roles whose token pads where no token has that role."""


def is_causal(config: PreTrainedConfig) -> bool:
    """Return whether a model is a causal language model and nothing else.

    BERT's and BART's kinds have classes for that too, beside those that they were trained with.
    """
    record = FAMILIES.get(config.model_type)
    if record is not None:
        return record.kind == "causal"
    masked, causal = (
        type(config) in auto._model_mapping for auto in (AutoModelForMaskedLM, AutoModelForCausalLM)
    )
    return (
        causal
        and not masked
        and not config.is_encoder_decoder
        and config.model_type not in BOTH_SIDES
    )


def prepare_tokenizer(tokenizer: PreTrainedTokenizerFast, config: PreTrainedConfig) -> None:
    """Let a causal model's tokenizer pad on the right and keep the texts of a pair apart, in place.

    A tokenizer without a padding token takes the one that the configuration names, else one that
    has another role. One that joins the texts of a pair as if they were one, as GPT-2's and Qwen's
    do, puts its end token between them.
    """
    tokenizer.padding_side = tokenizer.truncation_side = "right"
    if tokenizer.pad_token is None:
        pad = getattr(config.get_text_config(), "pad_token_id", None)  # CodeGen's has no such key
        special_tokens = tokenizer.special_tokens_map
        tokens: list[Any] = [special_tokens[key] for key in STAND_INS if key in special_tokens]
        if isinstance(pad, int) and 0 <= pad < len(tokenizer):
            tokens.insert(0, tokenizer.convert_ids_to_tokens(pad))
        if tokens:
            tokenizer.pad_token = str(tokens[0])
    encoding = tokenizer("0", "0").encodings[0]
    between = encoding.sequence_ids[encoding.sequence_ids.index(0) : encoding.sequence_ids.index(1)]
    if None not in between and tokenizer.eos_token is not None:
        separate_pairs(tokenizer, str(tokenizer.eos_token))
        logger.info("%s: puts %s between a pair", tokenizer.name_or_path, tokenizer.eos_token)


def separate_pairs(tokenizer: PreTrainedTokenizerFast, token: str) -> None:
    """Let a token stand between the two texts of a pair, in place; single texts stay as they are.

    Args:
        tokenizer: puts nothing between them.
        token: one of its tokens.
    """
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    processor = state["post_processor"] or {"type": "Sequence", "processors": []}
    steps: list[dict[str, Any]] = processor.get("processors", [processor])
    template = next((step for step in steps if step["type"] == "TemplateProcessing"), None)
    if template is None:
        first, second = ({"Sequence": {"id": name, "type_id": n}} for n, name in enumerate("AB"))
        template = {"type": "TemplateProcessing", "single": [first], "pair": [first, second]}
        template["special_tokens"] = {}
        steps = [*steps, template]
    number = tokenizer.convert_tokens_to_ids(token)
    template["special_tokens"][token] = {"id": token, "ids": [number], "tokens": [token]}
    names = [piece.get("Sequence", {}).get("id") for piece in template["pair"]]
    piece = {"SpecialToken": {"id": token, "type_id": 0}}
    template["pair"].insert(names.index("A") + 1, piece)
    state["post_processor"] = {"type": "Sequence", "processors": steps}
    backend = Tokenizer.from_str(json.dumps(state))
    tokenizer.backend_tokenizer.post_processor = backend.post_processor


def finish_model(model: Any, tokenizer: PreTrainedTokenizerFast, task: Task) -> None:
    """Tell a new model what its configuration could not be told before it was loaded, in place.

    Args:
        model: with its head.
        tokenizer: of `prepare_tokenizer`, whose padding token ends a text for the model.
        task: whose dropout the head for tokens has; the head for texts has none.
    """
    config = model.config.get_text_config()
    config.pad_token_id, config.use_cache = tokenizer.pad_token_id, False
    dropout = task.settings.classifier_dropout
    if dropout is not None and task.kind == "tagging":
        model.dropout.p = model.config.classifier_dropout = dropout


def attend(module: nn.Module) -> None:
    """Let a model attend by `models.packed.packed_attention`, as far as that is known to be right.

    Architectures may ask more of attention than a mask (Gemma 2 caps its scores): a causal one
    without a record keeps its own.
    """
    configs = [model.config for model in module.modules() if isinstance(model, PreTrainedModel)]
    if all(config.model_type in FAMILIES or not is_causal(config) for config in configs):
        attend_fast(module)
