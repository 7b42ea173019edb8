"""Places of a model's files, and whether they need Python code of their own. No torch here.

Checksums of weights that lingraft has written, compared whenever they are loaded. No torch here.

CRC-32 finds every change of a few bits and all but one in four thousand million others, at some
gigabytes a second.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from lingraft.errors import DataError, LingraftError, UnsupportedModelError, reading
from lingraft.files import path_of, use_umask, write_json
from lingraft.rundir import checkpoint_digests, digest, read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from lingraft.recipe import Tokenizer


ENDINGS = (".safetensors", ".bin")
"""Endings of files of weights."""
WEIGHTS = tuple(f"*{ending}" for ending in ENDINGS)
OF_MODELS = ("model*.safetensors", "pytorch_model*.bin")
"""Names of a model's own weights; a folder with such a file is a model, whatever lies beside it."""
ADAPTER, LOW_RANK = "adapter_config.json", "adapter_model"
BASE = "base_model_name_or_path"
"""Names of peft: of its files, and of the key that names the model to which an adapter belongs."""


def folder_of(name: str) -> Path | None:
    """Return the directory that a model's name stands for; None where it is an id on the Hub.

    Raises:
        DataError: it is a path without a directory.
    """
    try:
        path = path_of(name)
        if path.is_dir():
            return path
        is_file = path.is_file()
    except (ValueError, OSError):  # a null byte, a name too long
        is_file = False
    if is_file or name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise DataError(
            f"source model '{name}': no such directory; give the folder of a Hugging Face model, "
            "or a Hub id such as FacebookAI/roberta-base"
        )
    return None


class Place(NamedTuple):
    """Place of a model's weights, and what is merged into them."""

    name: str
    """Folder or Hub id."""
    revision: str | None
    adapters: tuple[Path, ...] = ()
    """Folders, in the order in which they are merged."""


def place_of(name: str, revision: str | None = None, own: str | None = None) -> Place:
    """Find where a model lies: of a LoRA adapter's folder where its base does.

    Args:
        name: folder or Hub id.
        revision: on the Hub.
        own: an adapter's folder that has a file of this name is the place itself.

    Raises:
        DataError: an adapter names no base, or one that is not there.
        UnsupportedModelError: it is an adapter of another kind.
    """
    folder = folder_of(name)
    if folder is None or not (folder / ADAPTER).is_file() or (own and (folder / own).is_file()):
        return Place(name, revision)
    if any(path for pattern in OF_MODELS for path in folder.glob(pattern)):
        return Place(name, revision)
    with reading(folder / ADAPTER, "save the adapter again"):
        settings = dict(json.loads((folder / ADAPTER).read_bytes()))
    base, kind = settings.get(BASE), settings.get("peft_type")
    where = f"source model '{name}': is an adapter"
    if not (isinstance(base, str) and any(folder.glob(f"{LOW_RANK}.*"))):
        raise DataError(f"{where} without {LOW_RANK}.safetensors, or without {BASE} in {ADAPTER}")
    if kind != "LORA":
        raise UnsupportedModelError(
            f"{where} of type {kind}, and only LoRA merges into the weights of its base; choose "
            f"the base, '{base}', or a LoRA adapter"
        )
    try:
        place = place_of(base, settings.get("revision"), own)
    except (LingraftError, RecursionError) as error:
        raise DataError(
            f"{where}, and its base '{base}' is not there; download it, or correct {BASE} in "
            f"{ADAPTER}"
        ) from error
    return place._replace(adapters=(*place.adapters, folder))


def without_config(name: str) -> DataError:
    """Return the error for a folder that holds no config.json."""
    return DataError(
        f"source model '{name}': the directory holds no config.json, so it is not a Hugging Face "
        "model; give the folder that save_pretrained wrote (RUN/model of a run)"
    )


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


def weight_files(folder: Path) -> list[Path]:
    """Return the files of a model's weights in the order of their names; none of an adapter's.

    Of two formats the first of `WEIGHTS` is read.
    """
    found = (sorted({*folder.glob(p)} - {*folder.glob(f"{LOW_RANK}.*")}) for p in WEIGHTS)
    return next(filter(None, found), [])


def weights_fingerprint(folder: Path) -> str:
    """Return the SHA-256 of the weight files, in the order of their names.

    Raises:
        DataError: there are none.
    """
    files = weight_files(folder)
    if not files:
        raise DataError(f"model '{folder}': holds no weights (*.safetensors)")
    return files_digest(files)


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
            f"model '{name}': brings its own Python code (auto_map), which lingraft never runs; "
            "choose a model and a tokenizer whose classes are part of transformers"
        )


FILE = "checksums.json"
PATTERNS = ("*.safetensors", "*.pt", "state.json")
CHUNK = 1 << 22


def write(folder: Path, changed: Path | None = None) -> None:
    """Write the checksums of a folder's weights and states, once they are whole.

    Args:
        folder: of a checkpoint.
        changed: the only file that is another than when they were last written; None is all.
    """
    use_umask(folder)
    known = read_json(folder / FILE) if changed and (folder / FILE).is_file() else {}
    files = [path for pattern in PATTERNS for path in sorted(folder.glob(pattern))]
    sums = {p.name: known.get(p.name) if p != changed else None for p in files}
    write_json(folder / FILE, {name: sums[name] or _sum(folder / name) for name in sums})


def check(folder: Path, mend: str) -> None:
    """Refuse a folder with a file that is not what was written; others are as they are.

    Args:
        folder: of a checkpoint; one without checksums is not lingraft's, or older than they are.
        mend: what to do.

    Raises:
        DataError: a file is missing or has another content.
    """
    if not (folder / FILE).is_file():
        return
    for name, written in read_json(folder / FILE).items():
        path = folder / name
        if not path.is_file() or _sum(path) != written:
            raise DataError(
                f"{path}: is not what was written there (damaged, or changed since); {mend}"
            )


def _sum(path: Path) -> str:
    total = 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            total = zlib.crc32(chunk, total)
    return f"{total:08x}"
