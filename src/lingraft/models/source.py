"""Loading the source model: a stock model from a directory or the Hub, in fp32."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import AutoConfig
from transformers.utils import logging as transformers_logging

from lingraft import catalogue
from lingraft.errors import DataError, RecipeError, UnsupportedModelError
from lingraft.models import loading
from lingraft.models.families import Family, family_of
from lingraft.models.graft import build

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transformers import PreTrainedConfig, PreTrainedModel

    from lingraft.recipe import Source

logger = logging.getLogger(__name__)

OLDER_SETTINGS = frozenset({"global_attn_every_n_layers", "global_rope_theta", "local_rope_theta"})
"""ModernBERT settings that transformers 5 reads but does not list."""


@dataclass(frozen=True)
class LoadedSource:
    """A source model and what its checkpoint lacked or held beside it."""

    model: PreTrainedModel
    family: Family
    missing: frozenset[str]
    unexpected: tuple[str, ...]


def quiet_transformers() -> None:
    """Keep transformers' own log and bars out of the terminal; lingraft says what matters."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()


def load_config(name: str, revision: str | None = None) -> PreTrainedConfig:
    """The configuration of a checkpoint.

    Raises:
        DataError: there is no such checkpoint here, or it cannot be read.
    """
    quiet_transformers()
    _check_directory(name)
    try:
        return AutoConfig.from_pretrained(name, revision=revision)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(
            f"source model '{name}' cannot be loaded{catalogue.hint(name)}: {_one_line(error)}"
        ) from error


def load_model(
    name: str, revision: str | None = None, settings: Mapping[str, Any] | None = None
) -> LoadedSource:
    """A source model in fp32 on the CPU, with the modules that it has.

    Args:
        name: directory or Hub id.
        revision: branch, tag or commit on the Hub.
        settings: configuration values to change (dropout).

    Raises:
        DataError: there is no such checkpoint here, or it is broken.
        UnsupportedModelError: an architecture without a record in `FAMILIES`.
    """
    family = family_of(load_config(name, revision).model_type)
    try:
        model, info = loading.load(
            name,
            revision,
            settings,
            ignore_mismatched_sizes=True,  # reported below, with names
        )
    except DataError:
        raise
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise DataError(
            f"source model '{name}' cannot be loaded: {_one_line(error)} "
            "Save or download the model again."
        ) from error
    except Exception as error:  # safetensors and pickle raise classes of their own
        raise DataError(
            f"the weights of source model '{name}' are broken: {_one_line(error)}; "
            "save or download the model again"
        ) from error
    if info["mismatched_keys"]:
        tensor, stored, wanted = min(info["mismatched_keys"])
        raise UnsupportedModelError(
            f"source model '{name}': {len(info['mismatched_keys'])} tensors have other sizes than "
            f"its config.json says ('{tensor}' is {list(stored)}, not {list(wanted)}); "
            "put back the config.json that belongs to the weights"
        )
    missing = frozenset(info["missing_keys"])
    if missing:
        logger.warning(
            "source model '%s' lacks %d tensors; they start fresh: %s",
            name,
            len(missing),
            sorted(missing),
        )
    return LoadedSource(model.eval(), family, missing, tuple(sorted(info["unexpected_keys"])))


def from_architecture(
    source: Source, vocab_size: int, special_ids: Mapping[str, int | None], seed: int
) -> LoadedSource:
    """A model with random weights from `source.architecture`, to train from nothing.

    Raises:
        RecipeError: transformers does not accept the table.
    """
    quiet_transformers()
    settings = dict(source.architecture or {})
    family = family_of(str(settings.pop("model_type")))
    try:
        config = AutoConfig.for_model(
            family.model_type, **settings | {"vocab_size": vocab_size} | dict(special_ids)
        )
        known = {*AutoConfig.for_model(family.model_type).to_dict(), *config.attribute_map}
        unknown = sorted(set(settings) - known - OLDER_SETTINGS)
        if unknown:
            raise RecipeError(
                f"source.architecture: {family.model_type} has no setting {', '.join(unknown)}"
            )
        model_class = loading.stock_class(config)
        assert model_class is not None, f"{family.model_type} has no class for its kind"
        return LoadedSource(build(model_class, config, seed).eval(), family, frozenset(), ())
    except (TypeError, ValueError, AssertionError, ZeroDivisionError) as error:
        if isinstance(error, RecipeError):
            raise
        raise RecipeError(f"source.architecture: {_one_line(error)}") from error


def _check_directory(name: str) -> None:
    path = Path(name).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise DataError(
                f"source model '{name}': the directory holds no config.json, "
                "so it is not a Hugging Face model"
            )
    elif name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise DataError(
            f"source model '{name}': no such directory; give one, or a Hub id such as "
            "FacebookAI/roberta-base"
        )


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if (
        "offline" in text.lower()
        or "connection" in text.lower()
        or "couldn't connect" in text.lower()
    ):
        text = (
            "not on this machine and the Hub cannot be reached; "
            f"give a local directory, or go online once. {text}"
        )
    return text[:300]
