"""`lingraft check`: is the recipe sound, and what will it do? No network."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lingraft.corpus import inputs as text_inputs
from lingraft.pipeline import pairs
from lingraft.pipeline.checks import check_inputs, check_names, too_small, unread
from lingraft.pipeline.source_config import source_of
from lingraft.pipeline.suiting import check_context, suited
from lingraft.recipe import catalogue, stage_order
from lingraft.recipe.defaults import TOKENS_PER_SENTENCE
from lingraft.recipe.selectors import described

if TYPE_CHECKING:
    from lingraft.pipeline.outline import Outline
    from lingraft.recipe import Phase, Recipe

BYTES_PER_TOKEN = 4.5
"""UTF-8 bytes of raw text to one token of a 50k vocabulary: a rough figure for estimates."""


@dataclass
class Plan:
    """What a recipe will do; every number that is an estimate says so in its name."""

    recipe: Recipe
    """With the phases that its source goes through."""
    tied: bool | None
    """Whether the source's output projection is its word embeddings; None: nobody knows yet."""
    stages: list[str] = field(default_factory=list)
    text_bytes: int = 0
    unpacked_bytes_estimate: float = 0.0
    text_files: int = 0
    model_type: str = ""
    parameters: int | None = None
    by_part: dict[str, int] = field(default_factory=dict)
    phases: list[dict[str, Any]] = field(default_factory=list)
    disk_bytes_estimate: int | None = None
    memory_bytes_estimate: int | None = None
    """Of weights, gradients and AdamW's moments in fp32, of the phase that takes the most."""
    depth_and_width: tuple[int, int] | None = None
    """Of the target; None where the source is not on this machine, or an architecture."""
    notes: list[str] = field(default_factory=list)


def check(recipe: Recipe) -> Plan:
    """Check a recipe and say what it will do.

    Raises:
        RecipeError: the recipe cannot work.
        DataError: its text or its source is not there.
    """
    check_names(recipe)
    files, target = check_inputs(recipe)
    source = source_of(recipe)
    recipe = suited(recipe, source.family) if target is None else target.recipe
    plan = Plan(recipe, None if target is None else target.tied)
    if target is not None:
        positions = getattr(target.model.config, "max_position_embeddings", None)
        if positions is not None:
            check_context(recipe, target.family, int(positions))
    plan.text_files = len(files)
    plan.text_bytes = sum(int(entry.get("bytes") or 0) for entry in files)
    plan.unpacked_bytes_estimate = text_inputs.unpacked_bytes(files)
    plan.stages = [*stage_order(phase.name for phase in recipe.phases), "report"]
    plan.stages += [f"baseline {section.method}" for section in recipe.baselines]
    plan.model_type = source.family.model_type if source.family else ""
    if source.depth and source.width:
        plan.depth_and_width = source.depth, source.width
    if source.family is None:
        plan.notes.append(
            f"source '{recipe.source.model}' is not on this machine"
            f"{catalogue.hint(str(recipe.source.model))}; "
            "its size is known once it is downloaded (check downloads nothing)"
        )
    if target is not None:
        _count(target, plan)
    plan.phases = [_phase(recipe, phase, plan, target) for phase in recipe.phases]
    if target is not None:
        _estimates(target, plan)
    plan.notes += [*unread(recipe), *too_small(recipe)]
    return plan


def _count(target: Outline, plan: Plan) -> None:
    """Note the target's size, and what becomes of the vocabulary."""
    recipe, section = target.recipe, target.recipe.tokenizer
    plan.by_part, plan.parameters = target.by_part, sum(target.by_part.values())
    plan.depth_and_width = target.layers, int(target.model.config.hidden_size)
    if section.action not in ("keep", "use"):
        plan.notes.append(
            f"the vocabulary has {target.rows:,} rows at most, {target.rows - target.old_rows:,} "
            "of them new: how many is known once it is made, and the sizes given are those of so "
            "many"
        )
    plan.notes += [
        f"embeddings.{key} is without effect: the source's output projection is tied to its word "
        "embeddings"
        for key in (recipe.embeddings.of_output if target.tied else ())
    ]


def _phase(recipe: Recipe, phase: Phase, plan: Plan, target: Outline | None) -> dict[str, Any]:
    return {
        "name": phase.name,
        "trains": described(phase.train, phase.lora.parts if phase.lora else ()),
        "trainable": None if target is None else target.trainable(phase),
        "budget": f"{phase.budget.value:,.12g} {phase.budget.unit}",
        "batch": _batch(recipe, phase),
        "learning_rates": phase.optimizer.peaks,
        "tokens_estimate": _tokens(recipe, phase, plan),
    }


def _batch(recipe: Recipe, phase: Phase) -> str:
    size, unit = f"{phase.batch.size:,}", phase.batch.unit
    if phase.mixture.bilingual_batch is not None:
        size += f" or {phase.mixture.bilingual_batch:,}"
    if unit == "sentences" and pairs.tokens_of_a_step(recipe, phase) is not None:
        return f"{size} pairs"
    joins = phase.packing and unit == "sentences"
    return f"{size} blocks of sentences" if joins else f"{size} {unit}"


def _tokens(recipe: Recipe, phase: Phase, plan: Plan) -> float | None:
    """An estimate; None where the budget is in time, which `lingraft adapt` turns into tokens."""
    if phase.budget.seconds is not None:
        return None
    per_epoch = plan.unpacked_bytes_estimate / BYTES_PER_TOKEN
    if phase.max_train_sentences is not None:
        per_epoch = min(per_epoch, phase.max_train_sentences * TOKENS_PER_SENTENCE)
    per_sample = recipe.tokenizer.max_tokens if phase.packing else TOKENS_PER_SENTENCE
    if phase.budget.unit == "tokens":
        return phase.budget.value
    if phase.budget.unit == "epochs":
        return phase.budget.value * per_epoch
    of_unit = per_sample if phase.batch.unit == "sentences" else 1
    step = pairs.tokens_of_a_step(recipe, phase) or phase.batch.size * of_unit
    return phase.budget.value * step


def _estimates(target: Outline, plan: Plan) -> None:
    parameters, recipe = plan.parameters or 0, target.recipe
    most = max((entry["trainable"] or 0 for entry in plan.phases), default=0)
    models = 1 + len(recipe.baselines)
    # graft and best of each phase in fp32, one checkpoint with two moments, the exported model;
    # clean text and tokens
    copies = 1 + len(recipe.phases) + 1
    plan.disk_bytes_estimate = int(
        models * (parameters * 4 * copies + parameters * 4 + most * 8)
        + 2.5 * plan.unpacked_bytes_estimate
    )
    plan.memory_bytes_estimate = 4 * parameters + 12 * most
