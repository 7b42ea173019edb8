"""One process of a distributed run: trains the jobs pickled in a folder, one after the other, each
from the model saved there, and leaves the final weights of its rank (`support/processes.py`)."""

import faulthandler
import importlib
import os
import pickle
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from accelerate import Accelerator
from forking import write_output_to
from safetensors.torch import save_file

from lingraft.models import loading
from lingraft.training.checkpoint import weights
from lingraft.training.masked_text import train_phase


def main(folder, environment):
    os.environ |= environment
    write_output_to(folder / f"output-{environment['RANK']}")
    # Collectives that do not meet wait for ever.
    faulthandler.dump_traceback_later(float(os.environ["WAIT"]), exit=True)
    if os.environ["SETUP"]:
        sys.path.append(str(Path(__file__).parents[1] / "support"))
        importlib.import_module(os.environ["SETUP"]).install()
    accelerator = Accelerator(cpu=True, mixed_precision=os.environ["PRECISION"])
    assert accelerator.num_processes == int(os.environ["WORLD_SIZE"])
    jobs, resumed = pickle.loads((folder / "jobs.pickle").read_bytes())
    for job in jobs:
        model, _ = loading.load(str(folder / "model"))
        path = job.folder / f"rank-{accelerator.process_index}.safetensors"
        if name := resumed.get(job.folder.name):
            if accelerator.is_main_process:
                (checkpoint,) = (job.folder.parent / name).glob("checkpoint-*")
                shutil.copytree(checkpoint, job.folder / checkpoint.name)
            accelerator.wait_for_everyone()
        elif not accelerator.is_main_process:
            second = job.folder / "second"
            second.mkdir()
            job = replace(job, folder=second, metrics_path=second / "metrics.jsonl")
        train_phase(job, model, accelerator)
        save_file(weights(model), path)
    accelerator.end_training()


if __name__ == "forked":
    main(*globals()["JOB"])
