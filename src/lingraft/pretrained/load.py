"""The one place where transformers loads a configuration or a model; `tokenizers` loads theirs.

Where `auto_map` in a checkpoint names Python code, transformers asks on standard input whether to
run it. Here it is told not to, in every call, and what cannot be loaded without that code is
refused first. Whatever a library raises over a broken checkpoint becomes one line.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import CONFIG_MAPPING, AutoConfig, GenerationConfig, PreTrainedConfig
from transformers.utils import GENERATION_CONFIG_NAME, logging as transformers_logging
from transformers.utils.hub import cached_file

from lingraft.errors import DataError, LingraftError, UnsupportedModelError, is_memory_full
from lingraft.optional import check_answers, require
from lingraft.pretrained import checkpoints
from lingraft.pretrained.checkpoints import (
    ADAPTER,
    BASE,
    folder_of,
    place_of,
    refuse_code,
    without_config,
)
from lingraft.recipe import catalogue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

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
CHANGED = f"copy or make the model again, or delete {checkpoints.FILE} if you changed it yourself"


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
        is_known = isinstance(error, Exception) or type(error).__name__ == PANIC
        if not is_known or is_memory_full(error):
            raise
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        if any(word in reason.lower() for word in ("offline", "connection", "couldn't connect")):
            reason = "it is no directory here, and the Hub cannot be reached"
            advice = "correct the path, or go online once"
        raise DataError(f"{problem}: {reason[:300].rstrip('.')}; {advice}") from error


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
    name, revision, adapters = place_of(name, revision)
    folder = folder_of(name)
    if folder is None:
        check_answers()
    elif not (folder / "config.json").is_file():
        raise without_config(name)
    where, title = str(folder or name), f"source model '{name}'"
    if adapters:
        title += f", the base of '{adapters[-1]}',"
    with one_line(
        f"{title} cannot be loaded{catalogue.hint(name)}", "check the name, or correct config.json"
    ):
        raw_config, _ = PreTrainedConfig.get_config_dict(where, revision=revision)
        kind = raw_config.get("model_type")
        refuse_code(name, raw_config, isinstance(kind, str) and kind in CONFIG_MAPPING)
        if raw_config.get("quantization_config"):
            raise UnsupportedModelError(
                f"{title}: its weights are quantised, and such weights cannot be trained on; "
                "choose the checkpoint in bf16 or fp32 that they were made of"
            )
        config = AutoConfig.from_pretrained(
            where, revision=revision, trust_remote_code=False, **(settings or {})
        )
        check_positions(title, config)
        if hasattr(config, "chunk_size_feed_forward"):
            config.chunk_size_feed_forward = 0  # the same values; lengths need not divide
        if getattr(config, "attention_type", "") == "block_sparse":
            config.attention_type = "original_full"  # blocks would depend on the batch's width
        config.return_dict = True
        depth, attention = getattr(config, "num_hidden_layers", 1), config._attn_implementation
        if not 1 <= depth <= DEEPEST or "/" in (attention or ""):
            raise UnsupportedModelError(
                f"{title}: config.json has num_hidden_layers {depth} and attn_implementation "
                f"{attention}; 1 to {DEEPEST} layers are allowed, and no code on the Hub, which "
                "lingraft never runs"
            )
        if attention not in (None, "eager", "sdpa"):
            config._attn_implementation = None  # lingraft has its own; this one may not be here
    return config


def check_positions(title: str, config: PreTrainedConfig) -> None:
    """Refuse relative positions, which transformers 5 leaves out without a word.

    Args:
        title: of the model, for the message.
        config: the model's.

    Raises:
        UnsupportedModelError: so it is.
    """
    kind = str(getattr(config, "position_embedding_type", ""))
    if kind.startswith("relative"):
        raise UnsupportedModelError(
            f"{title}: position_embedding_type is '{kind}': transformers 5 has no relative "
            "positions for it; choose another model"
        )


def find_file(name: str, file: str, revision: str | None = None) -> Path | None:
    """Return a file of a checkpoint, downloaded where it is on the Hub; None where it has none."""
    folder = folder_of(name)
    if folder is not None:
        return folder / file if (folder / file).is_file() else None
    with one_line(f"source model '{name}' cannot be loaded", "try again, or give a directory"):
        found = cached_file(
            name,
            file,
            revision=revision,
            _raise_exceptions_for_gated_repo=False,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
    return Path(found) if found else None


def load_generation(name: str, config: PreTrainedConfig) -> GenerationConfig:
    """Load how a checkpoint writes: its generation_config.json, else its configuration's settings.

    Raises:
        DataError: the file cannot be read.
    """
    folder = folder_of(name)
    if folder is not None and not (folder / GENERATION_CONFIG_NAME).is_file():
        return GenerationConfig.from_model_config(config)
    with one_line(f"{name}: generation_config.json cannot be read", "correct or delete it"):
        return GenerationConfig.from_pretrained(str(folder or name))


def load_model(
    auto: Any,
    name: str,
    revision: str | None = None,
    settings: Mapping[str, Any] | None = None,
    may_lack: Callable[[str], bool] = lambda name: False,
    **options: Any,
) -> tuple[PreTrainedModel, dict[str, Any]]:
    """Load a model in fp32 on the CPU, by a stock class; an adapter merges with its base.

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
        UnsupportedModelError: it needs Python code of its own, or has no such class.
    """
    if (place := place_of(name, revision)).adapters:
        base, info = load_model(auto, *place[:2], settings, may_lack, **options)
        return with_adapters(base, place.adapters), info
    config, folder = load_config(name, revision, settings), folder_of(name)
    if type(config) not in auto._model_mapping:
        problem = f"transformers has no {auto.__name__} for models of type '{config.model_type}'"
        raise UnsupportedModelError(f"{name}: {problem}; choose BERT, RoBERTa or ModernBERT, say")
    if getattr(config, "auto_map", None):
        logger.warning("model '%s': its own Python code (auto_map) is not run", name)
    with one_line(
        f"the weights of source model '{name}' cannot be loaded", "save or download it again"
    ):
        if folder is not None:
            checkpoints.check(folder, CHANGED)
            if (folder / GENERATION_CONFIG_NAME).is_file():
                load_generation(name, config)  # transformers takes defaults for one it cannot read
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
    missing = [key for key in loaded[1]["missing_keys"] if "pooler." not in key]
    if lacking := sorted(key for key in missing if not may_lack(key)):
        raise DataError(
            f"source model '{name}': its weights lack {len(lacking)} tensors of a "
            f"{config.model_type} model, as config.json says ('{lacking[0]}' is one); put back its "
            "own config.json, or save or download the model again"
        )
    return loaded


def with_adapters(model: PreTrainedModel, folders: Iterable[Path]) -> PreTrainedModel:
    """Add adapters to the weights of their base, as peft does; shapes alone on the meta device.

    Where an adapter has embeddings of its own their number of rows becomes the model's.

    Raises:
        DataError: peft is not installed, or an adapter is broken or of another model.
    """
    for path in map(str, folders):
        peft = require("peft", "merging a LoRA adapter", "lora")
        problem = f"adapter '{path}' does not merge with its base"
        advice = f"save it again, or correct {BASE} in {ADAPTER}"
        with one_line(problem, advice), warnings.catch_warnings(action="ignore"):
            tensors = peft.load_peft_weights(path, device="cpu")
            matrix = model.get_input_embeddings().get_parameter("weight")
            names = tuple(f".{name}" for name, own in model.named_parameters() if own is matrix)
            rows = {len(tensor) for name, tensor in tensors.items() if name.endswith(names)}
            if rows - {len(matrix)}:
                model.resize_token_embeddings(max(rows), mean_resizing=False)
            config = peft.PeftConfig.from_pretrained(path)
            wrapped = peft.PeftModel(model, config, low_cpu_mem_usage=True)
            own, given = (
                {(name, *tensor.shape) for name, tensor in side.items()}
                for side in (peft.get_peft_model_state_dict(wrapped), tensors)
            )
            if odd := sorted(own ^ given):
                raise DataError(f"{problem}: '{odd[0][0]}' differs or is in one alone; {advice}")
            if not matrix.is_meta:
                peft.set_peft_model_state_dict(wrapped, tensors, low_cpu_mem_usage=True)
            model = wrapped.merge_and_unload()
    return model


def needed_id(config: PreTrainedConfig, key: str) -> int:
    """Return a token id of a configuration without which its model cannot read.

    Raises:
        UnsupportedModelError: the configuration lacks it.
    """
    if (token := getattr(config, key, None)) is None:
        raise UnsupportedModelError(
            f"a model of type '{config.model_type}' needs {key}; add it to its config.json"
        )
    return int(token)


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
    """Refuse a model that reads hardly more than special tokens; return `longest`.

    Args:
        name: of the model, for the message; None where it has none yet.
        longest: tokens of the longest sentence that it reads.

    Raises:
        UnsupportedModelError: they are fewer than `SHORTEST`.
    """
    if longest < SHORTEST:
        raise UnsupportedModelError(
            f"source model '{name or 'source.architecture'}': reads {longest} tokens at most (by "
            f"max_position_embeddings), but {SHORTEST} are needed"
        )
    return longest
