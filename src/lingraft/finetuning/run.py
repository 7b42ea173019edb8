"""Every model on every task with every seed: what is done is kept, what was killed goes on."""

from __future__ import annotations

import contextlib
import logging
import shutil
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError, TrainingError
from lingraft.files import clear_temporary, write_text
from lingraft.finetuning import data as task_data, heads, outcomes, partners, source_parts
from lingraft.finetuning.new_language import prepare
from lingraft.finetuning.outcomes import Outcome, SplitScores
from lingraft.finetuning.problem import Finetuning, SelectionSplit
from lingraft.finetuning.recipe import phase_of
from lingraft.finetuning.task_runs import SeedRun, plan
from lingraft.pretrained.load import quiet_transformers
from lingraft.recipe import Hardware
from lingraft.report.card import card, languages_in_metadata
from lingraft.report.page import PageText
from lingraft.report.table import table
from lingraft.rundir import Run
from lingraft.tasks import examples as saved
from lingraft.tasks.splits import TRAIN
from lingraft.tasks.translation_metrics import signatures
from lingraft.training import checkpoint, loop, machine
from lingraft.training.data import BatchPlan
from lingraft.training.phase import Stopped, Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accelerate import Accelerator

    from lingraft.finetuning.coders.common import Coder, Item
    from lingraft.finetuning.recipe import Finetune
    from lingraft.finetuning.task_runs import TaskRun

    Items = dict[str, list[Item]]
    """Inputs of a task run by split, the same for all seeds."""

logger = logging.getLogger(__name__)

PHASE = "finetune"  # in metrics.jsonl
MACHINE_KEYS = ("devices", "cpu", "cores", "threads", "processes", "precision", *machine.PACKAGES)


@dataclass(frozen=True)
class Options:
    """Settings of a call, for what it finds."""

    update: bool = False
    """Do seeds anew that were made from other inputs."""
    force: bool = False
    """Do all seeds of this call anew."""
    command: str = "lingraft.finetuning.run.finetune(...)"
    seeds: tuple[int, ...] = ()
    """Instead of the recipe's."""


def finetune(
    recipe: Finetune, out: Path, options: Options | None = None, base: Path | None = None
) -> list[Outcome]:
    """Fine-tune every model on every task with every seed.

    Args:
        recipe: what to do.
        out: the folder of the results; may hold those of other calls.
        options: how to treat what is there.
        base: the folder that the recipe's paths are relative to; None takes the working directory.

    Returns:
        The outcomes of this call's seeds, those that were there before included.

    Raises:
        LingraftError: whatever the user can mend, on one line.
    """
    options, base = options or Options(), base or Path()
    outcomes.check_out(out)
    quiet_transformers()
    if recipe.restore_source:
        with source_parts.built(recipe, out, base) as parts:
            return finetune(parts, out, options, base)
    runs = plan(recipe, base)
    hardware = Hardware(**recipe.model_dump(include={"device", "precision", "micro_batch_tokens"}))
    accelerator = machine.accelerator_for(hardware, out)
    with Run(out).locked() if accelerator.is_main_process else contextlib.nullcontext():
        seeds = options.seeds or range(recipe.seeds)
        tuner = FineTuner(out, options, hardware, accelerator, recipe.keep_models)
        runs = [prepare(run, out, tuner.keep_best) for run in runs]
        return tuner.finetune(runs, seeds)


