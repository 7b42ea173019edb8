"""A whole run: corpus, tokenizer, graft, phases, evaluate, export, report."""

from __future__ import annotations

import contextlib
import logging
from time import monotonic
from typing import TYPE_CHECKING

from lingraft.errors import DataError, RecipeError, TooLittleTextError
from lingraft.hub import check_answers
from lingraft.log import duration
from lingraft.models import export as exporting
from lingraft.models.source import load_model
from lingraft.pipeline import (
    budgeting,
    evaluating,
    learnt,
    plans,
    soundness,
    stages,
)
from lingraft.pipeline.budgeting import Timekeeper
from lingraft.pipeline.clearing import changed_precision, check_outside, empty
from lingraft.pipeline.preflight import check_inputs, check_names, too_small, unread
from lingraft.pipeline.rows import tied_now
from lingraft.pipeline.source_files import source_of
from lingraft.pipeline.stages import Context, family_now
from lingraft.pipeline.suiting import check_context, suited
from lingraft.pipeline.trainable import check_grafts
from lingraft.pretrained.checksums import FILE
from lingraft.pretrained.load import quiet_transformers
from lingraft.recipe import stage_order
from lingraft.recipe.decoding import to_toml
from lingraft.recipe.methods import baseline, is_open, read_recipe, settled
from lingraft.report import card
from lingraft.report import plan as plan_report
from lingraft.report.pages import run as run_page
from lingraft.rundir import FORMAT, Run, clear_temporary, fingerprint, write_text
from lingraft.tokenizer import files as tokenizer_files
from lingraft.training.machine import accelerator_for, environment, note_environment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lingraft.recipe import Recipe

logger = logging.getLogger(__name__)

COMPUTES = ("precision", "row_tokens")
"""Keys of [training] that a phase's fingerprint holds; another value of the others redoes nothing.
"""
UPLOADED = "uploaded"
"""Lies in RUN/model once it is on the Hub, so that an upload that failed is tried again."""


def adapt(
    recipe: Recipe,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    command: str = "lingraft.adapt(...)",
    time: Timekeeper | None = None,
) -> Run:
    """Run a recipe from raw text to a model and its report.

    What is already there and still fits the recipe is kept; what is missing or changed is made. A
    run that was killed goes on where it was, to the same weights.

    Args:
        recipe: a complete recipe (`methods.read_recipe` or `methods.recipe_from`).
        out: the run's folder.
        resume: allow a run of another recipe to be brought up to this one.
        overwrite: delete the run in `out` first; files that are not lingraft's stay.
        command: kept in environment.json, to reproduce the run.
        time: the clock that a budget in time goes by; None starts one now.

    Returns:
        The run.

    Raises:
        LingraftError: whatever the user can mend, on one line.
    """
    check_names(recipe)
    check_inputs(recipe)
    quiet_transformers()
    time = time or Timekeeper(monotonic())
    family = family_now(recipe)
    run, request = Run(out), suited(recipe, family, tied=tied_now(recipe))
    check_outside(recipe, run)
    stages.check_tokenizers(recipe)
    recipe = request if overwrite else budgeting.remembered(request, run)
    check_context(recipe, family, stages.position_settings(recipe)[1])
    damaged = soundness.check_source(recipe)
    accelerator = accelerator_for(recipe.training, out)
    main, now = accelerator.is_main_process, environment(accelerator, command)
    with run.locked() if main else contextlib.nullcontext():
        if main:
            same = plans.is_undecided(run) and budgeting.knows(run, request)
            prepare(recipe, run, resume=resume, overwrite=overwrite, same=same)
            budgeting.forget(run, request)
            for note in damaged + unread(recipe) + ([] if is_open(recipe) else too_small(recipe)):
                logger.warning("%s", note)
            note_environment(run, now)
        accelerator.wait_for_everyone()
        if recipe.training.trackers:
            accelerator.init_trackers("lingraft", config={"recipe": recipe.model_dump_json()})
        go_through(Context(recipe, run, accelerator, environment=now), request, time)
        if main:
            logger.info("report: %s", report(run))
            upload(run, recipe)
        if recipe.training.trackers:
            accelerator.end_training()
    return run


