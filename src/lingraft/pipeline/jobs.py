"""A phase of a run as the training loop takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.models import damage, source
from lingraft.models.families import family_of
from lingraft.models.parts import translation_layers
from lingraft.pipeline.phase_data import readings
from lingraft.pipeline.rows import new_rows
from lingraft.pretrained.load import check_longest, load_config, longest_text
from lingraft.recipe.streams import distilled
from lingraft.tokenizer import files as tokenizer_files
from lingraft.training.objectives.common import TokenIds
from lingraft.training.objectives.distillation import Teacher
from lingraft.training.phase import Job

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from lingraft.models.families import Family
    from lingraft.pipeline.stages import Context
    from lingraft.recipe import Hardware, Phase, Recipe

LONGEST = 512
"""Tokens of a sentence that a teacher reads."""
GPU_TOKENS = {True: 32_768, False: 8_192}
"""At once on a GPU, by whether one process trains alone: memory that is full then halves them."""


def prepared(
    context: Context, section: Phase, weights: Path, folder: Path, fingerprint: str
) -> tuple[Job, PreTrainedModel]:
    """Load the model that a phase starts from, and gather what it trains on.

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
        hardware=training_here(context, section),
        family=loaded.family,
        itl_layers=translation_layers(loaded.model.config, loaded.family, recipe.graft.places),
        new_rows=new_rows(run.stage("graft").path, section),
        readings=readings(shards, recipe, section, tokenizer),
        vocabulary=TokenIds.of(tokenizer, loaded.family.kind),
        **_teacher(recipe, section, loaded.family, tokenizer),
        seed=context.seed_for("training"),
        folder=folder,
        metrics_path=run.metrics_path if own else folder / run.metrics_path.name,
        fingerprint=fingerprint,
        kept_config=kept_config,
        on_row=context.report_row,
    )
    return job, loaded.model


def _dropout(checkpoint: Path, section: Phase) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return settings of the phase's dropout, and those that put the source's back."""
    if section.dropout is None:
        return {}, {}
    config = load_config(str(checkpoint))
    keys = family_of(config.model_type).dropout_keys
    return dict.fromkeys(keys, section.dropout), {key: getattr(config, key) for key in keys}


def _teacher(
    recipe: Recipe, phase: Phase, family: Family, tokenizer: PreTrainedTokenizerFast
) -> dict[str, Any]:
    """Return what a job must know of the phase's teacher, the source; nothing where it has none."""
    if phase.distil is None:
        return {}
    name, revision = str(recipe.source.model), recipe.source.revision
    loaded, own = source.load_model(name, revision), tokenizer_files.load(name, revision)
    damage.tell(name, damage.mend(name, loaded, own), own)
    longest = min(LONGEST, longest_text(loaded.model.config, int(own.pad_token_id)))
    teacher = Teacher(
        loaded.model, family, own, tokenizer, longest=check_longest(name, longest), weight=1.0
    )
    return {"teacher": teacher, "distilled": distilled(phase, recipe.texts).name}


def training_here(context: Context, section: Phase) -> Hardware:
    """Return how this machine is used in a phase: on a GPU with as many tokens at once as suit it.

    Short passes leave a large GPU idle. The gradients are the same, up to rounding.
    """
    hardware, accelerator = context.recipe.hardware, context.accelerator
    if hardware.micro_batch_tokens is not None or accelerator.device.type != "cuda":
        return hardware
    most = GPU_TOKENS[accelerator.num_processes == 1 and section.distil is None]
    return hardware.model_copy(update={"micro_batch_tokens": most})
