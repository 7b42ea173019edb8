"""Damage tiny models, or edit finished results: every command must succeed or say one line.

    python scripts/fuzz_folders.py models --number 2000
    python scripts/fuzz_folders.py results --number 500 --seed 1

A case is one damaged copy of a folder and one command on it, in a process of its own. How the cases
ended is counted; a traceback, a hang or a silent end is printed with the seed and number that give
it again: `--seed S --first N --number 1`. The exit status is 1 where there was one.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests/support")]
os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
HANG = 120.0
"""Seconds after which a case hangs."""
VALUES = [None, True, False, -1, 0, 1, 7, 10**12, 10**30, -0.5, 1e300, float("nan"), float("inf"),
          "", "x", "../x", "0", "\u0000", [], [1], ["x"], [[]], {}, {"x": 1}, {"0": []}]  # fmt: skip
SHORT = ("--set", "training.row_tokens=64", "--set", "tokenizer.max_tokens=64", "--set",
         "evaluation.words=8")  # fmt: skip
TASK = 'name = "own"\nkind = "classification"\nfiles = {train = "train.tsv", dev = "dev.tsv"}\n'
STUDY = """name = "tiny"\nbase = "recipe.toml"\n[set]\n"method.budget" = {value = 2, unit = "steps"}
[[grids]]\nmethod = ["xpt", "scratch"]\n"""


def run(arguments: list[str], folder: Path, seconds: float) -> tuple[str, str]:
    """Run a command of lingraft in a fork; return how it ended and what it said on standard error."""
    errors = folder / "stderr"
    child = os.fork()
    if child == 0:
        _call(arguments, folder, errors)
    deadline, status = time.monotonic() + seconds, None
    while status is None and time.monotonic() < deadline:
        done, code = os.waitpid(child, os.WNOHANG)
        status = os.waitstatus_to_exitcode(code) if done else time.sleep(0.005)
    if status is None:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    said = errors.read_text("utf-8", errors="replace")
    last = (said.strip().splitlines() or [""])[-1]
    if status is None:
        return "hang", said
    if "Traceback (most recent call last)" in said or status not in (0, 1, 2):
        return "traceback", said
    if status == 0:
        return "success", said
    return ("line" if last.startswith("lingraft: ") or status == 2 else "no line"), said


def _call(arguments: list[str], folder: Path, errors: Path) -> None:
    """End this process as `lingraft` would."""
    from lingraft import cli

    os.setsid()
    os.chdir(folder)
    with errors.open("wb") as file:
        os.dup2(file.fileno(), 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.argv, status = ["lingraft", *arguments], 0
    try:
        cli.main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - whatever it is, it is what is looked for
        traceback.print_exc()
        status = 1
    sys.stderr.flush()
    os._exit(status)


# -- what is damaged


def build(home: Path, kind: str) -> dict[str, tuple[Path, list[list[str]]]]:
    """Make the folders to damage; by name with the commands that read it, all relative to `home`."""
    import torch
    from tiny_causal import save as save_causal
    from tiny_shapes import SHAPES
    from tiny_tokenizers import build as tokenizer_of
    from tiny_translators import PAIRS, write_task
    from tiny_translators import save as save_translator
    from transformers import AutoConfig, AutoModelForMaskedLM

    torch.set_num_threads(1)
    drawn = random.Random(0)
    words = [chr(drawn.randrange(0xAC00, 0xAD00)) * drawn.randint(1, 3) for _ in range(200)]
    lines = [" ".join(drawn.choices(words, k=9)) + "." for _ in range(300)]
    for name, part in (("text.txt", lines), ("a.txt", lines[:6]), ("b.txt", lines[6:12])):
        (home / name).write_text("\n".join(part) + "\n", "utf-8")
    (home / "own.toml").write_text(TASK)
    for name in ("train.tsv", "dev.tsv"):
        rows = [f"{line}\t{'ab'[place % 2]}" for place, line in enumerate(lines[:16])]
        (home / name).write_text("text\tlabel\n" + "\n".join(rows) + "\n", "utf-8")
    write_task(home / "pairs", PAIRS)
    for family in ("roberta", "bert"):
        words_of = tokenizer_of(family)
        shape = SHAPES[family] | {
            "vocab_size": len(words_of),
            "pad_token_id": words_of.pad_token_id,
        }
        config = AutoConfig.for_model(family, **shape)
        AutoModelForMaskedLM.from_config(config).save_pretrained(home / family)
        words_of.save_pretrained(home / family)
    save_causal(home / "llama", "llama")
    save_translator(home / "bart", "bart")
    adapt = ["adapt", "--text", "text.txt", "--lang", "ko", "--steps", "2", "--vocab-size",
             "300", *SHORT]  # fmt: skip
    tune = ["--seeds", "1", "--set", "epochs=1", "--out", "tuned"]
    plain = {
        "encoder": [
            *[["check", "M"]] * 8,
            *[["evaluate", "M", "--text", "a.txt", "--lang", "ko", "--words", "4"]] * 4,
            *[["align", "M", "--text", "a.txt", "b.txt", "--out", "links.txt"]] * 3,
            ["export-sentences", "M", "--out", "sentences"],
            ["encoder-decoder", "M", "--out", "made"],
            [*adapt, "--preset", "xpt2021", "--source", "M", "--out", "run"],
            ["finetune", "M", "--task", "own.toml", *tune],
        ],
        "causal": [
            *[["check", "M"]] * 8,
            *[["evaluate", "M", "--text", "a.txt"]] * 3,
            [*adapt, "--preset", "auto", "--source", "M", "--out", "run"],
        ],
        "translator": [
            *[["check", "M"]] * 3,
            *[["translate", "M", "--text", "a.txt", "--out", "said.txt", "--beams", "1"]] * 4,
            ["finetune", "M", "--task", "pairs/ko-en.toml", *tune],
        ],
    }
    kinds = {"roberta": "encoder", "bert": "encoder", "llama": "causal", "bart": "translator"}
    if kind == "models":
        return {
            name: (home / name, [[name if w == "M" else w for w in call] for call in plain[of]])
            for name, of in kinds.items()
        }
    (home / "gold.txt").write_text("".join(f"{n} 1 1\n{n} 2 2\n" for n in range(1, 7)))
    pair_folder = home / "test"
    pair_folder.mkdir()
    for code in ("eng", "kor"):
        (pair_folder / f"tatoeba.kor-eng.{code}").write_text((home / "a.txt").read_text("utf-8"))
    calls: dict[str, list[list[str]]] = {
        "run": [[*adapt, "--preset", "xpt2021", "--source", "roberta", "--out", "run"], ["report", "run"],
                ["report", "run"], ["check", "run/recipe.toml"], ["stage", "run", "evaluation"]],
        "tuned": [["finetune", "roberta", "--task", "own.toml", *tune, "--keep-models"],
                  ["compare", "tuned", "--resamples", "100"]],
        "said": [["finetune", "bart", "--task", "pairs/ko-en.toml", *tune[:-1], "said"],
                 ["compare", "said", "--resamples", "100"]],
        "study": [["study", "study.toml", "--out", "study"],
                  ["study", "study.toml", "--out", "study", "--report-only"],
                  ["study", "study.toml", "--out", "study", "--dry-run"]],
        "found": [["retrieve", "roberta", "bert", "--pairs", "test", "--out", "found",
                   "--resamples", "100"], ["export-sentences", "roberta", "--out", "sentences",
                   "--retrieval", "found"]],
        "links": [["align", "roberta", "--gold", "s=gold.txt", "--text", "a.txt", "b.txt", "--out",
                   "links", "--resamples", "100"]],
        "corpus": [["corpus", "text.txt", "--lang", "ko", "--out", "corpus"]],
        "scores": [["score-translations", "--reference", "a.txt", "b.txt", "--lang", "ko", "--out",
                    "scores", "--overwrite", "--resamples", "100"]],
    }  # fmt: skip
    for name, (first, *_) in calls.items():
        if name == "study":
            shutil.copy(home / "run/recipe.toml", home / "recipe.toml")
            (home / "study.toml").write_text(STUDY)
        ended, said = run(first, home, 600)
        if ended != "success":
            sys.exit(f"{' '.join(first)}: {said[-2_000:]}")
    return {name: (home / name, found) for name, found in calls.items()}


# -- how


def damage(folder: Path, kind: str, drawn: random.Random) -> str:
    """Change one file; return what was done."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    weights = [path for path in files if path.suffix == ".safetensors"]
    texts = [path for path in files if path.suffix in (".json", ".jsonl", ".toml", "")]
    texts = texts if drawn.random() < 0.85 else files
    path = drawn.choice(weights if kind == "models" and drawn.random() < 0.3 else texts or files)
    shown = path.relative_to(folder)
    if path.suffix == ".safetensors" and drawn.random() < 0.7:
        return f"{shown}: {_tensors(path, drawn)}"
    if path.suffix != ".safetensors" and drawn.random() < 0.85:
        try:
            return f"{shown}: {_value(path, drawn)}"
        except (ValueError, IndexError, TypeError):  # no table, or one that is empty
            pass
    content = bytearray(path.read_bytes())
    way = drawn.choice(["cut", "flip", "empty", "gone"])
    if way == "gone":
        path.unlink()
        return f"{shown}: gone"
    for _ in range(4 if content and way == "flip" else 0):
        content[drawn.randrange(len(content))] = drawn.randrange(256)
    end = {"cut": drawn.randint(0, len(content)), "empty": 0}.get(way, len(content))
    path.write_bytes(content[:end])
    return f"{shown}: {way}"


