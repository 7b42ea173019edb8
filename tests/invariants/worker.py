"""One process of a distributed run: `worker.py FOLDER` trains the jobs pickled there, one after
the other, each from the model saved there, and leaves the final weights of its rank."""

import os
import pickle
import sys
from pathlib import Path

from accelerate import Accelerator
from safetensors.torch import save_file
from transformers import AutoModelForMaskedLM

from lingraft.training.checkpoint import weights
from lingraft.training.loop import train_phase


def main(folder: Path) -> None:
    accelerator = Accelerator(cpu=True, mixed_precision="no")
    assert accelerator.num_processes == int(os.environ["WORLD_SIZE"])
    for job in pickle.loads((folder / "jobs.pickle").read_bytes()):
        model = AutoModelForMaskedLM.from_pretrained(folder / "model")
        train_phase(job, model, accelerator)
        save_file(weights(model), job.folder / f"rank-{accelerator.process_index}.safetensors")
    accelerator.end_training()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
