"""Count what a GPU's passes are made of, on a CPU: shapes, fill, time to build, operations.

    python research/benchmarks/passes.py            # JSON, a minute on one core

`short` are rows of 128 tokens under a mask, as on a CPU; `even` is one row a pass, by segments.
Kernels that a CPU lacks are counted, not run.
"""

from __future__ import annotations

import json
import statistics
import time
from collections import Counter
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AttentionInterface, AutoConfig, AutoModelForMaskedLM

from lingraft.models import packed, segments
from lingraft.models.families import FAMILIES
from lingraft.models.rows import even_width
from lingraft.recipe import Batch, Masking
from lingraft.training.data import Batcher, BatchPlan, Position
from lingraft.training.objectives import OBJECTIVES
from lingraft.training.objectives.common import TokenIds

AT_ONCE = 32_768
VOCABULARY = TokenIds(50_000, 49_999, 1, (0, 1, 2, 3, 49_999))
TEXTS = {
    "tokens": ("mlm", 32_768, "tokens", 30, 128),
    "long sentences": ("mlm", 65_536, "tokens", 30, 512),
    "sentences": ("mlm", 1_024, "sentences", 30, 128),
    "documents": ("clm", 131_072, "tokens", 400, 1_024),
}
MODELS: dict[str, dict[str, Any]] = {
    "roberta": {"num_hidden_layers": 14, "attention_probs_dropout_prob": 0.0},
    "modernbert": {"num_hidden_layers": 22, "pad_token_id": 1, "cls_token_id": 0},
}
VIEWS = ("view", "transpose", "t", "permute", "expand", "slice", "select", "unsqueeze")
VIEWS += ("squeeze", "detach", "alias", "split")


class Text:
    """Random sentences in memory."""

    def __init__(self, mean: int, most: int) -> None:
        generator = np.random.default_rng(0)
        drawn = generator.lognormal(np.log(mean) - 0.2, 0.65, 4_000_000 // mean)
        self.lengths = np.clip(drawn, 4, most).astype(np.int64)
        self.ids = generator.integers(5, 49_999, self.lengths.sum()).astype(np.uint16)
        self.ends = np.cumsum(self.lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def rows(self, indices: Any) -> list[Any]:
        """Token ids of sentences."""
        return [self.ids[self.ends[i] - self.lengths[i] : self.ends[i]] for i in indices]


class Operations(TorchDispatchMode):
    """Counts what torch dispatches."""

    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names[function.__name__.split(".")[0].strip("_")] += 1
        return function(*args, **(kwargs or {}))


def batches(text: Text, name: str, *, even: bool) -> Any:
    """A batcher, and the batches' sentences."""
    objective, size, unit, _, _ = TEXTS[name]
    width = even_width(text.lengths, size, unit, AT_ONCE) if even else None
    of_text: Any = (text, OBJECTIVES[objective], VOCABULARY, Masking())
    batcher = Batcher(*of_text, 128, AT_ONCE, 0, "phase", width)
    plan = BatchPlan(text.lengths, Batch.model_validate({"size": size, "unit": unit}), 0, "phase")
    return batcher, (indices for _, indices in plan.after(Position()))


def layout(name: str, *, even: bool) -> dict[str, float]:
    """Shapes, fill, and milliseconds of one core for 32,768 tokens, over 100 steps."""
    text = Text(*TEXTS[name][3:])
    batcher, order = batches(text, name, even=even)
    shapes, tokens, slots, seconds = set(), 0, 0, []
    for _, indices in zip(range(100), order, strict=False):
        start = time.process_time()
        step = batcher.step(indices, 0)
        spent = time.process_time() - start
        seconds.append(spent * AT_ONCE / float(text.lengths[indices].sum()))
        for batch in step.micro_batches:
            shapes.add((*batch.input_ids_NT.shape, len(batch.filled().masked_M)))
            tokens, slots = (
                tokens + int((batch.segments_NT > 0).sum()),
                slots + batch.input_ids_NT.numel(),
            )
    milliseconds = round(1_000 * statistics.median(seconds), 1)
    return {"shapes": len(shapes), "fill": round(tokens / slots, 4), "ms": milliseconds}


def fused(_: Any, q: Any, k: Any, v: Any, mask: Any, **more: Any) -> tuple[Any, None]:
    """A GPU's attention under a mask."""
    scale = more.get("scaling")
    mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
    return mixed.transpose(1, 2).contiguous(), None


def operations(family: str, *, even: bool) -> dict[str, int]:
    """Operations of a step of 32,768 tokens, forward and backward; `computing` without views."""
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2}
    ids = {"vocab_size": 50_000, "bos_token_id": 0, "eos_token_id": 2, "sep_token_id": 2}
    config = AutoConfig.for_model(family, **shape, **ids, **MODELS[family])
    model = packed.PackedModel(AutoModelForMaskedLM.from_config(config), FAMILIES[family])
    batcher, order = batches(Text(30, 128), "tokens", even=even)
    counted = Operations()
    AttentionInterface.register(packed.ATTENTION, packed.packed_attention if even else fused)
    for batch in batcher.step(next(order), 0).micro_batches:
        with counted:
            OBJECTIVES["mlm"].loss(model, batch)["mlm"].nats.backward()
    views = sum(counted.names[name] for name in VIEWS)
    return {"all": counted.names.total(), "computing": counted.names.total() - views}


def main() -> None:
    """Print JSON."""
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    for label, even in (("short", False), ("even", True)):
        with (
            mock.patch.object(segments, "uses_segments", return_value=even),
            mock.patch.object(segments, "has_fused", return_value=True),
            mock.patch.object(segments, "HALF", (torch.float32,)),
            mock.patch.object(segments.varlen, "varlen_attn", lambda q, k, v, *_, **__: q * k * v),
        ):
            found[label] = {name: layout(name, even=even) for name in TEXTS}
            found[label] |= {name: operations(name, even=even) for name in MODELS}
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