@dataclass(frozen=True)
class FineTuner:
    """The state of one call."""

    out: Path
    options: Options
    hardware: Hardware
    accelerator: Accelerator
    keep_models: bool

    @cached_property
    def environment(self) -> dict[str, Any]:
        """Return what is known of the machine and this call."""
        return machine.environment(self.accelerator, self.options.command)

    def finetune(self, runs: Sequence[TaskRun], seeds: Sequence[int]) -> list[Outcome]:
        """Fine-tune what is not done, and write results.jsonl.

        Raises:
            TrainingError: seeds diverged; all others are done.
        """
        precision = str(self.environment["precision"])
        jobs = [
            SeedRun(run, seed, self.out / run.place / f"seed-{seed}", run.inputs(seed, precision))
            for run in runs
            for seed in seeds
        ]
        if self.accelerator.is_main_process:
            clear_temporary(self.out)
            for job in jobs:
                job.prepare(update=self.options.update, force=self.options.force)
        self.accelerator.wait_for_everyone()
        todo = [job for job in jobs if not job.is_done]
        logger.info("finetune: %d done, %d to do", len(jobs) - len(todo), len(todo))
        diverged: dict[str, TrainingError] = {}
        encoded: tuple[TaskRun, Coder, Items] | None = None
        for number, job in enumerate(todo):
            logger.info("%s: %d of %d", job.name, number + 1, len(todo))
            if encoded is None or encoded[0] is not job.run:
                encoded = job.run, *self.encode(job.run)
            try:
                self.finetune_seed(job, *encoded[1:])
            except Stopped:
                raise
            except TrainingError as error:  # one that diverges stops no others
                logger.warning("%s: %s", job.name, error)
                self.accelerator.wait_for_everyone()
                diverged[job.name] = error
        if self.accelerator.is_main_process:
            outcomes.write_results(self.out)
        self.accelerator.wait_for_everyone()
        if diverged:
            first, *_ = diverged.values()
            raise TrainingError(f"{first}. Diverged: {'; '.join(diverged)}")
        return [outcomes.read_outcome(job.folder) for job in jobs]

    def keep_best(self, run: TaskRun, out: Path) -> Path:
        """Fine-tune a task run with one seed, and return the folder of its best weights."""
        try:
            (outcome,) = replace(self, out=out, keep_models=True).finetune([run], [0])
        except TrainingError as error:  # of no seed that was asked for
            raise DataError(f"back-translation: {error}") from None
        return outcome.folder / "best"

    def finetune_seed(self, job: SeedRun, coder: Coder, items: Items) -> None:
        """Fine-tune, predict and score one seed."""
        run, folder, settings = job.run, job.folder, job.run.task.settings
        if self.accelerator.is_main_process:
            job.begin()
        self.accelerator.wait_for_everyone()
        tokenizer = coder.shape.tokenizer
        model = heads.build(run.folder, run.task, tokenizer, job.seed, is_plugged=run.is_plugged)
        coder.adapt(model)
        model.to(self.accelerator.device)
        selection = [
            SelectionSplit(split, run.task_of(split), run.data.splits[split], items[split])
            for split in run.selection
        ]
        problem = Finetuning(model, coder, items[TRAIN], selection, self.hardware.at_once)
        phase = phase_of(settings, PHASE, 1.0)
        steps = BatchPlan(problem.lengths, phase.batch, job.seed, PHASE).steps_per_epoch()
        work = Work(
            phase=phase_of(settings, PHASE, steps),
            hardware=self.hardware,
            seed=job.seed,
            folder=folder,
            metrics_path=folder / "metrics.jsonl",
            fingerprint=str(job.inputs["fingerprint"]),
            average_last=settings.average_last,
            decay_all=settings.decay_all,
        )
        result = loop.run_phase(work, problem, self.accelerator)
        self.accelerator.wait_for_everyone()
        if work.average_last:
            result["averaged"] = checkpoint.put_mean(folder, model)
            if self.accelerator.is_main_process:
                problem.save(folder / "best")
        else:
            heads.restore(model, folder / "best")
        splits = self.predict(run, problem, items, folder)
        if self.accelerator.is_main_process:
            self.finish(job, splits, result, steps)
            scores = [splits[split].scores for split in run.data.evaluation]
            means = {name: round(fmean(of[name] for of in scores), 1) for name in run.task.shown}
            logger.info("%s: %s", job.name, means)
        self.accelerator.wait_for_everyone()

    def encode(self, run: TaskRun) -> tuple[Coder, Items]:
        """Encode the examples of a task run; for a model that is plugged in with their partners."""
        coder, items = heads.coder_for(run.folder, run.task), {}
        for split, examples in run.data.splits.items():
            if run.is_plugged:
                matches = run.data.partners[split]
                if split == TRAIN and run.teacher is not None:
                    device = (self.accelerator, self.hardware.at_once)
                    matches = partners.tag(matches, run.teacher, run.task, *device)
                items[split] = partners.items(coder, examples, matches)
            else:
                encode = coder.encode_training if split == TRAIN else coder.encode
                items[split] = encode(examples)
            if number := sum(item.cut for item in items[split]):
                told = (run.task.name, split, number, len(items[split]), coder.shape.max_length)
                logger.info("%s %s: %d of %d inputs are cut to %d tokens", *told)
        return coder, items

    def predict(
        self, run: TaskRun, problem: Finetuning, items: Items, folder: Path
    ) -> dict[str, SplitScores]:
        """Predict the splits with the best weights; writes predictions and examples."""
        splits = {}
        for split in run.reported:
            examples = run.data.splits[split]
            answers, _ = problem.predict(
                problem.module, self.accelerator, examples, items[split], best=True
            )
            scores = run.task_of(split).score(examples, answers)
            splits[split] = SplitScores(n=len(examples), scores=scores)
            if self.accelerator.is_main_process:
                saved.save(folder / f"predictions-{split}.jsonl", answers)
                outcomes.save_examples(folder / f"examples-{split}.jsonl", examples)
        return splits

    def finish(
        self, job: SeedRun, splits: dict[str, SplitScores], result: dict[str, Any], steps: float
    ) -> None:
        """Delete the weights that are not kept, then write the scores and end the seed.

        In this order, since nobody looks for them once the seed is done; a kill between the two
        costs the seed's training, and no result.
        """
        unwanted = checkpoint.leftovers(job.folder)
        checkpoint.clear_looks(job.folder)
        for folder in [*unwanted, *([] if self.keep_models else [job.folder / "best"])]:
            shutil.rmtree(folder)
        run, task, best = job.run, job.run.task, result["best"]["step"]
        chosen = [splits[split].scores[run.task_of(split).selection] for split in run.selection]
        languages = [run.task_of(split).table.language for split in run.reported]
        more = {key: result[key] for key in ("steps", "stopped", "tokens", "trainable_parameters")}
        more |= {"model": run.model, "command": self.environment["command"]}
        more["machine"] = {key: self.environment[key] for key in MACHINE_KEYS}
        outcome = Outcome(
            folder=job.folder,
            model_label=run.title,
            model_fingerprint=job.inputs["weights"],
            task=task.name,
            seed=job.seed,
            splits=splits,
            evaluation=run.data.evaluation,
            shown=task.shown,
            task_definition=task.saved,
            split_note=task_data.split_note(run.data, run.task_of(run.selection[0])),
            selection=task.selection,
            transfer=run.transfer.languages if run.transfer else None,
            signatures=signatures(task.metrics, *languages),
            averaged=result.get("averaged", ()),
            settings=task.settings.model_dump(),
            plug_in=run.plug_in_record(),
            best={"step": best, "epoch": round(best / steps, 2), "score": fmean(chosen)},
            train_examples=len(run.data.splits[TRAIN]),
            seconds=result["seconds"],
            fingerprint=job.inputs["fingerprint"],
            **more,
        )
        if self.keep_models:
            write_text(job.folder / "best" / "README.md", _card(run, outcome))
            _write_hub_results(job.folder / "best", run, outcome)
        outcome.write()
        job.step.finish(outcome.fingerprint, {}, outcome.seconds)


