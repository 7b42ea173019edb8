"""Places of a model's files, and whether they need Python code of their own. No torch here."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError, UnsupportedModelError
from lingraft.paths import path_of
from lingraft.rundir import checkpoint_digests, digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from lingraft.recipe import Tokenizer

ENDINGS = (".safetensors", ".bin")
"""Endings of files of weights."""
WEIGHTS = tuple(f"*{ending}" for ending in ENDINGS)


def folder_of(name: str) -> Path | None:
    """Return the directory that a model's name stands for; None where it is an id on the Hub.

    Raises:
        DataError: it is a path without a directory, or nothing that the Hub could have.
    """
    try:
        path = path_of(name)
        if path.is_dir():
            return path
        is_file = path.is_file()
    except (ValueError, OSError):  # a null byte, a name too long
        is_file = False
    if is_file:
        raise DataError(
            f"source model '{name}': is a file; give the folder of a Hugging Face model (a GGUF "
            "file is none: it holds quantised weights for other programs)"
        )
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise DataError(
            f"source model '{name}': no such directory; give one, or a Hub id such as "
            "FacebookAI/roberta-base"
        )
    from huggingface_hub.errors import HFValidationError  # slow, and only for ids
    from huggingface_hub.utils._validators import validate_repo_id

    try:
        validate_repo_id(name)
    except HFValidationError:
        raise DataError(
            f"source model '{name}': is no directory, and no id on the Hub is spelt so; give a "
            "directory, or an id such as FacebookAI/roberta-base"
        ) from None
    return None


def without_config(name: str, folder: Path) -> DataError:
    """Return the error for a folder that holds no config.json.

    Args:
        name: as the user gave it.
        folder: where that is.
    """
    if any(folder.glob("*.gguf")):
        return DataError(
            f"source model '{name}': holds a GGUF file, quantised weights for other programs; give "
            "the Hugging Face model that it was made of"
        )
    right = "the folder that save_pretrained wrote"
    if (folder / "model" / "config.json").is_file():
        right = f"the run's model, {name.rstrip('/')}/model"
    return DataError(
        f"source model '{name}': the directory holds no config.json, so it is not a Hugging Face "
        f"model; give {right}"
    )


def check_shards(folder: Path) -> None:
    """Refuse a folder whose index names files of weights that are not there.

    Raises:
        DataError: one is missing, or the index is broken.
    """
    for whole in ("model.safetensors", "pytorch_model.bin"):
        index = folder / f"{whole}.index.json"
        if (folder / whole).is_file() or not index.is_file():
            continue
        try:
            names = sorted({*map(str, json.loads(index.read_bytes())["weight_map"].values())})
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise DataError(f"{index}: names no files of weights; download it again") from None
        if missing := [name for name in names if not (folder / name).is_file()]:
            raise DataError(
                f"source model '{folder}': {len(missing)} of the {len(names)} files of its weights "
                f"are not there ({missing[0]}), which {index.name} names; download the model again"
            )


def named_weights(name: str) -> Any:
    """Return what names a model's weights for a fingerprint: file contents, or an id on the Hub."""
    folder = folder_of(name)
    return name if folder is None else checkpoint_digests(folder)


def named_tokenizer(section: Tokenizer) -> list[Any]:
    """Return what of [tokenizer] decides a vocabulary: of a given one its files, not their place.

    Raises:
        DataError: there is no such folder.
    """
    folder = None if section.model is None else folder_of(section.model)
    if folder is None:
        return [section]
    files = [entry for entry in checkpoint_digests(folder) if not entry[0].endswith(ENDINGS)]
    return [section.model_copy(update={"model": None}), files]


def weights_fingerprint(folder: Path) -> str:
    """Return the SHA-256 of the weight files, in the order of their names."""
    pattern = next(pattern for pattern in WEIGHTS if any(folder.glob(pattern)))
    return files_digest(folder.glob(pattern))


def files_digest(paths: Iterable[Path]) -> str:
    """Return the SHA-256 of files' names and contents, in the order of the names."""
    files = hashlib.sha256()
    for path in sorted(paths):
        files.update(path.name.encode() + bytes.fromhex(digest(path)))
    return files.hexdigest()


def refuse_code(name: str, settings: Mapping[str, Any], stock: bool) -> None:
    """Refuse a checkpoint that cannot be loaded without Python code that lies beside it.

    Code that somebody else wrote is never run, and nobody is asked whether to.

    Args:
        name: of the checkpoint, for the message.
        settings: what config.json or tokenizer_config.json holds; the code is under `auto_map`.
        stock: whether transformers itself has the class; then the code is left aside.

    Raises:
        UnsupportedModelError: the code would be needed.
    """
    if settings.get("auto_map") and not stock:
        raise UnsupportedModelError(
            f"model '{name}': brings its own Python code ({_modules(settings['auto_map'])}), which "
            "lingraft never runs; choose a model and a tokenizer whose classes are part of "
            "transformers"
        )


def quantised(config: Mapping[str, Any]) -> str | None:
    """Return why a checkpoint with quantised weights is refused; None where they are whole."""
    settings = config.get("quantization_config")
    if not settings:
        return None
    method = settings.get("quant_method") if isinstance(settings, dict) else None
    return (
        f"its weights are quantised ({method or 'quantization_config'}), and such weights "
        "cannot be trained on; choose the checkpoint in bf16 or fp32 that they were made of"
    )


def _modules(auto_map: Any) -> str:
    """Return the modules that `auto_map` names: `modeling_x.XModel`, a list of such, or a dict."""
    values = list(auto_map.values()) if isinstance(auto_map, dict) else [auto_map]
    flat = [part for value in values for part in (value if isinstance(value, list) else [value])]
    names = {part.rpartition(".")[0] or part for part in flat if isinstance(part, str)}
    return ", ".join(f"{name}.py" for name in sorted(names)) or "auto_map"
