"""Every benchmark finds what it imports; most of them run too long for a test."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
FOLDER = Path(__file__).parents[2] / "research/benchmarks"
RUNS_AT_ONCE = {"waiting"}
"""Scripts without a `main`, which others start."""


def test_every_benchmark_finds_what_it_imports():
    names = sorted({path.stem for path in FOLDER.glob("*.py")} - RUNS_AT_ONCE)
    assert "corpus" in names
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(f"import {name}" for name in names)],
        cwd=FOLDER,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