def _write_hub_results(model: Path, run: TaskRun, outcome: Outcome) -> None:
    """Write a benchmark's score as the Hub reads it (`.eval_results`); none of a cut."""
    import yaml
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    hub = run.task.table.hub
    if hub is None or hub.task is None or outcomes.is_cut(outcome.split_note):
        return
    split, metric = outcome.evaluation[0], outcome.selection
    entry = EvalResultEntry(
        hub.dataset,
        hub.task,
        round(outcome.scores(split)[metric], 2),
        dataset_revision=hub.revision,
        notes=f"{outcomes.metric_name(metric)} (%), {split}, fine-tuned, seed {outcome.seed}",
    )
    folder = model / ".eval_results"
    folder.mkdir(exist_ok=True)
    text = yaml.safe_dump(eval_result_entries_to_yaml([entry]))
    write_text(folder / f"{run.task.name}.yaml", text)


def _card(run: TaskRun, outcome: Outcome) -> str:
    """Write the model card of kept weights."""
    rows = [
        (split, outcomes.metric_name(key), f"{outcome.scores(split)[key]:.1f}")
        for split in outcome.evaluation
        for key in outcome.shown
    ]
    stock = not run.is_plugged and run.task.kind != "parsing"
    loads = "transformers loads it" if stock else "it loads with lingraft alone"
    about = f"{run.label}, fine-tuned on {run.task.title} with seed {outcome.seed}; {loads}."
    return card(
        f"{run.title} on {run.task.name}",
        [
            PageText(about),
            table("", ("split", "score", "%"), rows, [f"Splits: {outcome.split_note}."]),
        ],
        **languages_in_metadata(
            run.transfer.languages.test if run.transfer else run.task.languages
        ),
        library_name="transformers" if stock else "lingraft",
        tags=["lingraft"],
    )
