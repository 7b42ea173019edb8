"""A cell of a study, in a process of its own: `python -m lingraft.study.cell FOLDER`.

The folder is a run's, whose text and vocabulary lie in the study's `shared/`: the first cell that
needs them makes them, the others wait. A process that runs out of memory or crashes takes no other
cell with it. It ends when the study does: its standard input is a pipe that nobody writes to, and
the end of that pipe means that the study is gone, however it went.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft import log
from lingraft.errors import LingraftError, explain, is_disk_full
from lingraft.report.row import RESULTS
from lingraft.rundir import DONE, SHARED_STAGES, Run, Step, fingerprint, read_json, write_text

if TYPE_CHECKING:
    from lingraft.recipe import Recipe

JOB, FAILURE = "cell.json", "failure.txt"
"""In the folder: what is to be done; why it failed."""
NO_ROOM = os.EX_IOERR
"""Exit status where the disk is full, for then there may be no room for a reason either."""
GRACE_SECONDS = 120.0
"""For the last step and a checkpoint, once the study is gone."""
LABEL, WEIGHTS = "cell", "weights"
"""Name of a cell's model in its fine-tunings, and the folder of links to it."""
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
    from lingraft.study import collect

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
        lacks_weights = bool(missing) and not weights_of(run, recipe)[-1].is_dir()
        if not is_trained or lacks_weights:
            train(run, recipe, job["shared"])
            row.merge(place, collect.training(common, run))
        for task in missing:
            message = fine_tune(run, recipe, task)
            row.merge(place, collect.fine_tunings(common, run, task))
            failure = failure or (message and f"task {task['name']}: {message}")
        if not failure:
            prune(run, recipe, job["keep"])
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
    from lingraft.training.machine import accelerator_for, environment, note_environment

    if not weights_of(run, recipe)[-1].is_dir():  # pruned, or never there: begin where nothing is
        for path in run.path.glob(f"*/{DONE}"):
            weights = path.parent / ("model" if path.parent.name == "graft" else "best")
            if not path.parent.is_symlink() and not weights.is_dir():
                Step(path.parent).clear()
    if recipe.hardware.keep_stable == "auto":  # nobody goes on with a cell
        hardware = recipe.hardware.model_copy(update={"keep_stable": False})
        recipe = recipe.model_copy(update={"hardware": hardware})
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
    adapt.alone(context, "evaluation", lambda: evaluating.evaluate(context, last))


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
        task: a recipe of `lingraft finetune` but for the model, and the seeds.

    Returns:
        Why a seed has no result; empty where all have one.
    """
    from lingraft.finetuning.recipe import decode_finetune
    from lingraft.finetuning.run import Options, finetune
    from lingraft.training.phase import Stopped

    weights = run.path / WEIGHTS
    shutil.rmtree(weights, ignore_errors=True)
    weights.mkdir()
    files = [*weights_of(run, recipe)[-1].iterdir()]
    files += [f for name in TOKENIZER_FILES for f in run.stage("tokenizer").path.glob(name)]
    for file in files:
        (weights / file.name).symlink_to(file.resolve())
    model = {"models": [str(weights.resolve())], "labels": [LABEL]}
    asked = decode_finetune(task["recipe"] | model)
    options = Options(update=True, command="lingraft study", seeds=tuple(task["seeds"]))
    try:
        finetune(asked, run.path / task["place"], options)
    except LingraftError as error:
        if isinstance(error, Stopped) or is_disk_full(error):
            raise
        return str(error)
    finally:
        shutil.rmtree(weights)
    return ""


def weights_of(run: Run, recipe: Recipe) -> list[Path]:
    """Return where a cell's weights are: grafted, then behind each phase."""
    phases = [phase.name for phase in recipe.phases]
    return [run.weights(phases[:number]) for number in range(len(phases) + 1)]


def prune(run: Run, recipe: Recipe, keep: str) -> None:
    """Delete the weights that the study does not keep; counts, curves and scores stay."""
    folders = weights_of(run, recipe)
    for folder in {"all": [], "final": folders[:-1], "none": folders}[keep]:
        if folder.exists():
            shutil.rmtree(folder)


def work(folder: Path) -> int:
    """Do a cell; an error goes to the folder's failure.txt.

    Returns:
        The exit status.
    """
    (folder / FAILURE).unlink(missing_ok=True)
    status = 1
    try:
        message = take(folder)
        status = 1 if message else 0
    except LingraftError as error:
        message, status = str(error), NO_ROOM if is_disk_full(error) else error.exit_status
    except OSError as error:
        message, status = explain(error, folder), NO_ROOM if is_disk_full(error) else 1
    except Exception as error:
        log.logger.exception("%s: failed", folder.name)
        message = f"{type(error).__name__}: {error}"
    if message:
        message = " ".join(message.split())
        log.logger.error("lingraft: %s", message)
        try:
            write_text(folder / FAILURE, message + "\n")
        except OSError as error:
            if not is_disk_full(error):
                raise
            status = NO_ROOM
    return status


def end_with_the_study() -> None:
    """Stop this process, with a checkpoint if it trains, once standard input ends."""

    def watch() -> None:
        while os.read(0, 1):  # not sys.stdin, whose lock the interpreter wants when it ends
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    end_with_the_study()
    log.set_up()
    ended = work(Path(sys.argv[1]))
    if ended == NO_ROOM:  # what cannot be flushed to the log would change the exit status
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
    sys.exit(ended)
