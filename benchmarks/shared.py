"""What the benchmarks share: options, timed processes, Markdown tables."""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


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
