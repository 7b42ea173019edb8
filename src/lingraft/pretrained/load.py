"""The one place where transformers loads a configuration or a model; `tokenizers` loads theirs.

Where `auto_map` in a checkpoint names Python code, transformers asks on standard input whether to
run it. Here it is told not to, in every call, and what cannot be loaded without that code is
refused first. Whatever a library raises over a broken checkpoint becomes one line.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import logging
import pickle
from typing import TYPE_CHECKING, Any

import torch
from transformers import (
    CONFIG_MAPPING,
    AutoConfig,
    GenerationConfig,
    PreTrainedConfig,
)
from transformers.utils import logging as transformers_logging

from lingraft.errors import DataError, LingraftError, UnsupportedModelError, is_memory_full
from lingraft.hub import check_answers
from lingraft.pretrained import checksums, trying
from lingraft.pretrained.checkpoints import (
    WEIGHTS,
    check_shards,
    folder_of,
    quantised,
    refuse_code,
    without_config,
)
from lingraft.recipe import catalogue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from transformers import PreTrainedModel

logger = logging.getLogger(__name__)

DEEPEST = 1_000
"""Layers; transformers builds as many as config.json asks for, a thousand million too."""
SHORTEST = 8
"""Tokens that a model must read at once; as in the recipe's tokenizer.max_tokens."""
USUAL_LENGTH = 512
"""Tokens that a model reads whose configuration names no positions."""
COUNTS_FROM_PADDING = (
    *("roberta", "xlm-roberta", "camembert", "xlm-roberta-xl", "xmod", "roberta-prelayernorm"),
    *("data2vec-text", "ibert", "longformer", "luke", "mpnet"),
)
"""Architectures whose first position is the padding id + 1."""
PANIC = "PanicException"
"""Name of what tokenizers raises over a file that contradicts itself; it is no Exception."""
LEAST_BYTES = 0.5
"""To a parameter, in weights of 4 bits."""
CHANGED = f"copy or make the model again, or delete {checksums.FILE} if you changed it yourself"
SMALL = 1 << 28
"""Parameters (a gigabyte in fp32) that fill no memory, whatever the weights turn out to be."""


def quiet_transformers() -> None:
    """Keep transformers' own log and bars out of the terminal; lingraft says what matters."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()


@contextlib.contextmanager
def one_line(problem: str, advice: str) -> Iterator[None]:
    """Turn what a library raises over a checkpoint or the Hub's answer into one line.

    Args:
        problem: what is wrong; the library's words follow.
        advice: what to do.

    Raises:
        DataError: the block raised something that is not ours.
    """
    try:
        yield
    except LingraftError:
        raise
    except BaseException as error:  # JSON, pickle, safetensors, HTTP: classes of their own
        if not isinstance(error, Exception) and type(error).__name__ != PANIC:
            raise
        if is_memory_full(error):
            raise
        said = f"{type(error).__name__}: {error}".lower()
        if any(word in said for word in ("offline", "connection", "couldn't connect")):
            reason = "it is no directory here, and the Hub cannot be reached"
            raise DataError(f"{problem}: {reason}; correct the path, or go online once") from error
        raise DataError(f"{problem}: {_reason(error)}; {advice}") from error


def load_config(
    name: str, revision: str | None = None, settings: Mapping[str, Any] | None = None
) -> PreTrainedConfig:
    """Load the configuration of a checkpoint.

    Args:
        name: directory or Hub id.
        revision: branch, tag or commit on the Hub.
        settings: values to change.

    Raises:
        DataError: there is none, or it cannot be read.
        UnsupportedModelError: it needs Python code of its own, is quantised, or is deeper than
            `DEEPEST`.
    """
    quiet_transformers()
    folder = folder_of(name)
    if folder is not None and not (folder / "config.json").is_file():
        raise without_config(name, folder)
    if folder is None:
        check_answers()
    where = str(folder or name)
    with one_line(
        f"source model '{name}' cannot be loaded{catalogue.hint(name)}",
        "check the name, or correct config.json",
    ):
        raw_config, _ = PreTrainedConfig.get_config_dict(where, revision=revision)
        kind = raw_config.get("model_type")
        refuse_code(name, raw_config, isinstance(kind, str) and kind in CONFIG_MAPPING)
        if reason := quantised(raw_config):
            raise UnsupportedModelError(f"source model '{name}': {reason}")
        config = AutoConfig.from_pretrained(
            where, revision=revision, trust_remote_code=False, **(settings or {})
        )
        trying.check_values(f"source model '{name}': config.json", config.to_dict())
        if hasattr(config, "chunk_size_feed_forward"):
            config.chunk_size_feed_forward = 0  # the same values; lengths need not divide
        depth, attention = getattr(config, "num_hidden_layers", 1), config._attn_implementation
        if not 1 <= depth <= DEEPEST:
            raise UnsupportedModelError(
                f"source model '{name}': config.json has num_hidden_layers {depth}; "
                f"1 to {DEEPEST} are allowed; put back the config.json that belongs to the weights"
            )
        if attention and "/" in attention:
            raise UnsupportedModelError(
                f"source model '{name}': config.json wants the attention of '{attention}', code on "
                "the Hub, which lingraft never runs; delete attn_implementation there"
            )
    return config


def load_generation(name: str, config: PreTrainedConfig) -> GenerationConfig:
    """Load how a checkpoint writes: its generation_config.json, else its configuration's settings.

    Raises:
        DataError: the file cannot be read.
    """
    folder = folder_of(name)
    if folder is not None and not (folder / "generation_config.json").is_file():
        return GenerationConfig.from_model_config(config)
    with one_line(f"{name}: generation_config.json cannot be read", "correct or delete it"):
        generation = GenerationConfig.from_pretrained(str(folder or name))
        trying.check_generation(f"{name}: generation_config.json", generation)
        return generation


def load_model(
    auto: Any,
    name: str,
    revision: str | None = None,
    settings: Mapping[str, Any] | None = None,
    may_lack: Callable[[str], bool] = lambda name: False,
    **options: Any,
) -> tuple[PreTrainedModel, dict[str, Any]]:
    """Load a model in fp32 on the CPU, by a stock class.

    Args:
        auto: AutoModel or another of its kind.
        name: directory or Hub id.
        revision: branch, tag or commit on the Hub.
        settings: configuration values to change.
        may_lack: whether the checkpoint need not hold a tensor; a pooler's never need be there.
        options: of `from_pretrained`.

    Returns:
        The model, and what transformers says of the loading.

    Raises:
        DataError: the checkpoint is not there, broken, or lacks tensors.
        UnsupportedModelError: it needs Python code of its own, the architecture has no such class,
            or the configuration is that of a much larger model.
    """
    config = load_config(name, revision, settings)
    _check_class(auto, name, config)
    folder = folder_of(name)
    if _generates(auto, name, config, folder) and folder is not None:
        load_generation(name, config)  # transformers takes defaults for one it cannot read
    with one_line(
        f"the weights of source model '{name}' cannot be loaded", "save or download it again"
    ):
        if folder is not None:
            check_shards(folder)
            checksums.check(folder, CHANGED)
        if torch.cuda.is_initialized():
            gc.collect()  # a model that accelerate has prepared before is in cycles, on its GPU
        loaded: tuple[PreTrainedModel, dict[str, Any]] = auto.from_pretrained(
            str(folder or name),
            config=config,
            revision=revision,
            trust_remote_code=False,
            dtype=torch.float32,
            output_loading_info=True,
            **options,
        )
    lacking = (key for key in loaded[1]["missing_keys"] if not may_lack(key))
    trying.check_tensors(name, config, lacking)
    if loaded[0].can_generate():
        with one_line(f"{name}: its settings of generate() cannot be used", "correct them"):
            trying.check_generation(name, loaded[0].generation_config)
            trying.try_decoding(loaded[0])
    return loaded


def _check_class(auto: Any, name: str, config: PreTrainedConfig) -> None:
    """Refuse an architecture that a class of transformers does not load; warn of code left aside.

    Raises:
        UnsupportedModelError: it has no such class.
    """
    if type(config) not in auto._model_mapping:
        raise UnsupportedModelError(
            f"{name}: transformers has no {auto.__name__} for models of type "
            f"'{config.model_type}'; choose an encoder such as BERT, RoBERTa, ELECTRA or ModernBERT"
        )
    if getattr(config, "auto_map", None):
        logger.warning(
            "model '%s': its own Python code is not run; it is loaded as a %s of transformers",
            name,
            config.model_type,
        )


def first_position(config: PreTrainedConfig, pad_id: int) -> int:
    """Return the position of a text's first token: a model never uses so many of its positions."""
    return pad_id + 1 if config.model_type in COUNTS_FROM_PADDING else 0


