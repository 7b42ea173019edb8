"""A cell of a study, in a process of its own: `python -m lingraft.study.cell FOLDER`.

The folder is a run's, whose text and vocabulary lie in the study's `shared/`: the first cell that
needs them makes them, the others wait. A process that runs out of memory or crashes takes no other
cell with it. It ends when the study does: its standard input is a pipe that nobody writes to, and
the end of that pipe means that the study is gone, however it went.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft import log, processes
from lingraft.errors import LingraftError, RecipeError, TrainingError, explain
from lingraft.files import write_text
from lingraft.report.row import RESULTS
from lingraft.rundir import DONE, SHARED_STAGES, Run, Step, fingerprint, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lingraft.recipe import Recipe

JOB, FAILURE, LOG = "cell.json", "failure.txt", "log.txt"
"""In the folder: what is to be done; why it failed; output of the process."""
GRACE_SECONDS = 120.0
"""For the last step and a checkpoint, once the study is gone."""
TOKENIZER_FILES = ("tokenizer*.json", "vocab.*", "merges.txt", "special_tokens_map.json", "*.model")


def take(folder: Path) -> str:
    """Do what of a cell is not done yet: training with its evaluation, then every task.

    A task that fails stops no other.

    Returns:
        Why a task failed; empty where all is done.
    """
    from lingraft.pretrained.load import quiet_transformers
    from lingraft.recipe.methods import read_recipe
    from lingraft.report import row
    from lingraft.study import results

    quiet_transformers()
    job, run = read_json(folder / JOB), Run(folder)
    common, failure, started = job["common"], "", time.monotonic()
    with run.locked(GRACE_SECONDS + 10):  # a process that a study left behind is about to end
        recipe, place = read_recipe(run.recipe_path), folder / RESULTS
        written = row.read(place) if place.is_file() else []
        done = {(one.inputs, one.seed) for one in written if one.data}
        for task in job["tasks"]:
            task["seeds"] = [s for s in task["seeds"] if (task["inputs"], s) not in done]
        missing = [task for task in job["tasks"] if task["seeds"]]
        is_trained = any(one.inputs == common["inputs"] for one in written)
        if not is_trained or (missing and not weights_of(run, recipe)[-1].is_dir()):
            train(run, recipe, job["shared"])
            row.merge(place, results.training(common, run))
        for task in missing:
            message = fine_tune(run, recipe, task)
            row.merge(place, results.fine_tunings(common, run, task))
            failure = failure or (message and f"task {task['name']}: {message}")
        if not failure:
            weights = weights_of(run, recipe)
            for unwanted in weights if job["keep"] == "none" else weights[:-1]:
                shutil.rmtree(unwanted, ignore_errors=True)
            Step(folder).finish(fingerprint(job["inputs"]), {}, time.monotonic() - started)
    return failure


def train(run: Run, recipe: Recipe, shared: dict[str, str]) -> None:
    """Graft, train and evaluate, with text and vocabulary that are made once for all cells.

    Args:
        run: the cell's folder.
        recipe: complete.
        shared: what text and vocabulary are made from, by name of the stage.
    """
    from lingraft.pipeline import adapt, evaluating, stages
    from lingraft.pipeline.stages import Context
    from lingraft.training.checkpoint import STABLE
    from lingraft.training.machine import accelerator_for, environment, note_environment

    if not weights_of(run, recipe)[-1].is_dir():  # pruned, or never there: begin where nothing is
        for path in run.path.glob(f"*/{DONE}"):
            weights = path.parent / ("model" if path.parent.name == "graft" else "best")
            if not path.parent.is_symlink() and not weights.is_dir():
                Step(path.parent).clear()
    accelerator = accelerator_for(recipe.hardware, run.path)
    text, vocabulary = (
        Run(run.path.parents[1] / "shared" / f"{name}-{shared[name]}") for name in SHARED_STAGES
    )
    with text.locked(math.inf):
        corpus = stages.corpus(Context(recipe, text, accelerator))
    with vocabulary.locked(math.inf):
        link(vocabulary.stage("corpus").path, text.stage("corpus").path)
        tokenizer = stages.tokenizer(Context(recipe, vocabulary, accelerator), corpus)
    for name in SHARED_STAGES:
        link(run.stage(name).path, vocabulary.stage(name).path)
    now = environment(accelerator, "lingraft study")
    note_environment(run, now)
    context = Context(recipe, run, accelerator, environment=now)
    last = adapt.train(context, adapt.graft(context, tokenizer))
    for phase in recipe.phases:  # nobody goes on with a cell
        shutil.rmtree(run.stage(phase.name).path / STABLE, ignore_errors=True)
    adapt.on_main_process(context, "evaluation", lambda: evaluating.evaluate(context, last))


def link(path: Path, target: Path) -> None:
    """Make a relative symbolic link, in the place of another one."""
    path.unlink(missing_ok=True)
    text = os.path.relpath(target.parent.resolve() / target.name, path.parent.resolve())
    path.symlink_to(text, target_is_directory=True)


def fine_tune(run: Run, recipe: Recipe, task: dict[str, Any]) -> str:
    """Fine-tune a cell's model on a task.

    Args:
        run: the cell's folder; its weights are there.
        recipe: of the cell.
        task: a recipe of `lingraft finetune` but for the model, and the seeds, which go where none
            was begun.

    Returns:
        Why a seed has no result; empty where all have one.
    """
    from lingraft.finetuning.recipe import decode_finetune
    from lingraft.finetuning.run import Options, finetune
    from lingraft.training.phase import Stopped

    weights = run.path / "weights"  # links to them
    shutil.rmtree(weights, ignore_errors=True)
    weights.mkdir()
    files = [*weights_of(run, recipe)[-1].iterdir()]
    files += [f for name in TOKENIZER_FILES for f in run.stage("tokenizer").path.glob(name)]
    for file in files:
        (weights / file.name).symlink_to(file.resolve())
    model = {"models": [str(weights.resolve())], "labels": ["cell"]}
    asked = decode_finetune(task["recipe"] | model)
    options = Options(update=True, command="lingraft study", seeds=tuple(task["seeds"]))
    try:
        finetune(asked, run.path / task["place"], options)
    except Stopped:
        raise
    except LingraftError as error:
        if not isinstance(error, TrainingError):  # seeds of other settings may lie there still
            task["seeds"] = []
        return str(error)
    finally:
        shutil.rmtree(weights)
    return ""


def weights_of(run: Run, recipe: Recipe) -> list[Path]:
    """Return where a cell's weights are: grafted, then behind each phase."""
    phases = [phase.name for phase in recipe.phases]
    return [run.weights(phases[:number]) for number in range(len(phases) + 1)]


