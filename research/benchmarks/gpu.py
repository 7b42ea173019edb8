"""lingraft on a GPU beside Hugging Face's Trainer: one command, at most eight minutes, no network.

    python research/benchmarks/gpu.py --json gpu.json
    python research/benchmarks/gpu.py --rehearse --json rehearsal.json    # a CPU, tiny shapes

Models have random weights and texts made-up tokens. All arms of a model start from the same
weights, read the same sentences or documents, take as many steps of as many tokens with the same
optimizer, and are scored by the same stock forward pass on the same held-out text. Speed is real
tokens (no padding) a second, the median of windows after a warm-up; the device is waited for at
their ends. MFU is of the operations that the text needs (`lingraft.training.throughput`), whatever
an arm computes. `waits` is the share of some more steps in which the GPU runs no kernel.

Every arm runs in a process of its own with a time limit: its failure is its own, and stands in the
JSON, which is written anew after each. What no longer fits into --minutes is named as skipped.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from arms import PLAIN_TRAINER, SAME_OPTIMIZER
from made_up import BOS, EOS, PAD, TextShape, made_up, token_ids
from shared import head, parser_of, row, write
from vs_run_clm import blocks as labelled_blocks, collate, rows_of
from vs_run_mlm import blocks, tokenizer_of

from lingraft.evaluation import intrinsic
from lingraft.evaluation.scorer import HiddenItem, Scorer
from lingraft.models.families import FAMILIES
from lingraft.models.loading import auto_class
from lingraft.pretrained.load import quiet_transformers
from lingraft.recipe import Hardware as Use, Masking, Phase
from lingraft.tokenizer.documents import Documents
from lingraft.training import throughput
from lingraft.training.data import Reading
from lingraft.training.loop import run_phase
from lingraft.training.machine import accelerator_for, environment, keep_freed_memory
from lingraft.training.masked_text import MaskedText
from lingraft.training.phase import Job, StepCallback

if TYPE_CHECKING:
    from collections.abc import Callable

    from transformers import PreTrainedModel

    from lingraft.tokenizer.shards import Tokens

ON_GPU = torch.cuda.is_available()
HELD_OUT = 256
DATASHEET = {"H100": 989e12, "H200": 989e12, "A100": 312e12}
"""Dense bf16 or fp16 operations a second of NVIDIA's SXM modules; others are not guessed."""
NOT_SXM = ("PCIE", "NVL", "MIG")
"""In the names of cards with lower clocks, and of parts of a card."""
STARTING = 40.0
"""Seconds that a process may take beside training: imports, weights, scoring."""
LEAST = 15.0
"""An arm that has fewer seconds than this is skipped."""


@dataclass(frozen=True)
class Model:
    """What is trained, and how much of it at once."""

    family: str
    config: dict[str, Any]
    batch: int
    """Sentences, of a causal model tokens, in a step."""
    micro: int
    """Sentences, of a causal model blocks, that go through the Trainer's model at once."""
    block: int = 512
    """Tokens that a causal model reads at once; of an encoder those of the Trainer's blocks."""
    sentences: int = 60_000
    """Of the text; or documents."""

    @property
    def causal(self) -> bool:
        """Whether it reads documents."""
        return self.family == "llama"


def encoder(family: str, layers: int, width: int, size: int, **more: Any) -> Model:
    """An encoder by its size."""
    config = {
        "vocab_size": size,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": width // 64,
        "intermediate_size": 4 * width,
        "max_position_embeddings": 514,
    }
    return Model(family, config | more, 1_024, 128)


MODELS = {
    "roberta-14x768x50k": encoder("roberta", 14, 768, 50_000),
    "llama-0.5b": Model(
        "llama",
        {
            "vocab_size": 151_936,
            "hidden_size": 896,
            "num_hidden_layers": 24,
            "num_attention_heads": 14,
            "num_key_value_heads": 2,
            "intermediate_size": 4_864,
            "max_position_embeddings": 1_024,
            "tie_word_embeddings": True,
        },
        16_384,
        4,
        1_024,
        4_000,
    ),
    "modernbert-22x768x50k": encoder(
        "modernbert", 22, 768, 50_000, intermediate_size=1_152, max_position_embeddings=8_192
    ),
    "roberta-6x384x8k": encoder("roberta", 6, 384, 8_000),
}
"""The most telling first: what no longer fits is at the end."""
TINY = {"vocab_size": 512, "hidden_size": 64, "num_attention_heads": 1, "intermediate_size": 128}


