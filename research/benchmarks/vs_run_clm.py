"""lingraft beside Hugging Face's Trainer, used as `run_clm.py` uses it, on the same work.

    python research/benchmarks/vs_run_clm.py --model base --pairs 5 --json vs_run_clm.json
    python research/benchmarks/vs_run_clm.py --model small --opponents bf16 --tokens 60000 --phase 1

Same initial weights of a Llama, documents, context, optimizer (AdamW, constant rate, gradients
clipped to 1), trained parameters (all; with --phase 1 embeddings, first and last layer) and tokens
in a step; equal real tokens. `run_clm` joins the documents and cuts them into blocks, so that
documents see each other; `packed` keeps them apart as trl does (best fit into rows of the context,
positions that start anew, no label across documents), which is our work. What differs is theirs:
the order of the documents, rows and logits. Its rows are lists in memory, not Arrow tables, which
spares it reading.

Every arm runs in a process of its own, so that memory and allocator are its own too, and the arms
alternate: A B A B … A ratio is taken within a pair. Speed is real tokens (no padding) a second
after the warm-up, data, optimizer and logging included. After the same number of real tokens, both
models are scored on the same held-out documents, each by itself: the quality gate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from arms import (
    CLOCKS,
    Arm,
    Arms,
    add_trainer_options,
    phase_of,
    shape_of,
    train_with_lingraft,
    train_with_trainer,
)
from made_up import BOS, EOS, PAD, TextShape, made_up, token_ids
from shared import parser_of
from transformers import AutoConfig, LlamaForCausalLM

from lingraft.evaluation import intrinsic
from lingraft.evaluation.scorer import HiddenItem, Scorer
from lingraft.models.graft import build
from lingraft.models.losses import IGNORED
from lingraft.models.rows import pack
from lingraft.models.source import load_model
from lingraft.recipe import Masking
from lingraft.tokenizer.documents import Documents
from lingraft.training.data import Reading
from lingraft.training.machine import keep_freed_memory

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from lingraft.tokenizer.shards import Tokens
    from lingraft.training.objectives.common import TokenIds

HELD_OUT = 128


@dataclass(frozen=True)
class Opponent:
    """One way to use the Trainer."""

    summary: str
    bf16: bool = False
    packed: bool = False
    """Documents in rows, kept apart; else joined and cut into blocks."""
    keeps_memory: bool = False
    """glibc keeps freed memory, as lingraft makes it."""


OPPONENTS = {
    "default": Opponent("its defaults: fp32, joined and cut into blocks of the context"),
    "bf16": Opponent("the same with bf16", bf16=True),
    "packed": Opponent("bf16, documents apart in rows of the context", True, packed=True),
    "packed-allocator": Opponent("packed, and lingraft's allocator", True, True, True),
}


def options() -> argparse.Namespace:
    parser = add_trainer_options(parser_of(__doc__), OPPONENTS, 8_192, "tokens")
    parser.add_argument("--context", type=int, default=512, help="tokens read at once")
    parser.add_argument(
        "--rows", type=int, default=8, help="blocks or rows that go through at once"
    )
    parser.add_argument("--documents", type=int, default=4_096, help="made-up documents")
    parser.add_argument("--mean-length", type=float, default=150, help="of a document, in tokens")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="whose seconds count")
    return parser.parse_args()


def texts(asked: argparse.Namespace) -> tuple[Tokens, Tokens, TokenIds]:
    """Training text, held-out text and vocabulary: the same in every process."""
    size = shape_of(asked).vocabulary

    def documents(number: int, seed: int) -> Tokens:
        shape = TextShape(asked.mean_length, 0.9, 4 * asked.context, number)
        return made_up(shape, size, seed)

    return documents(asked.documents, 0), documents(HELD_OUT, 1), token_ids(size)


def prepare(folder: Path, asked: argparse.Namespace) -> None:
    """Write the initial weights, once for all arms."""
    shape = shape_of(asked)
    config = AutoConfig.for_model(
        "llama",
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.width // 64,
        num_key_value_heads=max(1, shape.width // 192),
        intermediate_size=-(-8 * shape.width // 3 // 64) * 64,
        max_position_embeddings=asked.context,
        tie_word_embeddings=True,
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=PAD,
    )
    build(LlamaForCausalLM, config, 0).save_pretrained(folder / "model")


def held_out_loss(model: Any, folder: Path, asked: argparse.Namespace) -> float:
    """Mean nats of a model's weights on the held-out documents, in fp32, each by itself."""
    _, tokens, vocabulary = texts(asked)
    pieces = Documents.of(tokens, asked.context)
    items = [
        HiddenItem(row[:-1].astype(np.int64), np.arange(len(row) - 1), row[1:].astype(np.int64))
        for row in pieces.rows(range(len(pieces)))
    ]
    plain = load_model(str(folder / "model")).model  # without what accelerate puts around a model
    plain.load_state_dict(model.state_dict())
    text = intrinsic.MaskedTokens(items, "vs_run_clm", "next-token")
    return intrinsic.score(Scorer(plain, vocabulary.pad, "fp32"), text)["loss"]


