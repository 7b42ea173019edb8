"""What retrieval, mining and alignment share: a model's layers, kept answers, the results' folder.

No torch before a configuration has to be read.
"""

from __future__ import annotations

import contextlib
import time
import zipfile
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lingraft.errors import DataError, RecipeError, reading
from lingraft.pretrained.checkpoints import folder_of, weights_fingerprint
from lingraft.rundir import Run, Step, checkpoint_digests, fingerprint, writing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from lingraft.report.row import Value

    Array = np.ndarray[Any, Any]

Pool = Literal["mean", "no-specials", "cls"]
POOLS: tuple[Pool, ...] = ("mean", "no-specials", "cls")
"""The mean over all tokens, special ones included (XTREME); over those of the text alone; the first
token."""
ARRAYS = "arrays.npz"
AGAIN = "choose another --out, or --force: what has the same inputs is kept"
MIDDLE = 2 / 3
"""Where in a model's depth states are taken from, if nothing says better: 8 of 12 in XTREME,
SimAlign, awesome-align and XLM-Align."""
XTREME_LAYERS = {12: 8, 24: 14}
"""By depth: hidden state that XTREME's script takes (for XLM-R base our reading)."""
XTREME_MINING_LAYERS = {12: 8, 24: 8}
"""Likewise for BUCC, where its script takes the same for all models."""


def depth_of(name: str) -> int:
    """How many layers an encoder has, its embeddings not counted.

    Raises:
        LingraftError: there is no such checkpoint, or it is an encoder–decoder.
    """
    from lingraft.crosslingual.encoder import encoder_config  # torch

    return int(encoder_config(name).num_hidden_layers)


def usual_layer(depth: int) -> int:
    """The layer at `MIDDLE`."""
    return round(MIDDLE * depth)


def check_layer(layer: int, depth: int, name: str) -> int:
    """The layer, if a model of this depth has it.

    Raises:
        RecipeError: it does not.
    """
    if not 0 <= layer <= depth:
        raise RecipeError(
            f"layer {layer}: {name} has layers 0 (its embeddings) to {depth}; choose one of them"
        )
    return layer


def fingerprint_of(name: str) -> str:
    """Of a checkpoint's weights and tokenizer: those in a directory, or a commit on the Hub.

    Raises:
        LingraftError: there is no such checkpoint.
    """
    folder = folder_of(name)
    if folder is not None:
        return fingerprint(checkpoint_digests(folder))
    from lingraft.pretrained.load import load_config  # torch

    return fingerprint(name, load_config(name)._commit_hash)


def check_distinct(models: Mapping[str, str]) -> dict[str, str]:
    """The fingerprint of each model by its label.

    Args:
        models: directory or Hub id by label.

    Raises:
        RecipeError: two are the same.
    """
    fingerprints: dict[str, str] = {}
    for label, name in models.items():
        mark = fingerprint_of(name)
        for other, other_mark in fingerprints.items():
            if other_mark == mark:
                raise RecipeError(
                    f"models: {models[other]} and {name} are the same (weights and tokenizer are "
                    "equal); give each model once"
                )
        fingerprints[label] = mark
    return fingerprints


def facts_of(name: str, mark: str) -> dict[str, Value]:
    """Return how rows know a model; `lingraft finetune` knows it by its weights.

    Args:
        name: directory or Hub id, whose weights are not looked at.
        mark: of `fingerprint_of`.
    """
    folder = folder_of(name)
    weights: dict[str, Value] = {} if folder is None else {"weights": weights_fingerprint(folder)}
    return {"model_fingerprint": mark, **weights}


@dataclass(frozen=True)
class Options:
    """How translations are looked for, or mined."""

    pool: Pool = "mean"
    layer: int | None = None
    """None: the best on dev. Without dev the best on test (said so), or for mining the usual."""
    threshold: float | None = None
    """Of mining: None takes the best on dev; without dev, the best on the text itself (said so)."""
    parity: bool = False
    """XTREME: its layer; English looks for translations; sentences that stand twice in a text are
    not mined."""
    resamples: int = 4_000
    task: str | None = None
    """The benchmark that is read, by name; for `lingraft report`."""

    def asked_layer(
        self, depth: int, name: str, xtreme: Mapping[int, int] = XTREME_LAYERS
    ) -> tuple[int, str] | None:
        """The layer that the user wants, and by what word; None where another rule has to choose.

        Args:
            depth: of the model.
            name: of the model.
            xtreme: by depth, the layer of XTREME's script.

        Raises:
            RecipeError: the model has no such layer, or XTREME no such model.
        """
        if self.layer is not None:
            return check_layer(self.layer, depth, name), "given"
        if not self.parity:
            return None
        if depth not in xtreme:
            raise RecipeError(
                f"parity xtreme: XTREME has a layer for models of 12 and of 24 layers only; "
                f"{name} has {depth}: add layer=N"
            )
        return xtreme[depth], "xtreme"

    def identity(self, models: Mapping[str, str]) -> dict[str, Any]:
        """What results depend on beside the texts, checked before anything is computed.

        Raises:
            RecipeError: two models are the same, or one has no such layer.
            DataError, UnsupportedModelError: one is no checkpoint, or an encoder–decoder.
        """
        marks = check_distinct(models)
        for name in models.values():
            self.asked_layer(depth_of(name), name)
        settings = asdict(self)
        del settings["resamples"], settings["task"]
        return {"models": marks, **settings}


def kept_arrays(folder: Path, inputs: str) -> dict[str, Array] | None:
    """Return what `keep_arrays` wrote; None unless that was made from the same inputs.

    Raises:
        DataError: the file is broken.
    """
    if not Step(folder).is_done(inputs):
        return None
    path = folder / ARRAYS
    try:
        with reading(path, f"delete {folder}"), np.load(path) as file:
            return {name: file[name] for name in file.files}
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: is broken ({error}); delete {folder}") from None


def keep_arrays(folder: Path, inputs: str, arrays: Mapping[str, Array]) -> None:
    """Write arrays as a step that is done.

    Raises:
        DataError: they cannot be written.
    """
    with writing(folder), Step(folder).building(inputs) as (partial, _):
        np.savez(partial / ARRAYS, allow_pickle=False, **arrays)


def is_of(folder: Path, command: str) -> bool:
    """Return whether a folder holds what a command of lingraft has made or begun."""
    return bool(Step(folder).inputs().get("command") == command)


@contextlib.contextmanager
def claimed(
    out: Path, command: str, settings: Mapping[str, Any], *, force: bool, command_line: str = ""
) -> Iterator[None]:
    """While results are made, their folder is one call's step, and no second process works there.

    Args:
        out: the folder.
        command: of lingraft.
        settings: plain data, which the results are made of; a call of the same goes on.
        force: replace results of other settings, but for what has the same inputs.
        command_line: kept with the settings.

    Raises:
        DataError: the folder holds something else, or another process has it.
    """
    step, started = Step(out), time.monotonic()
    names = sorted(path.name for path in out.glob("[!.]*"))
    if names and not is_of(out, command):
        raise DataError(
            f"{out}: holds other files ({names[0]}) and no results of lingraft {command}; "
            "choose another --out"
        )
    made_of = fingerprint(settings)
    inputs = {"fingerprint": made_of, "command": command, "line": command_line, **settings}
    with Run(out).locked():
        if not force:
            step.is_kept(inputs, replace=False, mend=AGAIN)
        step.begin(inputs, [path.name for path in out.iterdir() if path.is_dir()])
        yield
        step.finish(made_of, {}, time.monotonic() - started)
