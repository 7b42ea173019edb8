"""Every model on every task with every seed: what is done is kept, what was killed goes on."""

from __future__ import annotations

import contextlib
import logging
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from lingraft.errors import RecipeError, TrainingError
from lingraft.finetuning import data as task_data
from lingraft.finetuning import heads, outcomes, partners, scored, source_parts
from lingraft.finetuning.card import task_card
from lingraft.finetuning.cells import Job, plan
from lingraft.finetuning.coders.common import log_cuts
from lingraft.finetuning.problem import Finetuning, Judged
from lingraft.finetuning.recipe import phase_of
from lingraft.log import counted, duration
from lingraft.pretrained.load import quiet_transformers
from lingraft.recipe import Hardware
from lingraft.report.row import RESULTS
from lingraft.rundir import Run, clear_temporary, write_text
from lingraft.tasks import examples as saved
from lingraft.tasks.splits import TRAIN
from lingraft.tasks.translation_metrics import signatures
from lingraft.training import checkpoint, loop, machine
from lingraft.training.data import BatchPlan
from lingraft.training.phase import Stopped, Work

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from accelerate import Accelerator
    from transformers import PreTrainedTokenizerFast

    from lingraft.finetuning.cells import Cell
    from lingraft.finetuning.coders.common import Coder, Item, Shape
    from lingraft.finetuning.outcomes import Outcome
    from lingraft.finetuning.recipe import Finetune

logger = logging.getLogger(__name__)

PHASE = "finetune"  # in metrics.jsonl
MACHINE_KEYS = ("devices", "cpu", "cores", "threads", "processes", "precision")


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
        The outcomes of this call's cells, those that were there before included.

    Raises:
        LingraftError: whatever the user can mend, on one line.
    """
    options, base = options or Options(), base or Path()
    if options.update and options.force:
        raise RecipeError("--update and --force contradict each other; give one")
    quiet_transformers()
    if recipe.restore_source:
        with source_parts.built(recipe, out, base) as parts:
            return finetune(parts, out, options, base)
    cells = plan(recipe, base)
    hardware = Hardware(**recipe.model_dump(include={"device", "precision", "micro_batch_tokens"}))
    accelerator = machine.accelerator_for(hardware, out)
    with Run(out).locked() if accelerator.is_main_process else contextlib.nullcontext():
        seeds = options.seeds or range(recipe.first_seed, recipe.first_seed + recipe.seeds)
        return _Call(out, options, hardware, accelerator, recipe.keep_models).run(cells, seeds)


@dataclass
class Encoded:
    """A cell's inputs, the same for all seeds."""

    cell: Cell
    tokenizer: PreTrainedTokenizerFast
    shape: Shape
    coder: Coder
    items: dict[str, list[Item]]


