"""What the benchmarks share: options, timed processes, Markdown tables."""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Pairs = dict[str, list[tuple[dict[str, Any], dict[str, Any]]]]
"""Opponent → our arm and theirs, as often as they were measured."""


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Options of a benchmark that can write what it found."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="also write everything that was measured here")
    return parser


def write(path: Path | None, results: Any) -> None:
    if path is not None:
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def head(*cells: str) -> str:
    return f"{row(*cells)}\n|{'---|' * len(cells)}"


def spread(values: Sequence[float]) -> str:
    """Smallest, middle and largest."""
    return f"{min(values):.2f} – **{statistics.median(values):.2f}** – {max(values):.2f}"


def timed(command: list[str]) -> tuple[str, float, float]:
    """Run a process; what it printed, seconds of the clock and of the processors."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return done.stdout, seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def peak_bytes() -> int | None:
    """The most main memory that this process has held; None where it is not known.

    On Linux that is the high-water mark of this program, never of the one that started it.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        marks = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        return int(marks[0].split()[1]) * 1024 if marks else None
    if sys.platform == "darwin":
        return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return None


def in_process(arm: str, folder: Path) -> dict[str, Any]:
    """One arm of the script that runs, in a process of its own."""
    line = [sys.executable, *sys.argv, "--arm", arm, "--folder", str(folder)]
    done = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def alternating(ours: str, asked: argparse.Namespace, prepare: Callable[[Path], None]) -> Pairs:
    """Arms A B A B …; `prepare` fills the folder that all of them read."""
    pairs: Pairs = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        for opponent in asked.opponents:
            pairs[opponent] = []
            for number in range(1, asked.pairs + 1):
                pairs[opponent].append((in_process(ours, folder), in_process(opponent, folder)))
                left, right = (arm["tokens_per_second"] for arm in pairs[opponent][-1])
                print(f"{opponent} {number}: {left / right:.2f}", file=sys.stderr)
    return pairs


def table(pairs: Pairs, summaries: Mapping[str, str], gate: float) -> str:
    """A Markdown table, a row an opponent, and the machine; `gate` in nats."""
    sides = ("tokens/s, ours : theirs", "peak memory", "held-out loss")
    lines = [head("opponent", "ratio", *sides, "gate")]
    for name, found in pairs.items():
        rates, memory, loss = (
            [statistics.median(arm[key] for arm in arms) for arms in zip(*found, strict=True)]
            for key in ("tokens_per_second", "peak_memory_bytes", "loss")
        )
        worst = max(ours["loss"] - theirs["loss"] for ours, theirs in found)
        ours = found[0][0]
        precision = f" ({ours['precision']})" if "precision" in ours else ""
        lines.append(
            f"| {name}: {summaries[name]} "
            f"| {spread([a['tokens_per_second'] / b['tokens_per_second'] for a, b in found])} "
            f"| {rates[0]:,.0f}{precision} : {rates[1]:,.0f} "
            f"| {memory[0] / 1e9:.2f} : {memory[1] / 1e9:.2f} GB "
            f"| {loss[0]:.4f} : {loss[1]:.4f} "
            f"| {'held' if worst <= gate else f'FAILED by {worst - gate:.4f} nats'} |"
        )
    machine = next(iter(pairs.values()))[0][0]["machine"]
    kept = ("cpu", "devices", "threads", "torch", "transformers", "lingraft")
    return "\n".join([*lines, "", ", ".join(f"{key} {machine[key]}" for key in kept)])
