"""A whole run: corpus, tokenizer, graft, phases, evaluate, export, report."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING

from lingraft.callbacks import Callback
from lingraft.errors import DataError
from lingraft.hub import check_answers
from lingraft.log import duration
from lingraft.models import export as exporting
from lingraft.models.source import config_of, load_model
from lingraft.pipeline import evaluating, folder, going_on, phases, soundness, stages
from lingraft.pipeline.checks import check_grafts, check_inputs, check_names, too_small, unread
from lingraft.pipeline.ending import check_time
from lingraft.pipeline.rows import tied_now
from lingraft.pipeline.stages import Clock, Context, family_now
from lingraft.pipeline.suiting import check_context, suited
from lingraft.pretrained.checksums import FILE
from lingraft.pretrained.load import quiet_transformers
from lingraft.recipe import Budget, stage_order
from lingraft.recipe.baselines import baseline
from lingraft.recipe.decoding import to_toml
from lingraft.recipe.methods import as_written, read_recipe, time_budget
from lingraft.report import card, choices
from lingraft.report.pages import run as run_page
from lingraft.report.row import RESULTS
from lingraft.report.row import write as write_rows
from lingraft.report.variants import labelled, scores
from lingraft.rundir import DONE, FORMAT, Run, fingerprint, write_text
from lingraft.tokenizer import files as tokenizer_files
from lingraft.training.machine import accelerator_for, environment, note_environment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lingraft.pipeline.completing import Completed
    from lingraft.recipe import Recipe

logger = logging.getLogger(__name__)

UPLOADED = "uploaded"
"""Lies in RUN/model once it is on the Hub, so that an upload that failed is tried again."""


def adapt(
    asked: Recipe,
    out: Path,
    *,
    update: bool = False,
    force: bool = False,
    command: str = "lingraft.adapt(...)",
    began: float | None = None,
    callback: Callback | None = None,
) -> Run:
    """Run a recipe from raw text to a model and its report.

    What is already there and still fits the recipe is kept; what is missing or changed is made. A
    run that was killed goes on where it was, to the same weights.

    Args:
        asked: a recipe (`methods.read_recipe` or `methods.recipe_from`).
        out: the run's folder.
        update: allow a run of another recipe to be brought up to this one.
        force: delete the run in `out` first; files that are not lingraft's stay.
        command: kept in environment.json, to reproduce the run.
        began: when a budget in time begins, on `time.monotonic`; None: now.
        callback: told of steps, validations and stages.

    Returns:
        The run.

    Raises:
        LingraftError: whatever the user can mend, on one line.
    """
    began = monotonic() if began is None else began
    quiet_transformers()
    run, accelerator = Run(out), accelerator_for(asked.hardware, out)
    completed = folder.complete(
        asked, run, update=update, force=force, processes=accelerator.num_processes
    )

    def prepare() -> None:
        folder.prepare(completed, run, update=update, force=force)
        for line in choices.lines(completed.choices):
            logger.info("%s", line)

    context = Context(completed.recipe, run, accelerator, callback=callback or Callback())
    return run_completed(completed, context, prepare, command, began)


def go_on(
    out: Path,
    budget: Budget,
    *,
    command: str = "lingraft.adapt(...)",
    began: float | None = None,
    callback: Callback | None = None,
) -> Run:
    """Give a finished run a larger budget; it goes on from before its cooldown.

    Args:
        out: the run's folder.
        budget: of the whole run, with what it has had.
        command: as `adapt` takes it.
        began: as `adapt` takes it.
        callback: as `adapt` takes it.

    Returns:
        The run.

    Raises:
        LingraftError: whatever the user can mend, on one line.
    """
    began = monotonic() if began is None else began
    quiet_transformers()
    run = Run.existing(out)
    completed = going_on.with_budget(run, budget)
    accelerator = accelerator_for(completed.recipe.hardware, out)
    context = Context(completed.recipe, run, accelerator, callback=callback or Callback())

    def prepare() -> None:
        folder.prepare(completed, run, update=True, force=False)

    return run_completed(completed, context, prepare, command, began)


def run_completed(
    completed: Completed, context: Context, prepare: Callable[[], None], command: str, began: float
) -> Run:
    """Run a complete recipe.

    Args:
        completed: the recipe.
        context: of the run.
        prepare: makes the run's folder ready, on the main process.
        command: as `adapt` takes it.
        began: as `adapt` takes it.
    """
    recipe, run, accelerator = context.recipe, context.run, context.accelerator
    notes = [*completed.notes, *check(recipe, run)]
    main, now = accelerator.is_main_process, environment(accelerator, command)
    with run.locked() if main else contextlib.nullcontext():
        if main:
            prepare()
            for note in notes:
                logger.warning("%s", note)
            note_environment(run, now)
        accelerator.wait_for_everyone()
        if not main:  # the first process decides
            recipe = read_recipe(run.recipe_path)
        if recipe.hardware.trackers:
            accelerator.init_trackers("lingraft", config={"recipe": recipe.model_dump_json()})
        seconds = time_budget(recipe)
        clock = None if seconds is None else Clock(began, seconds)
        run_stages(replace(context, recipe=recipe, environment=now, clock=clock))
        if main:
            logger.info("report: %s", report(run))
            upload(run, recipe)
        if recipe.hardware.trackers:
            accelerator.end_training()
    return run


def check(recipe: Recipe, run: Run) -> list[str]:
    """Refuse what cannot work before anything is made.

    Returns:
        What is wrong, and does not stop the run.

    Raises:
        LingraftError: it cannot.
    """
    check_names(recipe)
    folder.check_outside(recipe, run)
    _, target = check_inputs(recipe, download=True)
    check_context(recipe, family_now(recipe), stages.position_settings(recipe)[1])
    damaged = soundness.check_source(recipe)
    if target is None:  # a source of the Hub has its files by now
        check_grafts(recipe)
    return damaged + unread(recipe) + too_small(recipe)


def run_stages(context: Context) -> None:
    """Run every stage, up to the exported model."""
    recipe = context.recipe
    corpus_digest = alone(context, "corpus", lambda: stages.corpus(context))
    check_time(context)
    tokenizer_digest = alone(context, "tokenizer", lambda: stages.tokenizer(context, corpus_digest))
    check_time(context)
    grafted = graft(context, tokenizer_digest)
    check_time(context)
    trained = train(context, grafted)
    evaluated = alone(context, "evaluation", lambda: evaluating.evaluate(context, trained))
    for index in range(len(recipe.baselines)):
        compare(context, index, tokenizer_digest)
    alone(context, "model", lambda: export(context, trained, evaluated))
    if context.clock is not None and context.accelerator.is_main_process:
        choices.note_time(context.run, context.clock.passed(), context.clock.seconds)


def as_trained(context: Context) -> Recipe:
    """Return the recipe with the tokens that its budgets in time came to, for baselines."""
    phases = []
    for phase in context.recipe.phases:
        if phase.budget.seconds is not None:
            tokens = float(context.run.stage(phase.name).result()["tokens"])
            phase = phase.model_copy(update={"budget": Budget(value=tokens, unit="tokens")})
        phases.append(phase)
    return context.recipe.model_copy(update={"phases": tuple(phases)})


def compare(context: Context, index: int, tokenizer_digest: str) -> None:
    """Train and evaluate one of the recipe's baselines, in a run of its own inside the run."""
    method = context.recipe.baselines[index].method
    other = baseline(as_trained(context), index)
    recipe = suited(other, family_now(other), tied=tied_now(other))
    own = baseline_run(context.run, method)
    baseline_context = Context(recipe, own, context.accelerator, callback=context.callback)
    if context.accelerator.is_main_process:
        baseline_context.run.path.mkdir(parents=True, exist_ok=True)
        write_text(baseline_context.run.recipe_path, to_toml(as_written(recipe)))
    logger.info("baseline %s: begins", method)
    started = monotonic()
    trained = train(baseline_context, graft(baseline_context, tokenizer_digest))
    alone(baseline_context, "evaluation", lambda: evaluating.evaluate(baseline_context, trained))
    ended(context, f"baseline {method}", started, kept=None)


