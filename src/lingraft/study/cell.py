"""One cell of a study, in a process of its own: `python -m lingraft.study.cell FOLDER [--job]`.

A process that runs out of memory or crashes takes no other cell with it. It ends when the study
does: its standard input is a pipe that nobody writes to, and the end of that pipe means that the
study is gone, however it went. With `--job` a cluster's scheduler has started it: then it lives on
without the study, and writes its exit status into the folder.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft import log
from lingraft.errors import LingraftError, TrainingError, explain, is_disk_full
from lingraft.rundir import Run, read_json, write_json, write_text
from lingraft.study.collect import BEGAN
from lingraft.study.studydir import EXIT, LABEL, TASKS, with_tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lingraft.recipe import Recipe

FAILURE = "failure.txt"
"""In the folder: why the process ended with an error, on one line."""
NO_ROOM = os.EX_IOERR
"""Exit status where the disk is full, for then there may be no room for a reason either."""
STEPS = "steps.json"
"""In the folder: what is to be done there, in order."""
TUNING = "finetune"
"""What a step there that fine-tunes is called."""
GRACE_SECONDS = 120.0
"""For the last step and a checkpoint, once the study is gone."""


def take_steps(folder: Path) -> None:
    """Take the steps that the study asks for; what is done already is kept.

    A task that diverges stops no other. Where another fails behind it, what is said is still how
    the first diverged: the study takes it for that of the first step that is not done.

    Args:
        folder: holds steps.json and recipe.toml; a cell's also corpus and tokenizer.

    Raises:
        TrainingError: training, or the first of the tasks that did, diverged.
    """
    from lingraft.pretrained.load import quiet_transformers
    from lingraft.training.phase import Stopped

    run = Run(folder)
    quiet_transformers()
    diverged: list[TrainingError] = []
    with run.locked(GRACE_SECONDS + 10):  # a process that a study left behind is about to end
        for step in read_json(folder / STEPS):
            name = step.pop("step")
            try:
                ACTIONS[name](run, **step)
            except LingraftError as error:
                if isinstance(error, Stopped) or is_disk_full(error):
                    raise
                if name == TUNING and isinstance(error, TrainingError):
                    diverged.append(error)
                elif diverged:
                    raise diverged[0] from None
                else:
                    raise
    if diverged:
        raise diverged[0]


def share(run: Run) -> None:
    """Make the text and the vocabulary that cells share.

    Args:
        run: folder of the vocabulary; its `corpus` is a link to where the text goes.
    """
    from lingraft.pipeline import stages
    from lingraft.pipeline.stages import Context
    from lingraft.training.machine import accelerator_for

    text = Run((run.path / "corpus").resolve().parent)
    recipe = recipe_in(run)
    with text.locked(GRACE_SECONDS + 10):
        accelerator = accelerator_for(recipe.hardware, run.path)
        corpus = stages.corpus(Context(recipe, text, accelerator))
        stages.tokenizer(Context(recipe, run, accelerator), corpus)


def train(run: Run) -> None:
    """Graft, train and evaluate a cell.

    Args:
        run: the cell's folder.
    """
    from lingraft.pipeline import adapt as pipeline
    from lingraft.pipeline import evaluating
    from lingraft.pipeline.stages import Context
    from lingraft.training.machine import accelerator_for, environment, note_environment

    recipe = recipe_in(run)
    if recipe.hardware.keep_stable == "auto":  # nobody goes on with a cell
        hardware = recipe.hardware.model_copy(update={"keep_stable": False})
        recipe = recipe.model_copy(update={"hardware": hardware})
    accelerator = accelerator_for(recipe.hardware, run.path)
    now = environment(accelerator, "lingraft study")
    note_environment(run, now)
    context = Context(recipe, run, accelerator, environment=now)
    grafted = pipeline.graft(context, str(run.stage("tokenizer").done()["fingerprint"]))
    last_phase = pipeline.train(context, grafted)
    pipeline.alone(context, "evaluation", lambda: evaluating.evaluate(context, last_phase))


def fine_tune(run: Run, *, recipe: dict[str, Any], seeds: Sequence[int]) -> None:
    """Fine-tune a cell's model on a task.

    Args:
        run: the cell's folder; its weights are there.
        recipe: of `lingraft finetune`, but for the model.
        seeds: of fine-tuning.
    """
    from lingraft.finetuning.recipe import decode_finetune
    from lingraft.finetuning.run import Options, finetune

    weights = with_tokenizer(run, recipe_in(run))
    model = {"models": [str(weights.resolve())], "labels": [LABEL]}
    task = decode_finetune(recipe | model)
    options = Options(resume=True, command="lingraft study", seeds=tuple(seeds))
    finetune(task, run.path / TASKS, options)
    shutil.rmtree(weights)


def recipe_in(run: Run) -> Recipe:
    """Return the recipe that was written into a run."""
    from lingraft.recipe.methods import read_recipe

    return read_recipe(run.recipe_path)


ACTIONS: dict[str, Callable[..., None]] = {"share": share, "train": train, TUNING: fine_tune}


def end_with_the_study() -> None:
    """Stop this process, with a checkpoint if it trains, once standard input ends."""

    def watch() -> None:
        while os.read(0, 1):  # not sys.stdin, whose lock the interpreter wants when it ends
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def work(folder: Path) -> int:
    """Take the steps of a folder; an error goes to the folder's failure.txt.

    Returns:
        The exit status.
    """
    (folder / FAILURE).unlink(missing_ok=True)
    try:
        (folder / BEGAN).touch()
        take_steps(folder)
    except LingraftError as error:
        message = " ".join(str(error).split())
        status = NO_ROOM if is_disk_full(error) else error.exit_status
    except OSError as error:
        if not is_disk_full(error):
            log.logger.exception("%s: failed", folder.name)
        message, status = explain(error, folder), NO_ROOM if is_disk_full(error) else 1
    except Exception as error:
        log.logger.exception("%s: failed", folder.name)
        message, status = f"{type(error).__name__}: {' '.join(str(error).split())}", 1
    else:
        return 0
    log.logger.error("lingraft: %s", message)
    try:
        write_text(folder / FAILURE, message + "\n")
    except OSError as error:
        if not is_disk_full(error):
            raise
        status = NO_ROOM
    return status


def main() -> None:
    """Entry point."""
    folder, is_job = Path(sys.argv[1]), sys.argv[2:] == ["--job"]
    if not is_job:
        end_with_the_study()
    log.set_up()
    status = work(folder)
    if is_job:
        write_json(folder / EXIT, {"status": status})
    if status == NO_ROOM:  # what cannot be flushed to the log would change the exit status
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
    sys.exit(status)


if __name__ == "__main__":
    main()