@dataclass(frozen=True)
class Arm:
    """One way to train."""

    summary: str
    training: dict[str, Any] | None = None
    """lingraft's settings; None for the Trainer."""
    packed: bool = False
    """Without padding; documents apart where the Trainer can."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Of the Trainer."""


OURS = "ours"
ARMS = {
    OURS: Arm("lingraft", {"compile": True}),
    "trainer": Arm("the Trainer as run_mlm and run_clm set it up, sdpa"),
    "trainer-packed": Arm("the Trainer packed", packed=True),
    "ours-plain": Arm("lingraft, not compiled", {"compile": False}),
    "trainer-compiled": Arm("packed and compiled", packed=True, arguments={"torch_compile": True}),
}
USUAL = tuple(ARMS)[:3]


@dataclass(frozen=True)
class Effort:
    """Steps of each kind, one kind behind the other; what is left trains on."""

    warmup: int = 12
    window: int = 6
    windows: int = 4
    profiled: int = 4
    steps: int = 48
    """Of all."""

    @property
    def edges(self) -> list[int]:
        """Steps before which the clock is read."""
        return [self.warmup + number * self.window for number in range(self.windows + 1)]


def rehearsed(model: Model) -> Model:
    """The same in small."""
    kv = {"num_key_value_heads": 1} if model.causal else {}
    config = model.config | TINY | {"num_hidden_layers": 2} | kv
    size = {"batch": 256, "block": 64} if model.causal else {"batch": 16, "block": 64}
    return replace(model, config=config, micro=4, sentences=300, **size)


REHEARSAL = Effort(2, 1, 2, 1, 6)


