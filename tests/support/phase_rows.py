"""What a phase of training writes of itself, and settings that several of its tests share."""

import json

import numpy as np
from safetensors.torch import load_file

from lingraft.tokenizer.shards import Tokens
from lingraft.training.objectives.common import TokenIds

IDS = TokenIds(size=320, mask=319, pad=1, special=(0, 1, 2, 3, 319))
"""Of the tiny RoBERTa."""
CAUSAL_IDS = TokenIds(size=320, mask=None, pad=1, special=(0, 1, 2))
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
DROPOUT = dict.fromkeys(STILL, 0.1)


def rows_of(job, kind=None):
    """The rows of metrics.jsonl, of one kind if it is named."""
    found = [json.loads(line) for line in job.metrics_path.read_text("utf-8").splitlines()]
    return [row for row in found if kind in (None, row["kind"])]


def best_of(job):
    """The tensors that a phase kept as its best."""
    return load_file(job.folder / "best" / "model.safetensors")


def tokens_of(rows):
    """A text in memory, of each sentence's ids."""
    lengths = np.array([len(row) for row in rows], np.int32)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64)
    return Tokens(np.concatenate(rows).astype(np.uint16), offsets, lengths)
