"""Every model on every task with every seed: what is done is kept, what was killed goes on."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.errors import RecipeError
from lingraft.finetuning import data as task_data
from lingraft.finetuning import heads, outcomes
from lingraft.finetuning.cells import plan
from lingraft.finetuning.coders.common import Shape, say_what_was_cut
from lingraft.finetuning.outcomes import SCORES
from lingraft.finetuning.problem import Finetuning
from lingraft.finetuning.recipe import phase_of
from lingraft.pretrained.load import load_config, quiet_transformers
from lingraft.recipe import Training
from lingraft.rundir import Run, clear_temporary, read_json, write_json, write_text
from lingraft.tasks import predictions
from lingraft.tasks.splits import DEV, TRAIN
from lingraft.training import loop, machine
from lingraft.training.checkpoint import latest
from lingraft.training.data import BatchPlan
from lingraft.training.phase import Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accelerate import Accelerator
    from transformers import PreTrainedTokenizerFast

    from lingraft.finetuning.cells import Cell
    from lingraft.finetuning.coders.common import Coder, Item
    from lingraft.finetuning.outcomes import Outcome
    from lingraft.finetuning.recipe import Finetune

logger = logging.getLogger(__name__)

PHASE = "finetune"
"""Name of the phase, in metrics.jsonl."""
MACHINE_KEYS = ("devices", "cpu", "cores", "threads", "processes", "precision")


@dataclass(frozen=True)
class Options:
    """How a call treats what it finds."""

    resume: bool = False
    """Do seeds anew that were made from other inputs."""
    overwrite: bool = False
    """Do all seeds of this call anew."""
    keep_models: bool = False
    """Leave the best weights of every seed in place."""
    command: str = "lingraft.finetune(...)"


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
    if options.resume and options.overwrite:
        raise RecipeError("--resume and --overwrite contradict each other; give one")
    quiet_transformers()
    cells = plan(recipe, base)
    training = Training(precision=recipe.precision, micro_batch_tokens=recipe.micro_batch_tokens)
    accelerator = machine.accelerator_for(training, out)
    main = accelerator.is_main_process
    with Run(out).locked() if main else contextlib.nullcontext():
        return _Call(recipe, out, options, training, accelerator).run(cells)


@dataclass
class Encoded:
    """A cell's inputs, the same for all seeds."""

    tokenizer: PreTrainedTokenizerFast
    shape: Shape
    coder: Coder
    items: dict[str, list[Item]] = field(default_factory=dict)