class Meter:
    """Times windows of steps, and has some more watched by torch's profiler."""

    def __init__(self, effort: Effort, seconds: float, device: torch.device) -> None:
        self.effort, self.device = effort, device
        self.ends_at = time.monotonic() + seconds
        self.step = 0
        self.marks: list[tuple[float, int]] = []
        """Seconds and real tokens at each edge."""
        self.started = time.perf_counter()
        self.warmed = 0.0
        self.waits: float | None = None
        self.profiler: Any = None
        self.profiled_at = 0.0

    def now(self) -> float:
        """The clock, when the device is done."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def begin(self, tokens: Callable[[], int]) -> bool:
        """A step begins; whether it shall.

        Args:
            tokens: gives the real tokens so far; may wait for the device.
        """
        edges = self.effort.edges
        if self.step in edges:
            self.marks.append((self.now(), tokens()))
            self.warmed = self.warmed or self.marks[0][0] - self.started
        if self.step == edges[-1]:
            self.watch_kernels()
        if self.step == edges[-1] + self.effort.profiled:
            self.count_kernels()
        self.step += 1
        late = time.monotonic() >= self.ends_at and len(self.marks) > 1
        return self.step <= self.effort.steps and not late

    def watch_kernels(self) -> None:
        """Begin to note kernels."""
        if self.device.type == "cuda":
            self.profiler = torch.profiler.profile(
                activities=[torch.profiler.ProfilerActivity.CUDA]
            )
            self.profiler.__enter__()
        self.profiled_at = self.now()

    def count_kernels(self) -> None:
        """Add up the time in which at least one kernel ran."""
        seconds = self.now() - self.profiled_at
        if self.profiler is None:
            return
        self.profiler.__exit__(None, None, None)
        spans = sorted(
            (event.time_range.start, event.time_range.end)
            for event in self.profiler.events()
            if event.device_type == torch.autograd.DeviceType.CUDA and not event.is_user_annotation
        )
        busy = reached = 0.0
        for start, end in spans:  # microseconds
            busy += max(0.0, end - max(start, reached))
            reached = max(reached, end)
        self.waits = 1 - busy / 1e6 / seconds

    @property
    def found(self) -> dict[str, Any]:
        """What was measured."""
        pairs = list(zip(self.marks, self.marks[1:], strict=False))
        speeds = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairs]
        return {
            "tokens_per_second": statistics.median(speeds) if speeds else None,
            "windows": [round(speed, 1) for speed in speeds],
            "steps": self.step - 1,
            "complete": self.step > self.effort.steps,
            "warmup_seconds": round(self.warmed, 2),
            "waits": self.waits,
        }


def text(model: Model) -> tuple[Any, Any]:
    """Training and held-out text: the same in every process."""
    size = model.config["vocab_size"]
    shape = TextShape(sentences=model.sentences)
    if model.causal:
        shape = TextShape(model.block / 3, 0.9, model.block, model.sentences)
    held_out = replace(
        shape, sentences=min(HELD_OUT // (8 if model.causal else 1), shape.sentences)
    )
    both = made_up(shape, size, 0), made_up(held_out, size, 1)
    return both if not model.causal else tuple(Documents.of(one, model.block) for one in both)


def weights(model: Model, device: torch.device) -> PreTrainedModel:
    """The initial model: the same in every process."""
    from transformers import AutoConfig

    specials = {"pad_token_id": PAD, "bos_token_id": BOS, "cls_token_id": BOS}
    specials |= {"eos_token_id": EOS, "sep_token_id": EOS}
    config = AutoConfig.for_model(model.family, **model.config | specials)
    torch.manual_seed(0)
    with device:
        return auto_class(config).from_config(config, dtype=torch.float32)


def items_of(model: Model, tokens: Any) -> intrinsic.MaskedTokens:
    """Held-out text with what is predicted of it."""
    rows = tokens.rows(range(len(tokens)))
    if not model.causal:
        ids = token_ids(model.config["vocab_size"])
        return intrinsic.mask_text(rows, ids, "gpu", Masking(), 0)
    items = [
        HiddenItem(one[:-1].astype(np.int64), np.arange(len(one) - 1), one[1:].astype(np.int64))
        for one in rows
    ]
    return intrinsic.MaskedTokens(items, "gpu", "next-token")


@torch.no_grad()
def held_out_loss(trained: PreTrainedModel, asked: intrinsic.MaskedTokens) -> float:
    """Mean nats by the stock forward pass in fp32, one sentence at a time."""
    trained.eval()
    trained.set_attn_implementation("sdpa")
    total = torch.zeros((), dtype=torch.float64, device=trained.device)
    for item in asked.items:
        inputs, places, gold = (
            torch.as_tensor(x, device=trained.device).long()
            for x in (item.ids, item.masked, item.targets)
        )
        logits = trained(input_ids=inputs[None]).logits[0, places]
        total += torch.nn.functional.cross_entropy(logits.float(), gold, reduction="sum").double()
    return float(total) / asked.positions


# -- one arm, in a process of its own


class Marks(StepCallback):
    """Asks a meter before each step of lingraft's."""

    def __init__(self, meter: Meter) -> None:
        self.meter, self.seen = meter, 0

    def begin(self) -> None:
        if not self.meter.begin(lambda: self.seen):
            raise StopIteration

    def end(self, indices: Any, step: Any) -> None:
        self.seen += step.global_tokens


def train_ours(arm: Arm, model: Model, asked: argparse.Namespace, meter: Meter) -> Any:
    """lingraft's own loop."""
    at_once = model.micro * model.block if model.causal else 32_768
    use = Use(
        precision=asked.precision,
        micro_batch_tokens=min(at_once, 32_768) if ON_GPU else None,
        **(arm.training or {}) if ON_GPU else {},
    )
    train, valid = text(model)
    phase = Phase.model_validate(
        {
            "name": "phase-1",
            "train": ["all"],
            "budget": {"value": 10**6, "unit": "steps"},
            "batch": {"size": model.batch, "unit": "tokens" if model.causal else "sentences"},
            "objective": "clm" if model.causal else "mlm",
            "optimizer": SAME_OPTIMIZER,
            "schedule": {"shape": "constant", "warmup": 0},
            "validation": {"every_steps": 10**9, "max_sentences": 8},
        }
    )
    with tempfile.TemporaryDirectory() as out:
        accelerator = accelerator_for(use, Path(out))
        trained = weights(model, accelerator.device)
        job = Job(
            folder=Path(out),
            metrics_path=Path(out) / "metrics.jsonl",
            phase=phase,
            hardware=use,
            seed=0,
            fingerprint="",
            itl_layers=frozenset(),
            family=FAMILIES[model.family],
            readings=(Reading("", train, valid, phase.objective, phase.masking),),
            vocabulary=token_ids(model.config["vocab_size"]),
        )
        try:
            run_phase(job, MaskedText(job, trained), accelerator, Marks(meter))
        except StopIteration:
            return trained
    raise AssertionError("the phase ended by itself")


