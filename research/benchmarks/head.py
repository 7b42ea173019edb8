"""Head and loss of a causal model: all logits at once beside chunks of them.

    python research/benchmarks/head.py --tokens 1024 --width 256 --vocabulary 151936

One forward and backward pass in a process of its own each: peak memory above that of the weights,
their gradient and the states, and seconds of the processor. Loss and gradients are compared too.
"""

from __future__ import annotations

import json
import resource
import time
from typing import TYPE_CHECKING, Any

import torch
from arms import add_arm_options
from shared import head, in_process, parser_of, row, write
from transformers import AutoConfig, AutoModelForCausalLM

from lingraft.models.chunked import chunked_cross_entropy
from lingraft.models.families import FAMILIES
from lingraft.models.losses import summed_cross_entropy
from lingraft.models.stacks import packed_model

if TYPE_CHECKING:
    import argparse

ARMS = ("plain", "chunked")


def options() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--tokens", type=int, default=1_024, help="predicted at once")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--vocabulary", type=int, default=151_936)
    return add_arm_options(parser).parse_args()


def peak() -> int:
    """Bytes that the process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run_arm(asked: argparse.Namespace) -> dict[str, Any]:
    """One pass of an arm, after the weights' gradient and the states are there."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "llama",
        vocab_size=asked.vocabulary,
        hidden_size=asked.width,
        intermediate_size=asked.width,
        num_hidden_layers=1,
        num_attention_heads=1,
    )
    packed = packed_model(
        AutoModelForCausalLM.from_config(config, trust_remote_code=False), FAMILIES["llama"]
    )
    weight = packed.model.get_output_embeddings().weight
    weight.grad = torch.ones_like(weight).zero_()
    x_MD = torch.randn(asked.tokens, asked.width).requires_grad_()
    targets_M = torch.randint(0, asked.vocabulary, (asked.tokens,))
    before, started = peak(), time.process_time()
    with torch.autocast("cpu", torch.bfloat16):
        nats = (
            chunked_cross_entropy(packed, x_MD, targets_M)
            if asked.arm == "chunked"
            else summed_cross_entropy(packed.head(x_MD), targets_M)
        )
    nats.backward()
    assert x_MD.grad is not None
    return {
        "seconds": time.process_time() - started,
        "bytes": peak() - before,
        "loss": float(nats.detach()) / asked.tokens,
        "gradient": float(x_MD.grad.norm()),
        "of weights": float(weight.grad.norm()),
    }


def main() -> None:
    asked = options()
    if asked.arm:
        print(json.dumps(run_arm(asked)))
        return
    found = {arm: in_process(arm, asked.folder) for arm in ARMS}
    print(head("head and loss", "peak memory", "processor time", "loss", "norms of gradients"))
    for arm, one in found.items():
        norms = f"{one['gradient']:.4f}, {one['of weights']:.4f}"
        sizes = (f"{one['bytes'] / 1e9:.2f} GB", f"{one['seconds']:.1f} s", f"{one['loss']:.5f}")
        print(row(arm, *sizes, norms))
    write(asked.json, found)


if __name__ == "__main__":
    main()
