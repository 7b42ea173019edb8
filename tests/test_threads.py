"""OpenMP's threads: what is said of them, unless the user has or torch is there already."""

import os
import sys

import pytest

from lingraft import processes
from lingraft.processes import COUNT


@pytest.fixture
def quota(monkeypatch, tmp_path):
    """A machine of eight cores, torch not loaded, nothing chosen: `quota(what cpu.max holds)`."""
    monkeypatch.setattr(processes, "visible_cores", lambda: 8)
    monkeypatch.setattr(processes, "QUOTA", str(tmp_path / "cpu.max"))
    monkeypatch.setattr(processes, "limited", False)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setenv(COUNT, "so that it is put back")
    monkeypatch.delenv(COUNT)
    return (tmp_path / "cpu.max").write_text


@pytest.mark.parametrize(
    ("says", "cores"),
    [("250000 100000", 2), ("50000 100000", 1), ("900000 100000", 8), ("max 100000", 8), ("", 8)],
)
def test_a_container_s_quota_counts_in_whole_cores(says, cores, quota):
    assert processes.cores() == 8  # there is no such file outside of containers
    quota(says)
    assert processes.cores() == cores
    processes.stay_within_quota()
    assert os.environ.get(COUNT) == (str(cores) if cores < 8 else None)
    assert processes.limited is (cores < 8)