def examples_of(arm: Arm, model: Model) -> tuple[list[dict[str, Any]], Any, str]:
    """The Trainer's text, its collator, and its attention."""
    from transformers import DataCollatorForLanguageModeling, DataCollatorWithFlattening

    tokens = text(model)[0]
    whole: Tokens = tokens.tokens if model.causal else tokens
    rows = [one.tolist() for one in whole.rows(range(len(whole)))]
    if model.causal and not arm.packed:
        return labelled_blocks(rows, model.block), collate, "sdpa"
    if model.causal and ON_GPU and find_spec("flash_attn") is not None:
        examples = [{"input_ids": one, "labels": one} for one in rows]
        make = DataCollatorWithFlattening(return_flash_attn_kwargs=True)
        return examples, make, "flash_attention_2"
    if model.causal:
        return rows_of(whole, model.block), collate, "sdpa"
    vocabulary = token_ids(model.config["vocab_size"])
    special = set(vocabulary.special)
    examples = [
        {"input_ids": one, "special_tokens_mask": [int(token in special) for token in one]}
        for one in (blocks(rows, model.block) if arm.packed else rows)
    ]
    rate = Masking().rate
    make = DataCollatorForLanguageModeling(tokenizer_of(vocabulary), mlm_probability=rate)
    return examples, make, "sdpa"


