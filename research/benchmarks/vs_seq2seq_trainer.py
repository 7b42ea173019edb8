"""lingraft beside Hugging Face's Seq2SeqTrainer, fine-tuning a translator on the same pairs.

    python research/benchmarks/vs_seq2seq_trainer.py --pairs 5 --json vs_seq2seq_trainer.json
    python research/benchmarks/vs_seq2seq_trainer.py --model bart --opponents default --tokens 20000

Same initial weights (a fresh model of 6 + 3 layers of width 256, as `EncoderDecoderModel` or BART),
made-up pairs, label smoothing, dropout, optimizer (AdamW, constant rate, gradients clipped to 1)
and pairs in a step; equal real tokens of both sides. What differs is theirs: the order of pairs,
padding, and pairs that go through the model at once.

Every arm runs in a process of its own, and the arms alternate: A B A B …; a ratio is taken within a
pair. Speed is real tokens (no padding) a second of the processor behind the warm-up, so that what
else the machine does counts little; on a GPU, a second of the clock. After the same number of real
tokens both are scored on the same held-out pairs: the quality gate.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import transformers as hf
from arms import Arms, add_arm_options
from made_up import BOS, EOS, PAD, TextShape, made_up, token_ids
from shared import parser_of
from vs_run_mlm import tokenizer_of

from lingraft.finetuning.coders.common import InputShape, Item
from lingraft.finetuning.coders.translation import TranslationCoder
from lingraft.finetuning.problem import TASK, Finetuning
from lingraft.finetuning.recipe import phase_of
from lingraft.models.encoder_decoder import tie_embeddings
from lingraft.models.loading import save
from lingraft.pretrained.load import load_model
from lingraft.recipe import Hardware
from lingraft.tasks.definition import Settings
from lingraft.training.loop import run_phase
from lingraft.training.machine import accelerator_for, environment
from lingraft.training.phase import StepCallback, Work
from lingraft.training.problem import ValidationResult

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

RATE, SMOOTHING, DROPOUT, VOCABULARY, LONGEST = 5e-4, 0.1, 0.1, 8_000, 128
PAIRS, HELD_OUT = 4_096, 128
MODELS = ("encoder-decoder", "bart")
Mark = tuple[float, float, int]
"""Seconds of clock and processor, and real tokens so far."""


@dataclass(frozen=True)
class Opponent:
    """One way to use the trainer."""

    summary: str
    micro: int = 8
    """Pairs that go through the model at once."""
    grouped: bool = False
    """Pairs of like length together."""


OPPONENTS = {
    "default": Opponent("its defaults, 8 at once"),
    "tuned": Opponent("grouped by length, 32 at once", 32, grouped=True),
}


def options() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--model", choices=MODELS, default=MODELS[0])
    parser.add_argument("--opponents", nargs="+", choices=OPPONENTS, default=list(OPPONENTS))
    parser.add_argument("--pairs", type=int, default=5, help="of an arm of each side")
    parser.add_argument("--tokens", type=int, default=40_000, help="real tokens of an arm")
    parser.add_argument("--warmup", type=float, default=0.2, help="share of them that is not timed")
    parser.add_argument("--batch", type=int, default=64, help="pairs in a step")
    parser.add_argument("--micro-batch-tokens", type=int, default=4_096, help="ours, padding too")
    parser.add_argument("--gate", type=float, default=0.05, help="nats that we may be worse")
    return add_arm_options(parser).parse_args()


def fresh_model(kind: str) -> Any:
    """Untrained, of 6 + 3 layers."""
    torch.manual_seed(0)
    ids = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS, "vocab_size": VOCABULARY}
    if kind == "bart":
        stacks = {"encoder": 6, "decoder": 3}
        shape: dict[str, Any] = {f"{name}_layers": depth for name, depth in stacks.items()}
        shape |= {f"{name}_attention_heads": 4 for name in stacks}
        shape |= {f"{name}_ffn_dim": 1_024 for name in stacks}
        shape |= {"d_model": 256, "max_position_embeddings": LONGEST, "forced_eos_token_id": None}
        shape |= {"dropout": DROPOUT, "attention_dropout": DROPOUT, "decoder_start_token_id": EOS}
        return hf.BartForConditionalGeneration(hf.BartConfig(**shape, **ids))
    shape = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1_024}
    shape |= {"max_position_embeddings": LONGEST + PAD + 1, "type_vocab_size": 1, **ids}
    config = hf.EncoderDecoderConfig.from_encoder_decoder_configs(
        hf.RobertaConfig(num_hidden_layers=6, **shape),
        hf.RobertaConfig(num_hidden_layers=3, is_decoder=True, add_cross_attention=True, **shape),
        decoder_start_token_id=EOS,
        **ids,
    )
    model = hf.EncoderDecoderModel(config)
    model.encoder.embeddings.load_state_dict(model.decoder.roberta.embeddings.state_dict())
    tie_embeddings(model)
    return model


def loaded(folder: Path) -> Any:
    """The fresh model, its stacks' embeddings one: both sides train as many numbers."""
    model, _ = load_model(hf.AutoModelForSeq2SeqLM, str(folder / "model"))
    tie_embeddings(model)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(".pooler." not in name)
    return model