def baseline_run(run: Run, method: str) -> Run:
    """Where a baseline lies; it shares the run's corpus and tokenizer."""
    return Run(run.path / "baselines" / method, parent=run.path)


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


def train(context: Context, digest: str) -> str:
    """All phases from the graft of that fingerprint; returns the last one's."""
    for index, section in enumerate(context.recipe.phases):
        started, before = monotonic(), context.run.stage(section.name).fingerprint()
        digest = phases.train(context, index, digest)
        ended(context, section.name, started, kept=before == digest)
    return digest


def ended(context: Context, name: str, started: float, *, kept: bool | None) -> None:
    """Log that a stage has ended, and which of the run's stages it was; tell the callback.

    What an earlier call has made counts in a budget in time; not what another run has.

    Args:
        context: of the run.
        name: of the stage.
        started: when it began, on `time.monotonic`.
        kept: whether an earlier call has made it; None for a baseline, which is no stage.
    """
    recipe, stage = context.recipe, context.run.stage(name)
    if kept and context.clock is not None and not stage.path.is_symlink():
        context.clock.before += float(stage.done()["seconds"])
    *order, last = stage_order([phase.name for phase in recipe.phases])
    order += [*(f"baseline {section.method}" for section in recipe.baselines), last]
    place = ""
    if context.run.parent is None and name in order:
        place = f" (stage {order.index(name) + 1} of {len(order)})"
    took = "kept" if kept else f"done in {duration(monotonic() - started)}"
    logger.info("%s: %s%s", name, took, place)
    if kept is False and context.accelerator.is_main_process:
        context.callback.on_stage(context.run, name, stage.result())


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
        source, asked = context.recipe.source, context.recipe.export.dtype
        exporting.write_model(model, folder, exporting.dtype_of(config_of(source), asked))
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
        repo_id=name, folder_path=run.model_path, ignore_patterns=[DONE, UPLOADED, FILE]
    )


def report(run: Run) -> Path:
    """Write RUN/report.html and the scores, RUN/results.jsonl, of what the run holds so far."""
    models = labelled([run])
    write_rows(run.path / RESULTS, (score for model in models for score in scores(model)))
    return run_page.write(models, run.path / "report.html")
