"""Causal models under a task's head: what differs from encoders.

A position of a causal model sees only what stands before it. So the stock classes read a text at
its last token that is not padding, which is why model and tokenizer have to agree on a padding
token, and of a word with several tokens the last one has its tag (`coders.tagging`).
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, PreTrainedModel

from lingraft.models.families import FAMILIES
from lingraft.models.packed import attend_fast

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedConfig, PreTrainedTokenizerFast

    from lingraft.tasks.task import Task

logger = logging.getLogger(__name__)

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
    name = tokenizer.name_or_path
    if tokenizer.pad_token is None:
        pad = getattr(config.get_text_config(), "pad_token_id", None)  # CodeGen's has no such key
        token, role = None, "pad_token_id of config.json"
        if isinstance(pad, int) and 0 <= pad < len(tokenizer):
            token = str(tokenizer.convert_ids_to_tokens(pad))
        else:
            special_tokens = tokenizer.special_tokens_map
            role = next((key for key in STAND_INS if key in special_tokens), "none")
            token = str(special_tokens[role]) if role in special_tokens else None
        if token is not None:
            tokenizer.pad_token = token
            logger.info("%s: has no padding token; %s (%s) pads", name, token, role)
    encoding = tokenizer("0", "0").encodings[0]
    between = encoding.sequence_ids[encoding.sequence_ids.index(0) : encoding.sequence_ids.index(1)]
    if None not in between and tokenizer.eos_token is not None:
        separate_pairs(tokenizer, str(tokenizer.eos_token))
        end = tokenizer.eos_token
        logger.info("%s: has nothing between the texts of a pair; %s will stand there", name, end)


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
