"""Run a recipe: corpus, tokenizer, graft, phases, evaluation, model, report."""

from __future__ import annotations

import contextlib
import logging
from time import monotonic
from typing import TYPE_CHECKING

from lingraft.callbacks import Callback
from lingraft.files import write_text
from lingraft.log import duration
from lingraft.models import export as exporting
from lingraft.models.source import config_of, load_model
from lingraft.pipeline import evaluating, folder, phases, preflight, stages, trackers
from lingraft.pipeline.model_kinds import for_model_kind
from lingraft.pipeline.stages import Clock, Context, source_family
from lingraft.pretrained.load import quiet_transformers
from lingraft.recipe import Budget
from lingraft.recipe.baselines import baseline
from lingraft.recipe.decoding import to_toml
from lingraft.recipe.methods import as_written, read_recipe, time_budget
from lingraft.report import card, row
from lingraft.report.pages import run as run_page, sections
from lingraft.report.variants import labelled, scores
from lingraft.rundir import FORMAT, Run, fingerprint
from lingraft.tokenizer import files as tokenizer_files
from lingraft.training.machine import accelerator_for, environment, note_environment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from accelerate import Accelerator

    from lingraft.pipeline.completing import Completed
    from lingraft.recipe import Recipe

logger = logging.getLogger(__name__)


