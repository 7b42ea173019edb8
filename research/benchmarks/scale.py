"""What several GPUs would do, on paper: nothing here is measured.

    python research/benchmarks/scale.py
    python research/benchmarks/scale.py --tokens-per-second 500000 --inside 300 --between 25

A step of B tokens on n GPUs computes for B / (n × speed) seconds. Data parallelism then needs the
sum of all gradients: a ring sends and receives 2 (n - 1) / n times their bytes over each GPU's
slowest link. At worst nothing of that is hidden behind the backward pass, at best (computing and
sending at the same time) all that fits into it, two thirds of the computing. Efficiency is the time
to compute over the time of the step. The model is 14 × 768 with 50,000 pieces; gradients are fp32.
"""

from __future__ import annotations

import argparse

from shared import head

WIDTH, LAYERS, PIECES, POSITIONS = 768, 14, 50_000, 514
LAYER = 12 * WIDTH**2 + 13 * WIDTH  # four square maps, two of four times the width, biases, norms
HEAD = WIDTH**2 + 4 * WIDTH + PIECES  # a square map, a norm, the output bias
EMBEDDINGS = (PIECES + POSITIONS + 3) * WIDTH  # pieces, positions, one type, a norm
FULL = LAYERS * LAYER + EMBEDDINGS + HEAD
FIRST = 2 * LAYER + PIECES * WIDTH + PIECES  # two translation layers, pieces, output bias
OPERATIONS = {"full": 635e6, "phase 1": 463e6}
"""Useful operations a token; tests/training/test_throughput.py holds the first."""
TRAINED = {"full": FULL, "phase 1": FIRST}


def efficiency(what: str, gpus: int, batch: float, asked: argparse.Namespace) -> tuple[float, ...]:
    """Least and greatest efficiency; seconds to compute and to send."""
    speed = asked.tokens_per_second * OPERATIONS["full"] / OPERATIONS[what]
    compute = batch / gpus / speed
    link = asked.inside if gpus <= asked.node else asked.between
    send = 2 * (gpus - 1) / gpus * TRAINED[what] * 4 / (link * 1e9)
    hidden = min(send, compute * 2 / 3)
    return compute / (compute + send), compute / (compute + send - hidden), compute, send


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens-per-second", type=float, default=620_000, help="one GPU, full")
    parser.add_argument("--inside", type=float, default=450, help="GB/s of a GPU within a node")
    parser.add_argument("--between", type=float, default=50, help="GB/s of a GPU between nodes")
    parser.add_argument("--node", type=int, default=8, help="GPUs in a node")
    parser.add_argument("--batches", type=int, nargs="+", default=[256, 2_048, 16_384, 131_072])
    parser.add_argument("--length", type=float, default=30, help="tokens of a sentence")
    asked = parser.parse_args()
    print(f"parameters: {FULL / 1e6:.1f} million; train in phase 1: {FIRST / 1e6:.1f} million\n")
    costs = ("compute", "send", "efficiency", "million tokens/s")
    print(head("", "GPUs", "sentences a step", *costs))
    for what in OPERATIONS:
        for gpus in (8, 64):
            for sentences in asked.batches:
                tokens = sentences * asked.length
                low, high, compute, send = efficiency(what, gpus, tokens, asked)
                fast, slow = (tokens / (compute / share) / 1e6 for share in (high, low))
                print(
                    f"| {what} | {gpus} | {sentences:,} | {compute * 1e3:.1f} ms "
                    f"| {send * 1e3:.1f} ms | {low:.0%} – {high:.0%} | {slow:.1f} – {fast:.1f} |"
                )


if __name__ == "__main__":
    main()
