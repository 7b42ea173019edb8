"""lingraft beside Hugging Face's Trainer, used as `run_mlm.py` uses it, on the same work.

    python research/benchmarks/vs_run_mlm.py --model base --pairs 5 --json vs_run_mlm.json
    python research/benchmarks/vs_run_mlm.py --model small --opponents default tuned --tokens 20000

Same initial weights, sentences, mask rate, dropout, optimizer (AdamW, constant rate, gradients
clipped to 1), trained parameters (all; with --phase 1 embeddings, output bias, first and last
layer) and sentences in a step; equal real tokens. What differs is theirs: the collator masks by
coins, the order of sentences, and padding. `run_mlm` trains on batches of 8; these are accumulated
to the common batch, which spares it optimizer steps. Its sentences are lists in memory, not Arrow
tables, which spares it reading.

Every arm runs in a process of its own, so that memory and allocator are its own too, and the arms
alternate: A B A B … A ratio is taken within a pair. Speed is real tokens (no padding) a second
after the warm-up, data, optimizer and logging included. After the same number of real tokens, both
models are scored on the same held-out sentences under the same masks: the quality gate.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arms import (
    Arm,
    Arms,
    add_trainer_options,
    phase_of,
    shape_of,
    train_with_lingraft,
    train_with_trainer,
)
from made_up import BOS, EOS, PAD, UNKNOWN, TextShape, made_up, token_ids
from shared import parser_of
from transformers import RobertaForMaskedLM

from lingraft.evaluation.intrinsic import mask_text, measure
from lingraft.evaluation.scorer import Scorer
from lingraft.models.graft import build
from lingraft.models.source import load_model
from lingraft.recipe import Masking
from lingraft.recipe.methods import read_recipe
from lingraft.rundir import Run
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.shards import Tokens
from lingraft.training.data import Reading
from lingraft.training.machine import keep_freed_memory
from lingraft.training.objectives.common import TokenIds

if TYPE_CHECKING:
    import argparse

HELD_OUT = 256


@dataclass(frozen=True)
class Opponent:
    """One way to use the Trainer."""

    summary: str
    bf16: bool = False
    grouped: bool = False
    """Sentences of like length together."""
    micro: int = 8
    """Sentences that go through the model at once."""
    block: int | None = None
    """Concatenate the text and cut it into pieces of so many tokens."""
    keeps_memory: bool = False
    """glibc keeps freed memory, as lingraft makes it."""


OPPONENTS = {
    "default": Opponent("its defaults: fp32, line by line, 8 at once"),
    "bf16": Opponent("the same with bf16", bf16=True),
    "tuned": Opponent("bf16, grouped by length, 32 at once", True, grouped=True, micro=32),
    "tuned-allocator": Opponent("tuned, and lingraft's allocator", True, True, 32, None, True),
    "blocks": Opponent("fp32, concatenated into blocks of 512", micro=1, block=512),
    "blocks-bf16": Opponent("bf16, concatenated into blocks of 512", True, micro=1, block=512),
}


def options() -> argparse.Namespace:
    parser = add_trainer_options(parser_of(__doc__), OPPONENTS, 64, "sentences")
    parser.add_argument("--run", type=Path, help="take text and vocabulary of a lingraft run")
    parser.add_argument("--sentences", type=int, default=8_192, help="made-up sentences")
    return parser.parse_args()


def texts(asked: argparse.Namespace) -> tuple[Tokens, Tokens, TokenIds]:
    """Training text, held-out text and vocabulary: the same in every process."""
    if asked.run is None:
        size = shape_of(asked).vocabulary
        held_out = made_up(TextShape(sentences=HELD_OUT), size, 1)
        return made_up(TextShape(sentences=asked.sentences), size, 0), held_out, token_ids(size)
    run = Run.existing(asked.run)
    folder = run.stage("tokenizer").path
    vocabulary = TokenIds.of(tokenizer_files.load(str(folder)))
    first = read_recipe(run.recipe_path).texts[0]
    if (vocabulary.special[0], vocabulary.pad) != (BOS, PAD):
        sys.exit("--run: its vocabulary is not RoBERTa's (0 begins, 1 pads); take another run")
    train, held_out = (Tokens.open(folder, f"{first.prefix}{name}") for name in ("train", "valid"))
    return train, held_out, vocabulary


def prepare(folder: Path, asked: argparse.Namespace) -> None:
    """Write the initial weights, once for all arms."""
    shape = shape_of(asked)
    config = shape.config(128)
    config.vocab_size, config.num_hidden_layers = texts(asked)[2].size, shape.layers
    build(RobertaForMaskedLM, config, 0).save_pretrained(folder / "model")


def held_out_loss(model: Any, folder: Path, asked: argparse.Namespace) -> float:
    """Mean nats of a model's weights on the held-out sentences, in fp32 under fixed masks."""
    _, tokens, vocabulary = texts(asked)
    rows = tokens.rows(range(min(HELD_OUT, len(tokens))))
    hidden = mask_text(rows, vocabulary, "vs_run_mlm", Masking(), 0)
    plain = load_model(str(folder / "model")).model  # without what accelerate puts around a model
    plain.load_state_dict(model.state_dict())
    return measure(Scorer(plain, vocabulary.pad, "fp32"), hidden).metrics()["loss"]