@cache
def items(number: int, seed: int) -> list[Item]:
    """Pairs: a made-up text, and as its translation one that begins alike, 5 % longer."""
    tokens = made_up(TextShape(sentences=number, longest=LONGEST), VOCABULARY, seed)
    longer = np.random.default_rng(seed).lognormal(0.05, 0.2, number)
    pairs = []
    for index, source in enumerate(tokens.rows(range(number))):
        length = int(np.clip(round(len(source) * longer[index]), 2, LONGEST))
        target = np.append(np.resize(source[1:-1][::-1], length - 1), EOS)
        pairs.append(Item(index, source.astype(np.int64), None, target.astype(np.int64), ""))
    return pairs


def coder() -> TranslationCoder:
    generation = SimpleNamespace(
        decoder_start_token_id=EOS, eos_token_id=EOS, forced_bos_token_id=None
    )
    tokenizer = tokenizer_of(token_ids(VOCABULARY))
    shape = InputShape(tokenizer, PAD, LONGEST, types=False, generation=generation)
    task: Any = SimpleNamespace(codes=None, metrics=(), settings=settings(64))
    return TranslationCoder(task, shape)


def settings(batch: int) -> Settings:
    return Settings(
        epochs=10**6,
        batch=batch,
        learning_rate=RATE,
        warmup=0,
        max_length=LONGEST,
        schedule="constant",
        label_smoothing=SMOOTHING,
        check_every=10**9,
    )


class Problem(Finetuning):
    """Without looks: only training is timed."""

    def look(self, *_: Any) -> ValidationResult:
        return ValidationResult(0.0)

    def save(self, folder: Path) -> None:
        folder.mkdir()


class Marks(StepCallback):
    """Tells when a step began, and ends the phase where its tokens are spent."""

    def __init__(self, budget: int) -> None:
        self.budget, self.seen = budget, 0
        self.marks: list[Mark] = []

    def begin(self) -> None:
        self.marks.append((time.perf_counter(), time.process_time(), self.seen))

    def end(self, indices: Any, step: Any) -> None:
        self.seen += step.global_tokens
        if self.seen >= self.budget:
            self.begin()


def speed(marks: Sequence[Mark], warmup: float) -> dict[str, float]:
    """Tokens a second behind the warm-up, by processor and by clock."""
    *ends, total = marks[-1]
    *starts, before = next(mark for mark in marks if mark[2] >= warmup * total)
    clock, processor = (end - start for end, start in zip(ends, starts, strict=True))
    judged = clock if torch.cuda.is_available() else processor
    return {
        "tokens_per_second": (total - before) / judged,
        "tokens_per_second_of_clock": (total - before) / clock,
    }


