"""OpenMP's threads: what is said of them, unless the user has or torch is there already."""

import os
import subprocess
import sys

import pytest

from lingraft import threads
from lingraft.threads import COUNT, WAITING


def policy(code, **chosen):
    """OMP_WAIT_POLICY in a fresh process, and what torch's OpenMP says that it reads."""
    known = {name: value for name, value in os.environ.items() if name not in WAITING}
    code += "; import os; print(os.environ.get('OMP_WAIT_POLICY'))"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env=known | chosen, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return ended.stdout.strip(), ended.stderr


@pytest.mark.parametrize("module", ["lingraft", "lingraft.cli"])
def test_threads_wait_passively_by_default(module):
    assert policy(f"import {module}")[0] == "PASSIVE"


@pytest.fixture
def quota(monkeypatch, tmp_path):
    """A machine of eight cores, torch not loaded, nothing chosen: `quota(what cpu.max holds)`."""
    monkeypatch.setattr(threads, "visible_cores", lambda: 8)
    monkeypatch.setattr(threads, "QUOTA", str(tmp_path / "cpu.max"))
    monkeypatch.setattr(threads, "limited", False)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setenv(COUNT, "so that it is put back")
    monkeypatch.delenv(COUNT)
    return (tmp_path / "cpu.max").write_text


@pytest.mark.parametrize(
    ("says", "cores"),
    [("250000 100000", 2), ("50000 100000", 1), ("900000 100000", 8), ("max 100000", 8), ("", 8)],
)
def test_a_container_s_quota_counts_in_whole_cores(says, cores, quota):
    assert threads.cores() == 8  # there is no such file outside of containers
    quota(says)
    assert threads.cores() == cores
    threads.stay_within_quota()
    assert os.environ.get(COUNT) == (str(cores) if cores < 8 else None)
    assert threads.limited is (cores < 8)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="torch's OpenMP is GNU's there")
def test_torch_s_own_library_reads_it():
    _, said = policy("import lingraft, torch", OMP_DISPLAY_ENV="true")
    assert "OMP_WAIT_POLICY = 'PASSIVE'" in said