def work(folder: Path) -> int:
    """Do a cell, write an error to the folder's failure.txt, and return the exit status."""
    (folder / FAILURE).unlink(missing_ok=True)
    try:
        message = take(folder)
    except LingraftError as error:
        message = str(error)
    except OSError as error:
        message = explain(error, folder)
    except Exception as error:
        log.logger.exception("%s: failed", folder.name)
        message = f"{type(error).__name__}: {error}"
    if message:
        message = " ".join(message.split())
        log.logger.error("lingraft: %s", message)
        with contextlib.suppress(OSError):  # the disk may be full; the log has it, too
            write_text(folder / FAILURE, message + "\n")
    return 1 if message else 0


def end_with_the_study() -> None:
    """Stop this process, with a checkpoint if it trains, once standard input ends."""

    def watch() -> None:
        while os.read(0, 1):  # not sys.stdin, whose lock the interpreter wants when it ends
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


# -- how cells are started: as processes of this machine, or as jobs of Slurm


class CellWork:
    """A cell as a job; one whose time is over is handed in again and goes on."""

    def __call__(self, folder: Path) -> int:
        return work(folder)

    def checkpoint(self, *arguments: Any) -> Any:
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, *arguments)


class CellJob:
    """A job of submitit."""

    def __init__(self, job: Any, folder: Path) -> None:
        self.job, self.folder = job, folder

    def poll(self) -> int | None:
        if not self.job.done():
            return None
        try:
            return int(self.job.result())
        except Exception as error:  # submitit's own, and whatever a job raised
            write_text(self.folder / FAILURE, f"{self.job.state}: {str(error).strip()[-200:]}")
            return 1

    def terminate(self) -> None:
        self.job.cancel()

    kill = terminate


Handle = subprocess.Popen[bytes] | CellJob
"""Work that was started, wherever it runs."""
Start = Callable[[Path, int, int], Handle]
"""Starts a cell: in which folder, in which of how many slots."""


def start_of(executor: str, options: Mapping[str, Any], out: Path) -> Start:
    """Return how cells are started.

    Args:
        executor: local, slurm, or submitit-local for submitit's own processes.
        options: of submitit's jobs, such as timeout_min and slurm_partition.
        out: the study's folder, where submitit keeps its files.

    Raises:
        RecipeError: there is no such executor, it has no such option, or submitit is missing.
    """
    if executor == "local" and not options:
        return start_process
    if executor not in ("slurm", "submitit-local"):
        raise RecipeError(f"--executor {executor} {' '.join(options)}: options are slurm's alone")
    processes.leave_to_jobs()
    try:
        import submitit

        jobs = submitit.AutoExecutor(out / "jobs", cluster=executor.removeprefix("submitit-"))
        jobs.update_parameters(**{"name": out.name, **options})
    except (ImportError, ValueError, TypeError, RuntimeError, NameError) as error:
        raise RecipeError(f"--executor {executor}: {error}") from None

    def start(folder: Path, _slot: int, _jobs: int) -> Handle:
        with processes.secrets_withheld():
            return CellJob(jobs.submit(CellWork(), folder.absolute()), folder)

    return start


def start_process(folder: Path, slot: int, jobs: int) -> Handle:
    """Start a cell in a process of its own.

    It is in a process group of its own, so that Ctrl-C reaches it through us and only once; its
    standard input is a pipe whose end tells it that we are gone.
    """
    share = {}
    if processes.COUNT not in os.environ or processes.limited:
        share[processes.COUNT] = str(max(1, processes.cores() // jobs))
    if len(gpus := visible_gpus()) > 1:
        share["CUDA_VISIBLE_DEVICES"] = gpus[slot % len(gpus)]
    with (folder / LOG).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "lingraft.study.cell", str(folder)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=os.environ | share,
            process_group=0,
        )


def visible_gpus(devices: Path = Path("/dev")) -> list[str]:
    """Return CUDA devices as CUDA_VISIBLE_DEVICES names them, found without loading torch."""
    if (variable := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [name.strip() for name in variable.split(",") if name.strip() not in ("", "-1")]
    return [str(index) for index, _ in enumerate(devices.glob("nvidia[0-9]*"))]


def failure(folder: Path, status: int) -> str:
    """Return why a cell ended with an error, on one line."""
    reason = folder / FAILURE
    if reason.is_file():
        return reason.read_text(encoding="utf-8").strip()
    memory = " (killed; out of memory?)" if status == -9 else ""
    return f"ended with status {status}{memory}; see {folder / LOG}"


if __name__ == "__main__":
    end_with_the_study()
    log.set_up()
    sys.exit(work(Path(sys.argv[1])))
