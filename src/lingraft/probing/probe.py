"""Fine-tune every model of a probe, one after the other; what is done is kept."""

from __future__ import annotations

import logging
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lingraft.finetuning import run as finetuning
from lingraft.finetuning.recipe import tasks_of
from lingraft.pretrained.load import quiet_transformers
from lingraft.probing import building, table
from lingraft.rundir import Run, clear_temporary, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.finetuning.recipe import Finetune
    from lingraft.probing.models import Probed
    from lingraft.report.table import Table

logger = logging.getLogger(__name__)

MODELS = "models"
"""Folder in OUT: where the models lie while they are fine-tuned."""
RECORD = "probe.json"
"""In OUT: the run, and what every label stands for."""


def probe(
    probed: Probed,
    phases: Sequence[str],
    recipe: Finetune,
    out: Path,
    options: finetuning.Options,
    *,
    keep_models: bool = False,
) -> tuple[Table, list[Path]]:
    """Build and fine-tune the models of a probe, and write the tables.

    Args:
        probed: the run.
        phases: its models after these only; empty takes all.
        recipe: tasks, data, seeds and settings; each model stands in for `recipe.models`.
        out: takes the results; may hold those of other calls.
        options: of each fine-tuning.
        keep_models: leave the models in OUT/models.

    Returns:
        The table, and the files that were written, the page first.

    Raises:
        LingraftError: whatever the user can mend, on one line.
    """
    quiet_transformers()
    tasks_of(recipe, Path())  # an unknown one is told before a model is built
    variants = probed.variants(phases)
    probed_phases = phases or probed.phases
    for phase in probed_phases:
        probed.weights(phase)
    building.check_source(probed, probed_phases[0])
    with Run(out / MODELS).locked():
        clear_temporary(out)
        every = probed.variants()
        record = {
            "run": str(probed.run.path),
            "source": probed.source,
            "models": {variant.label: asdict(variant) for variant in every},
        }
        for number, variant in enumerate(variants, 1):
            logger.info("probe-source: %s, model %d of %d", variant.label, number, len(variants))
            folder = out / MODELS / variant.label
            try:
                building.build(probed, variant, folder)
                settings = {"models": (str(folder.resolve()),), "labels": (variant.label,)}
                variant_recipe = recipe.model_copy(update=settings)
                once = replace(options, advises=number == 1)  # all are as wide as the source
                finetuning.finetune(variant_recipe, out, once, Path())
                write_json(out / RECORD, record)  # not where the results there are refused
            finally:
                if not keep_models and folder.exists():
                    shutil.rmtree(folder)
        return table.write(every, probed.notes(), out)