class _Call:
    """The state of one call."""

    def __init__(
        self,
        recipe: Finetune,
        out: Path,
        options: Options,
        training: Training,
        accelerator: Accelerator,
    ) -> None:
        self.recipe, self.out, self.options = recipe, out, options
        self.training, self.accelerator = training, accelerator
        self.environment = machine.environment(accelerator, options.command)
        self.took: list[float] = []
        self.encoded: tuple[Cell, Encoded] | None = None

    def run(self, cells: Sequence[Cell]) -> list[Outcome]:
        first = self.recipe.first_seed
        seeds = range(first, first + self.recipe.seeds)
        jobs = [(cell, seed) for cell in cells for seed in seeds]
        if self.accelerator.is_main_process:
            self.prepare(jobs)
        self.accelerator.wait_for_everyone()
        todo = [job for job in jobs if not self.done(*job)]
        logger.info(
            "finetune: %d models × %d tasks × %d seeds, %d done, %d to do",
            len(self.recipe.models),
            len(jobs) // len(seeds) // len(self.recipe.models),
            len(seeds),
            len(jobs) - len(todo),
            len(todo),
        )
        for number, (cell, seed) in enumerate(todo):
            self.announce(cell, seed, number, len(todo))
            self.one(cell, seed)
        if self.accelerator.is_main_process:
            outcomes.write_results(self.out)
        self.accelerator.wait_for_everyone()
        wanted = {self.folder(*job) for job in jobs}
        return [one for one in outcomes.outcomes(self.out) if one.folder in wanted]

    # -- folders

    def folder(self, cell: Cell, seed: int) -> Path:
        return self.out / cell.label / cell.task.name / f"seed-{seed}"

    def inputs(self, cell: Cell, seed: int) -> dict[str, Any]:
        return cell.inputs(seed, str(self.environment["precision"]))

    def done(self, cell: Cell, seed: int) -> bool:
        return (self.folder(cell, seed) / SCORES).is_file()

    def prepare(self, jobs: Sequence[tuple[Cell, int]]) -> None:
        """Make sure that what is there belongs to these jobs; delete what does not.

        Raises:
            RecipeError: something does not, and the options do not say what to do with it.
        """
        clear_temporary(self.out)
        for cell, seed in jobs:
            folder, wanted = self.folder(cell, seed), self.inputs(cell, seed)
            mark = folder / "inputs"
            clear_temporary(folder)
            if not folder.is_dir():
                continue
            if not mark.is_file() and any(folder.iterdir()):
                raise RecipeError(
                    f"{folder}: holds files but no results of lingraft finetune; "
                    "choose another --out"
                )
            present = read_json(mark) if mark.is_file() else {}
            differing = [
                key for key in wanted if key != "fingerprint" and present.get(key) != wanted[key]
            ]
            if differing and (folder / SCORES).is_file():
                self.object_to(folder, differing)
            if differing or self.options.overwrite:
                (folder / SCORES).unlink(missing_ok=True)
                shutil.rmtree(folder)

    def object_to(self, folder: Path, differing: Sequence[str]) -> None:
        """Stop where results would be lost that nobody said may be lost.

        Raises:
            RecipeError: neither --resume nor --overwrite was given.
        """
        if not (self.options.resume or self.options.overwrite):
            raise RecipeError(
                f"{folder}: holds results of other inputs (they differ in: "
                f"{', '.join(differing)}); --resume does what differs anew, "
                "or choose another --out or --label"
            )

    # -- one seed

    def announce(self, cell: Cell, seed: int, number: int, total: int) -> None:
        left = ""
        if self.took:
            minutes = sum(self.took) / len(self.took) * (total - number) / 60
            left = f", about {minutes:,.0f} min left for all"
        logger.info(
            "%s on %s, seed %d: %d of %d%s",
            cell.label,
            cell.task.name,
            seed,
            number + 1,
            total,
            left,
        )

    def one(self, cell: Cell, seed: int) -> None:
        """Fine-tune, predict and score one seed."""
        started = time.monotonic()
        encoded = self.encode(cell)
        folder, inputs = self.folder(cell, seed), self.inputs(cell, seed)
        if self.accelerator.is_main_process:
            claim(folder, inputs)
        self.accelerator.wait_for_everyone()
        model = heads.build(cell.folder, cell.task, encoded.tokenizer, seed)
        model.to(self.accelerator.device)
        problem = Finetuning(
            model,
            encoded.coder,
            encoded.shape,
            encoded.items[TRAIN],
            (cell.data.splits[DEV], encoded.items[DEV]),
            self.training.micro_batch_tokens,
        )
        phase = phase_of(cell.task.settings, PHASE, 1.0)
        steps = BatchPlan(problem.lengths, phase.batch, seed, PHASE).steps_per_epoch()
        work = Work(
            phase=phase_of(cell.task.settings, PHASE, steps),
            training=self.training,
            seed=seed,
            folder=folder,
            metrics_path=folder / "metrics.jsonl",
            fingerprint=str(inputs["fingerprint"]),
        )
        result = loop.run_phase(work, problem, model, self.accelerator)
        heads.restore(model, folder / "best")
        splits = self.predict(cell, encoded, problem, folder)
        if self.accelerator.is_main_process:
            self.finish(cell, seed, splits, result, steps)
            logger.info(
                "%s on %s, seed %d: %s", cell.label, cell.task.name, seed, shown(cell, splits)
            )
        self.accelerator.wait_for_everyone()
        self.accelerator.free_memory()
        self.took.append(time.monotonic() - started)

    def encode(self, cell: Cell) -> Encoded:
        """The cell's inputs; kept for its next seed."""
        if self.encoded is not None and self.encoded[0] is cell:
            return self.encoded[1]
        task = cell.task
        tokenizer = heads.tokenizer_for(cell.folder, task)
        config = load_config(str(cell.folder))
        coder_class = heads.CODERS[task.kind]
        forward = heads.forward_of(config, coder_class.head)
        shape = Shape.of(tokenizer, config, forward, task.settings.max_length)
        encoded = Encoded(tokenizer, shape, coder_class(task, shape))
        for split, examples in cell.data.splits.items():
            items = encoded.coder.encode(examples)
            say_what_was_cut(items, shape, f"{task.name} {split}")
            encoded.items[split] = items
        self.encoded = (cell, encoded)
        return encoded

    def predict(
        self, cell: Cell, encoded: Encoded, problem: Finetuning, folder: Path
    ) -> dict[str, dict[str, Any]]:
        """Predict the splits with the best weights; writes predictions and examples."""
        splits = {}
        for split in task_data.reported(cell.data):
            examples = cell.data.splits[split]
            said, _ = problem.predict(
                problem.module, self.accelerator, examples, encoded.items[split]
            )
            splits[split] = {
                "n": len(examples),
                "scores": cell.task.score(examples, said),
                "rules": cell.rules[split],
            }
            if self.accelerator.is_main_process:
                predictions.save(folder / f"predictions-{split}.jsonl", said)
                outcomes.save_examples(folder / f"examples-{split}.jsonl", examples)
        return splits

    def finish(
        self,
        cell: Cell,
        seed: int,
        splits: dict[str, dict[str, Any]],
        result: dict[str, Any],
        steps: float,
    ) -> None:
        """Delete the weights that are not kept, then write scores.json.

        In this order, since nobody looks for them once there are scores; a kill between the two
        costs the seed's training, and no result.
        """
        folder, inputs = self.folder(cell, seed), self.inputs(cell, seed)
        leftovers = sorted(folder.glob("checkpoint-*"))
        if not self.options.keep_models:
            leftovers.append(folder / "best")
        for leftover in leftovers:
            shutil.rmtree(leftover)
        best = result["best"]
        write_json(
            folder / SCORES,
            {
                "model": cell.model,
                "model_label": cell.label,
                "model_fingerprint": cell.weights,
                "task": cell.task.name,
                "task_definition": cell.task.definition,
                "seed": seed,
                "splits": splits,
                "evaluation": cell.data.evaluation,
                "split_note": task_data.split_note(cell.data),
                "selection": cell.task.selection,
                "shown": cell.task.shown,
                "settings": asdict(cell.task.settings),
                "best": {
                    "step": best["step"],
                    "epoch": round(best["step"] / steps, 2),
                    "score": splits[DEV]["scores"][cell.task.selection],
                },
                "steps": result["steps"],
                "stopped": result["stopped"],
                "train_examples": len(cell.data.splits[TRAIN]),
                "train_tokens": result["tokens"],
                "seconds": result["seconds"],
                "parameters": result["trainable_parameters"],
                "versions": {key: self.environment[key] for key in (*machine.PACKAGES, "python")},
                "machine": {key: self.environment[key] for key in MACHINE_KEYS},
                "command": self.environment["command"],
                "fingerprint": inputs["fingerprint"],
            },
        )


def claim(folder: Path, inputs: dict[str, Any]) -> None:
    """Make a seed's folder ready; rows of metrics.jsonl that will be written again go."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "inputs").is_file():
        write_json(folder / "inputs", inputs)
    checkpoint = latest(folder)
    step = int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0
    rows = [row for row in Run(folder).metrics() if row["step"] <= step]
    write_text(folder / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def shown(cell: Cell, splits: dict[str, dict[str, Any]]) -> str:
    """The scores that papers report, for a line of the log."""
    return ", ".join(
        f"{split} {name} {splits[split]['scores'][name]:.1f}"
        for split in cell.data.evaluation
        for name in cell.task.shown
    )
