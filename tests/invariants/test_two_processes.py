"""The command line under torchrun: two processes give the weights of one."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import load_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.slow
def test_two_processes_under_torchrun_give_the_weights_of_one(
    tiny_source: Callable[[str], Path], korean_text: Path, tmp_path: Path
) -> None:
    arguments = ["-m", "lingraft", "--quiet", "adapt", "--source", str(tiny_source("roberta"))]
    arguments += ["--text", str(korean_text), "--lang", "ko", "--steps", "6", "--vocab-size", "300"]
    for setting in (
        "training.precision=fp32",
        "phases.0.dropout=0",
        "phases.1.dropout=0",
        "phases.0.batch.size=9",
        "phases.1.batch.size=9",
        "evaluation.sentences=10",
        "evaluation.words=2",
    ):
        arguments += ["--set", setting]
    alone = [sys.executable, *arguments, "--out", str(tmp_path / "one")]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    together = [*torchrun, *arguments, "--out", str(tmp_path / "two")]
    for command in (alone, together):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
    one = load_file(tmp_path / "one/model/model.safetensors")
    two = load_file(tmp_path / "two/model/model.safetensors")
    torch.testing.assert_close(two, one, rtol=1e-4, atol=1e-5)
    rows = (tmp_path / "two/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(rows) == len(set(rows))  # the second process writes nothing
