"""What benchmarks beside Hugging Face's Trainer share: options, both arms, marks of time, pairs."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from made_up import Shape
from shared import alternating, peak_bytes, table, write

from lingraft.models.families import FAMILIES
from lingraft.models.parts import part_of
from lingraft.models.source import load_model
from lingraft.pretrained.load import quiet_transformers
from lingraft.recipe import PARTS, Hardware as Use, Phase
from lingraft.recipe.base import Places
from lingraft.recipe.records import PRESETS
from lingraft.training.loop import run_phase
from lingraft.training.machine import accelerator_for, environment
from lingraft.training.masked_text import MaskedText
from lingraft.training.phase import Job, StepCallback

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from transformers import PreTrainedModel

    from lingraft.training.data import Reading
    from lingraft.training.objectives.common import TokenIds

OURS = "lingraft"
MODELS = {"base": "14x768x50000", "small": "6x256x8000"}
TRAINED = {1: PRESETS["xpt2021"].first_phase, 2: PARTS}
"""Parts that train, by phase."""
Arm = tuple["PreTrainedModel", dict[str, Any]]
"""The trained model, and what was measured: tokens_per_second, tokens, precision."""
RATE, BETAS, EPSILON, CLIP = 1e-4, (0.9, 0.999), 1e-8, 1.0
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
"""What seconds are; a processor's are steadier where others use the machine."""
SAME_OPTIMIZER = {
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


class Marks(StepCallback):
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


def add_trainer_options(
    parser: argparse.ArgumentParser, opponents: Mapping[str, Any], batch: int, unit: str
) -> argparse.ArgumentParser:
    """What a benchmark beside the Trainer is asked for; a step has `batch` sentences or tokens."""
    parser.add_argument("--model", choices=MODELS, default="base")
    parser.add_argument("--shape", help="LAYERSxWIDTHxVOCABULARY, in the place of --model")
    parser.add_argument("--opponents", nargs="+", choices=opponents, default=list(opponents))
    parser.add_argument("--pairs", type=int, default=5, help="of an arm of each side")
    parser.add_argument("--tokens", type=int, default=100_000, help="real tokens of an arm")
    parser.add_argument("--warmup", type=float, default=0.2, help="share of them that is not timed")
    parser.add_argument("--phase", type=int, choices=TRAINED, default=2, help="1 freezes the body")
    parser.add_argument("--batch", type=int, default=batch, help=f"{unit} in a step")
    parser.add_argument("--precision", choices=("auto", "bf16", "fp32"), default="auto")
    parser.add_argument("--gate", type=float, default=0.05, help="nats that we may be worse")
    return add_arm_options(parser)


def shape_of(asked: argparse.Namespace) -> Shape:
    """Of the model that is asked for."""
    return Shape.parse(asked.shape or MODELS[asked.model])


@dataclass(frozen=True)
class Arms:
    """The two sides of a benchmark."""

    prepare: Callable[[Path], object]
    """Writes the initial weights into a folder, once for all arms."""
    ours: Callable[[], Arm]
    theirs: Callable[[Any], Arm]
    """Of an opponent."""
    loss: Callable[[Any], float]
    """Mean nats of a trained model on the held-out text."""

    @classmethod
    def told(
        cls,
        asked: argparse.Namespace,
        prepare: Callable[[Path, argparse.Namespace], object],
        ours: Callable[[Path, argparse.Namespace], Arm],
        theirs: Callable[[Any, Path, argparse.Namespace], Arm],
        loss: Callable[[Any, Path, argparse.Namespace], float],
    ) -> Arms:
        """Of functions that take the folder and the options too."""
        return cls(
            lambda folder: prepare(folder, asked),
            lambda: ours(asked.folder, asked),
            lambda opponent: theirs(opponent, asked.folder, asked),
            lambda model: loss(model, asked.folder, asked),
        )

    def run(self, asked: argparse.Namespace, opponents: Mapping[str, Any]) -> None:
        """One arm in this process where --arm names it, else all of them in pairs."""
        if asked.arm:
            print(json.dumps(self._one(asked.arm, opponents)))
            return
        pairs = alternating(OURS, asked, self.prepare)
        print(table(pairs, {name: one.summary for name, one in opponents.items()}, asked.gate))
        write(asked.json, pairs)

    def _one(self, arm: str, opponents: Mapping[str, Any]) -> dict[str, Any]:
        quiet_transformers()
        load = os.getloadavg()[0]
        model, found = self.ours() if arm == OURS else self.theirs(opponents[arm])
        on_gpu = model.device.type == "cuda"
        memory = torch.cuda.max_memory_allocated(model.device) if on_gpu else peak_bytes()
        found |= {"arm": arm, "peak_memory_bytes": memory, "load_average": load}
        return found | {"loss": self.loss(model)}


def phase_of(asked: argparse.Namespace, batch: dict[str, Any]) -> Phase:
    """A phase on as many tokens as are asked for."""
    return Phase.model_validate(
        {
            "name": f"phase-{asked.phase}",
            "train": list(TRAINED[asked.phase]),
            "budget": {"value": asked.tokens, "unit": "tokens"},
            "batch": batch,
            "optimizer": SAME_OPTIMIZER,
            "schedule": {"shape": "constant", "warmup": 0},
            "validation": {"every_steps": 10**9, "max_sentences": 8},
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
            hardware=use,
            seed=0,
            fingerprint="",
            itl_layers=Places(1, 1).inserted(loaded.model.config.num_hidden_layers),
            family=loaded.family,
            readings=(reading,),
            vocabulary=vocabulary,
        )
        problem = MaskedText(job, loaded.model.to(accelerator.device))
        run_phase(job, problem, accelerator, watch)
    return loaded.model, {
        "tokens_per_second": speed(watch.marks, asked.warmup),
        "tokens": watch.seen,
        "precision": "bf16" if accelerator.mixed_precision == "bf16" else "fp32",
        "machine": environment(accelerator, " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])),
    }


def train_with_trainer(
    model: PreTrainedModel,
    asked: argparse.Namespace,
    real: Callable[[dict[str, torch.Tensor]], torch.Tensor],
    arguments: dict[str, Any],
    clock: str = "wall",
    **given: Any,
) -> Arm:
    """Hugging Face's Trainer on the parts that a phase trains.

    Args:
        model: the initial weights.
        asked: phase, tokens and warm-up.
        real: counts the real tokens of a batch.
        arguments: of TrainingArguments, beside `PLAIN_TRAINER`.
        clock: of `CLOCKS`.
        given: to the Trainer: its data and collator.
    """
    from transformers import Trainer, TrainingArguments

    marks: list[tuple[float, int]] = []

    class Counting(Trainer):  # type: ignore[misc]
        real: Any = 0

        def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            self.real = self.real + real(inputs)
            return super().compute_loss(model, inputs, *args, **kwargs)

    itl = Places(1, 1).inserted(model.config.num_hidden_layers)
    family = FAMILIES[model.config.model_type]
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(part_of(name, family, itl) in TRAINED[asked.phase])
    with tempfile.TemporaryDirectory() as out:
        trainer = Counting(
            model=model,
            args=TrainingArguments(output_dir=out, **arguments, **PLAIN_TRAINER),
            callbacks=[timing(marks, lambda: int(trainer.real), asked.tokens, clock)],
            **given,
        )
        trainer.train()
    return model, {
        "tokens_per_second": speed(marks, asked.warmup),
        "tokens": marks[-1][1],
        "precision": "bf16" if arguments["bf16"] else "fp32",
    }
