"""The linear map at the end of a stock head: whose rows are which label's, and in which numbers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedConfig

logger = logging.getLogger(__name__)

NAMED = ("sequence", "token")
"""Heads with an output a label."""
OUTPUTS = {"score": 1, "span": 2}
"""Outputs of other heads, whatever a checkpoint was fine-tuned on before."""
PROBLEMS = {"sequence": "single_label_classification", "score": "regression"}
"""Names of problems in config.json, by which a stock class chooses its loss."""


def settings(head: str, labels: Sequence[str]) -> dict[str, Any]:
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


def find(model: nn.Module, outputs: int) -> nn.Linear | None:
    """Find the last linear map that does not belong to the encoder; None where it is no head's.

    Args:
        model: a stock model with a head, or a head alone.
        outputs: of the head.
    """
    body = getattr(model, "base_model", None)  # some classes do not say which part that is
    inside = set() if body is None or body is model else set(body.modules())
    layers = [m for m in model.modules() if isinstance(m, nn.Linear) and m not in inside]
    return layers[-1] if layers and layers[-1].out_features == outputs else None


def predict_in_fp32(model: nn.Module, outputs: int) -> None:
    """Make the last layer `Exact`, in place; names and files stay as they are."""
    layer = find(model, outputs)
    if layer is not None:
        layer.__class__ = Exact


def places(config: PreTrainedConfig, labels: Sequence[str]) -> list[int] | None:
    """Return the row of each of a task's labels in a checkpoint's head; None: it has others.

    Upper and lower case are the same, since MNLI's labels are spelled in both. A head without names
    (`LABEL_0` …) is taken to have the task's order.
    """
    names = [str(name) for _, name in sorted((config.id2label or {}).items())]
    unnamed = all(name == f"LABEL_{number}" for number, name in enumerate(names))
    if unnamed or names == list(labels):
        return list(range(len(labels)))
    rows = {name.casefold(): row for row, name in enumerate(names)}
    keys = [label.casefold() for label in labels]
    if len(rows) < len(names) or len({*keys}) < len(keys) or {*rows} != {*keys}:
        return None
    return [rows[key] for key in keys]


def keep(model: nn.Module, rows: Sequence[int] | None, source: object) -> bool:
    """Put the rows of a head that was loaded into a task's order, in place.

    Args:
        model: as of `find`.
        rows: of `places`.
        source: for the log.

    Returns:
        Whether the head is that of the task; if not, it is to be drawn anew.
    """
    layer = find(model, len(rows)) if rows is not None else None
    in_order = rows is not None and list(rows) == sorted(rows)
    if rows is None or (layer is None and not in_order):
        logger.info("%s: has a head for other labels, so a new one is drawn", source)
        return False
    if in_order:
        logger.info("%s: has a head for as many labels already, which is trained further", source)
        return True
    assert layer is not None
    with torch.no_grad():
        for tensor in layer.parameters():
            tensor.copy_(tensor[list(rows)])
    logger.info(
        "%s: has a head for these labels in another order, which is trained further in the task's",
        source,
    )
    return True
