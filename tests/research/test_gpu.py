"""The benchmark for GPUs, rehearsed on a CPU with tiny shapes.

Every benchmark finds what it imports; most of them run too long for a test.
"""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from script_modules import ROOT, load

pytestmark = pytest.mark.slow
SCRIPT = ROOT / "research" / "benchmarks" / "gpu.py"


@pytest.fixture(scope="module")
def gpu():
    return load("gpu", "research/benchmarks")


def test_all_arms_of_a_model_are_measured_and_end_at_about_the_same_loss(tmp_path):
    out = tmp_path / "gpu.json"
    line = [sys.executable, SCRIPT, "--rehearse", "--models", "llama-0.5b", "--json", out]
    subprocess.run(line, check=True, cwd=tmp_path)
    found = json.loads(out.read_text("utf-8"))
    assert found["machine"]["flops_per_second"] > 0
    assert [arm["arm"] for arm in found["arms"]] == ["ours", "trainer", "trainer-packed"]
    assert all(arm["status"] == "done" and arm["complete"] for arm in found["arms"]), found
    losses = [arm["loss"] for arm in found["arms"]]
    assert max(losses) - min(losses) < 0.05
    assert 0 < found["arms"][0]["mfu"]["measured"] < 1
    assert found["arms"][0]["evaluation"]["mfu"]


def test_an_arm_that_fails_or_no_longer_fits_costs_itself_alone(gpu, monkeypatch, tmp_path):
    """The first arm cannot be trained, and the clock runs out behind the second."""
    asked = gpu.options(["--rehearse", "--json", str(tmp_path / "gpu.json")])
    asked.models = ["none", *asked.models[:2]]
    asked.arms = ["ours"]
    clock = iter([0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 479.0, 480.0])
    inner = gpu.in_process
    monkeypatch.setattr(gpu, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    limits = {"seconds": 60, "limit": 120}
    monkeypatch.setattr(gpu, "in_process", lambda one, asked, *_: inner(one, asked, **limits))
    found = gpu.all_arms(asked)
    assert [arm["status"] for arm in found["arms"]] == ["failed", "done", "skipped"]
    assert "KeyError: 'none'" in found["arms"][0]["error"]
    assert json.loads(asked.json.read_text("utf-8")) == found


def test_only_whole_sxm_modules_have_the_peak_of_their_datasheet(gpu):
    peaks = {"H100 80GB HBM3": 989e12, "A100-SXM4-40GB": 312e12, "H200": 989e12}
    others = ("H100 NVL", "H200 NVL", "H100 PCIe", "A100-PCIE-40GB", "H100 80GB HBM3 MIG 1g.10gb")
    for name in (*peaks, *others, "L4"):
        assert gpu.peak_of(f"NVIDIA {name}") == peaks.get(name), name


FOLDER = Path(__file__).parents[2] / "research/benchmarks"
RUNS_AT_ONCE = {"waiting"}
"""Scripts without a `main`, which others start."""


def test_every_benchmark_finds_what_it_imports():
    names = sorted({path.stem for path in FOLDER.glob("*.py")} - RUNS_AT_ONCE)
    assert "corpus" in names
    words = [sys.executable, "-c", "\n".join(f"import {name}" for name in names)]
    done = subprocess.run(words, cwd=FOLDER, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2_000:]