def go_through(context: Context, request: Recipe, time: Timekeeper) -> None:
    """Every stage of a run, up to the exported model.

    Args:
        context: of the run.
        request: the recipe as it was asked for.
        time: the clock that a budget in time goes by.
    """
    corpus_digest = alone(context, "corpus", lambda: stages.corpus(context))
    early = budgeting.choose(context, request)
    budgeting.look(early.recipe, time)
    tokenizer_digest = alone(early, "tokenizer", lambda: stages.tokenizer(early, corpus_digest))
    budgeting.look(early.recipe, time)
    early, digest = first_graft(early, request, tokenizer_digest)
    budgeting.look(early.recipe, time)
    final, grafted = decided(early, request, digest, time)
    check_grafts(final.recipe, source_of(final.recipe))  # one of the Hub has its files by now
    trained = train(final, grafted)
    evaluated = alone(final, "evaluation", lambda: evaluating.evaluate(final, trained))
    for index in range(len(final.recipe.baselines)):
        compare(final, index, tokenizer_digest)
    alone(final, "model", lambda: export(final, trained, evaluated))
    if is_open(context.recipe) and context.accelerator.is_main_process:
        budgeting.note_time(context.run, time)


def decided(
    context: Context, request: Recipe, grafted: str, time: Timekeeper
) -> tuple[Context, str]:
    """What was left open until the model is there; nothing of a complete recipe.

    Args:
        context: the run, behind its graft.
        request: the recipe as it was asked for.
        grafted: fingerprint of the graft.
        time: the clock that a budget in time goes by.

    Returns:
        The context with a complete recipe, and the graft's fingerprint: a probe may have found a
        better one.
    """
    if not is_open(context.recipe):
        return context, grafted
    context = budgeting.fix(context, request, time)
    tell(context.run)
    return context, str(context.run.stage("graft").fingerprint())


def compare(context: Context, index: int, tokenizer_digest: str) -> None:
    """Train and evaluate one of the recipe's baselines, in a run of its own inside the run."""
    method = context.recipe.baselines[index].method
    other = baseline(budgeting.as_trained(context), index)
    recipe = suited(other, family_now(other), tied=tied_now(other))
    baseline_context = Context(recipe, baseline_run(context.run, method), context.accelerator)
    if context.accelerator.is_main_process:
        baseline_context.run.path.mkdir(parents=True, exist_ok=True)
        write_text(baseline_context.run.recipe_path, to_toml(settled(recipe)))
    logger.info("baseline %s: begins", method)
    started = monotonic()
    trained = train(baseline_context, graft(baseline_context, tokenizer_digest))
    alone(baseline_context, "evaluation", lambda: evaluating.evaluate(baseline_context, trained))
    ended(context, f"baseline {method}", started, kept=False)


def baseline_run(run: Run, method: str) -> Run:
    """Where a baseline lies; it shares the run's corpus and tokenizer."""
    return Run(run.path / "baselines" / method, parent=run.path)


