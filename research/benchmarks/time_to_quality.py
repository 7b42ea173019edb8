"""How soon lingraft is as good as Hugging Face's Trainer in its whole run: the time to its quality.

    python research/benchmarks/time_to_quality.py        # the demo's source and text, one pair
    python research/benchmarks/time_to_quality.py --source S --text T --lang ja --tokens 1M \\
        --pairs 5 --json time_to_quality.json

The Trainer has the same source, text, split and vocabulary, and trains its whole budget: the source
with `resize_token_embeddings`, as its users do it (`resize`: rows keep what they knew of other
pieces), or with a correct new vocabulary of random rows (`random`). Its learning rate is the best
of a grid by validation text, for each of the two; what the grid took is not counted.

lingraft has preset 'auto' with a share of that budget (`--shares`), and is stopped as soon as it
reaches the Trainer's figure; where a share does not suffice the next is tried, and all of them
count. Its seconds hold the graft (static vectors too), the measuring of speed, the probe, and every
step. The figure is bits per character of held-out words, which compares any vocabularies. Neither
side is charged for text, vocabulary, scoring and looks at validation text.

Both sides train in bf16 where the machine multiplies it fast. Every arm runs in a process of its
own, the arms of a pair one after the other.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers as hf
from arms import OURS, PLAIN_TRAINER, add_arm_options
from setups import SETUPS, set_up
from shared import head, in_process, parser_of, row, spread, write

from lingraft.evaluation import words
from lingraft.evaluation.records import word_metrics
from lingraft.evaluation.scorer import Scorer
from lingraft.files import write_json
from lingraft.models.source import load_model
from lingraft.pipeline import stages
from lingraft.pipeline.completing import complete
from lingraft.pipeline.phases import prepared
from lingraft.pipeline.stages import Context
from lingraft.pretrained.load import quiet_transformers
from lingraft.recipe import Budget, Masking, Validation
from lingraft.recipe.methods import recipe_from
from lingraft.rundir import Run, read_json
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.shards import Tokens
from lingraft.training.loop import run_phase
from lingraft.training.machine import accelerator_for, environment, multiplies_bf16
from lingraft.training.masked_text import MaskedText
from lingraft.training.objectives.common import TokenIds
from lingraft.training.phase import StepCallback

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from lingraft.recipe import Recipe

ROOT = Path(__file__).resolve().parents[2]
TEXT = ROOT / "demo/data/libreoffice-help.en-ko.jsonl.gz"
WARMUP = 0.1
"""Of the Trainer's steps; then its rate falls in a line, which is its default."""
UNWATCHED = Validation(every_steps=10**9, max_sentences=8)


class Reached(Exception):
    """Our arm is as good as it has to be."""


@dataclass
class Clock:
    """Seconds of wall and processors that were not paused."""

    wall: float = 0.0
    cpu: float = 0.0
    since: tuple[float, float] | None = None

    def go(self) -> None:
        if self.since is None:
            self.since = time.perf_counter(), time.process_time()

    def pause(self) -> None:
        assert self.since is not None
        self.wall += time.perf_counter() - self.since[0]
        self.cpu += time.process_time() - self.since[1]
        self.since = None


class Reaching(StepCallback):
    """Scores the model now and then, with the clock stopped, and ends at the target."""

    def __init__(
        self, clock: Clock, score: Callable[[], float], target: float, every: float
    ) -> None:
        self.clock, self.score, self.target, self.every = clock, score, target, every
        self.tokens = self.steps = 0
        self.curve: list[dict[str, float]] = []

    def begin(self) -> None:
        self.clock.go()

    def end(self, indices: Any, step: Any) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.steps += 1
        self.tokens += step.global_tokens
        if self.tokens >= (len(self.curve) + 1) * self.every:
            self.look()

    def look(self) -> None:
        """Score; ends the training where that is good enough."""
        self.clock.pause()
        seconds = {"seconds": self.clock.wall, "cpu_seconds": self.clock.cpu}
        counts = {"tokens": self.tokens, "steps": self.steps}
        self.curve.append({"bits": self.score(), **seconds, **counts})
        if self.curve[-1]["bits"] <= self.target:
            raise Reached
        self.clock.go()


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--source", default=str(ROOT / "demo/source"))
    parser.add_argument("--text", nargs="+", default=[str(TEXT)])
    parser.add_argument("--lang", default="ko")
    parser.add_argument("--tokens", default="60k", help="real tokens of the Trainer's run")
    parser.add_argument("--pairs", type=int, default=1, help="seeds, of an arm of each side")
    parser.add_argument("--opponents", nargs="+", choices=SETUPS, default=list(SETUPS))
    parser.add_argument("--rates", nargs="+", type=float, default=[3e-4, 1e-3, 3e-3])
    parser.add_argument("--batch", type=int, default=32, help="sentences in the Trainer's step")
    parser.add_argument("--masking", type=float, default=Masking().rate, help="share they hide")
    parser.add_argument("--shares", nargs="+", type=float, default=[0.3, 1.0], help="our budgets")
    parser.add_argument("--looks", type=int, default=20, help="our scorings in a whole budget")
    parser.add_argument("--words", type=int, default=200, help="held-out words that are scored")
    parser.add_argument("--vocab-size", type=int, help="of both; by the rules of auto")
    return add_arm_options(parser).parse_args(arguments)


