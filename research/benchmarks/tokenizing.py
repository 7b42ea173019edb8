"""Our token files beside the tokenizers library alone, on the same lines in the same process.

    python research/benchmarks/tokenizing.py --megabytes 20 --pairs 5
    RAYON_NUM_THREADS=1 python research/benchmarks/tokenizing.py --megabytes 20 --pairs 5

`lingraft.tokenizer.shards.encode` reads the text, tokenises it, puts special tokens around each
sentence and writes ids and offsets. The library alone is `encode_batch_fast` on the same lines,
which are in memory, and nothing is done with what it gives. They alternate; a ratio is taken within
a pair.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from memory import TRAINED_ON, VOCABULARY, write_text
from shared import head, parser_of, row, spread, write

from lingraft import recipe
from lingraft.corpus.streams import read_lines
from lingraft.tokenizer.extension import make
from lingraft.tokenizer.files import plain_backend
from lingraft.tokenizer.shards import CHUNK_LINES, encode

KINDS = ("byte-bpe", "wordpiece", "unigram")


def clock() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def measure(kind: str, text: Path, pairs: int, folder: Path) -> dict[str, Any]:
    section = recipe.Tokenizer(action=kind, vocab_size=VOCABULARY, max_train_sentences=TRAINED_ON)
    tokenizer, _ = make(section, None, lambda: read_lines(text), pad_id=None, seed=0)
    backend = plain_backend(tokenizer)
    lines = list(read_lines(text))
    chunks = [lines[at : at + CHUNK_LINES] for at in range(0, len(lines), CHUNK_LINES)]
    backend.encode_batch_fast(chunks[0], add_special_tokens=False)
    found: dict[str, list[tuple[float, float]]] = {"library": [], "lingraft": []}
    tokens = 0
    for _ in range(pairs):
        began = clock()
        for chunk in chunks:
            backend.encode_batch_fast(chunk, add_special_tokens=False)
        middle = clock()
        tokens = encode(tokenizer, text, folder, "train", 512)["tokens"]
        ended = clock()
        found["library"].append((middle[0] - began[0], middle[1] - began[1]))
        found["lingraft"].append((ended[0] - middle[0], ended[1] - middle[1]))
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


def shown(found: dict[str, Any]) -> str:
    speed = statistics.median(found["tokens"] / s[0] for s in found["seconds"]["lingraft"])
    name = f"{found['kind']}, {found['threads']} threads"
    return row(name, f"{speed:,.0f}", spread(found["ratio"]), spread(found["cpu_ratio"]))


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=["byte-bpe"])
    asked = parser.parse_args()
    results = []
    print(head("tokenizer", "tokens/s", "speed against the library's", "per CPU-second"))
    with tempfile.TemporaryDirectory() as name:
        text = Path(name) / "text.txt"
        write_text(text, int(asked.megabytes * 1e6))
        for kind in asked.kinds:
            results.append(measure(kind, text, asked.pairs, Path(name)))
            print(shown(results[-1]), flush=True)
    write(asked.json, results)


if __name__ == "__main__":
    sys.exit(main())