def prepare(recipe: Recipe, run: Run, *, resume: bool, overwrite: bool, same: bool = False) -> None:
    """Make the run's folder ready, and write the recipe into it.

    `same`: the run was asked for this before, and has not decided all that it left open.

    Raises:
        RecipeError: the folder holds something else, and neither `resume` nor `overwrite` says what
            to do with it.
    """
    if resume and overwrite:
        raise RecipeError("--resume and --overwrite contradict each other; give one")
    recipe_text = to_toml(settled(recipe))
    for folder in (run.path, *run.path.glob("*/"), *run.path.glob("baselines/*/*/")):
        clear_temporary(folder)
    present = [path.name for path in run.path.iterdir() if path.name != ".lock"]
    if overwrite:
        if present and not run.recipe_path.is_file():
            raise RecipeError(
                f"{run.path}: holds files but no run of lingraft ({present[0]} …); "
                "it is not overwritten; choose another --out"
            )
        empty(run)
    elif run.recipe_path.is_file():
        done = any(run.path.glob("*/done.json")) and not (same or resume)
        if done and (differing := changed_sections(recipe, run) or changed_files(recipe, run)):
            raise RecipeError(
                f"{run.path}: holds another run (differs in: {', '.join(differing)}); --resume "
                "redoes what changed and keeps the rest, --overwrite starts afresh"
            )
    elif present:
        raise RecipeError(
            f"{run.path}: is not empty and holds no run of lingraft ({present[0]} …); "
            "choose another --out"
        )
    write_text(run.recipe_path, recipe_text)


def changed_sections(recipe: Recipe, run: Run) -> list[str]:
    """The top-level keys in which the recipe differs from the one in the run."""
    if is_open(recipe) and run.plan_path.is_file():
        return budgeting.changed(run, recipe)
    run_recipe = read_recipe(run.recipe_path)
    new, old = (settled(version).model_dump(mode="json") for version in (recipe, run_recipe))
    computes = COMPUTES if changed_precision(recipe, run) else COMPUTES[1:]  # 'auto' is one
    for version in (new, old):
        version["training"] = {key: version["training"][key] for key in computes}
    return plans.differing(old, new, run, recipe)


def changed_files(recipe: Recipe, run: Run) -> list[str]:
    """What a run of the same recipe was made from, or in, and is another now."""
    if differing := changed_precision(recipe, run):
        return differing
    text, vocabulary = (run.stage(name).fingerprint() for name in ("corpus", "tokenizer"))
    is_same = text in (None, plans.corpus_fingerprint(recipe)) or plans.has_text_of(run, recipe)
    if not is_same:
        return ["the text's contents"]
    which = "the source's contents" if recipe.tokenizer.model is None else "source or tokenizer"
    if vocabulary not in (None, stages.tokenizer_fingerprint(recipe, str(text))):
        return [which]
    if vocabulary is None or is_open(recipe) or run.stage("graft").fingerprint() is None:
        return []
    if learnt.resources(recipe) and not stages.is_grafted(run, recipe, vocabulary):
        return ["the contents of [resources]"]
    return other_teachers(recipe, run)


def other_teachers(recipe: Recipe, run: Run) -> list[str]:
    """Whose contents are others than when a phase of the same recipe and graft has trained."""
    before = str(run.stage("graft").fingerprint())
    for index, section in enumerate(recipe.phases):
        before = stages.phase_fingerprint(recipe, index, before)
        mark = run.stage(section.name).path / "inputs"
        has_teacher = section.distil is not None and section.distil.teacher is not None
        if has_teacher and mark.is_file() and mark.read_text() != before:
            return [f"the contents of phases.{index}.distil.teacher"]
    return []


def alone(context: Context, name: str, work: Callable[[], str]) -> str:
    """Do a stage on the main process while the others wait; all get its fingerprint."""
    stage = context.run.stage(name)
    if context.accelerator.is_main_process:
        started, before = monotonic(), stage.fingerprint()
        digest = work()
        ended(context, name, started, kept=before == digest)
    context.accelerator.wait_for_everyone()
    return str(stage.fingerprint())


def graft(context: Context, tokenizer_digest: str) -> str:
    """Graft; returns the fingerprint."""
    return alone(context, "graft", lambda: stages.graft(context, tokenizer_digest))


def first_graft(context: Context, request: Recipe, tokenizer_digest: str) -> tuple[Context, str]:
    """Graft; where the rules chose an initialiser for which the text is too little, by 'mean'."""

    def work() -> str:
        try:
            return stages.graft(context, tokenizer_digest)
        except TooLittleTextError as error:
            if not budgeting.take_mean(context.run, str(error)):
                raise
            return stages.graft(budgeting.as_planned(context, request), tokenizer_digest)

    digest = alone(context, "graft", work)
    return budgeting.as_planned(context, request), digest