# -- what both sides share


def tokens_of(asked: argparse.Namespace) -> float:
    """Return the tokens of the Trainer's run: 60000 for 60k."""
    return Budget.model_validate(f"{asked.tokens} tok").value


def recipe_of(asked: argparse.Namespace, tokens: float, seed: int, pieces: int | None) -> Recipe:
    """The automatic preset, as it suits the source."""
    plain = {
        "name": "time-to-quality",
        "language": asked.lang,
        "seed": seed,
        "source": {"model": asked.source},
        "corpus": {"text": asked.text},
        "training": {"preset": "auto", "budget": {"value": tokens, "unit": "tokens"}},
    }
    recipe = recipe_from(plain | ({"tokenizer": {"vocab_size": pieces}} if pieces else {}))
    return complete(recipe).recipe


def prepare(asked: argparse.Namespace, folder: Path) -> None:
    """Text, split and vocabulary, once for all arms."""
    recipe, run = (
        recipe_of(asked, tokens_of(asked), 0, asked.vocab_size),
        Run(folder),
    )
    context = Context(recipe, run, accelerator_for(recipe.hardware, folder))
    stages.tokenizer(context, stages.corpus(context))


def bits(run: Run, asked: argparse.Namespace, split: str, model: Any) -> float:
    """Per character, of held-out words of a split."""
    tokenizer = tokenizer_files.load(str(run.stage("tokenizer").path))
    lines = (run.stage("corpus").path / f"{split}.txt").read_text(encoding="utf-8").splitlines()
    scorer = Scorer(model, TokenIds.of(tokenizer).pad, "fp32")
    longest = int(run.stage("tokenizer").result()["max_tokens"])
    chosen = words.choose(lines, asked.words, 0)
    found = word_metrics(words.measure(scorer, tokenizer, chosen, longest))
    return float(found["bits_per_character"])


# -- our arm


def ours(asked: argparse.Namespace, folder: Path, seed: int) -> dict[str, Any]:
    """Preset auto until the lowest of the targets, with each share of the budget in turn."""
    target = min(read_json(folder / f"targets-{seed}.json").values())
    clock = Clock()
    curve: list[dict[str, float]] = []
    for share in asked.shares:
        steps, tokens = (curve[-1]["steps"], curve[-1]["tokens"]) if curve else (0, 0)
        for point in attempt(asked, folder, (seed, share), clock, target).curve:
            spent = {"steps": steps + point["steps"], "tokens": tokens + point["tokens"]}
            curve.append(point | spent | {"share": share})
        if curve[-1]["bits"] <= target:
            break
    return {"curve": curve, "machine": machine(folder)}


def attempt(
    asked: argparse.Namespace, folder: Path, which: tuple[int, float], clock: Clock, target: float
) -> Reaching:
    """Train one share of the budget, graft and all, or until the target."""
    (seed, share), text = which, Run(folder)
    tokens = share * tokens_of(asked)
    pieces = int(text.stage("tokenizer").result()["vocab_size"])
    run = Run(folder / f"ours-{seed}-{share}", parent=folder)
    run.path.mkdir(parents=True)
    request = recipe_of(asked, tokens, seed, pieces)
    context = Context(request, run, accelerator_for(request.hardware, run.path))
    clock.go()
    stages.graft(context, str(text.stage("tokenizer").fingerprint()))
    trained: list[Any] = []

    def score() -> float:
        plain = load_model(str(run.weights([]))).model  # without what a trainer puts around it
        plain.load_state_dict(trained[-1].state_dict())
        return bits(text, asked, "test", plain)

    watch = Reaching(clock, score, target, tokens_of(asked) / asked.looks)
    try:
        for index, phase in enumerate(context.recipe.phases):
            place = run.stage(phase.name).path
            place.mkdir()
            start = stages.weights_before(context, index)
            unwatched = phase.model_copy(update={"validation": UNWATCHED})
            job, model = prepared(context, unwatched, start, place, "time-to-quality")
            trained.append(model)
            problem = MaskedText(job, model.to(context.accelerator.device))
            run_phase(job, problem, context.accelerator, watch)
        watch.look()
        clock.pause()
    except Reached:
        pass
    return watch


