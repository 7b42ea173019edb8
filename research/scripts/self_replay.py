"""Compare replay of real English with replay of text that the source writes itself.

    python research/scripts/self_replay.py runs/self-replay --kind masked --seeds 0 1

Three runs a seed on the demo's Korean pages, with equal tokens and an extended vocabulary: no
replay, a tenth of real English, and a tenth of English that the source wrote. Each is scored on
English pages that took no part. A run that was begun goes on. Prints, for each seed, bits per
character of English and Korean, the processor seconds, and the share of what real replay keeps.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import subprocess
import sys
from pathlib import Path

DATA = Path("demo/data/libreoffice-help.en-ko.jsonl.gz")
SETTINGS = {
    "masked": ("demo/source", "500ktok", ["--method", "xpt-sp"]),
    "causal": ("demo/causal-source", "300ktok", ["--method", "lapt"]),
}
COMMON = [
    "tokenizer.vocab_size=2000",
    "tokenizer.action=add",
    'tokenizer.streams=["ko"]',
    "evaluation.samples=0",
]


def lingraft(*arguments: str) -> str:
    """Run a command and return what it prints."""
    command = [sys.executable, "-m", "lingraft", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def processor() -> float:
    """Return the processor seconds of all commands so far; of a run that is done next to none."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def texts(out: Path) -> dict[str, Path]:
    """Write Korean and English pages; every tenth page is held out in both."""
    out.mkdir(parents=True, exist_ok=True)
    paths = {name: out / f"{name}.jsonl" for name in ("ko", "en", "ko-test", "en-test")}
    if not paths["en-test"].exists():
        files = {name: path.open("w", encoding="utf-8") for name, path in paths.items()}
        with gzip.open(DATA, "rt", encoding="utf-8") as lines:
            for number, row in enumerate(map(json.loads, lines)):
                end = "-test" if number % 10 == 0 else ""
                for name, column in (("ko", "text"), ("en", "en")):
                    line = json.dumps({"text": row[column]}, ensure_ascii=False)
                    files[name + end].write(line + "\n")
        for file in files.values():
            file.close()
    return paths


def score(run: Path, text: Path, language: str) -> float:
    """Return the bits per character of a run's model on a text."""
    path = run / f"{language}.json"
    if not path.exists():
        got = lingraft(
            "evaluate", str(run / "model"), "--text", str(text), "--lang", language, "--json"
        )
        path.write_text(got)
    (row,) = [row for row in rows(json.loads(path.read_text())) if row[0] == "bits_per_character"]
    return float(row[1])


def rows(value: object) -> list[tuple[str, float]]:
    """Return all numbers of a result by their last key."""
    if isinstance(value, dict):
        own = [(key, of) for key, of in value.items() if isinstance(of, int | float)]
        return own + [row for of in value.values() for row in rows(of)]
    return [row for of in value for row in rows(of)] if isinstance(value, list) else []


def main() -> None:
    """Train, score and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--kind", choices=SETTINGS, default="masked")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--written", type=int, default=30_000, help="tokens that the source writes")
    parser.add_argument("--budget", help="of each run; else 500ktok, of causal models 300ktok")
    given = parser.parse_args()
    source, budget, method = SETTINGS[given.kind]
    budget = given.budget or budget
    paths = texts(given.out / "text")
    replays = {"none": None, "real": str(paths["en"]), "self": f"model:{source}#{given.written}"}
    for seed in given.seeds:
        english, korean, seconds = {}, {}, {}
        for name, text in replays.items():
            run = given.out / f"{given.kind}-{name}-{seed}"
            stream = [] if text is None else [f"en={text}"]
            replay = [] if text is None else ["training.replay.en=0.1"]
            common = [one for one in COMMON if text or "streams" not in one]
            named = ["--source", source, "--text", f"ko={paths['ko']}", *stream, *method]
            more = ["--budget", budget, "--out", str(run), f"seed={seed}", *replay, *common]
            before = processor()
            lingraft("adapt", *named, *more)
            seconds[name] = processor() - before
            english[name] = score(run, paths["en-test"], "en")
            korean[name] = score(run, paths["ko-test"], "ko")
            scores = f"English {english[name]:.3f}, Korean {korean[name]:.3f} bits per character"
            line = f"{given.kind} seed {seed} {name}: {scores}, {seconds[name]:.0f} s"
            print(line, flush=True)
        kept = (english["none"] - english["self"]) / (english["none"] - english["real"])
        time = seconds["self"] / seconds["real"] - 1
        print(f"{given.kind} seed {seed}: keeps {kept:.0%} of real replay, {time:+.0%} time")


if __name__ == "__main__":
    main()