def train_ours(asked: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """lingraft's own loop."""
    use = Hardware(micro_batch_tokens=asked.micro_batch_tokens, log_steps=50)
    accelerator = accelerator_for(use, asked.folder)
    model = loaded(asked.folder).to(accelerator.device)
    made = coder()
    problem = Problem(model, made, items(PAIRS, 0), [], use.micro_batch_tokens)
    watch = Marks(asked.tokens)
    phase = phase_of(settings(asked.batch), "finetune", 1.0)
    budget = {"value": asked.tokens, "unit": "tokens"}
    with tempfile.TemporaryDirectory() as out:
        work = Work(
            phase=phase.model_copy(update={"budget": phase.budget.model_copy(update=budget)}),
            hardware=use,
            seed=0,
            folder=Path(out),
            metrics_path=Path(out) / "metrics.jsonl",
            fingerprint="",
        )
        run_phase(work, problem, accelerator, watch)
    machine = environment(accelerator, " ".join(["vs_seq2seq_trainer.py", *sys.argv[1:]]))
    return model, speed(watch.marks, asked.warmup) | {"machine": machine}


def train_theirs(opponent: Opponent, asked: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """The Seq2SeqTrainer with the arguments that `run_translation.py` gives it."""
    features = [
        {"input_ids": item.ids.tolist(), "labels": item.target.tolist()} for item in items(PAIRS, 0)
    ]
    marks: list[Mark] = []

    class Counting(hf.Seq2SeqTrainer):  # type: ignore[misc]
        real: Any = 0

        def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            self.real = self.real + inputs["attention_mask"].sum() + (inputs["labels"] >= 0).sum()
            return super().compute_loss(model, inputs, *args, **kwargs)

    class Ending(hf.TrainerCallback):  # type: ignore[misc]
        def mark(self, real: int) -> None:
            marks.append((time.perf_counter(), time.process_time(), real))

        def on_train_begin(self, *_: Any, **__: Any) -> None:
            self.mark(0)

        def on_step_end(self, _: Any, __: Any, control: Any, **___: Any) -> None:
            self.mark(int(trainer.real))  # waits for the device
            control.should_training_stop = trainer.real >= asked.tokens

    model = loaded(asked.folder)
    at_once = min(opponent.micro, asked.batch)
    with tempfile.TemporaryDirectory() as out:
        arguments = hf.Seq2SeqTrainingArguments(
            output_dir=out,
            per_device_train_batch_size=at_once,
            gradient_accumulation_steps=max(1, asked.batch // at_once),
            learning_rate=RATE,
            lr_scheduler_type="constant",
            label_smoothing_factor=SMOOTHING,
            weight_decay=0.0,
            max_grad_norm=1.0,
            max_steps=10**6,
            use_cpu=not torch.cuda.is_available(),
            train_sampling_strategy="group_by_length" if opponent.grouped else "random",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            dataloader_pin_memory=torch.cuda.is_available(),
            seed=0,
        )
        tokenizer = tokenizer_of(token_ids(VOCABULARY))
        trainer = Counting(
            model=model,
            args=arguments,
            train_dataset=features,
            data_collator=hf.DataCollatorForSeq2Seq(tokenizer, model=model),
            callbacks=[Ending()],
        )
        trainer.train()
    return model, speed(marks, asked.warmup)


@torch.no_grad()
def held_out_loss(model: Any) -> float:
    """Mean nats of the targets of held-out pairs."""
    made, found = coder(), 0.0
    pairs = items(HELD_OUT, 1)
    problem = Finetuning(model, made, pairs, [], 4_096)
    problem.module.eval()
    for _, batch in problem.batches(pairs, predict=False):
        found += float(problem.module(batch.to(model.device))[TASK].nats)
    return found / sum(map(made.count, pairs))


def main() -> None:
    asked = options()
    Arms(
        lambda folder: save(fresh_model(asked.model), folder / "model"),
        lambda: train_ours(asked),
        lambda opponent: train_theirs(opponent, asked),
        held_out_loss,
    ).run(asked, OPPONENTS)


if __name__ == "__main__":
    main()