def tell(run: Run) -> None:
    """Log the plan of a run that has decided what its recipe left open."""
    for line in plan_report.lines(run):
        logger.info("%s", line)
    for warning in plan_report.warnings(run):
        logger.warning("%s", warning)


def train(context: Context, digest: str) -> str:
    """All phases from the graft of that fingerprint; returns the last one's."""
    for index, section in enumerate(context.recipe.phases):
        started, before = monotonic(), context.run.stage(section.name).fingerprint()
        digest = stages.phase(context, index, digest)
        ended(context, section.name, started, kept=before == digest)
    return digest


def ended(context: Context, name: str, started: float, *, kept: bool) -> None:
    """Log that a stage has ended, and which of the run's stages it was."""
    recipe = context.recipe
    *order, last = stage_order([phase.name for phase in recipe.phases])
    order += [*(f"baseline {section.method}" for section in recipe.baselines), last]
    place = ""
    if context.run.parent is None and name in order:
        total = "" if is_open(recipe) else f" of {len(order)}"  # the plan decides on the phases
        place = f" (stage {order.index(name) + 1}{total})"
    took = "kept" if kept else f"done in {duration(monotonic() - started)}"
    logger.info("%s: %s%s", name, took, place)


def export(context: Context, trained: str, evaluated: str) -> str:
    """Write RUN/model: weights, configuration, tokenizer, model card; prove that it loads."""
    recipe, run = context.recipe, context.run
    stage = run.stage("model")
    baselines = [
        baseline_run(run, section.method).stage("evaluation").fingerprint()
        for section in recipe.baselines
    ]
    digest = fingerprint(FORMAT["model"], trained, evaluated, baselines, recipe.export, recipe.name)
    if not stage.is_done(digest):
        write_out(context, digest)
    return digest


def write_out(context: Context, digest: str) -> None:
    """Build RUN/model."""
    run = context.run
    model = load_model(str(stages.weights_before(context, len(context.recipe.phases)))).model
    with run.stage("model").building(digest) as (folder, result):
        exporting.write_model(model, folder)
        tokenizer_files.save(tokenizer_files.load(str(run.stage("tokenizer").path)), folder)
        exporting.check_reload(model, folder)
        write_text(folder / "README.md", card.model_card(run))
        result["parameters"] = model.num_parameters()


def upload(run: Run, recipe: Recipe) -> None:
    """Upload RUN/model once; only when the recipe names where to.

    Raises:
        DataError: the Hub cannot be reached, or refuses.
    """
    name, mark = recipe.export.push_to_hub, run.stage("model").path / UPLOADED
    if not name or mark.is_file():
        return
    try:
        push(run, recipe)
    except Exception as error:  # HTTP, tokens, names: classes of its own
        reason = " ".join(str(error).split())[:300]
        raise DataError(
            f"{run.model_path}: is whole, but was not uploaded to {name}: {reason}; "
            "the same command tries again"
        ) from error
    write_text(mark, f"{name}\n")
    logger.info("uploaded to %s", name)


def push(run: Run, recipe: Recipe) -> None:
    """Send RUN/model to the Hub."""
    from huggingface_hub import HfApi  # the base install brings it; loaded when it is asked for

    name = str(recipe.export.push_to_hub)
    check_answers()
    api = HfApi()
    api.create_repo(name, private=recipe.export.private, exist_ok=True)
    api.upload_folder(
        repo_id=name, folder_path=run.model_path, ignore_patterns=["done.json", UPLOADED, FILE]
    )


def report(run: Run) -> Path:
    """Write RUN/report.html from what the run holds so far."""
    return run_page.write([run], run.path / "report.html")