def machine(folder: Path) -> dict[str, Any]:
    accelerator = accelerator_for(recipe_from(MINIMAL).hardware, folder)
    return environment(accelerator, " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]))


MINIMAL = {"language": "ko", "source": {"model": "m"}, "corpus": {"text": ["t"]}}

# -- theirs


def theirs(
    asked: argparse.Namespace, folder: Path, name: str, rate: float, seed: int
) -> dict[str, Any]:
    """The Trainer's whole run with one set-up and learning rate."""
    run = Run(folder)
    tokenizer = tokenizer_files.load(str(run.stage("tokenizer").path))
    tokens = Tokens.open(run.stage("tokenizer").path, "train")
    special = set(tokenizer.all_special_ids)
    rows = [[int(token) for token in one] for one in tokens.rows(range(len(tokens)))]
    examples = [
        {"input_ids": one, "special_tokens_mask": [int(token in special) for token in one]}
        for one in rows
    ]
    budget = tokens_of(asked)
    steps = max(1, math.ceil(budget / (tokens.lengths.mean() * asked.batch)))
    clock, arguments = Clock(), PLAIN_TRAINER | {"seed": seed, "max_steps": steps}
    arguments |= {"learning_rate": rate, "lr_scheduler_type": "linear"}
    hf.set_seed(seed)
    clock.go()
    model = hf.AutoModelForMaskedLM.from_pretrained(asked.source, trust_remote_code=False)
    set_up(model, tokenizer, name)
    with tempfile.TemporaryDirectory() as out:
        trainer = hf.Trainer(
            model=model,
            args=hf.TrainingArguments(
                output_dir=out,
                per_device_train_batch_size=asked.batch,
                warmup_steps=max(1, round(WARMUP * steps)),
                train_sampling_strategy="group_by_length",
                bf16=multiplies_bf16(),
                **arguments,
            ),
            train_dataset=examples,
            data_collator=hf.DataCollatorForLanguageModeling(
                tokenizer, mlm_probability=asked.masking
            ),
        )
        trainer.train()
    clock.pause()
    model = trainer.accelerator.unwrap_model(model, keep_fp32_wrapper=False)  # scored in fp32
    return {
        "setup": name,
        "rate": rate,
        "valid": bits(run, asked, "valid", model),
        "bits": bits(run, asked, "test", model),
        "seconds": clock.wall,
        "cpu_seconds": clock.cpu,
        "steps": trainer.state.global_step,
    }


# -- all of them


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    """The grid, then the pairs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(asked, folder)
        grid = [
            in_process(f"{setup} {rate} 0", folder)
            for setup in asked.opponents
            for rate in asked.rates
        ]
        best = {
            setup: min((one for one in grid if one["setup"] == setup), key=lambda one: one["valid"])
            for setup in asked.opponents
        }
        pairs = []
        for seed in range(asked.pairs):
            opponents = {
                setup: one if seed == 0 else in_process(f"{setup} {one['rate']} {seed}", folder)
                for setup, one in best.items()
            }
            targets = {setup: one["bits"] for setup, one in opponents.items()}
            write_json(folder / f"targets-{seed}.json", targets)
            pairs.append({"ours": in_process(f"{OURS} 0 {seed}", folder), "theirs": opponents})
            print(f"pair {seed + 1} of {asked.pairs}", file=sys.stderr)
    return {"grid": grid, "pairs": pairs, "load_average": os.getloadavg()[0]}


def reached(curve: Sequence[dict[str, float]], target: float) -> dict[str, float] | None:
    """The first look at which the target was met."""
    return next((point for point in curve if point["bits"] <= target), None)


def table(found: dict[str, Any], rates: Sequence[float]) -> str:
    """A Markdown table, a row a set-up of the Trainer; the machine, and what to doubt."""
    kinds = ("seconds", "cpu_seconds", "steps")
    lines = [
        head(
            "the Trainer's set-up", "pairs", "bits/char, theirs", "seconds, theirs : ours",
            "times as long", "times the CPU-seconds", "times the steps",
        )
    ]  # fmt: skip
    notes = []
    for setup, best in found["pairs"][0]["theirs"].items():
        both = [
            (pair["theirs"][setup], reached(pair["ours"]["curve"], pair["theirs"][setup]["bits"]))
            for pair in found["pairs"]
        ]
        met = [(one, point) for one, point in both if point is not None]
        ratios = [
            spread([one[kind] / point[kind] for one, point in met]) if met else "not reached"
            for kind in kinds
        ]
        median = (
            [statistics.median(one["seconds"] for one in side) for side in zip(*met, strict=True)]
            if met
            else []
        )
        lines.append(
            row(
                f"{setup}, learning rate {best['rate']:g}",
                f"{len(met)} of {len(both)} reached",
                f"{statistics.median(one['bits'] for one, _ in both):.3f}",
                f"{median[0]:.1f} : {median[1]:.1f}" if met else "–",
                *ratios,
            )
        )
        if best["rate"] in (min(rates), max(rates)) and len(rates) > 1:
            notes.append(f"{setup}: its best rate is at the edge of the grid; widen --rates")
    said = found["pairs"][0]["ours"]["machine"]
    kept = ("cpu", "devices", "threads", "torch", "transformers", "lingraft")
    return "\n".join([*lines, "", *notes, ", ".join(f"{key} {said[key]}" for key in kept)])


def arm(asked: argparse.Namespace) -> dict[str, Any]:
    """The one that this process is for."""
    quiet_transformers()
    name, rate, seed = asked.arm.split()
    if name == OURS:
        return ours(asked, asked.folder, int(seed))
    return theirs(asked, asked.folder, name, float(rate), int(seed))


def main() -> None:
    asked = options()
    if asked.arm:
        print(json.dumps(arm(asked)))
        return
    found = measure(asked)
    print(table(found, asked.rates))
    write(asked.json, found)


if __name__ == "__main__":
    main()
