"""Measure memory and speed of preparing text: the corpus stage, the vocabulary, token files.

    python research/benchmarks/memory.py --gigabytes 0.1 0.5 2 5 --folder build/memory \
        --json memory.json

For each size it writes a text of made-up Korean sentences, nearly all different (the worst case for
finding duplicates), three to a line, a line a document. Then each stage runs in a process of its
own, as `lingraft adapt` runs it: `corpus` (read, clean, drop duplicates, split), `vocabulary`
(byte-level BPE of 32,000 pieces on at most 200,000 sentences), `tokens` (the token files).
`command-N` is `lingraft data clean` with N processes; near-duplicates are not looked for, as in the
corpus stage.

The peak is what the kernel says of the largest process (on Linux VmHWM, file pages that are mapped
included). MB/s are megabytes of the text a second, of the clock and of the processors.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shutil
import sys
from pathlib import Path

from shared import head, parser_of, peak_bytes, row, timed, write

SYLLABLES = [chr(code) for code in range(0xAC00, 0xAC00 + 588 * 19, 97)]
WORDS, FRAGMENTS, SENTENCES = 50_000, 100_000, 3
VOCABULARY, TRAINED_ON = 32_000, 200_000
STAGES = ("corpus", "vocabulary", "tokens", "command-1", "command-2")


def write_text(path: Path, size: int) -> None:
    """Write lines of three sentences, each of three fragments, until there are `size` bytes."""
    drawn = random.Random(0)
    words = ["".join(drawn.choices(SYLLABLES, k=drawn.randint(1, 4))) for _ in range(WORDS)]
    weights = list(itertools.accumulate(1 / rank for rank in range(1, WORDS + 1)))
    fragments = [
        " ".join(drawn.choices(words, cum_weights=weights, k=drawn.randint(2, 4)))
        for _ in range(FRAGMENTS)
    ]
    written = 0
    with path.open("wb") as file:
        while written < size:
            parts = drawn.choices(fragments, k=9 * 1_000)
            lines = [
                " ".join(
                    f"{parts[at]} {parts[at + 1]} {parts[at + 2]}."
                    for at in range(start, start + 9, 3)
                )
                for start in range(0, len(parts), 9)
            ]
            written += file.write(("\n".join(lines) + "\n").encode())


def run_stage(stage: str, folder: Path) -> None:
    """Do one stage in this process."""
    from lingraft import recipe
    from lingraft.corpus import stage as corpus_stage
    from lingraft.corpus.streams import read_lines
    from lingraft.tokenizer import files as tokenizer, shards as tokens
    from lingraft.tokenizer.extension import make

    out = folder / "run"
    out.mkdir(exist_ok=True)
    if stage == "corpus":
        section = recipe.Corpus(text=(str(folder / "text.txt"),))
        corpus_stage.prepare(section, "ko", out)
    elif stage == "vocabulary":
        wanted = recipe.Tokenizer(
            algorithm="byte-bpe", vocab_size=VOCABULARY, max_train_sentences=TRAINED_ON
        )
        made, _ = make(wanted, None, lambda: read_lines(out / "train.txt"), pad_id=None, seed=0)
        tokenizer.save(made, out)
    else:
        made = tokenizer.load(out)
        tokens.encode(made, out / "train.txt", out, "train", 512)
        tokens.Tokens.open(out, "train")


def measured(stage: str, folder: Path) -> dict[str, float]:
    """Run a stage in a fresh process; seconds and bytes."""
    if stage.startswith("command"):
        out = folder / stage
        shutil.rmtree(out, ignore_errors=True)
        command = [
            "-m",
            "lingraft",
            "--quiet",
            "data",
            "clean",
            str(folder / "text.txt"),
            "--lang",
            "ko",
        ]
        command += ["--out", str(out), "--jobs", stage.rpartition("-")[2]]
        command += ["--lang", "ko", "near_duplicates=false"]
        runner = "import subprocess,sys,resource as r;subprocess.run(sys.argv[1:],check=True)"
        runner += ";print(r.getrusage(r.RUSAGE_CHILDREN).ru_maxrss*1024)"
        call = [sys.executable, "-c", runner, sys.executable, *command]
    else:
        call = [sys.executable, __file__, "--stage", stage, "--folder", str(folder)]
    printed, seconds, processors = timed(call)
    return {
        "seconds": seconds,
        "cpu_seconds": processors,
        "peak_bytes": int(printed.split()[-1]),
    }


def measure(gigabytes: float, stages: list[str], folder: Path) -> list[dict[str, object]]:
    """Make the text and run the stages on it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    text = folder / "text.txt"
    write_text(text, int(gigabytes * 1e9))
    size = text.stat().st_size
    rows = []
    for stage in stages:
        found = measured(stage, folder)
        rows.append({"gigabytes": size / 1e9, "stage": stage, **found, "load": os.getloadavg()[0]})
        speeds = (size / 1e6 / found[key] for key in ("seconds", "cpu_seconds"))
        cells = (f"{size / 1e9:.2f} GB", stage, f"{found['peak_bytes'] / 1e9:.2f} GB")
        print(row(*cells, *(f"{speed:.1f}" for speed in speeds), f"{found['seconds']:.0f}"),
              flush=True)  # fmt: skip
    shutil.rmtree(folder)
    return rows


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[0.1])
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES))
    parser.add_argument("--folder", type=Path, default=Path("build/memory"), help="is deleted")
    parser.add_argument("--stage", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.stage:
        run_stage(asked.stage, asked.folder)
        print(peak_bytes())
        return
    print(head("text", "stage", "peak memory", "MB/s", "MB/CPU-s", "seconds"))
    rows = [row for size in asked.gigabytes for row in measure(size, asked.stages, asked.folder)]
    write(asked.json, rows)


if __name__ == "__main__":
    main()
