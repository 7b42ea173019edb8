"""What is known of the machine before torch is loaded."""

from __future__ import annotations

import shutil
import sys
from types import SimpleNamespace

import pytest
import torch

from lingraft.pipeline import hardware
from lingraft.pipeline.hardware import Machine
from lingraft.training.machine import multiplies_bf16

GB = 10**9


def test_this_machine_has_memory_and_its_guess_of_bf16_is_torch_s():
    found = hardware.this_machine()
    assert found.bytes > GB / 2
    if not found.is_gpu:
        assert found.bf16 == multiplies_bf16()


def test_a_limit_of_the_container_counts(monkeypatch):
    monkeypatch.setattr(hardware, "_gpu", lambda: None)
    monkeypatch.setattr(hardware, "_control_group", lambda: 3 * GB)
    assert hardware.this_machine().bytes == 3 * GB
    monkeypatch.setattr(hardware, "_gpu", lambda: Machine(5 * GB, is_gpu=True))
    assert hardware.this_machine() == Machine(5 * GB, is_gpu=True)


SMI = """#!/bin/sh
case "$*" in
*--id=1*) echo "15360, 7.5" ;;
*--id=GPU-b*) echo "81559, 9.0" ;;
*) printf "4096, 8.6\\n15360, 7.5\\n" ;;
esac
"""


def test_without_torch_the_first_gpu_that_it_may_see_is_the_machine(monkeypatch, tmp_path):
    program = tmp_path / "nvidia-smi"
    program.write_text(SMI)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "torch", None)
    for visible, size, bf16 in (("0", 4096, True), ("1,0", 15360, False), ("GPU-b1", 81559, True)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert hardware.this_machine() == Machine(size << 20, is_gpu=True, bf16=bf16)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert not hardware.this_machine().is_gpu


@pytest.mark.parametrize("has_gpu", [True, False])
def test_where_torch_is_loaded_it_knows_the_gpu_and_nobody_else_is_asked(has_gpu, monkeypatch):
    slice_of_one = SimpleNamespace(total_memory=20 * GB)
    monkeypatch.setattr(shutil, "which", lambda _: pytest.fail("asked another program"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: slice_of_one)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: False)
    found = hardware.this_machine()
    assert found.is_gpu is has_gpu
    if has_gpu:
        assert found == Machine(20 * GB, is_gpu=True, bf16=False)
