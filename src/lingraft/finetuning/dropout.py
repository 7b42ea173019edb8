"""Dropout in fine-tuning: under which configuration keys architectures keep it."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lingraft.errors import UnsupportedModelError
from lingraft.finetuning.causal import is_causal

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

    from lingraft.tasks.task import Task

logger = logging.getLogger(__name__)

CLASSIFIER = ("classifier_dropout", "classifier_dropout_prob", "cls_dropout", "seq_classif_dropout")
"""Names that architectures have for the dropout before the last layer."""
HIDDEN = (
    *("hidden_dropout_prob", "dropout", "dropout_rate", "embedding_dropout", "mlp_dropout"),
    *("resid_pdrop", "embd_pdrop", "hidden_dropout"),
)
ATTENTION = ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop")


def settings_for(task: Task, config: PreTrainedConfig, head: str) -> dict[str, Any]:
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
    if dropout is None or head not in ("sequence", "score", "token"):
        return settings
    causal = is_causal(config)
    if causal and (head == "token" or not dropout):  # `causal.finish_model` sets that of tokens
        return settings
    key = next((key for key in CLASSIFIER if hasattr(config, key)), None)
    if key is None or causal:
        advice = "leave classifier_dropout out" if causal else "choose another model"
        raise UnsupportedModelError(
            f"models of type '{config.model_type}' have no classifier dropout that {task.name} "
            f"could set; {advice}"
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
    settings: dict[str, Any] = {}
    inner = {name: getattr(config, name) for name in config.sub_configs}
    for name, sub_config in inner.items():
        if changed := whole_model(sub_config, everywhere, attention):
            settings[name] = changed
    for keys, value in rates.items() if not inner else ():
        present_keys = [key for key in keys if hasattr(config, key)]
        single = everywhere is not None and hasattr(config, "dropout_rate")  # T5's is everywhere
        if value is not None and not (present_keys or single):
            raise UnsupportedModelError(
                f"models of type '{config.model_type}' have none of the keys {', '.join(keys)} in "
                "their configuration; leave dropout and attention_dropout out"
            )
        if value is not None:
            settings |= dict.fromkeys(present_keys, value)
    return settings


def without_classifiers(task: Task, config: PreTrainedConfig, label: str) -> Task:
    """Return the task without its own dropout before the last layer, where the model has none.

    The stock head for texts of a causal model has none, and many tasks set one for encoders.

    Args:
        task: with settings that nobody has asked for.
        config: of the model.
        label: of the model, for the log.
    """
    dropout = task.settings.classifier_dropout
    if not dropout or task.kind == "tagging" or not is_causal(config):
        return task
    logger.info(
        "%s: the head of a %s model has no dropout; that of %s (%g) is left out",
        label,
        config.model_type,
        task.name,
        dropout,
    )
    settings = task.settings.model_copy(update={"classifier_dropout": None})
    return replace(task, settings=settings)
