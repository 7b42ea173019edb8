"""A phase of a run as the training loop takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.models import source
from lingraft.models.families import family_of
from lingraft.models.parts import translation_layers
from lingraft.objectives.common import TokenIds
from lingraft.pipeline import teaching
from lingraft.pipeline.reading import readings
from lingraft.pipeline.rows import new_rows
from lingraft.pretrained import load as pretrained
from lingraft.tokenizer import files as tokenizer_files
from lingraft.training.phase import Job

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedModel

    from lingraft.pipeline.stages import Context
    from lingraft.recipe import Phase


def prepared(
    context: Context, section: Phase, weights: Path, folder: Path, fingerprint: str
) -> tuple[Job, PreTrainedModel]:
    """What a phase trains, and the model that it starts from.

    Args:
        context: the run.
        section: the phase.
        weights: the checkpoint before it.
        folder: takes its checkpoints; metrics go into the run where it is the phase's own.
        fingerprint: the phase's fingerprint.
    """
    recipe, run = context.recipe, context.run
    changed, kept_config = _dropout(weights, section)
    loaded = source.load_model(str(weights), settings=changed)
    shards = run.stage("tokenizer").path
    tokenizer = tokenizer_files.load(str(shards))
    own = folder == run.stage(section.name).path
    job = Job(
        phase=section,
        training=recipe.training,
        family=loaded.family,
        itl_layers=translation_layers(loaded.model.config, loaded.family, recipe.graft.places),
        new_rows=new_rows(run.stage("graft").path, section),
        readings=readings(shards, recipe, section, tokenizer),
        vocabulary=TokenIds.of(tokenizer, loaded.family.kind),
        **teaching.of(recipe, section, loaded, shards),
        seed=context.seed_for("training"),
        folder=folder,
        metrics_path=run.metrics_path if own else folder / run.metrics_path.name,
        fingerprint=fingerprint,
        kept_config=kept_config,
        deadline=context.deadlines.get(section.name) if own else None,
    )
    return job, loaded.model


def _dropout(checkpoint: Path, section: Phase) -> tuple[dict[str, Any], dict[str, Any]]:
    """Configuration values that set the phase's dropout, and those that put the source's back."""
    if section.dropout is None:
        return {}, {}
    config = pretrained.load_config(str(checkpoint))
    keys = family_of(config.model_type).dropout_keys
    return dict.fromkeys(keys, section.dropout), {key: getattr(config, key) for key in keys}
