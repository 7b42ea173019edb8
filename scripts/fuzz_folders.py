"""Damage tiny models, or edit finished results: every command must succeed or say one line.

    python scripts/fuzz_folders.py models --number 2000
    python scripts/fuzz_folders.py results --number 500 --seed 1

A case is one damaged file and one command in a process of its own. A traceback, a hang or a silent
end is printed with what gives it again: `--seed S --first N --number 1`.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import re
import shlex
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
          "", "x", "../x", "0", "\0", [], [1], ["x"], [[]], {}, {"x": 1}, {"0": []}]  # fmt: skip


def run(command: str, folder: Path, seconds: float) -> tuple[str, str]:
    """Run a command in a fork; return how it ended and what it said on standard error."""
    errors = folder / "stderr"
    child = os.fork()
    if child == 0:
        _end_as_command(shlex.split(command), folder, errors)
    deadline, status = time.monotonic() + seconds, None
    while status is None and time.monotonic() < deadline:
        done, code = os.waitpid(child, os.WNOHANG)
        status = os.waitstatus_to_exitcode(code) if done else time.sleep(0.005)
    if status is None:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    said = errors.read_text("utf-8", errors="replace")
    if status is None:
        return "hang", said
    if "Traceback (most recent call last)" in said or status not in (0, 1, 2):
        return "traceback", said
    is_line = said.strip().rpartition("\n")[2].startswith("lingraft: ") or status == 2
    return ("success" if status == 0 else "line" if is_line else "no line"), said


def _end_as_command(arguments: list[str], folder: Path, errors: Path) -> None:
    from lingraft.cli import app as cli

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
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stderr.flush()
    os._exit(status)


def damage(folder: Path, drawn: random.Random) -> str:
    """Change one file; return what was done."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    suffixes = drawn.choice([(".safetensors",), *[(".json", ".jsonl", ".toml", "")] * 3])
    chosen = [path for path in files if path.suffix in suffixes and drawn.random() < 0.9]
    path = drawn.choice(chosen or files)
    way = drawn.choice([_tensors if path.suffix == ".safetensors" else _value] * 4 + [_bytes])
    try:
        return f"{path.relative_to(folder)}: {way(path, drawn)}"
    except (ValueError, IndexError, TypeError):  # no table, or an empty one
        return f"{path.relative_to(folder)}: {_bytes(path, drawn)}"


def _bytes(path: Path, drawn: random.Random) -> str:
    content, way = bytearray(path.read_bytes()), drawn.choice(["cut", "flip", "empty", "gone"])
    for _ in range(4 if content and way == "flip" else 0):
        content[drawn.randrange(len(content))] = drawn.randrange(256)
    end = {"cut": drawn.randint(0, len(content)), "empty": 0}.get(way, len(content))
    path.unlink() if way == "gone" else path.write_bytes(content[:end])
    return way


def _value(path: Path, drawn: random.Random) -> str:
    import tomli_w

    text = path.read_text("utf-8")
    lines = text.splitlines() if path.suffix == ".jsonl" else [text]
    line = drawn.randrange(len(lines))
    data: Any = tomllib.loads(text) if path.suffix == ".toml" else json.loads(lines[line])
    table = data
    while True:
        key = drawn.choice(list(table) if isinstance(table, dict) else range(len(table)))
        if not isinstance(table[key], dict | list) or not table[key] or drawn.random() < 0.3:
            break
        table = table[key]
    if is_gone := drawn.random() < 0.25:
        del table[key]
    else:
        table[key] = copy.deepcopy(drawn.choice(VALUES))
    lines[line] = json.dumps(data, ensure_ascii=False)
    path.write_text(tomli_w.dumps(data) if path.suffix == ".toml" else "\n".join(lines), "utf-8")
    return f"without {key!r}" if is_gone else f"{key!r} = {table[key]!r}"


def _tensors(path: Path, drawn: random.Random) -> str:
    from safetensors.torch import load_file, save_file

    tensors = load_file(path)
    name = drawn.choice(sorted(tensors))
    way = drawn.choice(["gone", "name", "shards", "shape", "nan", "zero", "type"])
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
    elif way == "shards":  # of which the second is not there
        shards = dict.fromkeys(tensors, "one.safetensors") | {name: "two.safetensors"}
        path.unlink()
        index = path.with_name("model.safetensors.index.json")
        index.write_text(json.dumps({"metadata": {}, "weight_map": shards}))
        path = path.with_name("one.safetensors")
    save_file(tensors, path, {"format": "pt"})
    return f"{way} {name}"


def main(arguments: list[str] | None = None) -> Counter[str]:
    """Run the cases; return how many ended how."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kind", choices=("models", "results"))
    for option, value in (("--number", 100), ("--seed", 0), ("--first", 0)):
        parser.add_argument(option, type=int, default=value)
    asked = parser.parse_args(arguments)
    from tiny_folders import build

    from lingraft.crosslingual import alignment_run, retrieval, translator  # noqa: F401
    from lingraft.finetuning.compare import compare  # noqa: F401 - so that no case has to
    from lingraft.study import runner  # noqa: F401

    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        home, work = Path(place) / "whole", Path(place) / "case"
        home.mkdir()
        commands = build(home, results=asked.kind == "results")
        for first, *_ in commands.values() if asked.kind == "results" else ():
            ended, said = run(first, home, 600)
            if ended != "success":
                sys.exit(f"{first}: {said[-2_000:]}")
        for number in range(asked.first, asked.first + asked.number):
            drawn = random.Random(f"{asked.seed}-{number}")
            name = drawn.choice(sorted(commands))
            shutil.copytree(home, work)
            done = damage(work / name, drawn)
            command = re.sub(r"\bM\b", name, drawn.choice(commands[name]))
            ended, said = run(command, work, HANG)
            counts[ended] += 1
            if ended not in ("success", "line"):
                end = "\n".join(said.strip().splitlines()[-8:])
                print(f"--seed {asked.seed} --first {number}: {ended} after {name}/{done}")
                print(f"lingraft {command}\n{end}\n", flush=True)
            shutil.rmtree(work)
    print(", ".join(f"{count} × {ended}" for ended, count in sorted(counts.items())))
    return counts


if __name__ == "__main__":
    sys.exit(1 if main().keys() - {"success", "line"} else 0)