def longest_text(config: PreTrainedConfig, pad_id: int, usual: int = USUAL_LENGTH) -> int:
    """Return the tokens that a model reads at once, special tokens included.

    Args:
        config: of the model.
        pad_id: its padding token, from which some architectures count.
        usual: the answer where the configuration names no length (BLOOM, T5).
    """
    positions = getattr(config, "max_position_embeddings", None)
    return usual if positions is None else int(positions) - first_position(config, pad_id)


def check_longest(name: str | None, longest: int) -> int:
    """Refuse a model that reads hardly more than special tokens; returns `longest`.

    Args:
        name: of the model, for the message; None where it has none yet.
        longest: tokens of the longest sentence that it reads.

    Raises:
        UnsupportedModelError: they are fewer than `SHORTEST`.
    """
    if longest < SHORTEST:
        raise UnsupportedModelError(
            f"source model '{name or 'source.architecture'}': reads {longest} tokens at most (by "
            f"max_position_embeddings), but {SHORTEST} are needed; correct it, or choose "
            "another model"
        )
    return longest


def _generates(auto: Any, name: str, config: PreTrainedConfig, folder: Path | None) -> bool:
    """Return whether a model of this configuration writes; refuse one of none, or much larger."""
    made: Any = type(config)
    with one_line(
        f"source model '{name}': no model can be made of its config.json",
        "put back the config.json that belongs to the weights",
    ):
        parameters, generates = _outline(auto, made, config.to_json_string(use_diff=False))
    files = [] if folder is None else [file for kind in WEIGHTS for file in folder.glob(kind)]
    stored = sum(file.stat().st_size for file in files)
    if stored and parameters > max(SMALL, stored / LEAST_BYTES):
        raise UnsupportedModelError(
            f"source model '{name}': its config.json is that of a model of {parameters:,} "
            f"parameters, but its weights are {stored:,} bytes; "
            "put back the config.json that belongs to them, or download them again"
        )
    return generates


@functools.lru_cache(maxsize=64)
def _outline(auto: Any, kind: Any, settings: str) -> tuple[int, bool]:
    """Return how many parameters a configuration's model has, and whether it writes.

    They are remembered, for a run loads its few models many times.
    """
    with torch.device("meta"):
        model = auto.from_config(kind.from_dict(json.loads(settings)), trust_remote_code=False)
        trying.try_initialising(model)
    return sum(parameter.numel() for parameter in model.parameters()), model.can_generate()


def _reason(error: BaseException) -> str:
    if isinstance(error, pickle.UnpicklingError):  # torch's own words tell how to open it anyway
        return "a broken pickle, or one that holds more than tensors, which is never opened"
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return text[:300].rstrip(".")
