"""Two questions about budgets in time and runs that go on, on Debian's documentation (`data/`).

    python research/scripts/clock.py time runs/clock-time [--before CHECKOUT]
    python research/scripts/clock.py on runs/clock-on

`time`: is a model of `--budget 1.5m` as good as one of as many tokens? With --before the latter is
made by the code of another checkout. `on`: a run of 0.3 M tokens goes on to 1 M; is it as good as
one that was planned for 1 M? Two languages, three seeds; what is there is not made again. Printed:
bits per character of held-out words of both, and the mean difference with a 95 % t-interval over
the pairs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from scipy import stats

ROOT = Path(__file__).parents[2]
TEXTS = {
    "ja": ["mono_ja_debian_docs/gimp.txt.xz", "mono_ja_debian_docs/handbook.txt.xz"],
    "ko": [
        f"mono_ko_debian_docs/{name}" for name in ("gimp.txt.xz", "handbook.txt", "gnome.txt.xz")
    ],
}
SETTINGS = [
    "evaluation.max_sentences=1500",
    "evaluation.max_words=600",
    "tokenizer.vocab_size=4000",
]


def adapt(*options: str, code: Path = ROOT) -> None:
    command = [sys.executable, "-m", "lingraft", "adapt", *options]
    environment = os.environ | {"PYTHONPATH": str(code / "src"), "HF_HUB_OFFLINE": "1"}
    subprocess.run(command, check=True, cwd=ROOT, env=environment)


def new(language: str, seed: int, out: Path, *budget: str, code: Path = ROOT) -> Path:
    texts = [str(ROOT / "data" / name) for name in TEXTS[language]]
    options = ["--source", "demo/source", "--text", *texts, "--lang", language, "--seed", str(seed)]
    if not (out / "model" / "done.json").is_file():
        adapt(*options, *SETTINGS, "--out", str(out), *budget, code=code)
    return out


def read(run: Path, stage: str) -> dict:
    return json.loads((run / stage / "done.json").read_text())["result"]


def bits(run: Path) -> float:
    return float(read(run, "evaluation")["words"]["bits_per_character"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["time", "on"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--before", type=Path, default=ROOT)
    args = parser.parse_args()
    pairs = []
    for language in TEXTS:
        for seed in range(3):
            at = args.out / f"{language}-{seed}"
            if args.what == "time":
                first = new(language, seed, at / "minutes", "--budget", "1.5m")
                tokens = str(read(first, "phase-1")["tokens"])
                second = new(
                    language, seed, at / "tokens", "--budget", f"{tokens}tok", code=args.before
                )
            else:
                first = new(language, seed, at / "on", "--budget", "300ktok")
                if read(first, "phase-1")["tokens"] < 900_000:
                    adapt(str(first), "--budget", "1Mtok")
                tokens = str(read(first, "phase-1")["tokens"])
                second = new(language, seed, at / "planned", "--budget", "1Mtok")
            pairs.append((bits(first), bits(second)))
            print(language, seed, tokens, *(f"{value:.4f}" for value in pairs[-1]), flush=True)
    share = np.array([first / second - 1 for first, second in pairs]) * 100
    low, high = stats.t.interval(0.95, len(share) - 1, share.mean(), stats.sem(share))
    print(f"difference: {share.mean():+.2f} % [{low:+.2f}, {high:+.2f}], n = {len(share)}")


if __name__ == "__main__":
    main()
