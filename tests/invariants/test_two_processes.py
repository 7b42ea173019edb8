"""The command line under torchrun: two processes, whole or sharded, give the weights of one, and
the second one writes nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import load_file

if TYPE_CHECKING:
    from collections.abc import Callable

SCRIPT = Path(__file__).with_name("adapting.py")
SETTINGS = (
    "tokenizer.vocab_size=300",
    "hardware.precision=fp32",
    *(f"phases.{number}.{key}" for number in (0, 1) for key in ("dropout=0", "batch=9 sentences")),
    "evaluation.max_sentences=10",
    "evaluation.max_words=2",
)


@pytest.fixture
def arguments(tiny_source: Callable[[str], Path], korean_text: Path) -> list[str]:
    """Of a run of six steps."""
    inputs = ["--source", str(tiny_source("roberta")), "--text", str(korean_text), "--lang", "ko"]
    return ["adapt", *inputs, "--budget", "6steps", "training.preset=xpt2021"]


def together(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What two processes say in the end."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*torchrun, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_two_processes_under_torchrun_give_the_weights_of_one(
    arguments: list[str], tmp_path: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    arguments = ["--quiet", *arguments, *SETTINGS]
    status, _, said = command(*arguments, "--out", tmp_path / "one")
    assert status == 0, said
    done = together(str(SCRIPT), str(tmp_path / "two"), *arguments)
    assert done.returncode == 0, done.stderr[-3000:]
    one = load_file(tmp_path / "one/model/model.safetensors")
    for sharding in ("none", "fsdp2"):
        run = tmp_path / "two" / sharding
        two = load_file(run / "model/model.safetensors")
        torch.testing.assert_close(two, one, rtol=1e-4, atol=1e-5)
        rows = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        assert len(rows) == len(set(rows)) > 6  # none is written twice


@pytest.mark.slow
def test_an_error_of_the_first_process_brings_no_traceback_of_its_peer(
    arguments: list[str], tmp_path: Path
) -> None:
    (tmp_path / "notes").touch()  # the folder is not ours; the second process waits meanwhile
    done = together("-m", "lingraft", *arguments, "--out", str(tmp_path))
    told = [line for line in done.stderr.splitlines() if line.startswith("lingraft: ")]
    assert len(told) == 1, done.stderr
    assert "holds files but no run of lingraft (notes" in told[0]
    assert "[rank1]" not in done.stderr