class _Call:
    """The state of one call."""

    def __init__(
        self,
        out: Path,
        options: Options,
        hardware: Hardware,
        accelerator: Accelerator,
        keep_models: bool,
    ) -> None:
        self.out, self.options, self.hardware = out, options, hardware
        self.accelerator, self.keep_models = accelerator, keep_models
        self.environment = machine.environment(accelerator, options.command)
        self.encoded: Encoded | None = None

    def run(self, cells: Sequence[Cell], seeds: Sequence[int]) -> list[Outcome]:
        if self.accelerator.is_main_process:
            clear_temporary(self.out)
        jobs = self.prepared([self.job(cell, seed) for cell in cells for seed in seeds])
        todo = [job for job in jobs if not job.is_done]
        logger.info(
            "finetune: %s × %s × %s, %d done, %d to do",
            counted(len({cell.label for cell in cells}), "model"),
            counted(len({cell.task.name for cell in cells}), "task"),
            counted(len(seeds), "seed"),
            *(len(jobs) - len(todo), len(todo)),
        )
        bare = sum(job.is_done and not (job.folder / "best").is_dir() for job in jobs)
        if bare and self.keep_models:
            logger.warning(
                "keep_models: %d of the seeds that are done have no weights; --force trains "
                "all seeds of the call anew",
                bare,
            )
        started, diverged = time.monotonic(), dict[str, TrainingError]()
        for number, job in enumerate(todo):
            left = ""
            if number:
                seconds = (time.monotonic() - started) / number * (len(todo) - number)
                left = f", about {duration(seconds)} left for all"
            logger.info("%s: %d of %d%s", job.name, number + 1, len(todo), left)
            try:
                self.one(job)
            except Stopped:
                raise
            except TrainingError as error:  # one that diverges stops no others
                logger.warning("%s: %s", job.name, str(error).partition(";")[0])
                self.accelerator.wait_for_everyone()
                diverged[job.name] = error
        if self.accelerator.is_main_process:
            scored.write_results(self.out)
        self.accelerator.wait_for_everyone()
        if diverged:
            raise all_that_diverged(diverged, self.out)
        folders = {job.folder for job in jobs}
        return [outcome for outcome in outcomes.outcomes(self.out) if outcome.folder in folders]

    def job(self, cell: Cell, seed: int) -> Job:
        """Return the job of a cell with a seed, in its folder."""
        folder = self.out / cell.place / f"seed-{seed}"
        return Job(cell, seed, folder, cell.inputs(seed, str(self.environment["precision"])))

    def prepared(self, jobs: list[Job]) -> list[Job]:
        """Make ready what is on disk, and return the jobs."""
        if self.accelerator.is_main_process:
            for job in jobs:
                job.prepare(update=self.options.update, force=self.options.force)
        self.accelerator.wait_for_everyone()
        return jobs

    def one(self, job: Job) -> None:
        """Fine-tune, predict and score one seed."""
        cell, folder = job.cell, job.folder
        encoded = self.encode(cell)
        if self.accelerator.is_main_process:
            job.begin()
        self.accelerator.wait_for_everyone()
        model = heads.build(cell.folder, cell.task, encoded.tokenizer, job.seed, cell.plug_in)
        encoded.coder.adapt(model)
        model.to(self.accelerator.device)
        problem = Finetuning(
            model,
            encoded.coder,
            encoded.shape,
            encoded.items[TRAIN],
            [
                Judged(split, cell.task_of(split), cell.data.splits[split], encoded.items[split])
                for split in cell.selection
            ],
            self.hardware.at_once,
        )
        phase = phase_of(cell.task.settings, PHASE, 1.0)
        steps = BatchPlan(problem.lengths, phase.batch, job.seed, PHASE).steps_per_epoch()
        work = Work(
            phase=phase_of(cell.task.settings, PHASE, steps),
            hardware=self.hardware,
            seed=job.seed,
            folder=folder,
            metrics_path=folder / "metrics.jsonl",
            fingerprint=str(job.inputs["fingerprint"]),
            average_last=cell.task.settings.average_last,
            decay_all=cell.task.settings.decay_all,
        )
        result = loop.run_phase(work, problem, model, self.accelerator)
        self.accelerator.wait_for_everyone()
        if work.average_last:
            result["averaged"] = checkpoint.put_mean(folder, model)
            logger.info("%s: the mean of the weights at steps %s", job.name, result["averaged"])
            if self.accelerator.is_main_process:
                problem.save(folder / "best")
        else:
            heads.restore(model, folder / "best")
        splits = self.predict(encoded, problem, folder)
        if self.accelerator.is_main_process:
            self.finish(job, splits, result, steps)
            logger.info("%s: %s", job.name, shown(cell, splits))
        self.accelerator.wait_for_everyone()

    def encode(self, cell: Cell) -> Encoded:
        """Encode the cell's inputs; they are kept for its next seed."""
        cache = self.encoded
        if cache is None or cache.cell.data is not cell.data or cache.cell.folder != cell.folder:
            task = cell.task
            tokenizer = heads.tokenizer_for(cell.folder, task)
            shape = heads.shape_of(cell.folder, task, tokenizer)
            coder = heads.CODERS[task.kind](task, shape)
            items = {split: self.inputs(cell, coder, split) for split in cell.data.splits}
            for split in items:
                log_cuts(items[split], coder, f"{task.name} {split}")
            cache = self.encoded = Encoded(cell, tokenizer, shape, coder, items)
        return cache

    def inputs(self, cell: Cell, coder: Coder, split: str) -> list[Item]:
        """Encode a split; for a model that is plugged in with its partners."""
        examples = cell.data.splits[split]
        if cell.plug_in is None:
            return (coder.encode_training if split == TRAIN else coder.encode)(examples)
        logger.info("%s %s: read %s", cell.task.name, split, cell.read(split))
        teacher = None
        if split == TRAIN and cell.teacher is not None:
            teacher = partners.Teacher(
                cell.teacher, cell.task, self.accelerator, self.hardware.at_once
            )
        return partners.items(coder, examples, cell.data.partners[split], teacher)

    def predict(
        self, encoded: Encoded, problem: Finetuning, folder: Path
    ) -> dict[str, dict[str, Any]]:
        """Predict the splits with the best weights; writes predictions and examples."""
        cell, splits = encoded.cell, {}
        for split in cell.reported:
            examples, items = cell.data.splits[split], encoded.items[split]
            answers, _ = problem.predict(
                problem.module, self.accelerator, examples, items, best=True
            )
            splits[split] = {
                "n": len(examples),
                "scores": cell.task_of(split).score(examples, answers),
                "rules": cell.rules[split],
            }
            if self.accelerator.is_main_process:
                saved.save(folder / f"predictions-{split}.jsonl", answers)
                outcomes.save_examples(folder / f"examples-{split}.jsonl", examples)
        return splits

    def finish(
        self, job: Job, splits: dict[str, dict[str, Any]], result: dict[str, Any], steps: float
    ) -> None:
        """Delete the weights that are not kept, then write the scores and end the seed.

        In this order, since nobody looks for them once the seed is done; a kill between the two
        costs the seed's training, and no result.
        """
        rest = checkpoint.leftovers(job.folder)
        checkpoint.clear_looks(job.folder)
        if not self.keep_models:
            rest.append(job.folder / "best")
        for leftover in rest:
            shutil.rmtree(leftover)
        cell, task, best = job.cell, job.cell.task, result["best"]["step"]
        scores: dict[str, Any] = {
            "model": cell.model,
            "model_label": cell.shown,
            "model_fingerprint": cell.weights,
            "task": task.name,
            "seed": job.seed,
            "splits": splits,
            **cell.told,
            "split_note": task_data.split_note(cell.data, cell.task_of(cell.selection[0])),
            "selection": task.selection,
            "transfer": cell.transfer.said() if cell.transfer else None,
            "signatures": signatures(task.metrics, *cell.languages),
            "averaged": result.get("averaged", []),
            "settings": task.settings.model_dump(),
            **(cell.said() if cell.plug_in else {}),
            "best": {
                "step": best,
                "epoch": round(best / steps, 2),
                "score": fmean(
                    splits[split]["scores"][cell.task_of(split).selection]
                    for split in cell.selection
                ),
            },
            "steps": result["steps"],
            "stopped": result["stopped"],
            "train_examples": len(cell.data.splits[TRAIN]),
            "train_digest": task_data.digest_of(cell.data.splits[TRAIN]),
            "train_tokens": result["tokens"],
            "seconds": result["seconds"],
            "parameters": result["trainable_parameters"],
            "versions": {key: self.environment[key] for key in (*machine.PACKAGES, "python")},
            "machine": {key: self.environment[key] for key in MACHINE_KEYS},
            "command": self.environment["command"],
            "fingerprint": job.inputs["fingerprint"],
        }
        if self.keep_models:
            write_text(job.folder / "best" / "README.md", task_card(cell, scores))
        job.finish(scores)


def all_that_diverged(errors: Mapping[str, TrainingError], out: Path) -> TrainingError:
    """Return the error of a call in which some seeds diverged, by name: the first, and who else."""
    first, *_ = errors.values()
    others = f" What others reached is in {out}." if (out / RESULTS).is_file() else ""
    return TrainingError(f"{first}.{others} Diverged: {'; '.join(errors)}")


def shown(cell: Cell, splits: dict[str, dict[str, Any]]) -> str:
    """Describe the scores that papers report, for the log; of several languages their means."""
    scores = {split: splits[split]["scores"] for split in cell.data.evaluation}
    names = cell.task.shown
    if cell.transfer is None:
        return ", ".join(f"{at} {name} {scores[at][name]:.1f}" for at in scores for name in names)
    means = ((name, fmean(one[name] for one in scores.values())) for name in names)
    told = ", ".join(f"{name} {mean:.1f}" for name, mean in means)
    return f"mean over {len(cell.transfer.test)} languages {told}"