def train_ours(folder: Path, asked: argparse.Namespace) -> Arm:
    """lingraft's own loop."""
    train, valid, vocabulary = (
        Documents.of(one, asked.context) if index < 2 else one
        for index, one in enumerate(texts(asked))
    )
    phase = phase_of(asked, {"size": asked.batch, "unit": "tokens"})
    reading = Reading("", train, valid, "clm", Masking())
    return train_with_lingraft(folder, asked, phase, reading, vocabulary, asked.clock)


def blocks(documents: list[list[int]], size: int) -> list[dict[str, list[int]]]:
    """The text as one, in pieces; the rest is dropped, as `run_clm` does."""
    whole = [token for document in documents for token in document]
    cut = [whole[start : start + size] for start in range(0, len(whole) - size + 1, size)]
    return [{"input_ids": piece, "labels": piece} for piece in cut]


def rows_of(tokens: Tokens, size: int) -> list[dict[str, list[int]]]:
    """Documents, cut at the context, best fit into rows; positions and labels start anew."""
    pieces = [
        document[start : start + size].tolist()
        for document in tokens.rows(range(len(tokens)))
        for start in range(0, len(document), size)
    ]
    rows, _ = pack(np.array([len(piece) for piece in pieces]), size)
    made = []
    for row in rows:
        ids = [token for index in row for token in pieces[index]]
        places = [place for index in row for place in range(len(pieces[index]))]
        labels = [token if place else IGNORED for token, place in zip(ids, places, strict=True)]
        made.append({"input_ids": ids, "labels": labels, "position_ids": places})
    return made


def collate(rows: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
    """Rows padded at the end; what fills a row is a document that nothing is predicted of."""
    width = max(len(row["input_ids"]) for row in rows)
    filled = {"input_ids": PAD, "labels": IGNORED}
    batch = {
        key: [row[key] + [filled.get(key, 0)] * (width - len(row[key])) for row in rows]
        for key in rows[0]
    }
    for number, row in enumerate(rows):
        if "position_ids" in row:
            space = width - len(row["position_ids"])
            batch["position_ids"][number][width - space :] = range(space)
    return {key: torch.tensor(value) for key, value in batch.items()}


def train_theirs(opponent: Opponent, folder: Path, asked: argparse.Namespace) -> Arm:
    """The Trainer with the arguments that `run_clm.py` gives it."""
    from transformers import AutoModelForCausalLM

    if opponent.keeps_memory:
        keep_freed_memory()
    tokens = texts(asked)[0]
    examples = (
        rows_of(tokens, asked.context)
        if opponent.packed
        else blocks([row.tolist() for row in tokens.rows(range(len(tokens)))], asked.context)
    )
    held = float(np.mean([len(row["input_ids"]) for row in examples]))
    return train_with_trainer(
        AutoModelForCausalLM.from_pretrained(folder / "model", trust_remote_code=False),
        asked,
        lambda inputs: (inputs["input_ids"] != PAD).sum(),
        {
            "per_device_train_batch_size": asked.rows,
            "gradient_accumulation_steps": max(1, round(asked.batch / held / asked.rows)),
            "bf16": opponent.bf16,
        },
        asked.clock,
        train_dataset=examples,
        data_collator=collate,
    )


def main() -> None:
    asked = options()
    arms = Arms.told(asked, prepare, train_ours, train_theirs, held_out_loss)
    arms.run(asked, OPPONENTS)


if __name__ == "__main__":
    main()
