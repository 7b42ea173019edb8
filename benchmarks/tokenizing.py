"""Our token files beside the tokenizers library alone, on the same lines in the same process.

    python benchmarks/tokenizing.py --megabytes 20 --pairs 5
    RAYON_NUM_THREADS=1 python benchmarks/tokenizing.py --megabytes 20 --pairs 5

`lingraft.tokenizer.shards.encode` reads the text, tokenises it, puts special tokens around each
sentence and writes ids and offsets. The library alone is `encode_batch_fast` on the same lines,
which are in memory, and nothing is done with what it gives. They alternate; a ratio is taken within
a pair.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from memory import TRAINED_ON, VOCABULARY, write_text

from lingraft import recipe
from lingraft.pipeline.stages import read_lines
from lingraft.tokenizer.extension import make
from lingraft.tokenizer.files import plain_backend
from lingraft.tokenizer.shards import CHUNK_LINES, encode

KINDS = ("byte-bpe", "wordpiece", "unigram")


def clock() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def measure(kind: str, text: Path, pairs: int, folder: Path) -> dict[str, object]:
    section = recipe.Tokenizer(kind=kind, vocab_size=VOCABULARY, train_sentences=TRAINED_ON)
    tokenizer, _ = make(section, None, lambda: read_lines(text), pad_id=None, seed=0)
    backend = plain_backend(tokenizer)
    lines = list(read_lines(text))
    chunks = [lines[at : at + CHUNK_LINES] for at in range(0, len(lines), CHUNK_LINES)]
    backend.encode_batch_fast(chunks[0], add_special_tokens=False)
    found: dict[str, list[tuple[float, float]]] = {"library": [], "lingraft": []}
    tokens = 0
    for _ in range(pairs):
        started, began = clock()
        for chunk in chunks:
            backend.encode_batch_fast(chunk, add_special_tokens=False)
        ended, finished = clock()
        found["library"].append((ended - started, finished - began))
        started, began = clock()
        tokens = encode(tokenizer, text, folder, "train", 512)["tokens"]
        ended, finished = clock()
        found["lingraft"].append((ended - started, finished - began))
    both = list(zip(found["library"], found["lingraft"], strict=True))
    return {
        "kind": kind,
        "tokens": tokens,
        "megabytes": text.stat().st_size / 1e6,
        "seconds": found,
        "ratio": sorted(library[0] / ours[0] for library, ours in both),
        "cpu_ratio": sorted(library[1] / ours[1] for library, ours in both),
        "load": os.getloadavg()[0],
        "threads": os.environ.get("RAYON_NUM_THREADS", "all"),
    }


def row(found: dict[str, object]) -> str:
    speeds = [found["tokens"] / s[0] for s in found["seconds"]["lingraft"]]  # type: ignore[index]
    cells = [f"{found['kind']}, {found['threads']} threads", f"{statistics.median(speeds):,.0f}"]
    for name in ("ratio", "cpu_ratio"):
        low, *_, high = found[name]  # type: ignore[misc]
        cells.append(f"{low:.2f} – **{statistics.median(found[name]):.2f}** – {high:.2f}")  # type: ignore[arg-type]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=["byte-bpe"])
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    results = []
    print(
        "| tokenizer | tokens/s | speed against the library's | per CPU-second |\n|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as name:
        text = Path(name) / "text.txt"
        write_text(text, int(asked.megabytes * 1e6))
        for kind in asked.kinds:
            results.append(measure(kind, text, asked.pairs, Path(name)))
            print(row(results[-1]), flush=True)
    if asked.json is not None:
        asked.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
