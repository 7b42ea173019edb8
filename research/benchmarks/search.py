"""Our exact search beside faiss-cpu's, at any size: seconds, peak memory, and whether both agree.

    pip install faiss-cpu                  # needed by this benchmark alone
    python research/benchmarks/search.py --queries 20000 --vectors 1000000
    python research/benchmarks/search.py --queries 1000000 --vectors 1000000 --skip faiss

Both look for the nearest of every query among the vectors and of every vector among the queries:
both in two searches (faiss: `IndexFlatIP`). Vectors are drawn from the normal
distribution and made unit length. Each runs in a process of its own, whose peak memory is the
operating system's figure, with the vectors, Python and torch. For fewer queries the time
of a million by a million is projected from the products that were made.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from shared import head, parser_of, row, write

if TYPE_CHECKING:
    from collections.abc import Callable

WAYS = ("lingraft", "faiss")
MILLION = 1_000_000
DRAWN = 50_000
"""Rows that are drawn at once."""
CHECKED = 200
"""Queries whose neighbours are compared with those of all products in fp64."""


def vectors(number: int, width: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    x_ND = np.empty((number, width), dtype=np.float32)
    for start in range(0, number, DRAWN):
        part = x_ND[start : start + DRAWN]
        generator.standard_normal(dtype=np.float32, out=part)
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return x_ND


def ours(x: np.ndarray, y: np.ndarray, asked: Any) -> tuple[np.ndarray, np.ndarray]:
    import torch

    from lingraft.crosslingual.encoder import both_ways

    torch.set_num_threads(asked.threads)
    began = time.perf_counter()

    def said(rows: int) -> None:
        seconds = time.perf_counter() - began
        print(f"{rows:,} of {len(x):,} rows, {seconds:.0f} s", file=sys.stderr, flush=True)

    every = max(1, len(x) // 20)
    state = [0]

    def report(rows: int) -> None:
        if rows - state[0] >= every:
            state[0] = rows
            said(rows)

    there, back = both_ways(x, y, asked.k, report)
    return there.places_NK, back.places_NK


def theirs(x: np.ndarray, y: np.ndarray, asked: Any) -> tuple[np.ndarray, np.ndarray]:
    import faiss

    faiss.omp_set_num_threads(asked.threads)
    found = []
    for one, other in ((x, y), (y, x)):
        index = faiss.IndexFlatIP(x.shape[1])
        index.add(other)
        found.append(index.search(one, asked.k)[1])
        del index
    return found[0], found[1]


def right(x: np.ndarray, y: np.ndarray, places_NK: np.ndarray) -> float:
    """Share of checked queries whose first neighbour has the highest product in fp64."""
    checked = np.linspace(0, len(x) - 1, min(CHECKED, len(x))).astype(int)
    best, own = np.full(len(checked), -np.inf), np.empty(len(checked))
    queries = x[checked].astype(np.float64)
    for start in range(0, len(y), DRAWN):
        best = np.maximum(best, (queries @ y[start : start + DRAWN].T).max(axis=1))
    own = (queries * y[places_NK[checked, 0]]).sum(axis=1)
    return float((own >= best - 1e-6).mean())


def measure(asked: Any) -> None:
    """In a process of its own: one way of searching."""
    sizes = (asked.queries, asked.vectors)
    x, y = (vectors(n, asked.width, seed) for seed, n in enumerate(sizes))
    search: Callable[..., Any] = theirs if asked.one == "faiss" else ours
    began = time.perf_counter(), time.process_time()
    there, back = search(x, y, asked)
    seconds = [after - before for after, before in zip(
        (time.perf_counter(), time.process_time()), began, strict=True
    )]  # fmt: skip
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    shares = right(x, y, there), right(y, x, back)
    np.save(f"{asked.folder}/{asked.one}.npy", np.concatenate([there[:, 0], back[:, 0]]))
    said = {
        "seconds": seconds[0],
        "cpu": seconds[1],
        "peak": peak,
        "right": min(shares),
    }
    print(json.dumps(said))


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--vectors", type=int, default=MILLION)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--k", type=int, default=1, help="neighbours of each")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--skip", nargs="*", choices=WAYS, default=[])
    parser.add_argument("--one", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        measure(asked)
        return
    import tempfile

    results: dict[str, Any] = {"load": os.getloadavg()[0], **vars(asked), "json": None}
    share = asked.queries * asked.vectors / MILLION**2
    print(head("search", "seconds", "CPU-seconds", "peak memory", "right", "a million squared"))
    with tempfile.TemporaryDirectory() as folder:
        for way in (one for one in WAYS if one not in asked.skip):
            command = [sys.executable, __file__, *sys.argv[1:], "--one", way, "--folder", folder]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found = json.loads(done.stdout)
            results[way] = found
            projected = "run whole"
            if share != 1:
                hours = found["cpu"] / share / 3600
                projected = f"{hours:.2f} CPU-hours (projected)"
            print(
                row(
                    way, f"{found['seconds']:.1f}", f"{found['cpu']:.1f}",
                    f"{found['peak'] / 1e9:.2f} GB", f"{found['right']:.4f}", projected,
                ),
                flush=True,
            )  # fmt: skip
        places = {way: np.load(f"{folder}/{way}.npy") for way in WAYS if way in results}
        first, *others = places
        for other in others:
            same = float((places[first] == places[other]).mean())
            results[f"{first} and {other}"] = same
            print(f"\n{first} and {other} find the same first neighbour in {same:.4%} of cases.")
    print(f"Load when it began: {results['load']:.1f} on {os.cpu_count()} cores.")
    write(asked.json, results)


if __name__ == "__main__":
    main()