def train_theirs(arm: Arm, model: Model, asked: argparse.Namespace, meter: Meter) -> Any:
    """The Trainer with the arguments that the examples of transformers give it."""
    from transformers import Trainer, TrainerCallback, TrainingArguments

    examples, make, attention = examples_of(arm, model)
    tokens_of_step = model.batch * (1.0 if model.causal else float(text(model)[0].lengths.mean()))
    held = float(np.mean([len(one["input_ids"]) for one in examples]))
    batch = max(1, round(tokens_of_step / held))
    places = model.micro * (model.block if model.causal else 128)
    longest = max(len(one["input_ids"]) for one in examples)
    at_once = min(batch, max(1, places // (longest if attention == "sdpa" else round(held))))
    trained = weights(model, torch.device("cuda" if ON_GPU else "cpu"))
    trained.set_attn_implementation(attention)

    class Counting(Trainer):  # type: ignore[misc]
        real: Any = 0

        def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            self.real = self.real + (inputs["input_ids"] != PAD).sum()  # nobody waits for it
            return super().compute_loss(model, inputs, *args, **kwargs)

    class Timing(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if not meter.begin(lambda: int(trainer.real)):
                raise StopIteration

    with tempfile.TemporaryDirectory() as out:
        trainer = Counting(
            model=trained,
            args=TrainingArguments(
                output_dir=out,
                per_device_train_batch_size=at_once,
                gradient_accumulation_steps=max(1, round(batch / at_once)),
                bf16=asked.precision == "bf16",
                dataloader_num_workers=4 if arm.packed and ON_GPU else 0,
                **PLAIN_TRAINER | arm.arguments,
            ),
            callbacks=[Timing()],
            train_dataset=examples,
            data_collator=make,
        )
        try:
            trainer.train()
        except StopIteration:
            return trained
    raise AssertionError("the Trainer ended by itself")


def evaluated(trained: PreTrainedModel, model: Model, precision: str) -> dict[str, float]:
    """Tokens and operations a second of lingraft's scoring, the second time."""
    trained.requires_grad_(False)
    fewer = replace(model, sentences=min(model.sentences, 500 if model.causal else 8_192))
    hidden = items_of(model, text(fewer)[0])
    scorer = Scorer(trained, PAD, precision)
    lengths = np.array([len(item.ids) for item in hidden.items])
    flops = throughput.count(trained, FAMILIES[model.family])
    seconds = 0.0
    for _ in range(2):
        started = time.perf_counter()
        intrinsic.measure(scorer, hidden)
        seconds = time.perf_counter() - started
    return {
        "tokens_per_second": float(lengths.sum()) / seconds,
        "flops_per_second": float(flops.passes(lengths, hidden.positions)[0]) / seconds,
    }


def useful(trained: PreTrainedModel, model: Model) -> float:
    """Operations that a real token needs in training, whatever an arm computes."""
    trained.requires_grad_(True)
    lengths = text(model)[0].lengths
    targets = lengths.sum() if model.causal else 0.15 * lengths.sum()
    operations = throughput.count(trained, FAMILIES[model.family])
    return operations.training(lengths, int(targets)) / float(lengths.sum())


def run_arm(name: str, model: Model, effort: Effort, asked: argparse.Namespace) -> dict[str, Any]:
    """Train by one arm and measure it."""
    arm = ARMS[name]
    if not ON_GPU:
        keep_freed_memory()
    meter = Meter(effort, asked.seconds, torch.device("cuda" if ON_GPU else "cpu"))
    train = train_theirs if arm.training is None else train_ours
    trained = train(arm, model, asked, meter)
    found = meter.found
    if ON_GPU:
        found["peak_memory_bytes"] = torch.cuda.max_memory_allocated()
    for module in trained.modules():
        module._compiled_call_impl = None  # scoring would compile again, for other shapes
    found["flops_per_token"] = useful(trained, model)
    found["loss"] = held_out_loss(trained, items_of(model, text(model)[1]))
    if name == OURS:
        found["evaluation"] = evaluated(trained, model, asked.precision)
    return found


def peak_of(name: str) -> float | None:
    """The peak in `DATASHEET` of a GPU, by the name that its driver gives; None of others."""
    upper = name.upper()
    if any(word in upper for word in NOT_SXM):
        return None
    return next((peak for gpu, peak in DATASHEET.items() if gpu in upper), None)


def run_machine(asked: argparse.Namespace) -> dict[str, Any]:
    """What runs here, and the fastest matrix product."""
    use = Use(precision=asked.precision)
    accelerator = accelerator_for(use, Path())
    least: dict[str, Any] = {"seconds": 0.2, "rows": 256} if asked.rehearse else {}
    ceiling = throughput.matrix_product_ceiling(accelerator.device, asked.precision, **least)
    device = accelerator.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    optional = ("flash_attn", "liger_kernel", "triton")
    return {
        **environment(accelerator, " ".join(["gpu.py", *sys.argv[1:]])),
        "installed": [name for name in optional if find_spec(name) is not None],
        "cuda": torch.version.cuda,
        "flops_per_second": ceiling,
        "datasheet": peak_of(name) if asked.precision == "bf16" else None,
    }


# -- all arms


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """What is asked for."""
    parser = parser_of(__doc__)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(USUAL))
    parser.add_argument("--minutes", type=float, default=8.0, help="of all")
    parser.add_argument("--demo", action="store_true", help="also time `make demo`")
    parser.add_argument("--rehearse", action="store_true", help="tiny shapes, few steps, a CPU")
    parser.add_argument("--precision", choices=("bf16", "fp32"), help=argparse.SUPPRESS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=60.0, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    asked.precision = asked.precision or ("fp32" if asked.rehearse else "bf16")
    if not (asked.rehearse or ON_GPU):
        parser.error("no GPU is here; --rehearse runs everything on a CPU with tiny shapes")
    return asked


def in_process(one: str, asked: argparse.Namespace, seconds: float, limit: float) -> dict[str, Any]:
    """Run one arm in a process of its own; its error is its result."""
    line = [sys.executable, __file__, "--one", one, "--seconds", str(seconds)]
    line += ["--precision", asked.precision, *(["--rehearse"] if asked.rehearse else [])]
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"status": "failed", "error": f"still running after {limit:.0f} s"}
    if done.returncode:
        return {"status": "failed", "error": done.stderr[-1_500:]}
    return {"status": "done"} | json.loads(done.stdout.splitlines()[-1])


def shares(found: dict[str, Any], machine: dict[str, Any]) -> dict[str, Any]:
    """MFU of training and evaluation, of the measured product and of the datasheet."""
    peaks = {"measured": machine.get("flops_per_second"), "datasheet": machine.get("datasheet")}

    def mfu(speed: float) -> dict[str, float]:
        return {name: speed / peak for name, peak in peaks.items() if peak}

    if found.get("tokens_per_second"):
        found["mfu"] = mfu(found["tokens_per_second"] * found["flops_per_token"])
    if "evaluation" in found:
        found["evaluation"]["mfu"] = mfu(found["evaluation"]["flops_per_second"])
    return found


def cost(arm: str) -> int:
    """Share of the time that is left; what is compiled needs more of it."""
    settings = (ARMS[arm].training or {}) | ARMS[arm].arguments
    return 2 if settings.get("compile") or settings.get("torch_compile") else 1


def demo(limit: float) -> dict[str, Any]:
    """Seconds of `make demo`."""
    began = time.monotonic()
    root = Path(__file__).resolve().parents[2]
    try:
        done = subprocess.run(
            ["make", "demo"], cwd=root, capture_output=True, text=True, check=False, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return {"status": "failed", "error": f"still running after {limit:.0f} s"}
    status = {"status": "done"} if not done.returncode else {"error": done.stderr[-1_500:]}
    return {"status": "failed"} | status | {"seconds": time.monotonic() - began}


def all_arms(asked: argparse.Namespace) -> dict[str, Any]:
    """Everything, the machine first, within the time that there is."""
    ends_at = time.monotonic() + 60 * asked.minutes
    began = time.monotonic()
    results: dict[str, Any] = {"arms": []}
    results["machine"] = machine = in_process("machine", asked, 0, 60)
    queue = [(model, arm) for model in asked.models for arm in asked.arms]
    for number, (model, arm) in enumerate(queue):
        left = ends_at - time.monotonic()
        fair = left * cost(arm) / sum(cost(later) for _, later in queue[number:])
        if left < LEAST:
            found: dict[str, Any] = {"status": "skipped", "error": "no time was left"}
        else:
            limit = min(left, max(1.6 * fair, 2 * STARTING))
            found = in_process(f"{model}/{arm}", asked, max(5.0, limit - STARTING), limit)
        results["arms"].append({"model": model, "arm": arm} | shares(found, machine))
        results["seconds"] = time.monotonic() - began
        write(asked.json, results)
        print(line_of(results["arms"][-1]), file=sys.stderr)
    if asked.demo:
        results["demo"] = demo(max(LEAST, ends_at - time.monotonic()))
        write(asked.json, results)
    return results


COLUMNS = ("model", "arm", "tokens/s", "MFU", "of datasheet", "GPU waits", "memory", "loss")


def line_of(found: dict[str, Any]) -> str:
    """A row of the table."""
    if found["status"] != "done":
        why = found["error"].strip().splitlines()[-1:] or [""]
        return row(found["model"], found["arm"], f"{found['status']}: {why[0][:120]}")

    def shown(value: float | None, form: str) -> str:
        return format(value, form) if value is not None else "–"

    mfu, memory = found.get("mfu", {}), found.get("peak_memory_bytes")
    return row(
        found["model"],
        found["arm"],
        shown(found["tokens_per_second"], ",.0f"),
        shown(mfu.get("measured"), ".1%"),
        shown(mfu.get("datasheet"), ".1%"),
        shown(found["waits"], ".1%"),
        shown(memory / 1e9 if memory else None, ".2f"),
        shown(found["loss"], ".4f") + ("" if found["complete"] else f" ({found['steps']} steps)"),
    )


def main() -> None:
    asked = options()
    quiet_transformers()
    if asked.one == "machine":
        print(json.dumps(run_machine(asked)))
    elif asked.one:
        model, _, arm = asked.one.partition("/")
        shape = rehearsed(MODELS[model]) if asked.rehearse else MODELS[model]
        effort = REHEARSAL if asked.rehearse else Effort()
        print(json.dumps(run_arm(arm, shape, effort, asked)))
    else:
        results = all_arms(asked)
        print("\n".join([head(*COLUMNS), *map(line_of, results["arms"])]))


if __name__ == "__main__":
    main()
