"""Write the untrained encoder that recipes/veco-base.toml starts from: RoBERTa's shape, 6 x 256.

    python research/scripts/build_translation_source.py build/translation build/translation-start

A small post-norm encoder with learned positions stays at the loss of guessing by frequency for
millions of tokens, since it must find out where the neighbours of a masked word stand. So the first
layer starts as trained ones look (Trockman and Kolter 2023, "Mimetic initialization of
self-attention layers"): positions are sinusoids, and each head looks at a place at a fixed distance
from its own, by a rotation of them. All else is drawn as RoBERTa does, and everything is trained.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaForMaskedLM

WIDTH, LAYERS, HEADS, FEED_FORWARD, POSITIONS = 256, 6, 4, 512, 130
DISTANCES = (-1, 1, -2, 2)
"""Of the place that each head of the first layer looks at."""
LONGEST_PERIOD = 100.0
"""Of the sinusoids, in positions; the shortest is 2."""
STD, VALUE_STD = 0.02, 1 / math.sqrt(WIDTH)
"""Of drawn weights, and of the first layer's values and outputs."""


def frequencies() -> torch.Tensor:
    """[WIDTH / 2] radians a position."""
    steps = torch.arange(WIDTH // 2) / (WIDTH // 2 - 1)
    return torch.pi * (2 / LONGEST_PERIOD) ** steps


def looks_at_neighbours(model: RobertaForMaskedLM) -> None:
    """Sets positions and first layer; dimensions i and WIDTH / 2 + i are a sine and a cosine."""
    angles = torch.arange(POSITIONS)[:, None] * frequencies()
    table = torch.cat([angles.sin(), angles.cos()], dim=1) * (STD * math.sqrt(2))
    table[model.config.pad_token_id] = 0
    model.roberta.embeddings.position_embeddings.weight.copy_(table)
    attention = model.roberta.encoder.layer[0].attention
    size = WIDTH // HEADS
    query, key = torch.zeros(WIDTH, WIDTH), torch.zeros(WIDTH, WIDTH)
    for head, distance in enumerate(DISTANCES):
        for place in range(size // 2):
            wave = place * HEADS + head
            sine, cosine = wave, WIDTH // 2 + wave
            row = head * size + 2 * place
            turn = frequencies()[wave] * distance
            key[row, sine] = key[row + 1, cosine] = 1
            query[row, sine], query[row, cosine] = turn.cos(), turn.sin()
            query[row + 1, cosine], query[row + 1, sine] = turn.cos(), -turn.sin()
    own = attention.self
    own.query.weight.copy_(query)
    own.key.weight.copy_(key)
    for layer in (own.value, attention.output.dense):
        layer.weight.normal_(0, VALUE_STD)


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("tokenizer", type=Path, help="folder of a tokenizer")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(
        arguments.tokenizer, trust_remote_code=False
    )
    torch.manual_seed(arguments.seed)
    config = RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=FEED_FORWARD,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        max_position_embeddings=POSITIONS,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = RobertaForMaskedLM(config)
    looks_at_neighbours(model)
    model.save_pretrained(arguments.out)
    tokenizer.save_pretrained(arguments.out)
    print(f"{arguments.out}: {model.num_parameters():,} parameters, {len(tokenizer):,} pieces")


if __name__ == "__main__":
    main()
