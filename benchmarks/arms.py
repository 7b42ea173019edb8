"""What benchmarks beside Hugging Face's Trainer share: optimisers, marks of time, options."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lingraft.models.parts import itl_layers
from lingraft.models.source import load_model
from lingraft.recipe import Phase
from lingraft.recipe import Training as Use
from lingraft.training.loop import run_phase
from lingraft.training.machine import accelerator_for, environment
from lingraft.training.phase import Job
from lingraft.training.problem import MaskedText
from lingraft.training.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lingraft.objectives.common import TokenIds
    from lingraft.training.data import Reading

RATE, BETAS, EPSILON, CLIP = 1e-4, (0.9, 0.999), 1e-8, 1.0
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
"""What seconds are; a processor's are steadier where others use the machine."""
SAME_OPTIMISER = {
    "learning_rate": RATE,
    "weight_decay": 0.0,
    "betas": BETAS,
    "epsilon": EPSILON,
    "max_gradient_norm": CLIP,
}
"""A phase's, as `PLAIN_TRAINER` has it too."""
PLAIN_TRAINER: dict[str, Any] = {
    "learning_rate": RATE,
    "lr_scheduler_type": "constant",
    "adam_beta1": BETAS[0],
    "adam_beta2": BETAS[1],
    "adam_epsilon": EPSILON,
    "weight_decay": 0.0,
    "max_grad_norm": CLIP,
    "max_steps": 10**6,
    "use_cpu": not torch.cuda.is_available(),
    "save_strategy": "no",
    "report_to": "none",
    "disable_tqdm": True,
    "dataloader_pin_memory": torch.cuda.is_available(),
    "seed": 0,
}
"""Arguments of Hugging Face's Trainer that all its arms share."""


def speed(marks: list[tuple[float, int]], warmup: float) -> float:
    """Tokens a second behind the warm-up.

    Args:
        marks: seconds and tokens so far, at the start of each step and at the end.
        warmup: share of the tokens that is left out.
    """
    end, total = marks[-1]
    start, before = next(mark for mark in marks if mark[1] >= warmup * total)
    assert end > start, "the warm-up is longer than the measurement: more --tokens"
    return (total - before) / (end - start)


class Marks(Watch):
    """Seconds and tokens so far, at the start of each step and at the end."""

    def __init__(self, budget: int, clock: str = "wall") -> None:
        self.budget, self.seen, self.clock = budget, 0, clock
        self.marks: list[tuple[float, int]] = []

    def begin(self) -> None:
        self.marks.append((CLOCKS[self.clock](), self.seen))

    def end(self, indices: Any, step: Any) -> None:
        self.seen += step.global_tokens
        if self.seen >= self.budget:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            self.begin()


def timing(
    marks: list[tuple[float, int]], seen: Callable[[], int], budget: int, clock: str = "wall"
) -> Any:
    """A callback of the Trainer that keeps such marks and stops at the budget.

    Args:
        marks: is filled.
        seen: real tokens so far; waits for the device.
        budget: in tokens.
        clock: of `CLOCKS`.
    """
    from transformers import TrainerCallback

    class Timing(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            marks.append((CLOCKS[clock](), 0))

        def on_step_end(self, _: Any, __: Any, control: Any, **___: Any) -> None:
            tokens = seen()
            marks.append((CLOCKS[clock](), tokens))
            control.should_training_stop = tokens >= budget

    return Timing()


def add_arm_options(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """What a process of one arm is told by `in_process`."""
    for hidden, kind in (("--arm", str), ("--folder", Path)):
        parser.add_argument(hidden, type=kind, help=argparse.SUPPRESS)
    return parser


def phase_of(asked: argparse.Namespace, train: Sequence[str], batch: dict[str, Any]) -> Phase:
    """A phase that trains some parts on as many tokens as are asked for."""
    return Phase.model_validate(
        {
            "name": f"phase-{asked.phase}",
            "train": list(train),
            "budget": {"value": asked.tokens, "unit": "tokens"},
            "batch": batch,
            "optimiser": SAME_OPTIMISER,
            "schedule": {"shape": "constant", "warmup": 0},
            "validation": {"every_steps": 10**9, "sentences": 8},
        }
    )


def train_with_lingraft(
    folder: Path,
    asked: argparse.Namespace,
    phase: Phase,
    reading: Reading,
    vocabulary: TokenIds,
    clock: str = "wall",
) -> tuple[Any, dict[str, Any]]:
    """The loop on the weights in FOLDER/model, whose first and last layers are translation layers.

    Returns:
        The model; tokens a second behind the warm-up, tokens, precision and the machine.
    """
    use = Use(precision=asked.precision, log_steps=50)
    accelerator = accelerator_for(use, folder)
    loaded = load_model(str(folder / "model"))
    watch = Marks(asked.tokens, clock)
    with tempfile.TemporaryDirectory() as out:
        job = Job(
            folder=Path(out),
            metrics_path=Path(out) / "metrics.jsonl",
            phase=phase,
            training=use,
            seed=0,
            fingerprint="",
            itl_layers=itl_layers(loaded.model.config.num_hidden_layers, 1, 1),
            family=loaded.family,
            readings=(reading,),
            vocabulary=vocabulary,
        )
        problem = MaskedText(job, loaded.model.to(accelerator.device))
        run_phase(job, problem, loaded.model, accelerator, watch=watch)
    return loaded.model, {
        "tokens_per_second": speed(watch.marks, asked.warmup),
        "tokens": watch.seen,
        "precision": "bf16" if accelerator.mixed_precision == "bf16" else "fp32",
        "machine": environment(accelerator, " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])),
    }