def adapt(
    asked: Recipe | Budget,
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
        asked: a recipe; or a larger budget for the finished run in `out`, which goes on from
            before its cooldown.
        out: the run's folder.
        update: allow a run of another recipe to be brought up to this one.
        force: delete the run in `out` first; files that are not lingraft's stay.
        command: kept in environment.json, to reproduce the run.
        began: when a budget in time begins, on `time.monotonic`; None: now.
        callback: told of steps, validations and stages.

    Raises:
        LingraftError: whatever the user can mend, on one line.
    """
    began = monotonic() if began is None else began
    quiet_transformers()
    run = Run.existing(out) if isinstance(asked, Budget) else Run(out)
    completed, accelerator = _completed(asked, run, update=update, force=force)
    update = update or isinstance(asked, Budget)
    recipe, main = completed.recipe, accelerator.is_main_process
    folder.check_outside(recipe, run)
    notes = [*completed.notes, *preflight.check(recipe, download=True).notes]
    now = environment(accelerator, command)
    with run.locked() if main else contextlib.nullcontext():
        if main:
            folder.prepare(completed, run, update=update, force=force)
            for line in sections.lines(completed.choices):
                logger.info("%s", line)
            for note in notes:
                logger.warning("%s", note)
            note_environment(run, now)
        accelerator.wait_for_everyone()
        if not main:  # the first process decides
            recipe = read_recipe(run.recipe_path)
        if recipe.hardware.trackers:
            trackers.start(accelerator, recipe, run)
        seconds = time_budget(recipe)
        clock = None if seconds is None else Clock(began, seconds)
        run_stages(Context(recipe, run, accelerator, now, clock, callback or Callback()))
        if main:
            logger.info("report: %s", report(run))
        if recipe.hardware.trackers:
            if main:
                trackers.log_scores(accelerator, run, row.read(run.path / row.RESULTS))
            accelerator.end_training()
    return run


def _completed(
    asked: Recipe | Budget, run: Run, *, update: bool, force: bool
) -> tuple[Completed, Accelerator]:
    """Return the complete recipe of a run, and the machine; the arguments are those of `adapt`."""
    if isinstance(asked, Budget):
        completed = folder.with_budget(run, asked)
        return completed, accelerator_for(completed.recipe.hardware, run.path)
    accelerator = accelerator_for(asked.hardware, run.path)
    number = accelerator.num_processes
    completed = folder.complete(asked, run, update=update, force=force, processes=number)
    return completed, accelerator


def run_stages(context: Context) -> None:
    """Run every stage, up to the exported model."""
    text = on_main_process(context, "corpus", lambda: stages.corpus(context))
    vocabulary = on_main_process(context, "tokenizer", lambda: stages.tokenizer(context, text))
    trained = train(context, graft(context, vocabulary))
    evaluated = on_main_process(
        context, "evaluation", lambda: evaluating.evaluate(context, trained)
    )
    for index in range(len(context.recipe.baselines)):
        compare(context, index, vocabulary)
    on_main_process(context, "model", lambda: export(context, trained, evaluated))
    if context.clock is not None and context.accelerator.is_main_process:
        sections.note_time(context.run, context.clock.passed(), context.clock.seconds)


def on_main_process(context: Context, name: str, work: Callable[[], str]) -> str:
    """Do a stage on the main process while the others wait; return its fingerprint on all."""
    stage = context.run.stage(name)
    if context.accelerator.is_main_process:
        started, before = monotonic(), stage.fingerprint()
        log_stage_end(context, name, started, kept=work() == before)
    context.accelerator.wait_for_everyone()
    return str(stage.fingerprint())


def graft(context: Context, vocabulary: str) -> str:
    """Graft; return the fingerprint."""
    return on_main_process(context, "graft", lambda: stages.graft(context, vocabulary))


def train(context: Context, digest: str) -> str:
    """Train all phases from the graft of that fingerprint; return the last one's."""
    for index, section in enumerate(context.recipe.phases):
        started, before = monotonic(), context.run.stage(section.name).fingerprint()
        digest = phases.train(context, index, digest)
        log_stage_end(context, section.name, started, kept=before == digest)
    return digest


def log_stage_end(context: Context, name: str, started: float, *, kept: bool) -> None:
    """Log that a stage has ended, and tell the callback.

    What an earlier call has made counts in a budget in time; not what another run has.

    Args:
        context: of the run.
        name: of the stage.
        started: when it began, on `time.monotonic`.
        kept: whether an earlier call has made it.
    """
    stage = context.run.stage(name)
    if kept and context.clock is not None and not stage.path.is_symlink():
        context.clock.before += float(stage.done()["seconds"])
    took = "kept" if kept else f"done in {duration(monotonic() - started)}"
    logger.info("%s: %s", name, took)
    if not kept and context.accelerator.is_main_process:
        context.callback.on_stage(context.run, name, stage.result())


def compare(context: Context, index: int, vocabulary: str) -> None:
    """Train and evaluate one of the recipe's baselines, in a run of its own inside the run.

    Of a budget in time it gets as many tokens as the run's own phases came to.
    """
    own_phases = []
    for phase in context.recipe.phases:
        if phase.budget.seconds is not None:
            tokens = float(context.run.stage(phase.name).result()["tokens"])
            phase = phase.model_copy(update={"budget": Budget(value=tokens, unit="tokens")})
        own_phases.append(phase)
    other = baseline(context.recipe.model_copy(update={"phases": tuple(own_phases)}), index)
    recipe = for_model_kind(
        other, source_family(other.source), tied=preflight.is_source_tied(other.source)
    )
    run = baseline_run(context.run, other.training.method)
    its_context = Context(recipe, run, context.accelerator, callback=context.callback)
    if context.accelerator.is_main_process:
        run.path.mkdir(parents=True, exist_ok=True)
        write_text(run.recipe_path, to_toml(as_written(recipe)))
    logger.info("baseline %s: begins", other.training.method)
    trained = train(its_context, graft(its_context, vocabulary))
    on_main_process(its_context, "evaluation", lambda: evaluating.evaluate(its_context, trained))


def baseline_run(run: Run, method: str) -> Run:
    """Return the run of a baseline, which shares the run's corpus and tokenizer."""
    return Run(run.path / "baselines" / method, parent=run.path)


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
        write_model(context, digest)
    return digest


def write_model(context: Context, digest: str) -> None:
    """Build RUN/model."""
    run, source = context.run, context.recipe.source
    model = load_model(str(stages.weights_before(context, len(context.recipe.phases)))).model
    with run.stage("model").building(digest) as (folder, result):
        dtype = exporting.dtype_of(config_of(source), context.recipe.export.dtype)
        exporting.write_model(model, folder, dtype)
        tokenizer_files.save(tokenizer_files.load(str(run.stage("tokenizer").path)), folder)
        exporting.check_reload(model, folder)
        write_text(folder / "README.md", card.model_card(run))
        result["parameters"] = model.num_parameters()


def report(run: Run) -> Path:
    """Write RUN/report.html and the scores, RUN/results.jsonl, of what the run holds so far."""
    models = labelled([run])
    row.write(run.path / row.RESULTS, (score for model in models for score in scores(model)))
    return run_page.write(models, run.path / "report.html")