def train_ours(folder: Path, asked: argparse.Namespace) -> Arm:
    """lingraft's own loop."""
    train, valid, vocabulary = texts(asked)
    phase = phase_of(asked, {"size": asked.batch})
    reading = Reading("", train, valid, phase.objective, phase.masking)
    return train_with_lingraft(folder, asked, phase, reading, vocabulary)


def blocks(sentences: list[list[int]], size: int) -> list[list[int]]:
    """The text as one, in pieces; the rest is dropped, as `run_mlm` does."""
    whole = [token for sentence in sentences for token in sentence]
    return [whole[start : start + size] for start in range(0, len(whole) - size + 1, size)]


def tokenizer_of(vocabulary: TokenIds) -> Any:
    """What the collator asks a tokenizer for: sizes, special tokens, padding."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    names = {f"t{index}": index for index in range(vocabulary.size)}
    special = {"bos": BOS, "pad": PAD, "eos": EOS, "unk": UNKNOWN, "mask": vocabulary.mask}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(names, unk_token=f"t{UNKNOWN}")),
        **{f"{role}_token": f"t{index}" for role, index in special.items()},
    )


def train_theirs(opponent: Opponent, folder: Path, asked: argparse.Namespace) -> Arm:
    """The Trainer with the arguments that `run_mlm.py` gives it."""
    from transformers import AutoModelForMaskedLM, DataCollatorForLanguageModeling

    if opponent.keeps_memory:
        keep_freed_memory()
    tokens, _, vocabulary = texts(asked)
    rows = [row.tolist() for row in tokens.rows(range(len(tokens)))]
    special = set(vocabulary.special)
    at_once = min(opponent.micro, asked.batch)
    accumulated = max(1, asked.batch // at_once)
    if opponent.block is not None:
        accumulated = max(1, round(asked.batch * tokens.lengths.mean() / opponent.block))
        rows = blocks(rows, opponent.block)
    examples = [
        {"input_ids": row, "special_tokens_mask": [int(token in special) for token in row]}
        for row in rows
    ]
    return train_with_trainer(
        AutoModelForMaskedLM.from_pretrained(folder / "model", trust_remote_code=False),
        asked,
        lambda inputs: inputs["attention_mask"].sum(),
        {
            "per_device_train_batch_size": at_once,
            "gradient_accumulation_steps": accumulated,
            "bf16": opponent.bf16,
            "train_sampling_strategy": "group_by_length" if opponent.grouped else "random",
        },
        train_dataset=examples,
        data_collator=DataCollatorForLanguageModeling(
            tokenizer_of(vocabulary), mlm_probability=Masking().rate
        ),
    )


def main() -> None:
    asked = options()
    arms = Arms.told(asked, prepare, train_ours, train_theirs, held_out_loss)
    arms.run(asked, OPPONENTS)


if __name__ == "__main__":
    main()
