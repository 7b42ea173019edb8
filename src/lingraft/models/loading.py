"""The one place where models are loaded, and their stock classes found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import transformers
from transformers import AutoConfig

from lingraft.models import adapters
from lingraft.models.families import FAMILIES
from lingraft.models.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transformers import PreTrainedConfig, PreTrainedModel


def auto_class(config: PreTrainedConfig) -> Any:
    """The class of transformers that loads an architecture with its head.

    An architecture without a record is asked for as a masked language model.
    """
    family = FAMILIES.get(config.model_type)
    return getattr(transformers, KINDS[family.kind if family else "masked"].auto_class)


def stock_class(config: PreTrainedConfig) -> type[PreTrainedModel] | None:
    """The stock class of an architecture; None where transformers has none with such a head."""
    stock: type[PreTrainedModel] | None = auto_class(config)._model_mapping.get(type(config), None)
    return stock


def load(
    name: str,
    revision: str | None = None,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> tuple[PreTrainedModel, dict[str, Any]]:
    """A model with its head, and with its adapters where the checkpoint has some.

    Args:
        name: directory or Hub id.
        revision: branch, tag or commit on the Hub.
        settings: configuration values to change.
        options: of `from_pretrained`.

    Returns:
        The model in fp32 on the CPU, and what transformers says of the loading.

    Raises:
        DataError: the adapters' files are broken or do not fit the model; otherwise whatever
        `from_pretrained` raises.
    """
    config = AutoConfig.from_pretrained(name, revision=revision)
    found = adapters.settings_of(name, revision)
    model, info = auto_class(config).from_pretrained(
        name,
        revision=revision,
        dtype=torch.float32,
        output_loading_info=True,
        variant=adapters.VARIANT if found else None,
        **(settings or {}),
        **options,
    )
    if found:
        adapters.restore(model, found, name, revision)
        model.eval()
    return model, info
