"""Share between retrieval, mining and alignment: models, steps that are kept, the results' folder.

No torch before a configuration has to be read.
"""

from __future__ import annotations

import contextlib
import time
import zipfile
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.errors import DataError, RecipeError, reading
from lingraft.files import writing
from lingraft.pretrained.checkpoints import folder_of, place_of, weights_fingerprint
from lingraft.rundir import Run, Step, checkpoint_digests, fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from lingraft.crosslingual.encoder import Encoder
    from lingraft.crosslingual.settings import Searching
    from lingraft.report.row import Value

    Array = np.ndarray[Any, Any]

ARRAYS = "arrays.npz"
AGAIN = "choose another --out, or --force: what has the same inputs is kept"
MIDDLE = 2 / 3
"""Share of a model's depth at which states are taken, if nothing says better: 8 of 12 in XTREME,
SimAlign, awesome-align and XLM-Align."""
XTREME_LAYERS = {12: 8, 24: 14}
"""By depth: hidden state that XTREME's script takes (for XLM-R base our reading)."""
XTREME_MINING_LAYERS = {12: 8, 24: 8}
"""Likewise for BUCC, where its script takes the same for all models."""


def fingerprint_of(name: str) -> str:
    """Return the fingerprint of a checkpoint: its files, or the commit on the Hub."""
    place = place_of(name)
    folder = folder_of(place.name)
    if folder is not None:
        return fingerprint(*map(checkpoint_digests, (folder, *place.adapters)))
    from lingraft.pretrained.load import load_config  # torch

    return fingerprint(name, load_config(name)._commit_hash)


def check_layer(layer: int, depth: int, name: str) -> int:
    """Return the layer, if a model of this depth has it.

    Raises:
        RecipeError: it does not.
    """
    if not 0 <= layer <= depth:
        raise RecipeError(
            f"layer {layer}: {name} has layers 0 (its embeddings) to {depth}; choose one of them"
        )
    return layer


@dataclass
class Model:
    """An encoder that is analysed; its weights are loaded when something has to be encoded."""

    label: str
    name: str
    """Directory or Hub id."""
    depth: int
    """Layers without the embeddings."""
    mark: str
    """Fingerprint by `fingerprint_of`."""

    @cached_property
    def encoder(self) -> Encoder:
        from lingraft.crosslingual.encoder import Encoder  # torch

        return Encoder.load(self.name)

    def unload(self) -> None:
        """Forget the weights."""
        self.__dict__.pop("encoder", None)

    @property
    def facts(self) -> dict[str, Value]:
        """Return how rows know the model; `lingraft finetune` knows it by its weights."""
        folder = folder_of(self.name)
        weights = {} if folder is None else {"weights": weights_fingerprint(folder)}
        return {"model_fingerprint": self.mark, **weights}

    def asked_layer(self, asked: Searching, xtreme: Mapping[int, int]) -> tuple[int, str] | None:
        """Return the layer that the user wants, and by what word; None for another rule.

        Args:
            asked: the command's keys.
            xtreme: by depth, the layer of XTREME's script.

        Raises:
            RecipeError: the model has no such layer, or XTREME no such model.
        """
        if asked.layer is not None:
            return check_layer(asked.layer, self.depth, self.name), "given"
        if asked.parity is None:
            return None
        if self.depth not in xtreme:
            raise RecipeError(
                f"parity xtreme: XTREME has a layer for models of 12 and of 24 layers only; "
                f"{self.name} has {self.depth}: add layer=N"
            )
        return xtreme[self.depth], "xtreme"


def open_models(by_label: Mapping[str, str]) -> list[Model]:
    """Return the encoders of these names.

    Raises:
        LingraftError: there is no such checkpoint, or it is an encoder–decoder.
    """
    from lingraft.crosslingual.encoder import encoder_config  # torch

    return [
        Model(label, name, int(encoder_config(name).num_hidden_layers), fingerprint_of(name))
        for label, name in by_label.items()
    ]


def keep_arrays(folder: Path, inputs: str, arrays: Mapping[str, Array]) -> None:
    """Write arrays as a step that is done."""
    with writing(folder), Step(folder).building(inputs) as (partial, _):
        np.savez(partial / ARRAYS, allow_pickle=False, **arrays)


def kept_arrays(folder: Path) -> dict[str, Array]:
    """Return what `keep_arrays` wrote.

    Raises:
        DataError: the file is broken.
    """
    path = folder / ARRAYS
    try:
        with reading(path, f"delete {folder}"), np.load(path) as file:
            return dict(file)
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: is broken ({error}); delete {folder}") from None


@contextlib.contextmanager
def claimed(out: Path, command: str, settings: Mapping[str, Any], *, force: bool) -> Iterator[None]:
    """Make the folder one call's step while its results are made, against a second process.

    Args:
        out: the folder.
        command: of lingraft.
        settings: plain data, which the results are made of; a call of the same goes on.
        force: replace results of other settings, but for what has the same inputs.

    Raises:
        DataError: the folder holds something else, or another process has it.
    """
    step, started = Step(out), time.monotonic()
    names = sorted(path.name for path in out.glob("[!.]*"))
    if names and not step.is_of(command):
        raise DataError(
            f"{out}: holds other files ({names[0]}) and no results of this command; "
            "choose another --out"
        )
    made_of = fingerprint(settings)
    inputs = {"fingerprint": made_of, "command": command, **settings}
    with Run(out).locked():
        if not force:
            step.is_kept(inputs, replace=False, mend=AGAIN)
        step.begin(inputs, [path.name for path in out.iterdir() if path.is_dir()])
        yield
        step.finish(made_of, {}, time.monotonic() - started)
