"""One model of a probe, as a stock checkpoint with its tokenizer."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import torch

from lingraft.errors import DataError
from lingraft.models import export
from lingraft.models.families import check_masked, family_of
from lingraft.models.graft import VocabularyTensors, rebuild
from lingraft.models.kinds import KINDS
from lingraft.models.source import LoadedSource, load_model
from lingraft.pretrained.load import load_config
from lingraft.recipe.places import Places
from lingraft.tokenizer import files as tokenizer_files

if TYPE_CHECKING:
    from pathlib import Path

    from lingraft.probing.models import Probed, Variant

VOCABULARY_KEYS = ("mask_token_id", "vocab_size", "tokenizer_class")
"""Configuration values that belong to a vocabulary, beside its special tokens."""


def check_source(probed: Probed, phase: str) -> None:
    """Make sure that the source can be loaded and is the one that the run was made from.

    The weights are compared where the run still has the model that its training started from.

    Args:
        probed: the run.
        phase: one that is done.

    Raises:
        DataError: it cannot, or is not.
    """
    try:
        source_config = load_config(probed.source, probed.revision)
    except DataError as error:
        raise DataError(f"{error}; --source says where the run's source model is now") from None
    run_config = load_config(str(probed.weights(phase)))
    check_masked(family_of(run_config.model_type), "probe-source")
    actual = (source_config.model_type, source_config.hidden_size, source_config.num_hidden_layers)
    depth = probed.places.source_layers(run_config.num_hidden_layers)
    expected = (run_config.model_type, run_config.hidden_size, depth)
    if actual != expected:
        raise DataError(
            f"source model '{probed.source}': is {_shape(actual)}, but {probed.run.path} was made "
            f"from {_shape(expected)}; name the run's own source with --source"
        )
    grafted = probed.run.stage("graft").path / "model"
    if probed.recipe.graft.source_weights == "pretrained" and (grafted / "config.json").is_file():
        start, origin = load_model(str(grafted)), load_model(probed.source, probed.revision)
        layers, rest = origin.family.layers, origin.family.layer_output
        copied = start.model.state_dict()[f"{layers}.{probed.places.before}.{rest}"]
        if not torch.equal(copied, origin.model.state_dict()[f"{layers}.0.{rest}"]):
            raise DataError(
                f"source model '{probed.source}': its weights are not those that "
                f"{probed.run.path} was made from; name the run's own source with --source"
            )


def _shape(parts: tuple[str, int, int]) -> str:
    kind, width, depth = parts
    return f"a {kind} of {depth} layers of width {width}"


def build(probed: Probed, variant: Variant, folder: Path) -> None:
    """Write a variant: weights, configuration and tokenizer that stock transformers loads.

    All variants, the source too, are written by the stock masked-language-model class, so that what
    a fine-tuning draws anew (the head; BERT's pooler) is the same for all.

    Args:
        probed: the run.
        variant: what to build.
        folder: is emptied first.

    Raises:
        LingraftError: a checkpoint is broken, or the disk is full.
    """
    origin = load_model(probed.source, probed.revision)
    places = probed.places
    if variant.after is None:
        loaded, places = origin, Places()
    else:
        loaded = load_model(str(probed.weights(variant.after)))
    depth = int(getattr(loaded.model.config, loaded.family.depth_key))
    left_out = places.inserted(depth) if variant.layers == "without" else frozenset()
    plan = (index for index in range(depth) if index not in left_out)
    put_back = variant.after is not None and variant.vocabulary == "source"
    model, _ = rebuild(
        loaded.model,
        loaded.family,
        list(plan),
        config_changes=_settings(origin) if put_back else {},
        seed=0,
        keep_source=not variant.random,
        vocabulary=VocabularyTensors.of(origin.model, origin.family, "the source's")
        if put_back
        else None,
        missing=loaded.missing,
    )
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    export.write_model(model, folder)
    tokenizer = (
        tokenizer_files.load(probed.tokenizer)
        if variant.vocabulary == "target"
        else tokenizer_files.load(probed.source, probed.revision)
    )
    tokenizer_files.save_as_it_is(tokenizer, folder)


def _settings(origin: LoadedSource) -> dict[str, Any]:
    config = origin.model.config
    keys = (*KINDS[origin.family.kind].special_ids, *VOCABULARY_KEYS)
    return {key: getattr(config, key) for key in keys if hasattr(config, key)}