def _value(path: Path, drawn: random.Random) -> str:
    """Put another value into a JSON, JSONL or TOML file, or take one away."""
    import tomli_w

    text = path.read_text("utf-8")
    lines = text.splitlines() if path.suffix == ".jsonl" else [text]
    line = drawn.randrange(len(lines))
    data = tomllib.loads(text) if path.suffix == ".toml" else json.loads(lines[line])
    table: Any = data
    while True:
        keys = list(table) if isinstance(table, dict) else list(range(len(table)))
        key = drawn.choice(keys)
        if not isinstance(table[key], dict | list) or not table[key] or drawn.random() < 0.3:
            break
        table = table[key]
    if drawn.random() < 0.25:
        said = f"without {key!r}"
        del table[key]
    else:
        table[key] = copy.deepcopy(drawn.choice(VALUES))
        said = f"{key!r} = {table[key]!r}"
    if path.suffix == ".toml":
        path.write_text(tomli_w.dumps(data), "utf-8")
    else:
        lines[line] = json.dumps(data, ensure_ascii=False)
        path.write_text("\n".join(lines) + "\n", "utf-8")
    return said


def _tensors(path: Path, drawn: random.Random) -> str:
    """Take a tensor away, give it another shape or type, or cut the file into shards."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(path)
    name = drawn.choice(sorted(tensors))
    way = drawn.choice(["gone", "shape", "nan", "zero", "type", "name", "shards"])
    if way in ("gone", "name", "shards"):
        moved = tensors.pop(name)
    if way == "name":
        tensors[f"{name}.x"] = moved
    elif way == "shape":
        tensors[name] = tensors[name].flatten()[: drawn.randint(0, 5)].clone()
    elif way in ("nan", "zero"):
        tensors[name].view(-1)[: drawn.randint(1, 99)] = float("nan") if way == "nan" else 0.0
    elif way == "type":
        tensors[name] = tensors[name].int()
    if way == "shards":
        index = {"metadata": {}, "weight_map": dict.fromkeys(tensors, "one.safetensors")}
        index["weight_map"][name] = "two.safetensors"  # which is not there
        path.unlink()
        path.with_name("model.safetensors.index.json").write_text(json.dumps(index))
        path = path.with_name("one.safetensors")
    save_file(tensors, path, {"format": "pt"})
    return f"{way} {name}"


def main() -> None:
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kind", choices=("models", "results"))
    for option, value in (("--number", 100), ("--seed", 0), ("--first", 0)):
        parser.add_argument(option, type=int, default=value)
    asked = parser.parse_args()
    import lingraft.comparison.page
    import lingraft.crosslingual.alignment_run
    import lingraft.crosslingual.retrieve
    import lingraft.crosslingual.translator
    import lingraft.finetuning.run
    import lingraft.pipeline.adapt
    import lingraft.study.runner  # noqa: F401 - so that no case has to

    os.fsync = lambda _: None  # no case pulls a plug
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        home = Path(place) / "whole"
        home.mkdir()
        folders = build(home, asked.kind)
        for number in range(asked.first, asked.first + asked.number):
            drawn = random.Random(f"{asked.seed}-{number}")
            name = drawn.choice(sorted(folders))
            work = Path(place) / "case"
            shutil.copytree(home, work)
            done = damage(work / name, asked.kind, drawn)
            call = drawn.choice(folders[name][1])
            ended, said = run(call, work, HANG)
            counts[ended] += 1
            if ended not in ("success", "line"):
                end = "\n".join(said.strip().splitlines()[-8:])
                print(
                    f"--seed {asked.seed} --first {number}: {ended} after {name}/{done}", flush=True
                )
                print(f"lingraft {' '.join(call)}\n{end}\n", flush=True)
            shutil.rmtree(work)
    print(", ".join(f"{count} × {ended}" for ended, count in sorted(counts.items())))
    sys.exit(1 if counts.keys() - {"success", "line"} else 0)


if __name__ == "__main__":
    main()
